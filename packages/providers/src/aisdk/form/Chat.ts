/** Answers of OpenAI's Chat Completions and the servers that imitate it: see `AnswerForm`. */
import type { Fields, Note } from "./Fields.ts"
import * as ChatFields from "./ChatFields.ts"
import { argumentsText, badCount, counts, isFields, objects, parsed, textOf } from "./Fields.ts"
import { meaningOf } from "./Meaning.ts"

const marks = new RegExp(
  [
    String.raw`"(?:function_call|native_finish_reason|finish_details|done_reason|stop_type|stats)"\s*:(?!\s*null)`,
    // Every call is read, because a server may send it twice.
    String.raw`"tool_calls"\s*:\s*\[`,
    String.raw`"arguments"\s*:\s*[{[]`,
    String.raw`"message"\s*:\s*\{`,
    String.raw`"object"\s*:\s*"text_completion`,
    ChatFields.wrongField.source,
    // Only the first choice is read.
    String.raw`"index"\s*:\s*[1-9]`,
    badCount.source
  ].join("|")
)

interface Call {
  readonly id: unknown
  readonly name: unknown
  readonly told: Told
}

/** The arguments of a call so far. Some servers tell all of them with each piece, or all of them once more at the end. */
class Told {
  text: string
  #isCumulative = false

  constructor(text: string) {
    this.text = text
  }

  /** The part of a piece that is new. */
  add(piece: string): string {
    // Nothing follows a complete object.
    const isWhole = piece === this.text && isFields(parsed(piece))
    this.#isCumulative ||= isCumulative(this.text, piece)
    const isRepeated = isWhole || (this.#isCumulative && piece.startsWith(this.text))
    const added = isRepeated ? piece.slice(this.text.length) : piece
    this.text += added
    return added
  }
}

export class Chat {
  readonly #note: Note
  /** Arguments of the streamed calls so far, by index. */
  readonly #calls = new Map<unknown, Call>()

  /** Calls that began without a name, by index: the client needs it with the first piece. */
  readonly #nameless = new Map<unknown, Fields>()

  /** The index of the choice that is read. */
  #first: number | undefined

  constructor(note: Note) {
    this.#note = note
  }

  /** True for the data of an event that may need a change. */
  mayDiffer(data: string): boolean {
    if (marks.test(data) || !data.includes('"index"')) return true
    this.#first ??= 0
    return false
  }

  whole(body: Fields): void {
    counts(body, "usage", this.#note)
    ChatFields.top(body, this.#note)
    const choices = objects(body["choices"])
    for (const [at, choice] of choices.entries()) {
      this.#index(choice, at)
      this.#text(choice, "message")
      const { message } = choice
      if (isFields(message)) this.#message(message)
      this.#finish(choice, body)
    }
    this.#callsBeside(choices)
  }

  /** GitHub Copilot has the text of an answer and its calls in two choices. The client reads the first. */
  #callsBeside([first, ...others]: ReadonlyArray<Fields>): void {
    const message = first?.["message"]
    if (first?.["finish_reason"] !== "tool_calls" || !isFields(message) || callsOf(first).length > 0) return
    const calls = others.flatMap(callsOf)
    if (calls.length === 0) return
    this.#note("call")
    message["tool_calls"] = calls
  }

  event(event: Fields): boolean {
    counts(event, "usage", this.#note)
    ChatFields.top(event, this.#note)
    this.#callsBeside(objects(event["choices"]))
    this.#onlyFirst(event)
    for (const choice of objects(event["choices"])) {
      this.#index(choice, 0)
      this.#text(choice, "delta")
      const { delta, message } = choice
      if (isFields(delta)) this.#delta(delta)
      else if (isFields(message)) this.#streamed(choice, message)
      this.#finish(choice, event)
    }
    return true
  }

  #index(choice: Fields, at: number): void {
    if (typeof choice["index"] === "number") return
    this.#note("item")
    choice["index"] = at
  }

  /** The text of OpenAI's old completions becomes a message, or its delta. */
  #text(choice: Fields, name: "message" | "delta"): void {
    const { delta, message, text } = choice
    if (typeof text !== "string" || isFields(delta) || isFields(message)) return
    this.#note("item")
    choice[name] = { role: "assistant", content: text }
  }

  /** The client reads the first choice of each event, whichever it is. */
  #onlyFirst(event: Fields): void {
    const choices = objects(event["choices"])
    for (const { index } of choices) if (typeof index === "number") this.#first ??= index
    const kept = choices.filter(({ index }) => typeof index !== "number" || index === this.#first)
    if (kept.length === choices.length) return
    this.#note("item")
    event["choices"] = kept
  }

  /** A complete answer in the place of a stream. */
  #streamed(choice: Fields, message: Fields): void {
    this.#note("item")
    this.#message(message)
    const calls = objects(message["tool_calls"])
    choice["delta"] =
      calls.length === 0
        ? message
        : { ...message, tool_calls: calls.map((call, index) => ({ index, ...call })) }
  }

