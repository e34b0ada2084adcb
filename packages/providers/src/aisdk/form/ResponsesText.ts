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
    const text = textIn(data)
    if (text !== "") this.#deltas.push(text)
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

/** The text of a delta, as JSON. Not a regular expression for all of it, which overflows at millions of characters. */
const textIn = (data: string): string => {
  const field = begin.exec(data)
  if (field === null) return ""
  const start = field.index + field[0].length
  let end = data.indexOf('"', start)
  while (end !== -1 && isEscaped(data, end)) end = data.indexOf('"', end + 1)
  return end === -1 ? "" : data.slice(start, end)
}

/** A quote inside of a text is escaped. */
const begin = /"delta"\s*:\s*"/

/** True behind an odd number of backslashes. */
const isEscaped = (data: string, at: number): boolean => {
  let before = at - 1
  while (data[before] === "\\") before--
  return (at - before) % 2 === 0
}
