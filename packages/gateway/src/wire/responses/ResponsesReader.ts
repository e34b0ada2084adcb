/**
 * Reads the answers of OpenAI Responses. Each event rides on the part that it makes: those that begin an item and its
 * content on the start of the block, those that end them on its end. `response.completed` rides on the finish.
 *
 * - A call of a tool that the provider runs commits the answer. Any other call belongs to the caller.
 * - An item of an unknown type passes as thinking without text: it keeps its place and commits nothing.
 */
import type { Response } from "effect/ai"
import { fields, isFields, list, number, parse, text } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import { openAiUsage } from "../chat/ChatReader.ts"
import type { Event } from "../Sse.ts"
import type { Part, Reader, Reading, Received, Source, Usage, Whole } from "../Wire.ts"
import { carrying, flowing, frame, received, RefusedEvent } from "../Wire.ts"

interface Item {
  readonly kind: "message" | "thinking" | "call" | "provider-call"
  readonly id: string
  readonly name: string
  /** Events that wait for the start of the block. */
  begin: Array<Received>
  /** The open text, and the events that have ended it. */
  text: { readonly id: string; readonly ends: Array<Received> } | undefined
}

export class ResponsesReader implements Reader {
  readonly #source: Source
  readonly #flows: boolean
  readonly #items = new Map<number, Item>()
  #hasCall = false
  #hasRefusal = false
  isEnded = false

  constructor({ flows, source }: Pick<Reading, "flows" | "source">) {
    this.#source = source
    this.#flows = flows
  }

  /** Nothing follows the event that completes the answer. */
  get isComplete(): boolean {
    return this.isEnded
  }

