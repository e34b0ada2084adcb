/**
 * Writes events of Anthropic Messages. Those of the first attempt pass as they are. An attempt that continues it writes on
 * in the open block: its blocks get the next indexes, its thinking is dropped where a text is shown, its `message_start`
 * is dropped, and its usage is added to what the first has reported.
 */
import { fields, number } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Carried, Encoder, Part, Problem, Source } from "../Wire.ts"
import { carriedBy, isAsCarried, written } from "../Wire.ts"

/** Signature of thinking that was cut, or that another vendor made. `Messages.withoutCuts` takes it out of later requests: no vendor has signed it. */
export const cut = "outlast_cut"

export class MessagesEncoder implements Encoder {
  /** Nothing refers to the id of an answer. */
  readonly sharedId = undefined
  #first: Source | undefined
  #isStarted = false
  #hasText = false
  #next = 0
  /** Indexes of the blocks as the caller knows them, by the ids of parts. */
  readonly #indexes = new Map<string, number>()
  /** Blocks that the caller has seen begin and not end. */
  readonly #open = new Set<number>()
  readonly #dropped = new Set<string>()
  /** Indexes of blocks without parts of their own, such as results of tools: by the attempt's own index. */
  #others = new Map<number, number>()
  #source: Source | undefined
  /** Usage of attempts before the current one, and that of the current one so far. */
  #before: Fields = {}
  #usage: Fields = {}

  part(part: Part): string {
    const carried = carriedBy(part)
    if (carried !== undefined && carried.source !== this.#source) this.#begin(carried.source)
    if ("id" in part && part.id !== undefined && part.type !== "response-metadata") {
      if (this.#isDropped(part, part.id)) return ""
    }
    const out = carried === undefined ? "" : this.#events(part, carried)
    if (part.type === "text-delta" && part.delta !== "") this.#hasText = true
    return out + this.#own(part, carried, out)
  }

  failed(problem: Problem): string {
    return written(errorBody(problem), "error")
  }

  #begin(source: Source): void {
    this.#first ??= source
    this.#source = source
    this.#others = new Map()
    this.#before = added(this.#before, this.#usage)
    this.#usage = {}
  }

  /** Thinking behind a text that another attempt began cannot be shown: blocks do not interleave. */
  #isDropped(part: Part, id: string): boolean {
    if (part.type === "reasoning-start" && this.#source !== this.#first && this.#hasText)
      this.#dropped.add(id)
    const isDropped = this.#dropped.has(id)
    if (part.type === "reasoning-end") this.#dropped.delete(id)
    return isDropped
  }

  #events(part: Part, carried: Carried): string {
    const { events, source } = carried
    const isSame = isAsCarried(part, carried)
    // All of it has been said before.
    if (!isSame && "delta" in part && part.delta === "") return ""
    let out = ""
    for (const event of events) {
      const value = this.#valueOf(part, event.value)
      if (value === undefined) continue
      const isUnchanged = value === event.value && isSame && source === this.#first
      out += isUnchanged ? event.raw : written(retold(part, value), event.name)
    }
    return out
  }

  /** The event as the caller must see it; `undefined`: it is left out. */
  #valueOf(part: Part, value: Fields): Fields | undefined {
    switch (value["type"]) {
      case "message_start":
        this.#usage = { ...this.#usage, ...counts(fields(fields(value["message"])["usage"])) }
        if (this.#isStarted && this.#source !== this.#first) return undefined
        this.#isStarted = true
        return value
      case "content_block_start":
      case "content_block_delta":
      case "content_block_stop": {
        const own = number(value["index"]) ?? 0
        const index = this.#indexOf(part, value["type"], own)
        return index === own ? value : { ...value, index }
      }
      case "message_delta": {
        this.#usage = { ...this.#usage, ...counts(fields(value["usage"])) }
        if (this.#source === this.#first) return value
        // The start of the answer told the usage of the first attempt alone, or of none.
        return { ...value, usage: { ...fields(value["usage"]), ...added(this.#before, this.#usage) } }
      }
      default:
        return value
    }
  }

  #indexOf(part: Part, type: string, own: number): number {
    const id =
      "id" in part && part.type !== "response-metadata" && part.type !== "tool-result" ? part.id : undefined
    const known = id === undefined ? this.#others.get(own) : this.#indexes.get(id)
    const index = known ?? this.#next++
    if (known === undefined) {
      if (id === undefined) this.#others.set(own, index)
      else this.#indexes.set(id, index)
    }
    if (type === "content_block_stop") this.#open.delete(index)
    else this.#open.add(index)
    return index
  }

  /** What the call machine says without an event of a vendor: text that was held, ends of blocks that were cut. */
  #own(part: Part, carried: Carried | undefined, out: string): string {
    if (part.type === "text-delta" && carried !== undefined && out === "" && part.delta !== carried.text) {
      return this.#delta(part.id, part.delta)
    }
    if (part.type === "text-delta" && carried === undefined) return this.#delta(part.id, part.delta)
    if (part.type === "text-end" || part.type === "reasoning-end") {
      const index = this.#indexes.get(part.id)
      if (index === undefined || !this.#open.has(index)) return ""
      this.#open.delete(index)
      const delta = { type: "signature_delta", signature: cut }
      const signed =
        part.type === "text-end"
          ? ""
          : written({ type: "content_block_delta", index, delta }, "content_block_delta")
      return signed + written({ type: "content_block_stop", index }, "content_block_stop")
    }
    if (part.type === "finish" && !out.includes('"message_stop"')) {
      return written({ type: "message_stop" }, "message_stop")
    }
    return ""
  }

  #delta(id: string, text: string): string {
    const index = this.#indexes.get(id)
    if (text === "" || index === undefined) return ""
    const value = { type: "content_block_delta", index, delta: { type: "text_delta", text } }
    return written(value, "content_block_delta")
  }
}

export const errorBody = ({ message, type }: Problem): Fields => ({
  type: "error",
  error: { type, message }
})

/** The event of a delta with the text that is left of it. */
const retold = (part: Part, value: Fields): Fields => {
  const delta = fields(value["delta"])
  return part.type === "text-delta" && delta["type"] === "text_delta"
    ? { ...value, delta: { ...delta, text: part.delta } }
    : value
}

const counted = [
  "input_tokens",
  "output_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens"
] as const

const counts = (usage: Fields): Fields =>
  Object.fromEntries(
    counted.flatMap((name) => (typeof usage[name] === "number" ? [[name, usage[name]]] : []))
  )

const added = (a: Fields, b: Fields): Fields =>
  Object.fromEntries(
    counted.flatMap((name) =>
      name in a || name in b ? [[name, (number(a[name]) ?? 0) + (number(b[name]) ?? 0)]] : []
    )
  )
