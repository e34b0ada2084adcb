/**
 * The text of a stream of Responses, as its events tell it.
 *
 * A text is told four times: in deltas, at the end of its part, at the end of its item, and in the last event. The
 * client reads only the deltas. Some servers lose the last ones, or send none. Each end returns the rest of its text
 * that no delta had. A text that does not begin with its deltas has no rest: what the consumer saw cannot be taken back.
 */
import { parsed, textOf } from "./Fields.ts"

export class ResponsesText {
  /** The text so far, as JSON in Latin-1: most streams never need it decoded. */
  readonly #deltas: Array<string> = []
  /** Where the deltas of the current item, and of its current part, begin. */
  #item = 0
  #part = 0

  /** True after a text of any item. */
  get hasAny(): boolean {
    return this.#deltas.length > 0
  }

  /** The data of a delta. */
  delta(data: string): void {
    const text = field.exec(data)?.[1]
    if (text !== undefined) this.#deltas.push(text)
  }

  /** The end of a part. A part without deltas behind another part is left to the end of its item. */
  endPart(text: string): string {
    const isFirst = this.#part === this.#item
    const rest = isFirst || this.#part < this.#deltas.length ? this.#rest(text, this.#part) : ""
    this.#part = this.#deltas.length
    return rest
  }

  endItem(text: string): string {
    const rest = this.#rest(text, this.#item)
    this.#item = this.#part = this.#deltas.length
    return rest
  }

  end(text: string): string {
    return this.#rest(text, 0)
  }

  /** The rest of the text behind its deltas, which count as streamed from now on. */
  #rest(text: string, from: number): string {
    const json = Buffer.from(`"${this.#deltas.slice(from).join("")}"`, "latin1").toString()
    const streamed = textOf(parsed(json))
    if (text.length <= streamed.length || !text.startsWith(streamed)) return ""
    const rest = text.slice(streamed.length)
    this.#deltas.push(Buffer.from(JSON.stringify(rest).slice(1, -1)).toString("latin1"))
    return rest
  }
}

/** The text of a delta, if it has one. A quote inside of a text is escaped. */
const field = /"delta"\s*:\s*"((?:[^"\\]|\\.)+)"/
