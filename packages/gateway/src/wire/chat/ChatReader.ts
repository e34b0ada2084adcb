/**
 * Reads the answers of Chat Completions. Each chunk rides on the part that its content makes. The chunk with the finish
 * reason, the usage and `[DONE]` ride on the finish.
 *
 * - Data that is no JSON is dropped: a client would end the stream there.
 * - A chunk with text and tool calls is divided, because the calls are held and the text is not.
 * - `[DONE]` without a finish reason ends a text. With tool calls the answer is cut.
 */
import type { Response } from "effect/ai"
import { EventFacts } from "@outlast/agent/failure"
import { fields, isFields, list, number, parse, text } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import * as Splice from "../../json/Splice.ts"
import type { Event } from "../Sse.ts"
import type { Asked, Part, Reader, Reading, Received, Source, Usage, Whole } from "../Wire.ts"
import { carrying, flowing, frame, received, RefusedEvent, written } from "../Wire.ts"

type Block = "text" | "reasoning"

interface Call {
  readonly id: string
  readonly name: string
  arguments: string
}

export class ChatReader implements Reader {
  readonly #source: Source
  readonly #flows: boolean
  readonly #hidesUsage: boolean
  readonly #choices: number
  /** The open block of each choice. */
  readonly #open = new Map<number, { readonly kind: Block; readonly id: string }>()
  readonly #calls = new Map<string, Call>()
  readonly #reasons = new Map<number, string>()
  #blocks = 0
  #usage: Fields = {}
  /** Events from the finish reason on. */
  #last: Array<Received> = []
  #hasText = false
  isEnded = false

  constructor({ asked, flows, hidesUsage, source }: Reading) {
    this.#source = source
    this.#flows = flows
    this.#hidesUsage = hidesUsage
    this.#choices = isChatAsked(asked) ? asked.choices : 1
  }

  get isComplete(): boolean {
    return this.#reasons.size >= this.#choices
  }

