/**
 * Writes events of OpenAI Responses. Those of the first attempt pass as they are. An attempt that continues it writes on
 * in the open text: the response keeps its id, items and sequence numbers go on, and every event that repeats the text has
 * the whole of it.
 */
import { fields, isFields, list, number, text } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Carried, Encoder, Part, Problem, Source, Usage } from "../Wire.ts"
import { carriedBy, isAsCarried, written } from "../Wire.ts"

/** A text as the caller knows it. */
interface Text {
  readonly output: number
  readonly content: number
  /** Id of its item. */
  readonly item: string
  /** What was written of it. */
  said: string
  isOpen: boolean
}

/** An item of thinking that has not ended. */
interface Thought {
  readonly output: number
  readonly item: Fields
  /** Its last part, if that is open. */
  part: { readonly kind: "summary" | "content"; readonly index: number; said: string } | undefined
  /** Parts that have ended. */
  readonly done: Array<Fields>
}

/**
 * In place of the encrypted content of thinking that was cut, or that another vendor made: clients send that field back, if
 * no other. `Responses.withoutCuts` takes such an item out of later requests.
 */
export const cut = "outlast_cut"

export class ResponsesEncoder implements Encoder {
  sharedId: string | undefined
  #first: Source | undefined
  #source: Source | undefined
  /** The response as it began. */
  #response: Fields = {}
  /** The next sequence number. */
  #sequence = 0
  /** The next index of an item. */
  #output = 0
  /** By the ids of parts. */
  readonly #texts = new Map<string, Text>()
  readonly #thoughts = new Map<string, Thought>()
  readonly #dropped = new Set<string>()
  /** The items that are done, by their indexes. */
  readonly #items: Array<Fields> = []
  /** Indexes of the current attempt's items as the caller knows them. */
  #outputs = new Map<number, number>()
  #hasText = false

