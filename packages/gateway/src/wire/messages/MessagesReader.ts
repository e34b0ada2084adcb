/**
 * Reads the answers of Anthropic Messages. Each event rides on the part that it makes. `message_delta` and `message_stop`
 * ride on the finish.
 *
 * A block of an unknown type passes as thinking without text: it keeps its place and commits nothing.
 */
import type { Response } from "effect/ai"
import { fields, isFields, list, number, parse, text } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Event } from "../Sse.ts"
import type { Part, Reader, Reading, Received, Source, Usage, Whole } from "../Wire.ts"
import { carrying, flowing, frame, received, RefusedEvent } from "../Wire.ts"

interface Block {
  readonly kind: "text" | "thinking" | "call" | "provider-call" | "result"
  /** Of its parts. */
  readonly id: string
  readonly name: string
  arguments: string
}

export class MessagesReader implements Reader {
  readonly #source: Source
  readonly #flows: boolean
  readonly #open = new Map<number, Block>()
  #usage: Fields = {}
  #reason: string | undefined
  /** Events from the stop reason on. */
  #last: Array<Received> = []
  isEnded = false

  constructor({ flows, source }: Pick<Reading, "flows" | "source">) {
    this.#source = source
    this.#flows = flows
  }

  get isComplete(): boolean {
    return this.#reason !== undefined
  }

