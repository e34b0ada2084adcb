/**
 * Changes fields of a JSON object in its text. All that is not changed stays as it was written: the order of the keys,
 * white space, `1.0`, integers beyond 2^53. Parsing and writing the whole would lose these.
 *
 * Expects a text that `JSON.parse` accepts, and an object at its top.
 */

interface Field {
  readonly name: string
  /** Where the name begins. */
  readonly at: number
  /** Where the value begins and ends. */
  readonly from: number
  readonly to: number
}

/** New values by field, as JSON. */
export type Edits = ReadonlyMap<string, string>

/** The text with these values in place of those of the fields, or as further fields at the end. */
export const changed = (text: string, edits: Edits): string => {
  const missing = new Set(edits.keys())
  let out = ""
  let at = 0
  const fields = fieldsOf(text)
  for (const { name, from, to } of fields) {
    const value = edits.get(name)
    if (value === undefined) continue
    // A name that stands twice has the last value; all are changed.
    missing.delete(name)
    out += text.slice(at, from) + value
    at = to
  }
  if (missing.size === 0) return out + text.slice(at)
  const end = text.lastIndexOf("}")
  const added = Array.from(missing, (name) => `${JSON.stringify(name)}:${edits.get(name)}`)
  const comma = fields.length === 0 ? "" : ","
  return `${out}${text.slice(at, end)}${comma}${added.join(",")}${text.slice(end)}`
}

/** The text without a field, and without the comma that belongs to it. Expects the field to be there. */
export const without = (text: string, name: string): string => {
  const quoted = JSON.stringify(name)
  const first = text.indexOf(quoted)
  // Most texts have the name once, and need not be read from their beginning.
  const isAlone = text.indexOf(quoted, first + 1) === -1
  const at = isAlone ? first : (fieldsOf(text).find((field) => field.name === name)?.at ?? first)
  const to = endOfValue(text, behindSpace(text, text.indexOf(":", at) + 1))
  let before = at - 1
  while (text.charCodeAt(before) <= 32) before--
  if (text.charCodeAt(before) === comma) return text.slice(0, before) + text.slice(to)
  const after = behindSpace(text, to)
  return text.slice(0, at) + text.slice(text.charCodeAt(after) === comma ? behindSpace(text, after + 1) : to)
}

/** The JSON of a field as it is written; `undefined` without one. */
export const valueOf = (text: string, name: string): string | undefined => {
  const field = fieldsOf(text).findLast((field) => field.name === name)
  return field === undefined ? undefined : text.slice(field.from, field.to)
}

/** The JSON of an array, with further elements at its end. */
export const appended = (array: string, elements: ReadonlyArray<unknown>): string => {
  const end = array.lastIndexOf("]")
  const isEmpty = array.slice(array.indexOf("[") + 1, end).trim() === ""
  const added = elements.map((element) => JSON.stringify(element)).join(",")
  return `${array.slice(0, end)}${isEmpty ? "" : ","}${added}${array.slice(end)}`
}

const fieldsOf = (text: string): ReadonlyArray<Field> => {
  const fields: Array<Field> = []
  let at = behindSpace(text, text.indexOf("{") + 1)
  while (text.charCodeAt(at) === quote) {
    const end = endOfString(text, at)
    const name: unknown = JSON.parse(text.slice(at, end))
    const from = behindSpace(text, text.indexOf(":", end) + 1)
    const to = endOfValue(text, from)
    fields.push({ name: String(name), at, from, to })
    at = behindSpace(text, to)
    if (text.charCodeAt(at) !== comma) break
    at = behindSpace(text, at + 1)
  }
  return fields
}

const quote = 34
const comma = 44
const backslash = 92

const behindSpace = (text: string, at: number): number => {
  while (text.charCodeAt(at) <= 32) at++
  return at
}

/** The position behind the string that begins at `at`. */
const endOfString = (text: string, at: number): number => {
  for (let end = text.indexOf('"', at + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let escapes = 0
    while (text.charCodeAt(end - 1 - escapes) === backslash) escapes++
    if (escapes % 2 === 0) return end + 1
  }
  return text.length
}

const marks = /["{}[\]]/g
const endOfPlain = /[,}\]\s]|$/g

/** The position behind the value that begins at `at`. */
const endOfValue = (text: string, at: number): number => {
  const first = text[at]
  if (first === '"') return endOfString(text, at)
  if (first !== "{" && first !== "[") {
    endOfPlain.lastIndex = at
    return endOfPlain.exec(text)?.index ?? text.length
  }
  let depth = 0
  marks.lastIndex = at
  for (let mark = marks.exec(text); mark !== null; mark = marks.exec(text)) {
    const [found] = mark
    if (found === '"') marks.lastIndex = endOfString(text, mark.index)
    else if (found === "{" || found === "[") depth++
    else if (--depth === 0) return mark.index + 1
  }
  return text.length
}
