/**
 * Finds errors in a stream of server-sent events that a client hands over as text.
 *
 * The events of an answer may talk about errors. Each event is therefore parsed, and kept only if it has the shape
 * of an error or says that a filter ended the answer. An event that cannot be parsed belongs to an answer that was
 * cut, unless its name is `error`.
 */
import * as Answer from "./AnswerFacts.ts"

/** Longest stream that is read whole, in characters. The middle of a longer one is cut: errors are at its end. */
const maxStream = 262_144

const begins = /^\s*(?::|(?:data|event|id|retry):)/
const hasData = /(?:^|\n)data: ?[[{]|(?:^|\n)event: ?\w[^\n]*\n(?:[^\n]*\n){0,3}data:/

/** True for a stream of events. False for a sentence that only begins like one. */
export const isStream = (text: string): boolean => begins.test(text) && hasData.test(text)

/** Events that look like JSON but cannot be parsed, at most. Parsing stops then, because each costs an exception. */
const maxBroken = 500

/** Errors of one stream that are kept, at most. The last ones win. */
const maxParts = 100

/** A part of a stream that matters. Parsed if it is JSON. */
export interface Part {
  readonly part: unknown
  readonly isError: boolean
}

/** The parts of a stream that are errors, or that say that a filter ended the answer, in order. */
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

/** Keeps both ends of a long stream. The line that is cut in the middle cannot be parsed and is ignored. */
const endsOf = (stream: string): string =>
  stream.length <= maxStream ? stream : `${stream.slice(0, maxStream / 2)}${stream.slice(-maxStream / 2)}`

/** Data of one event: one value over several lines, or one value a line if the blank lines are missing. */
const dataOf = (data: ReadonlyArray<string>, isError: boolean, parse: Parse): ReadonlyArray<unknown> => {
  const whole = data.join("\n")
  // Most events are pieces of the answer. This check avoids parsing them.
  if (!isError && !hint.test(whole)) return []
  const parsed = parse(whole)
  if (parsed !== undefined) return [parsed]
  const lines = data.length === 1 ? [] : data.map(parse).filter((part) => part !== undefined)
  return lines.length === 0 && isError ? [whole.trim()] : lines
}

/** Matches every part that has the shape of an error, or the finish reason of a filter. */
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
