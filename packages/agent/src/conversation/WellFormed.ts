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
    return replaced(value, []) as A
  } catch {
    // A getter of the program threw. The client that writes the request reports it.
    return value
  }
}

/** `around` are the objects that contain the value. Few, so a list is faster than a set. */
const replaced = (value: unknown, around: Array<object>): unknown => {
  if (typeof value === "string") return value.isWellFormed() ? value : value.toWellFormed()
  if (typeof value !== "object" || value === null || around.includes(value)) return value
  if (!Array.isArray(value) && !isPlain(value)) return value
  around.push(value)
  const made = Array.isArray(value)
    ? mapped(value, (item) => [replaced(item, around)])
    : ofRecord(value as Readonly<Record<string, unknown>>, around)
  around.pop()
  return made
}

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Nothing is allocated for a record that stays: every message of every call is read. */
const ofRecord = (record: Readonly<Record<string, unknown>>, around: Array<object>): object => {
  const keys = Object.keys(record)
  let made: Array<[string, unknown]> | undefined
  let i = 0
  for (const key of keys) {
    const value = record[key]
    const name = key.isWellFormed() ? key : key.toWellFormed()
    const next = replaced(value, around)
    if (made === undefined && (name !== key || next !== value)) {
      made = keys.slice(0, i).map((key): [string, unknown] => [key, record[key]])
    }
    made?.push([name, next])
    i++
  }
  if (made === undefined) return record
  const changed = Object.fromEntries(made)
  for (const symbol of Object.getOwnPropertySymbols(record))
    Reflect.set(changed, symbol, Reflect.get(record, symbol))
  return changed
}