  read(event: Event): ReadonlyArray<Part> {
    const { data } = event
    if (data === undefined) return this.#framed(received(event, {}))
    if (data.trim() === "[DONE]") {
      this.#last.push(received(event, {}))
      return this.#finished(this.#hasText && this.#calls.size === 0)
    }
    const value = parse(data)
    if (!isFields(value)) return []
    if (isFields(value["usage"])) this.#usage = value["usage"]
    const choices = list(value["choices"])
    if (choices.length === 0) {
      if (isError(event, value)) throw new RefusedEvent(data)
      // The chunk that has the usage alone.
      if (this.#hidesUsage && isFields(value["usage"])) return []
      return this.#framed(this.#received(event, value))
    }
    return this.#chunk(this.#received(event, value), choices.map(fields))
  }

  /** A vendor that is asked for usage writes `usage: null` into every other chunk. */
  #received(event: Event, value: Fields): Received {
    if (!this.#hidesUsage || value["usage"] !== null || event.data === undefined)
      return received(event, value)
    const { usage: _, ...rest } = value
    const raw = event.raw.replace(event.data, () => Splice.without(event.data ?? "", "usage"))
    return received({ ...event, raw }, rest)
  }

  end(): ReadonlyArray<Part> {
    return this.isEnded ? [] : this.#finished(false)
  }

  /** An event without content. Behind the finish reason it belongs to the finish. */
  #framed(event: Received): ReadonlyArray<Part> {
    if (!this.isComplete) return [frame(this.#source, [event])]
    this.#last.push(event)
    return []
  }

  #chunk(event: Received, choices: ReadonlyArray<Fields>): ReadonlyArray<Part> {
    const divided = dividedOf(event, choices)
    if (divided !== undefined) {
      return divided.flatMap((each) => this.#chunk(each, list(each.value["choices"]).map(fields)))
    }
    const parts: Array<Part> = []
    let events: ReadonlyArray<Received> = [event]
    /** The first part of a chunk carries it. */
    const carry = (said = "") => {
      const metadata = carrying(this.#source, events, said)
      events = []
      return metadata
    }
    for (const choice of choices) {
      const index = number(choice["index"]) ?? 0
      const delta = fields(choice["delta"])
      const thought = thoughtOf(delta)
      const said = textOf(delta)
      if (thought !== "") {
        parts.push(...this.#begin(index, "reasoning"))
        const id = this.#open.get(index)?.id ?? ""
        parts.push({ type: "reasoning-delta", id, delta: thought, metadata: carry(thought) })
      }
      if (said !== "") {
        this.#hasText = true
        parts.push(...this.#begin(index, "text"))
        const id = this.#open.get(index)?.id ?? ""
        parts.push({ type: "text-delta", id, delta: said, metadata: carry(said) })
      }
      for (const call of callsOf(delta)) {
        const id = `${index}:${number(call["index"]) ?? 0}`
        const { name, arguments: given } = fields(call["function"])
        if (!this.#calls.has(id)) {
          parts.push(...this.#close(index))
          const made = { id: text(call["id"]) || `call_${id}`, name: text(name), arguments: "" }
          this.#calls.set(id, made)
          parts.push({
            type: "tool-params-start",
            id: made.id,
            name: made.name,
            ...flowing(this.#flows),
            metadata: carry()
          })
        }
        const known = this.#calls.get(id)
        if (known === undefined || text(given) === "") continue
        known.arguments += text(given)
        parts.push({ type: "tool-params-delta", id: known.id, delta: text(given), metadata: carry() })
      }
      const reason = text(choice["finish_reason"])
      if (reason !== "") this.#reasons.set(index, reason)
    }
    if (events.length === 0) return parts
    return [...parts, ...this.#framed(event)]
  }

  #begin(choice: number, kind: Block): ReadonlyArray<Part> {
    if (this.#open.get(choice)?.kind === kind) return []
    const ended = this.#close(choice)
    const id = String(this.#blocks++)
    this.#open.set(choice, { kind, id })
    return [...ended, { type: `${kind}-start`, id }]
  }

  #close(choice: number): ReadonlyArray<Part> {
    const open = this.#open.get(choice)
    this.#open.delete(choice)
    return open === undefined ? [] : [{ type: `${open.kind}-end`, id: open.id }]
  }

  /** `isEnough`: the answer is complete without a finish reason. */
  #finished(isEnough: boolean): ReadonlyArray<Part> {
    if (!this.isComplete && this.#reasons.size === 0 && !isEnough) return []
    this.isEnded = true
    const calls = Array.from(this.#calls.values(), ({ id, name, arguments: given }): ReadonlyArray<Part> => [
      { type: "tool-params-end", id },
      { type: "tool-call", id, name, params: parse(given) ?? given, ...flowing(this.#flows) }
    ])
    const reason = this.#reasons.get(0) ?? Array.from(this.#reasons.values())[0] ?? ""
    return [
      ...Array.from(this.#open.keys()).flatMap((choice) => this.#close(choice)),
      ...calls.flat(),
      {
        type: "finish",
        reason: reasonOf(reason),
        usage: usageOf(this.#usage),
        metadata: carrying(this.#source, this.#last)
      }
    ]
  }
}

export interface ChatAsked extends Asked {
  /** Answers that are asked for: `n`. */
  readonly choices: number
}

const isChatAsked = (asked: Asked): asked is ChatAsked => "choices" in asked

/** The parts of a whole answer; `undefined` where the body is none. */
export const whole = (body: Fields): Array<Whole> | undefined => {
  const choices = list(body["choices"]).map(fields)
  const [first] = choices
  if (first === undefined) return undefined
  const parts = choices.flatMap((choice): ReadonlyArray<Whole> => {
    const message = fields(choice["message"])
    const said = textOf(message)
    const thought = thoughtOf(message)
    return [
      ...(thought === "" ? [] : [{ type: "reasoning", text: thought } as const]),
      ...(said === "" ? [] : [{ type: "text", text: said } as const]),
      // Sound is content, too. Its transcript is its text.
      ...(isFields(message["audio"])
        ? [{ type: "text", text: text(message["audio"]["transcript"]) || " " } as const]
        : []),
      ...callsOf(message).map((call, i): Whole => {
        const { name, arguments: given } = fields(call["function"])
        return {
          type: "tool-call",
          id: text(call["id"]) || `call_${i}`,
          name: text(name),
          params: parse(text(given)) ?? text(given)
        }
      })
    ]
  })
  const reason = reasonOf(text(first["finish_reason"]))
  return [...parts, { type: "finish", reason, usage: usageOf(fields(body["usage"])) }]
}

const isError = ({ data, name }: Event, value: Fields): boolean =>
  name === "error" ||
  (value["error"] !== undefined && value["error"] !== null) ||
  EventFacts.partsOf(`data: ${data}`).some((part) => part.isError)

/** The text of a message or a delta. Mistral's is a list, and a refusal is a text. */
const textOf = ({ content, refusal }: Fields): string =>
  typeof content === "string" && content !== ""
    ? content
    : list(content)
        .map((piece) => (fields(piece)["type"] === "text" ? text(fields(piece)["text"]) : ""))
        .join("") || text(refusal)

const thoughtOf = ({ content, reasoning, reasoning_content }: Fields): string =>
  text(reasoning_content) ||
  text(reasoning) ||
  list(content)
    .flatMap((piece) => list(fields(piece)["thinking"]))
    .map((piece) => text(fields(piece)["text"]))
    .join("")

const callsOf = ({ function_call, tool_calls }: Fields): ReadonlyArray<Fields> =>
  isFields(function_call) ? [{ index: 0, function: function_call }] : list(tool_calls).map(fields)

/** The same chunk twice: with its text, and with its calls. `undefined` for a chunk that has not both. */
const dividedOf = (event: Received, choices: ReadonlyArray<Fields>): ReadonlyArray<Received> | undefined => {
  const [choice] = choices
  const delta = fields(choice?.["delta"])
  if (choices.length !== 1 || callsOf(delta).length === 0) return undefined
  if (textOf(delta) === "" && thoughtOf(delta) === "") return undefined
  const { function_call: _, tool_calls: __, ...said } = delta
  const { content: _c, reasoning: _r, reasoning_content: _rc, refusal: _f, ...rest } = delta
  return [
    { ...choice, delta: said, finish_reason: null },
    { ...choice, delta: rest }
  ].map((choice) => {
    const value = { ...event.value, choices: [choice] }
    return { raw: written(value), name: event.name, value }
  })
}

const reasons: Readonly<Record<string, Response.FinishReason>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool-calls",
  function_call: "tool-calls",
  content_filter: "content-filter"
}

const reasonOf = (reason: string): Response.FinishReason => reasons[reason] ?? "other"

const usageOf = (usage: Fields): Usage => openAiUsage(usage, "prompt", "completion")

/** The usage in a format of OpenAI: both have the same counts, under other names. */
export const openAiUsage = (usage: Fields, input: string, output: string): Usage => {
  const total = number(usage[`${input}_tokens`])
  const cacheRead = number(fields(usage[`${input}_tokens_details`])["cached_tokens"])
  const out = number(usage[`${output}_tokens`])
  const reasoning = number(fields(usage[`${output}_tokens_details`])["reasoning_tokens"])
  return {
    inputTokens: { total, cacheRead, cacheWrite: undefined, uncached: less(total, cacheRead) },
    outputTokens: { total: out, reasoning, text: less(out, reasoning) }
  }
}

const less = (all: number | undefined, some: number | undefined): number | undefined =>
  all === undefined ? undefined : Math.max(0, all - (some ?? 0))
