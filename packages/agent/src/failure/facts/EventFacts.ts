/**
 * Errors inside a stream of server-sent events that a client hands over as text.
 *
 * The events of an answer may talk about errors: each is parsed, and only one that has the shape of an error is
 * given on, or one that says that a filter ended the answer. What cannot be parsed is an answer that was cut, unless
 * its event is called `error`.
 */
import * as Answer from "./AnswerFacts.ts"

/** Longer streams are cut in the middle, in characters: an error ends a stream. */
const maxStream = 262_144

const begins = /^\s*(?::|(?:data|event|id|retry):)/
const hasData = /(?:^|\n)data: ?[[{]|(?:^|\n)event: ?\w[^\n]*\n(?:[^\n]*\n){0,3}data:/

/** Whether a text is a stream of events, and no sentence that begins like one. */
export const isStream = (text: string): boolean => begins.test(text) && hasData.test(text)

/** Pieces that look like JSON and are none: after so many of one stream no more are parsed, each costs an exception. */
const maxBroken = 500

/** Of more errors than this in one stream the last ones count. */
const maxParts = 100

/** A part of a stream that says something: parsed where it is JSON. */
export interface Part {
  readonly part: unknown
  readonly isError: boolean
}

/** The parts of a stream that are errors, or the end of an answer that a filter cut, in their order. */
export const partsOf = (stream: string): ReadonlyArray<Part> => {
  const parts: Array<Part> = []
  const parse = parser()
  let name = ""
  let data: Array<string> = []
  const end = (): void => {
    const isNamed = name === "error"
    for (const part of dataOf(data, isNamed, parse)) {
      const isError = isNamed || Answer.isErrorPart(part)
      if (isError || Answer.endsOf(part).length > 0) parts.push({ part, isError })
    }
    name = ""
    data = []
  }
  for (const line of endsOf(stream).split(/\r?\n/)) {
    if (line.trim() === "") end()
    else if (line.startsWith("data:")) data.push(line.slice(5))
    else if (line.startsWith("event:")) name = line.slice(6).trim()
  }
  end()
  return parts.length > maxParts ? parts.slice(-maxParts) : parts
}

/** Both ends; the line in the middle that this breaks cannot be parsed and so decides nothing. */
const endsOf = (stream: string): string =>
  stream.length <= maxStream ? stream : `${stream.slice(0, maxStream / 2)}${stream.slice(-maxStream / 2)}`

/** The data of one event: one value over several lines, or one a line where blank lines are left out. */
const dataOf = (data: ReadonlyArray<string>, isError: boolean, parse: Parse): ReadonlyArray<unknown> => {
  const whole = data.join("\n")
  // Most events are pieces of the answer, and need no parsing to see it.
  if (!isError && !hint.test(whole)) return []
  const parsed = parse(whole)
  if (parsed !== undefined) return [parsed]
  const lines = data.length === 1 ? [] : data.map(parse).filter((part) => part !== undefined)
  return lines.length === 0 && isError ? [whole.trim()] : lines
}

/** One of these stands in every part that has the shape of an error, or a filter's end. */
const hint =
  /"errors?"|"code"|"err(?:or_)?(?:code|type)"|"response\.failed"|"base_resp"|"success" ?: ?false|Exception"|(?:[sS]top|finish|block)_?[rR]eason" ?: ?"|"incomplete_details" ?: ?\{/i

type Parse = (text: string) => unknown

const parser = (): Parse => {
  let broken = 0
  return (text) => {
    if (broken > maxBroken || !/^\s*[[{]/.test(text)) return undefined
    try {
      return JSON.parse(text)
    } catch {
      broken++
      return undefined
    }
  }
}