  part(part: Part): string {
    const carried = carriedBy(part)
    if (carried !== undefined && carried.source !== this.#source) {
      this.#first ??= carried.source
      this.#source = carried.source
      this.#outputs = new Map()
    }
    if (this.#isDropped(part)) return ""
    if (part.type === "text-delta" && part.delta !== "") this.#hasText = true
    const out = carried === undefined ? "" : this.#events(part, carried)
    return out + this.#own(part, carried, out)
  }

  failed({ code, message, type }: Problem): string {
    const error = { code: code ?? type, message }
    if (this.#first === undefined) {
      const value = { type: "error", ...error, param: null, sequence_number: this.#sequence++ }
      return written(value, "error")
    }
    const response = { ...this.#response, status: "failed", error, output: this.#done() }
    const value = { type: "response.failed", response, sequence_number: this.#sequence++ }
    return written(value, "response.failed")
  }

  get #isFirst(): boolean {
    return this.#source === this.#first
  }

  #isDropped(part: Part): boolean {
    if (part.type === "reasoning-start" && !this.#isFirst && this.#hasText) this.#dropped.add(part.id)
    const isDropped = "id" in part && part.id !== undefined && this.#dropped.has(part.id)
    if (part.type === "reasoning-end") this.#dropped.delete(part.id)
    return isDropped && part.type !== "response-metadata"
  }

  #events(part: Part, carried: Carried): string {
    const { events } = carried
    const isSame = isAsCarried(part, carried)
    if (!isSame && "delta" in part && part.delta === "") return ""
    let out = ""
    for (const event of events) {
      const { value } = event
      if (this.#isFirst && isSame && carried.source.dropped === undefined) {
        this.#saw(part, value)
        out += event.raw
        continue
      }
      const retold = this.#retold(part, value)
      if (retold === undefined) continue
      this.#saw(part, retold)
      out += written(retold, event.name)
    }
    return out
  }

  /** Remembers what an event says, as the caller gets it. */
  #saw(part: Part, value: Fields): void {
    const sequence = number(value["sequence_number"])
    if (sequence !== undefined) this.#sequence = sequence + 1
    const output = number(value["output_index"])
    if (output !== undefined) this.#output = Math.max(this.#output, output + 1)
    switch (value["type"]) {
      case "response.created":
      case "response.in_progress":
        this.#response = fields(value["response"])
        return
      case "response.output_text.delta":
      case "response.refusal.delta": {
        if (part.type !== "text-delta") return
        const known = this.#texts.get(part.id)
        const said = text(value["delta"])
        if (known !== undefined) {
          known.said += said
          return
        }
        this.#texts.set(part.id, {
          output: output ?? 0,
          content: number(value["content_index"]) ?? 0,
          item: text(value["item_id"]),
          said,
          isOpen: true
        })
        return
      }
      case "response.output_item.done":
        if (output !== undefined) this.#items[output] = fields(value["item"])
        if (part.type === "text-end") this.#end(part.id)
        if (part.type === "reasoning-delta") this.#thoughts.delete(part.id)
        return
      default:
        if (part.type === "reasoning-start") {
          this.#thoughts.set(part.id, {
            output: output ?? 0,
            item: fields(value["item"]),
            part: undefined,
            done: []
          })
        }
        if (part.type === "reasoning-delta") thinks(this.#thoughts.get(part.id), value)
    }
  }

  #end(id: string): void {
    const known = this.#texts.get(id)
    if (known !== undefined) known.isOpen = false
  }

  /** An event of an attempt that continues, or that a `Writer` has made; `undefined`: the caller has seen it. */
  #retold(part: Part, value: Fields): Fields | undefined {
    const type = text(value["type"])
    if (part.type === "finish") return this.#completed(part.usage, value)
    if (isFields(value["response"])) {
      return this.#response["id"] === undefined || this.#isFirst ? this.#numbered(value) : undefined
    }
    if (part.type === "text-delta" || part.type === "text-end") {
      const known = this.#texts.get(part.id)
      if (known !== undefined) return this.#numbered(this.#ofText(known, part, type, value))
    }
    const output = number(value["output_index"])
    return this.#numbered(output === undefined ? value : { ...value, output_index: this.#indexOf(output) })
  }

  /** An event of a text that an earlier attempt began. */
  #ofText({ content, item, output, said }: Text, part: Part, type: string, value: Fields): Fields {
    const placed = { ...value, output_index: output }
    if (type === "response.output_item.done") {
      const given = fields(value["item"])
      const contents = list(given["content"]).map((each, i) => (i === 0 ? whole(fields(each), said) : each))
      return { ...placed, item: { ...given, id: item, content: contents } }
    }
    const within = { ...placed, item_id: item, content_index: content }
    if (part.type === "text-delta" && type.endsWith(".delta")) return { ...within, delta: part.delta }
    if (type === "response.content_part.done") return { ...within, part: whole(fields(value["part"]), said) }
    return type.endsWith(".done") ? whole(within, said) : within
  }

  #indexOf(own: number): number {
    const index = this.#outputs.get(own) ?? this.#output
    this.#outputs.set(own, index)
    return index
  }

  #completed(usage: Usage, value: Fields): Fields {
    const { created_at, id } = this.#response
    this.sharedId = text(id)
    const response = fields(value["response"])
    const given = fields(response["usage"])
    const input = usage.inputTokens.total ?? given["input_tokens"]
    const out = usage.outputTokens.total ?? given["output_tokens"]
    const total = typeof input === "number" && typeof out === "number" ? input + out : given["total_tokens"]
    const sums = { ...given, input_tokens: input, output_tokens: out, total_tokens: total }
    return this.#numbered({
      ...value,
      response: {
        ...response,
        id,
        created_at,
        output: this.#done(),
        ...(isFields(response["usage"]) ? { usage: sums } : undefined)
      }
    })
  }

  #done(): ReadonlyArray<Fields> {
    // Items that were dropped leave no place.
    return this.#items.filter((item) => item !== undefined)
  }

  #numbered(value: Fields): Fields {
    return { ...value, sequence_number: this.#sequence }
  }

  /** What the call machine says without an event of a vendor: text that was held, the end of a text that was cut. */
  #own(part: Part, carried: Carried | undefined, out: string): string {
    if (part.type === "text-end") {
      const known = this.#texts.get(part.id)
      return known?.isOpen === true ? this.#closed(part.id, known) : ""
    }
    if (part.type === "reasoning-end") return this.#cut(part.id)
    const isChanged = part.type === "text-delta" && part.delta !== (carried?.text ?? "")
    if (part.type !== "text-delta" || out !== "" || !isChanged || part.delta === "") return ""
    const known = this.#texts.get(part.id)
    if (known === undefined) return ""
    known.said += part.delta
    return this.#written("response.output_text.delta", known, { delta: part.delta })
  }

  #closed(id: string, known: Text): string {
    this.#end(id)
    const { item, output, said } = known
    const content = { type: "output_text", text: said, annotations: [] }
    const done = { id: item, type: "message", role: "assistant", status: "completed", content: [content] }
    this.#items[output] = done
    return (
      this.#written("response.output_text.done", known, { text: said }) +
      this.#written("response.content_part.done", known, { part: content }) +
      written(
        {
          type: "response.output_item.done",
          output_index: output,
          item: done,
          sequence_number: this.#sequence++
        },
        "response.output_item.done"
      )
    )
  }

  /** Ends an item of thinking that was cut. */
  #cut(id: string): string {
    const thought = this.#thoughts.get(id)
    if (thought === undefined) return ""
    this.#thoughts.delete(id)
    const { item, output, part } = thought
    const say = (type: string, more: Fields) =>
      written({ type, output_index: output, ...more, sequence_number: this.#sequence++ }, type)
    let out = ""
    const parts = [...thought.done]
    if (part !== undefined) {
      const { index, kind, said } = part
      const place = { item_id: item["id"], [`${kind}_index`]: index }
      const isSummary = kind === "summary"
      const ended = { type: isSummary ? "summary_text" : "reasoning_text", text: said }
      parts.push(ended)
      out =
        say(isSummary ? "response.reasoning_summary_text.done" : "response.reasoning_text.done", {
          ...place,
          text: said
        }) +
        say(isSummary ? "response.reasoning_summary_part.done" : "response.content_part.done", {
          ...place,
          part: ended
        })
    }
    const isSummary = part?.kind !== "content"
    const content = isSummary ? { summary: parts } : { content: parts }
    const done = { ...item, status: "incomplete", ...content, encrypted_content: cut }
    this.#items[output] = done
    return out + say("response.output_item.done", { item: done })
  }

  #written(type: string, { content, item, output }: Text, more: Fields): string {
    const value = {
      type,
      item_id: item,
      output_index: output,
      content_index: content,
      ...more,
      sequence_number: this.#sequence++
    }
    return written(value, type)
  }
}

/** Follows the parts of an item of thinking. */
const thinks = (thought: Thought | undefined, value: Fields): void => {
  if (thought === undefined) return
  const type = text(value["type"])
  if (type === "response.reasoning_summary_part.added" || type === "response.content_part.added") {
    const kind = type === "response.content_part.added" ? "content" : "summary"
    thought.part = { kind, index: number(value[`${kind}_index`]) ?? 0, said: "" }
  } else if (type.endsWith("_part.done")) {
    thought.part = undefined
    thought.done.push(fields(value["part"]))
  } else if (type.endsWith(".delta") && thought.part !== undefined) thought.part.said += text(value["delta"])
}

/** With the whole text in place of the part that one attempt has written. */
const whole = (value: Fields, said: string): Fields =>
  "refusal" in value ? { ...value, refusal: said } : { ...value, text: said }