  read(event: Event): ReadonlyArray<Part> {
    const { data } = event
    if (data === undefined) return this.#framed(received(event, {}))
    const value = parse(data)
    if (!isFields(value)) return []
    const type = text(value["type"]) || event.name
    if (type === "error" || isFields(value["error"])) throw new RefusedEvent(data)
    const got = received(event, value)
    switch (type) {
      case "message_start": {
        const message = fields(value["message"])
        this.#usage = fields(message["usage"])
        // A program that runs at Anthropic and calls tools: the whole answer stands in its first event.
        const reason = text(message["stop_reason"])
        if (reason !== "") this.#reason = reason
        return [frame(this.#source, [got]), ...this.#begun(message)]
      }
      case "content_block_start":
        return this.#start(got)
      case "content_block_delta":
        return this.#delta(got)
      case "content_block_stop":
        return this.#stop(got)
      case "message_delta": {
        this.#usage = { ...this.#usage, ...defined(fields(value["usage"])) }
        const reason = text(fields(value["delta"])["stop_reason"])
        if (reason !== "") this.#reason = reason
        return this.#framed(got)
      }
      case "message_stop":
        this.#last.push(got)
        return this.#finished()
      default:
        return this.#framed(got)
    }
  }

  end(): ReadonlyArray<Part> {
    return this.isEnded || !this.isComplete ? [] : this.#finished()
  }

  /** The content of a message that begins with some. Its events are those of the message. */
  #begun(message: Fields): ReadonlyArray<Part> {
    return (whole(message) ?? []).flatMap((part, i): ReadonlyArray<Part> => {
      if (part.type === "tool-call") return [part]
      if (part.type !== "text") return []
      const id = `begun:${i}`
      const metadata = carrying(this.#source, [], part.text)
      return [
        { type: "text-start", id },
        { type: "text-delta", id, delta: part.text, metadata },
        { type: "text-end", id }
      ]
    })
  }

  #framed(event: Received): ReadonlyArray<Part> {
    if (!this.isComplete) return [frame(this.#source, [event])]
    this.#last.push(event)
    return []
  }

  #start(event: Received): ReadonlyArray<Part> {
    const index = number(event.value["index"]) ?? 0
    const content = fields(event.value["content_block"])
    const type = text(content["type"])
    const kind = kindOf(type)
    const isCall = kind === "call" || kind === "provider-call"
    const id = isCall ? text(content["id"]) || `call_${index}` : String(index)
    const block = { kind, id, name: text(content["name"]), arguments: "" }
    this.#open.set(index, block)
    const metadata = carrying(this.#source, [event])
    switch (kind) {
      case "text": {
        const said = text(content["text"])
        const start: Part = { type: "text-start", id, metadata }
        return said === ""
          ? [start]
          : [start, { type: "text-delta", id, delta: said, metadata: carrying(this.#source, [], said) }]
      }
      case "thinking":
        return [{ type: "reasoning-start", id, metadata }]
      case "call":
        return [{ type: "tool-params-start", id, name: block.name, ...flowing(this.#flows), metadata }]
      case "provider-call":
        return [{ type: "tool-params-start", id, name: block.name, providerExecuted: true, metadata }]
      case "result":
        return [
          {
            type: "tool-result",
            id: text(content["tool_use_id"]),
            name: "",
            result: null,
            isFailure: false,
            providerExecuted: true,
            metadata
          }
        ]
    }
  }

  #delta(event: Received): ReadonlyArray<Part> {
    const block = this.#open.get(number(event.value["index"]) ?? 0)
    if (block === undefined) return this.#framed(event)
    const delta = fields(event.value["delta"])
    const { id } = block
    switch (block.kind) {
      case "text": {
        const said = text(delta["text"])
        return [{ type: "text-delta", id, delta: said, metadata: carrying(this.#source, [event], said) }]
      }
      case "thinking": {
        const thought = text(delta["thinking"])
        return [
          { type: "reasoning-delta", id, delta: thought, metadata: carrying(this.#source, [event], thought) }
        ]
      }
      case "result":
        return [frame(this.#source, [event])]
      default: {
        const given = text(delta["partial_json"])
        block.arguments += given
        return [
          { type: "tool-params-delta", id, delta: given, metadata: carrying(this.#source, [event], given) }
        ]
      }
    }
  }

  #stop(event: Received): ReadonlyArray<Part> {
    const index = number(event.value["index"]) ?? 0
    const block = this.#open.get(index)
    this.#open.delete(index)
    if (block === undefined) return this.#framed(event)
    const { id, name } = block
    const metadata = carrying(this.#source, [event])
    switch (block.kind) {
      case "text":
        return [{ type: "text-end", id, metadata }]
      case "thinking":
        // The call machine holds the end of thinking until a text is seen, and another block may begin before.
        return [
          { type: "reasoning-delta", id, delta: "", metadata },
          { type: "reasoning-end", id }
        ]
      case "result":
        return [frame(this.#source, [event])]
      default: {
        const params = parse(block.arguments) ?? (block.arguments === "" ? {} : block.arguments)
        return [
          { type: "tool-params-end", id, metadata },
          { type: "tool-call", id, name, params, ...flowing(this.#flows || block.kind !== "call") }
        ]
      }
    }
  }

  #finished(): ReadonlyArray<Part> {
    if (!this.isComplete) return []
    this.isEnded = true
    return [
      {
        type: "finish",
        reason: reasonOf(this.#reason ?? ""),
        usage: usageOf(this.#usage),
        metadata: carrying(this.#source, this.#last)
      }
    ]
  }
}

/** The parts of a whole answer; `undefined` where the body is none. */
export const whole = (body: Fields): Array<Whole> | undefined => {
  if (!Array.isArray(body["content"])) return undefined
  const parts = list(body["content"]).map((block): Whole => {
    const { id, input, name, text: said, thinking, type } = fields(block)
    const kind = kindOf(text(type))
    if (kind === "text") return { type: "text", text: text(said) }
    if (kind === "thinking") return { type: "reasoning", text: text(thinking) }
    if (kind === "result")
      return { type: "tool-result", id: "", name: "", result: null, isFailure: false, providerExecuted: true }
    const isProviders = kind === "provider-call"
    const call = { type: "tool-call", id: text(id), name: text(name), params: input } as const
    return isProviders ? { ...call, providerExecuted: true } : call
  })
  const reason = reasonOf(text(body["stop_reason"]))
  return [...parts, { type: "finish", reason, usage: usageOf(fields(body["usage"])) }]
}

const kindOf = (type: string): Block["kind"] => {
  if (type === "text") return "text"
  if (type === "tool_use") return "call"
  if (type.endsWith("_tool_use")) return "provider-call"
  if (type.endsWith("_tool_result")) return "result"
  return "thinking"
}

const reasons: Readonly<Record<string, Response.FinishReason>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  tool_use: "tool-calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "content-filter",
  pause_turn: "pause",
  compaction: "pause"
}

const reasonOf = (reason: string): Response.FinishReason => reasons[reason] ?? "other"

const defined = (usage: Fields): Fields =>
  Object.fromEntries(Object.entries(usage).filter(([, count]) => count !== null && count !== undefined))

const usageOf = (usage: Fields): Usage => {
  const uncached = number(usage["input_tokens"])
  const cacheRead = number(usage["cache_read_input_tokens"])
  const cacheWrite = number(usage["cache_creation_input_tokens"])
  const total = uncached === undefined ? undefined : uncached + (cacheRead ?? 0) + (cacheWrite ?? 0)
  const out = number(usage["output_tokens"])
  return {
    inputTokens: { total, uncached, cacheRead, cacheWrite },
    outputTokens: { total: out, text: out, reasoning: undefined }
  }
}
