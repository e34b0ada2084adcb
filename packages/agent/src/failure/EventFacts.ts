/**
 * Errors inside a stream of server-sent events that a client hands over as text.
 *
 * The events of an answer may talk about errors: each is parsed, and only one that has the shape of an error is
 * given on. What cannot be parsed is an answer that was cut, unless its event is called `error`.
 */
import { property } from "./Looking.ts"

/** Longer streams are cut in the middle, in characters: an error ends a stream. */
const maxStream = 262_144

const begins = /^\s*(?::|(?:data|event|id|retry):)/
const hasData = /(?:^|\n)data: ?[[{]|(?:^|\n)event: ?\w[^\n]*\n(?:[^\n]*\n){0,3}data:/

/** Whether a text is a stream of events, and no sentence that begins like one. */
export const isStream = (text: string): boolean => begins.test(text) && hasData.test(text)

/** The parts of a stream that are errors, in their order: parsed where they are JSON. */
export const errorsOf = (stream: string): ReadonlyArray<unknown> => {
  const errors: Array<unknown> = []
  let name = ""
  let data: Array<string> = []
  const end = (): void => {
    for (const part of partsOf(data, name === "error")) {
      if (name === "error" || isErrorPart(part)) errors.push(part)
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
  return errors
}

/** Both ends; the line in the middle that this breaks cannot be parsed and so decides nothing. */
const endsOf = (stream: string): string =>
  stream.length <= maxStream ? stream : `${stream.slice(0, maxStream / 2)}${stream.slice(-maxStream / 2)}`

/** The data of one event: one value over several lines, or one a line where blank lines are left out. */
const partsOf = (data: ReadonlyArray<string>, isError: boolean): ReadonlyArray<unknown> => {
  const whole = data.join("\n")
  // Most events are pieces of the answer, and need no parsing to see it.
  if (!isError && !hint.test(whole)) return []
  const parsed = parse(whole)
  if (parsed !== undefined) return [parsed]
  const lines = data.length === 1 ? [] : data.map(parse).filter((part) => part !== undefined)
  return lines.length === 0 && isError ? [whole.trim()] : lines
}

/** One of these stands in every part that has the shape of an error. */
const hint = /"error"|"code"|"response\.failed"|"base_resp"/

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** `{ error }`, `{ type: "error" }`, `{ type: "response.failed" }`, `{ code, message }`, or MiniMax's. */
const isErrorPart = (part: unknown): boolean => {
  const error = property(part, "error")
  if ((typeof error === "object" && error !== null) || (typeof error === "string" && error !== ""))
    return true
  const type = property(part, "type")
  if (type === "error" || type === "response.failed") return true
  const miniMax = property(property(part, "base_resp"), "status_code")
  if (typeof miniMax === "number" && miniMax >= 400) return true
  const code = property(part, "code")
  // Some number their successes, too.
  const isCode = typeof code === "number" ? code >= 400 : typeof code === "string" && /^[A-Za-z45]/.test(code)
  return isCode && typeof property(part, "message") === "string"
}