  read(event: Event): ReadonlyArray<Part> {
    const { data } = event
    if (data === undefined) return [frame(this.#source, [received(event, {})])]
    const value = parse(data)
    if (!isFields(value)) return []
    const type = text(value["type"]) || event.name
    const got = received(event, value)
    if (type === "error" || type === "response.failed") throw new RefusedEvent(data)
    if (type === "response.completed" || type === "response.incomplete") return this.#finished(got)
    if (type === "response.output_item.added") return this.#added(got)
    const index = number(value["output_index"])
    const item = index === undefined ? undefined : this.#items.get(index)
    if (item === undefined || index === undefined) {
      if (type === "" && isFields(value["error"])) throw new RefusedEvent(data)
      const id = text(fields(value["response"])["id"])
      return [{ ...frame(this.#source, [got]), ...(id === "" ? {} : { id }) }]
    }
    if (type === "response.output_item.done") {
      this.#items.delete(index)
      return this.#done(item, got)
    }
    return item.kind === "message" ? this.#ofMessage(item, index, type, got) : this.#ofItem(item, type, got)
  }

  end(): ReadonlyArray<Part> {
    return []
  }

  #added(event: Received): ReadonlyArray<Part> {
    const index = number(event.value["output_index"]) ?? 0
    const given = fields(event.value["item"])
    const kind = kindOf(text(given["type"]))
    const isCall = kind === "call" || kind === "provider-call"
    const id = isCall ? text(given["call_id"]) || text(given["id"]) || `call_${index}` : String(index)
    const item: Item = {
      kind,
      id,
      name: text(given["name"]) || text(given["type"]),
      begin: [],
      text: undefined
    }
    this.#items.set(index, item)
    const metadata = carrying(this.#source, [event])
    switch (kind) {
      case "message":
        item.begin.push(event)
        return []
      case "thinking":
        return [{ type: "reasoning-start", id, metadata }]
      case "call":
        this.#hasCall = true
        return [{ type: "tool-params-start", id, name: item.name, ...flowing(this.#flows), metadata }]
      case "provider-call":
        return [{ type: "tool-params-start", id, name: item.name, providerExecuted: true, metadata }]
    }
  }

  #ofMessage(item: Item, index: number, type: string, event: Received): ReadonlyArray<Part> {
    if (type === "response.content_part.added") {
      const ended = this.#ended(item)
      item.begin.push(event)
      return [...ended, ...this.#begun(item, index, number(event.value["content_index"]) ?? 0)]
    }
    if (type === "response.output_text.delta" || type === "response.refusal.delta") {
      const said = text(event.value["delta"])
      this.#hasRefusal ||= type === "response.refusal.delta"
      // Some servers leave out the event before.
      const begun =
        item.text === undefined ? this.#begun(item, index, number(event.value["content_index"]) ?? 0) : []
      const id = item.text?.id ?? ""
      return [
        ...begun,
        { type: "text-delta", id, delta: said, metadata: carrying(this.#source, [event], said) }
      ]
    }
    const open = item.text
    if (open === undefined) {
      item.begin.push(event)
      return []
    }
    if (open.ends.length > 0 || type.endsWith(".done")) {
      // An annotation stands between texts.
      open.ends.push(event)
      return []
    }
    return [{ type: "text-delta", id: open.id, delta: "", metadata: carrying(this.#source, [event]) }]
  }

  #begun(item: Item, index: number, content: number): ReadonlyArray<Part> {
    const id = `${index}:${content}`
    const events = item.begin
    item.begin = []
    item.text = { id, ends: [] }
    return [{ type: "text-start", id, metadata: carrying(this.#source, events) }]
  }

  #ended(item: Item): ReadonlyArray<Part> {
    const { text } = item
    item.text = undefined
    return text === undefined
      ? []
      : [{ type: "text-end", id: text.id, metadata: carrying(this.#source, text.ends) }]
  }

  #ofItem({ id, kind }: Item, type: string, event: Received): ReadonlyArray<Part> {
    const isDelta = type.endsWith(".delta")
    const said = isDelta ? text(event.value["delta"]) : ""
    const metadata = carrying(this.#source, [event], said)
    return [
      { type: kind === "thinking" ? "reasoning-delta" : "tool-params-delta", id, delta: said, metadata }
    ]
  }

  #done(item: Item, event: Received): ReadonlyArray<Part> {
    const metadata = carrying(this.#source, [event])
    const { id, kind, name } = item
    switch (kind) {
      case "message":
        if (item.text === undefined) return [frame(this.#source, [...item.begin, event])]
        item.text.ends.push(event)
        return this.#ended(item)
      case "thinking":
        // The call machine holds the end of thinking until a text is seen, and another item may begin before.
        return [
          { type: "reasoning-delta", id, delta: "", metadata },
          { type: "reasoning-end", id }
        ]
      default: {
        const { arguments: given, input } = fields(event.value["item"])
        const params = typeof given === "string" ? (parse(given) ?? given) : (input ?? {})
        return [
          { type: "tool-params-end", id, metadata },
          {
            type: "tool-call",
            id,
            name,
            params,
            ...flowing(this.#flows || kind !== "call")
          }
        ]
      }
    }
  }

  #finished(event: Received): ReadonlyArray<Part> {
    this.isEnded = true
    const response = fields(event.value["response"])
    const ended = Array.from(this.#items.values()).flatMap((item) => this.#ended(item))
    const reason = reasonOf(response, this.#hasCall, this.#hasRefusal)
    const usage = usageOf(fields(response["usage"]))
    return [...ended, { type: "finish", reason, usage, metadata: carrying(this.#source, [event]) }]
  }
}

/** The parts of a whole answer; `undefined` where the body is none. */
export const whole = (body: Fields): Array<Whole> | undefined => {
  if (!Array.isArray(body["output"])) return undefined
  const items = list(body["output"]).map(fields)
  const parts = items.flatMap((item): ReadonlyArray<Whole> => {
    const kind = kindOf(text(item["type"]))
    if (kind === "message") {
      return list(item["content"]).map((part) => ({
        type: "text",
        text: text(fields(part)["text"]) || text(fields(part)["refusal"])
      }))
    }
    if (kind === "thinking") return [{ type: "reasoning", text: "" }]
    const { arguments: given, call_id, id, name, type } = item
    const call = {
      type: "tool-call",
      id: text(call_id) || text(id),
      name: text(name) || text(type),
      params: parse(text(given)) ?? given
    } as const
    return [kind === "call" ? call : { ...call, providerExecuted: true }]
  })
  const hasCall = items.some((item) => kindOf(text(item["type"])) === "call")
  const hasRefusal = items.some((item) =>
    list(item["content"]).some((part) => fields(part)["type"] === "refusal")
  )
  const reason = reasonOf(body, hasCall, hasRefusal)
  return [
    { type: "response-metadata", id: text(body["id"]) || undefined },
    ...parts,
    { type: "finish", reason, usage: usageOf(fields(body["usage"])) }
  ]
}

/** Tools that OpenAI runs. */
const provided: ReadonlySet<string> = new Set([
  "web_search_call",
  "file_search_call",
  "code_interpreter_call",
  "image_generation_call",
  "mcp_call",
  "mcp_list_tools",
  "tool_search_call"
])

const kindOf = (type: string): Item["kind"] => {
  if (type === "message") return "message"
  if (provided.has(type)) return "provider-call"
  return type.endsWith("_call") || type === "mcp_approval_request" ? "call" : "thinking"
}

const reasonOf = (response: Fields, hasCall: boolean, hasRefusal: boolean): Response.FinishReason => {
  const { reason } = fields(response["incomplete_details"])
  if (reason === "content_filter") return "content-filter"
  if (response["status"] === "incomplete" || reason !== undefined) return "length"
  return hasCall ? "tool-calls" : hasRefusal ? "content-filter" : "stop"
}

const usageOf = (usage: Fields): Usage => openAiUsage(usage, "input", "output")