  /** Adds up the deltas. Without a finish reason, the answer may be cut. */
  joined(events: ReadonlyArray<Fields>): Fields | undefined {
    const chunks = events.filter(({ choices }) => Array.isArray(choices))
    const choices = chunks.flatMap((chunk) => objects(chunk["choices"]))
    const [first] = chunks
    const finish = choices.find((choice) => typeof choice["finish_reason"] === "string")?.["finish_reason"]
    if (first === undefined || finish === undefined) return undefined
    if (isFields(choices[0]?.["message"])) return first
    const message: Fields = { role: "assistant", content: null }
    const calls: Array<Fields> = []
    const open = new Map<unknown, { readonly id: unknown; readonly into: Fields; readonly told: Told }>()
    for (const choice of choices) {
      this.#text(choice, "delta")
      const { delta } = choice
      if (!isFields(delta)) continue
      for (const name of texts) add(message, name, delta[name])
      for (const { index = 0, function: called, ...call } of objects(delta["tool_calls"])) {
        if (!isFields(called)) continue
        const { id } = call
        const piece = called["arguments"]
        const known = open.get(index)
        // Some servers give all calls the same index.
        if (known !== undefined && (!isGiven(id) || id === known.id)) {
          if (typeof piece !== "string") continue
          known.told.add(piece)
          known.into["arguments"] = known.told.text
          continue
        }
        const into = { ...called }
        open.set(index, { id, into, told: new Told(textOf(piece)) })
        calls.push({ ...call, function: into })
      }
    }
    if (calls.length > 0) message["tool_calls"] = calls
    const usage = chunks.findLast((chunk) => isFields(chunk["usage"]))?.["usage"]
    return {
      ...first,
      ...(usage === undefined ? {} : { usage }),
      choices: [{ index: 0, message, finish_reason: finish }]
    }
  }

  #message(message: Fields): void {
    ChatFields.message(message, this.#note)
    const legacy = message["function_call"]
    if (isFields(legacy) && objects(message["tool_calls"]).length === 0) {
      this.#note("call")
      message["tool_calls"] = [{ function: legacy }]
    }
    if (isFields(message["tool_calls"])) {
      this.#note("call")
      message["tool_calls"] = [message["tool_calls"]]
    }
    const calls = objects(message["tool_calls"])
    if (calls.length === 0) return
    message["tool_calls"] = calls
    for (const call of calls) this.#call(call)
  }

  #call(call: Fields): void {
    const { type, function: called } = call
    if (!isFields(called)) return
    this.#id(call)
    if (type !== "function") {
      this.#note("call")
      call["type"] = "function"
    }
    const text = argumentsText(called["arguments"])
    if (text === undefined) return
    this.#note("call")
    called["arguments"] = text
  }

  #delta(delta: Fields): void {
    ChatFields.message(delta, this.#note)
    const legacy = delta["function_call"]
    if (isFields(legacy) && objects(delta["tool_calls"]).length === 0) {
      this.#note("call")
      delta["tool_calls"] = [{ index: 0, type: "function", function: legacy }]
    }
    if (!Array.isArray(delta["tool_calls"])) return
    const kept = objects(delta["tool_calls"]).filter((call) => this.#isNew(call))
    if (kept.length < delta["tool_calls"].length) delta["tool_calls"] = kept
  }

  /** Numbers become texts. */
  #id(call: Fields): void {
    if (typeof call["id"] !== "number") return
    this.#note("call")
    call["id"] = String(call["id"])
  }

