/** Answers of OpenAI's Responses and the servers that imitate it: see `AnswerForm`. */
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import type { Fields, Note } from "./Fields.ts"
import { argumentsText, counts, isFields, objects, textOf } from "./Fields.ts"
import { ResponsesCalls } from "./ResponsesCalls.ts"
import * as Items from "./ResponsesItems.ts"
import { ResponsesText } from "./ResponsesText.ts"

const marks =
  /"type"\s*:\s*"(?:response\.(?:output_item\.|function_call_arguments\.|created|in_progress|completed|incomplete|failed|done|output_text\.(?:annotation|done))|error")|"object"\s*:\s*"response"|"(?:delta|arguments)"\s*:\s*\{/

const textDelta = "response.output_text.delta"
const textFirst = `{"type":"${textDelta}"`

const required = ["input_tokens", "output_tokens"]

export class Responses {
  readonly #note: Note
  /** Names of the tools that the program offered. */
  readonly #offers: (name: string) => boolean
  readonly #calls: ResponsesCalls
  /** The event before, and whether this one repeats it, with its number. */
  #latest = ""
  #isRepeated = false
  /** Items that were announced or ended: see `keyOf`. */
  readonly #seen = new Set<string>()
  /** An item of an unknown type was left out. */
  #isUnknown = false
  /** An item with content passed. */
  #isKnown = false
  /** An item is incomplete. */
  #isCut = false
  readonly #text = new ResponsesText()
  /** The message that was announced and has not ended. */
  #open: { readonly item: Fields; readonly index: unknown } | undefined

  constructor(note: Note, offers: (name: string) => boolean) {
    this.#note = note
    this.#offers = offers
    this.#calls = new ResponsesCalls(note)
  }

  /** True for data of an event that may need a change. */
  mayDiffer(data: string): boolean {
    this.#isRepeated = data === this.#latest && data.includes('"sequence_number"')
    this.#latest = data
    if (this.#isRepeated) return true
    const isText = data.startsWith(textFirst)
    if (!isText && marks.test(data)) return true
    if (!isText && !data.includes(textDelta)) return false
    this.#text.delta(data)
    return !data.includes('"item_id"')
  }

  /** The response that ends a stream. Some servers leave its output empty. */
  joined(events: ReadonlyArray<Fields>): Fields | undefined {
    const ends = new Set<unknown>(["response.completed", "response.incomplete", "response.failed"])
    const response = events.find(({ type }) => ends.has(type))?.["response"]
    if (!isFields(response) || objects(response["output"]).length > 0)
      return isFields(response) ? response : undefined
    const items = events.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item)
    return items.length === 0 ? undefined : { ...response, output: items }
  }

  whole(body: Fields): void {
    this.#end(body)
    if (!Array.isArray(body["output"])) return
    const items = objects(body["output"]).filter((item, index) => this.#item(item, `${index}`, "done"))
    body["output"] = items
    this.#cut(body)
    this.#check()
  }

  event(event: Fields): boolean | ReadonlyArray<Fields> {
    if (this.#isRepeated) {
      this.#note("duplicate")
      return false
    }
    this.#lastOf(event)
    const { item, response, annotation } = event
    switch (event["type"]) {
      case "response.output_item.added":
      case "response.output_item.done":
        return !isFields(item) || this.#itemEvent(event, item)
      case "response.function_call_arguments.delta":
      case "response.function_call_arguments.done":
        for (const name of ["delta", "arguments"]) {
          if (!isFields(event[name])) continue
          this.#note("call")
          event[name] = JSON.stringify(event[name])
        }
        this.#calls.arguments(event)
        return true
      case textDelta:
        if (typeof event["item_id"] !== "string") event["item_id"] = this.#fill("")
        return true
      case "response.output_text.done": {
        const rest = this.#text.endPart(textOf(event["text"]))
        if (rest === "") return true
        this.#note("item")
        Object.assign(event, { type: textDelta, delta: rest })
        return true
      }
      case "response.output_text.annotation.added":
        return isFields(annotation) && Items.annotation(annotation, this.#note)
      case "response.created":
      case "response.in_progress":
        if (isFields(response)) this.#begin(response)
        return true
      default:
        if (needNumber.has(event["type"]) && typeof event["sequence_number"] !== "number") {
          event["sequence_number"] = this.#fill(0)
        }
        return !isFields(response) || this.#last(response, event["type"])
    }
  }

  /** A complete answer in the place of a stream, and a last event of another name, become the last event. */
  #lastOf(event: Fields): void {
    const isWhole = event["object"] === "response" && typeof event["type"] !== "string"
    const response = isWhole ? { ...event } : event["response"]
    if (!isFields(response) || (!isWhole && event["type"] !== "response.done")) return
    this.#note("item")
    const { status } = response
    for (const name of Object.keys(event)) delete event[name]
    event["type"] = `response.${status === "failed" || status === "incomplete" ? status : "completed"}`
    event["response"] = response
  }

  /** The events of an output, or of a rest of its text, that came only with the last event. */
  #last(response: Fields, type: unknown): true | ReadonlyArray<Fields> {
    const output = objects(response["output"])
    const isAlone = this.#seen.size === 0 && !this.#text.hasAny
    const announced = isAlone
      ? output.flatMap((item, index) => this.#announced(item, index))
      : type === "response.failed"
        ? []
        : this.#restOf(output)
    this.#end(response)
    this.#cut(response)
    const isComplete = type === "response.completed" && !isFields(response["incomplete_details"])
    const left = isComplete ? this.#calls.missing(response) : []
    const events = [...announced, ...this.#kept(left)]
    if (type === "response.completed") this.#check()
    return events.length === 0 || events
  }

  /** The rest of the text in the message that has not ended, or in one more message. */
  #restOf(output: ReadonlyArray<Fields>): ReadonlyArray<Fields> {
    const messages = output.filter(({ type }) => type === "message")
    const last = messages.at(-1)
    const rest = this.#text.end(messages.map(textOfMessage).join(""))
    if (rest === "" || last === undefined) return []
    if (this.#open === undefined) {
      return this.#announced(
        { ...last, content: [{ type: "output_text", text: rest, annotations: [] }] },
        output.length
      )
    }
    this.#note("item")
    return [deltaOf(rest, this.#open.item, this.#open.index)]
  }

  #announced(item: Fields, index: number): ReadonlyArray<Fields> {
    const begin = {
      ...item,
      ...("content" in item ? { content: [] } : {}),
      ...("arguments" in item ? { arguments: "" } : {})
    }
    return this.#kept([
      { type: "response.output_item.added", output_index: index, item: begin },
      { type: "response.output_item.done", output_index: index, item }
    ])
  }

  /** Events of items that the server left out, with what the client needs. */
  #kept(events: ReadonlyArray<Fields>): ReadonlyArray<Fields> {
    return events.flatMap((event) => {
      const { item } = event
      const kept = isFields(item) && this.#itemEvent(event, item)
      if (kept !== false && !this.#calls.isHeld(event)) this.#note("item")
      return kept === false ? [] : kept === true ? [event] : [...kept, event]
    })
  }

  /** False for an item to leave out. The text of a message that ends without any comes before its end. */
  #itemEvent(event: Fields, item: Fields): boolean | ReadonlyArray<Fields> {
    if (!this.#calls.item(event, item)) return false
    const { type, output_index: index } = event
    const kept = this.#item(item, String(index), String(type))
    if (!kept || item["type"] !== "message") return kept
    const isEnd = type === "response.output_item.done"
    this.#open = isEnd ? undefined : { item, index }
    const rest = this.#text.endItem(isEnd ? textOfMessage(item) : "")
    if (rest === "") return true
    this.#note("item")
    return [deltaOf(rest, item, index)]
  }

  #fill<A>(value: A): A {
    this.#note("item")
    return value
  }

  #begin(response: Fields): void {
    if (typeof response["id"] !== "string") response["id"] = this.#fill("")
    if (typeof response["created_at"] !== "number") response["created_at"] = this.#fill(0)
    if (typeof response["model"] !== "string") response["model"] = this.#fill("")
  }

  #end(response: Fields): void {
    const { usage } = response
    if (usage === undefined || usage === null) return
    counts(response, "usage", this.#note)
    const clean = response["usage"]
    // The client needs both counts. Without one of them the usage is unknown.
    if (!isFields(clean) || required.every((name) => typeof clean[name] === "number")) return
    this.#note("usage")
    delete response["usage"]
  }

  /** An answer that says it is incomplete, in its status or in that of an item, is no complete one. */
  #cut(response: Fields): void {
    const details = response["incomplete_details"]
    if (isFields(details) && typeof details["reason"] === "string") return
    if (details !== null && details !== undefined) {
      this.#note("finish")
      response["incomplete_details"] = null
    }
    if (response["status"] !== "incomplete" && !this.#isCut) return
    this.#note("finish")
    response["incomplete_details"] = { reason: "incomplete" }
  }

  /** Throws for an answer whose items are all of unknown types. */
  #check(): void {
    if (!this.#isUnknown || this.#isKnown) return
    throw ProviderFailure.local(
      "client/unreadable",
      new FailoverReason.Format({ side: "response" }),
      undefined,
      "The answer has no item of a known type."
    )
  }

  /** False for an item to leave out. */
  #item(item: Fields, index: string, event: string): boolean {
    const key = keyOf(item, index, event)
    if (this.#seen.has(key)) {
      this.#note("duplicate")
      return false
    }
    this.#seen.add(key)
    const isKept = this.#isItem(item, event)
    if (!isKept) this.#isUnknown = true
    else if (item["type"] !== "reasoning") this.#isKnown = true
    return isKept
  }

  #isItem(item: Fields, event: string): boolean {
    const { type } = item
    if (type === "message") this.#isCut ||= item["status"] === "incomplete"
    if (type === "function_call") this.#call(item, event)
    if (type === "custom_tool_call" && !this.#offers(String(item["name"]))) {
      this.#note("item")
      return false
    }
    return Items.item(item, this.#note)
  }

  #call(item: Fields, event: string): void {
    if (typeof item["id"] !== "string") item["id"] = this.#fill(String(item["call_id"]))
    const text = argumentsText(item["arguments"])
    if (text !== undefined) {
      const isBegin = event.endsWith("added")
      if (!isBegin) this.#note("call")
      item["arguments"] = isBegin ? this.#fill("") : text
    }
    if (event.endsWith("done") && !statuses.has(item["status"])) item["status"] = this.#fill("completed")
  }
}

const textOfMessage = (item: Fields): string =>
  objects(item["content"])
    .map(({ text }) => textOf(text))
    .join("")

const deltaOf = (delta: string, item: Fields, index: unknown): Fields => ({
  type: textDelta,
  item_id: item["id"],
  output_index: index,
  content_index: 0,
  delta
})

/**
 * Identifies an item in an event. Some servers give the id of the response to each item, so an item that is done is
 * identified by its content, too. In a stream, an item of the model is also identified by its index: its other events
 * refer to it.
 */
const keyOf = (item: Fields, index: string, event: string): string => {
  const { id, type, call_id: call } = item
  const hasId = typeof id === "string" && id !== ""
  const isByIndex = !hasId || (event !== "done" && ofModel.has(type))
  const content = event.endsWith("added") ? call : { ...item, status: undefined }
  return JSON.stringify([event, type, id, isByIndex ? index : undefined, content])
}

/** Types of items that the model writes. The provider's own tools make the others. */
const ofModel: ReadonlySet<unknown> = new Set(["message", "reasoning", "function_call", "custom_tool_call"])

const statuses: ReadonlySet<unknown> = new Set(["in_progress", "completed", "incomplete"])

const needNumber: ReadonlySet<unknown> = new Set(["response.failed", "error"])
