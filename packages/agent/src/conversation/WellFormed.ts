/**
 * Makes text well-formed Unicode: a lone half of a surrogate pair becomes U+FFFD. Strict servers reject a request with
 * such a half, and a conversation that contains one would be rejected for good.
 *
 * A half appears where text is cut by length in a program, a tool or a stream. Pure. The same value is returned when
 * nothing changes. Strings in arrays and plain objects are changed, and the keys of these objects. Other objects
 * (dates, bytes, classes) stay as they are.
 */
import { mapped } from "./Unchanged.ts"

/** The value with well-formed texts and keys. */
export const of = <A>(value: A): A => {
  try {
    // Every replacement has the type of what it replaces.
    return replaced(value, new Set()) as A
  } catch {
    // A getter of the program threw. The client that writes the request reports it.
    return value
  }
}

const replaced = (value: unknown, around: Set<object>): unknown => {
  if (typeof value === "string") return value.isWellFormed() ? value : value.toWellFormed()
  if (typeof value !== "object" || value === null || around.has(value)) return value
  if (!Array.isArray(value) && !isPlain(value)) return value
  around.add(value)
  const made = Array.isArray(value)
    ? mapped(value, (item) => [replaced(item, around)])
    : ofRecord(value as Readonly<Record<string, unknown>>, around)
  around.delete(value)
  return made
}

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const ofRecord = (record: Readonly<Record<string, unknown>>, around: Set<object>): object => {
  const before = Object.entries(record)
  const after = before.map(([key, value]): [string, unknown] => [
    key.isWellFormed() ? key : key.toWellFormed(),
    replaced(value, around)
  ])
  if (after.every(([key, value], i) => key === before[i]?.[0] && value === before[i]?.[1])) return record
  const made = Object.fromEntries(after)
  for (const symbol of Object.getOwnPropertySymbols(record))
    Reflect.set(made, symbol, Reflect.get(record, symbol))
  return made
}