  /**
   * False for a call that was announced before, with all of its arguments, under another index, and for the beginning of
   * one whose name follows.
   */
  #isNew(call: Fields): boolean {
    this.#id(call)
    if (!isFields(call["function"])) return true
    if (this.#isNameless(call)) return false
    const { id, function: called } = call
    if (!isFields(called)) return true
    const { name } = called
    if (typeof call["index"] !== "number") {
      this.#note("item")
      call["index"] = this.#indexOf(id, name)
    }
    const { index } = call
    if (isFields(called["arguments"])) {
      this.#note("call")
      called["arguments"] = JSON.stringify(called["arguments"])
    }
    const text = typeof called["arguments"] === "string" ? called["arguments"] : ""
    const known = this.#calls.get(index)
    if (known !== undefined) {
      if (isGiven(id) && id !== known.id) {
        known.told.text += text
        return true
      }
      const added = known.told.add(text)
      if (added !== text) {
        this.#note("duplicate")
        called["arguments"] = added
      }
      return added !== "" || text === ""
    }
    for (const other of this.#calls.values()) {
      if (typeof id !== "string" || id === "" || other.id !== id || other.name !== name) continue
      if (text === "" || other.told.text !== text) continue
      this.#note("duplicate")
      return false
    }
    this.#calls.set(index, { id, name, told: new Told(text) })
    return true
  }

  /** Holds the beginning of a call back until a piece has its name, which gets what was held. */
  #isNameless(call: Fields): boolean {
    const { index, function: called } = call
    if (!isFields(called)) return false
    const held = this.#nameless.get(index)
    const begun = isFields(held?.["function"]) ? held["function"] : undefined
    if (isGiven(called["name"])) {
      if (begun === undefined) return false
      this.#nameless.delete(index)
      if (!isGiven(call["id"])) call["id"] = held?.["id"]
      called["arguments"] = `${textOf(begun["arguments"])}${textOf(called["arguments"])}`
      return false
    }
    // The rest of a call that has its name.
    if (this.#calls.has(index) || (held === undefined && !isGiven(call["id"]))) return false
    this.#note("call")
    if (begun === undefined) this.#nameless.set(index, call)
    else begun["arguments"] = `${textOf(begun["arguments"])}${textOf(called["arguments"])}`
    return true
  }

  /** The index of a streamed call that has none: a call of its own, or the rest of one before. */
  #indexOf(id: unknown, name: unknown): unknown {
    let index: unknown = 0
    for (const [other, known] of this.#calls) {
      index = other
      if (isGiven(id) && known.id === id) return other
    }
    return isGiven(id) || isGiven(name) ? this.#calls.size : index
  }

  /** Uses the more precise of two status fields. */
  #finish(choice: Fields, body: Fields): void {
    const given = choice["finish_reason"]
    if (given !== null && given !== undefined && typeof given !== "string") {
      this.#note("finish")
      choice["finish_reason"] = null
    }
    if (typeof given !== "string" || meaningOf(given) === "window") return
    for (const value of secondOf(choice, body)) {
      if (typeof value !== "string") continue
      const meaning = meaningOf(value)
      if (meaning === undefined || meaning === meaningOf(given)) continue
      // A cut by the limit is no news beside an error or a refusal.
      if (meaning === "length" && meaningOf(given) !== undefined) continue
      this.#note("finish")
      choice["finish_reason"] = meaning === "window" ? value : words[meaning]
      return
    }
  }
}

const callsOf = ({ message }: Fields): ReadonlyArray<Fields> =>
  isFields(message) ? objects(message["tool_calls"]) : []

const isGiven = (value: unknown): boolean => typeof value === "string" && value !== ""

/**
 * True for arguments that begin with all of the arguments before, where JSON cannot go on with them: in a string, which
 * their first quote would end, and wherever no value may begin.
 */
const isCumulative = (before: string, text: string): boolean => {
  if (!/^\{(?:"\w|$)/.test(before) || !text.startsWith(before) || parsed(before) !== undefined) return false
  let isInside = false
  for (let at = 0; at < before.length; at++) {
    if (before[at] === "\\") at++
    else if (before[at] === '"') isInside = !isInside
  }
  return isInside || !/[:,[]$/.test(before.trimEnd())
}

/** Fields of a message whose deltas add up. */
const texts = ["content", "reasoning_content", "reasoning", "refusal"] as const

const add = (to: Fields, name: string, text: unknown): void => {
  if (typeof text === "string") to[name] = `${typeof to[name] === "string" ? to[name] : ""}${text}`
}

const words = { length: "length", filter: "content_filter", error: "error" } as const

/** Fields beside `finish_reason` that say why an answer ended: OpenRouter, OpenAI's old models, Ollama, llama.cpp, LM Studio. */
const secondOf = (choice: Fields, body: Fields): ReadonlyArray<unknown> => {
  const { finish_details: details } = choice
  const stats = isFields(body["stats"]) ? body["stats"] : {}
  return [
    choice["native_finish_reason"],
    isFields(details) ? details["type"] : details,
    choice["done_reason"] ?? body["done_reason"],
    choice["stop_type"] ?? body["stop_type"],
    stats["stop_reason"]
  ]
}
