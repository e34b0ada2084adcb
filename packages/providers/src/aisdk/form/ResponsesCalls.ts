/**
 * The calls of a stream of Responses, as its events tell them.
 *
 * A call is told four times: its announcement has the name, deltas and their end have the arguments, its own end has
 * both, and so has the last event. The client reads only the announcement and the end of the call. Servers that imitate
 * OpenAI leave some of it out, so what one event lacks is taken from the others.
 */
import type { Fields, Note } from "./Fields.ts"
import { isFields, objects, parsed, textOf } from "./Fields.ts"

interface Call {
  readonly index: number
  readonly item: Fields
  arguments: string
  isDone: boolean
  /** Its end, without complete arguments. The last event may have them. */
  held: Fields | undefined
}

export class ResponsesCalls {
  readonly #note: Note
  readonly #calls: Array<Call> = []
  /** Indexes of items by their ids, for ends that have none. */
  readonly #indexes = new Map<unknown, number>()
  #next = 0
  /** The last event has come: no arguments follow. */
  #isLast = false

  constructor(note: Note) {
    this.#note = note
  }

  /**
   * An announcement, or the end of an item, gets its index, its name and its arguments. False for the end of a call
   * without complete arguments: the last event may have them.
   */
  item(event: Fields, item: Fields): boolean {
    const isEnd = event["type"] === "response.output_item.done"
    const known = isEnd ? this.#indexes.get(item["id"] ?? item["call_id"]) : undefined
    const index = this.#fill(event, "output_index", isNumber, known ?? this.#next)
    this.#indexes.set(item["id"] ?? item["call_id"], index)
    this.#next = Math.max(this.#next, index + 1)
    if (item["type"] !== "function_call") return true
    // Some servers give all items one index.
    const call = this.#calls.find((call) => isSame(call.item, item) ?? call.index === index)
    if (call === undefined) {
      const isDone = isEnd && (this.#isLast || isComplete(item))
      this.#calls.push({
        index,
        item,
        arguments: textOf(item["arguments"]),
        isDone,
        held: isDone || !isEnd ? undefined : event
      })
      return isDone || !isEnd
    }
    if (!isEnd) return true
    call.isDone = this.#isLast || isComplete(item) || isObject(call.arguments)
    for (const name of ["name", "call_id"]) this.#fill(item, name, isFull, call.item[name])
    if (!isObject(item["arguments"]) && isObject(call.arguments)) {
      this.#note("call")
      item["arguments"] = call.arguments
    }
    if (!call.isDone) call.held = event
    return call.isDone
  }

  /** True for an end that was held, and is as the server sent it. */
  isHeld(event: Fields): boolean {
    return this.#calls.some(({ held }) => held === event)
  }

  /** A piece of the arguments, or all of them. */
  arguments(event: Fields): void {
    const { item_id: id, output_index: index } = event
    const call =
      this.#calls.findLast(({ item }) => isFull(id) && item["id"] === id) ??
      this.#calls.findLast((call) => call.index === index) ??
      this.#calls.findLast(({ isDone }) => !isDone)
    if (call === undefined) return
    this.#fill(event, "output_index", isNumber, call.index)
    this.#fill(event, "item_id", isText, call.item["id"] ?? call.item["call_id"] ?? "")
    if (event["type"] === "response.function_call_arguments.delta") call.arguments += textOf(event["delta"])
    else if (isFull(event["arguments"])) call.arguments = textOf(event["arguments"])
  }

  /** Events that a complete answer left out: ends of calls that were announced, and calls that were not. */
  missing(response: Fields): ReadonlyArray<Fields> {
    this.#isLast = true
    const items = objects(response["output"]).filter(({ type }) => type === "function_call")
    const ends = this.#calls.flatMap((call): ReadonlyArray<Fields> => {
      if (call.isDone) return []
      const last = items.find((item) => isSame(item, call.item) === true)
      const given = [last?.["arguments"], call.arguments]
      // Incomplete arguments stay as they are: the call is known, and never runs.
      const all = given.find(isObject) ?? given.find(isFull) ?? "{}"
      const { held } = call
      if (held !== undefined && isFields(held["item"]) && held["item"]["arguments"] === all) return [held]
      return [end({ ...call.item, ...last, arguments: all }, call.index)]
    })
    const others = items.filter((item) => !this.#calls.some((call) => isSame(item, call.item) === true))
    return [
      ...ends,
      ...others.flatMap((item, at) => {
        const index = this.#next + at
        const begin = { ...item, arguments: "" }
        return [{ type: "response.output_item.added", output_index: index, item: begin }, end(item, index)]
      })
    ]
  }

  #fill<A>(fields: Fields, name: string, isValid: (value: unknown) => value is A, value: unknown): A {
    const given = fields[name]
    if (isValid(given)) return given
    this.#note("item")
    fields[name] = value
    return value as A // Callers give a valid one, or what the announcement of the call had.
  }
}

const end = (item: Fields, index: number): Fields => ({
  type: "response.output_item.done",
  output_index: index,
  item: { ...item, status: "completed" }
})

const isText = (value: unknown): value is string => typeof value === "string"
const isFull = (value: unknown): value is string => isText(value) && value !== ""
const isNumber = (value: unknown): value is number => typeof value === "number"

/** True for the text of an object. */
const isObject = (value: unknown): value is string => isText(value) && isFields(parsed(value))

/** True for the end of a call that has all of its arguments, or will have no more. */
const isComplete = (item: Fields): boolean =>
  isObject(item["arguments"]) || isFields(item["arguments"]) || item["status"] === "incomplete"

/** True for two forms of one call. `undefined`: their ids do not say. */
const isSame = (a: Fields, b: Fields): boolean | undefined => {
  for (const name of ["call_id", "id"]) {
    if (isFull(a[name]) && isFull(b[name])) return a[name] === b[name]
  }
  return undefined
}
