/**
 * Headers in whatever form a client keeps them, as one record.
 *
 * Read are records, `Headers`, `Map` and whatever else has `entries`, lists of pairs, and Node's flat list of names
 * and values. A value may be a number, or a list of one.
 */
import { isList, itemsOf, keysOf, property } from "./Looking.ts"

/** Values longer than this tell nothing, in characters. */
const maxValue = 1_000

/** The same for the ids of requests, which evidence carries on. */
const maxId = 200

const maxName = 100
const maxHeaders = 200

type Fields = Record<string, string>

/** All headers by lower-cased name, the last source first in rank. */
export const from = (sources: ReadonlyArray<unknown>): Readonly<Fields> => {
  const headers: Fields = {}
  for (const source of sources) {
    if (typeof source === "object" && source !== null) addSource(source, headers)
  }
  return headers
}

const addSource = (source: object, headers: Fields): void => {
  if (isList(source)) addList(source, headers)
  else if (typeof property(source, "entries") === "function") addEntries(source, headers)
  else for (const name of keysOf(source, maxHeaders)) add(name, property(source, name), headers)
}

const addList = (list: ReadonlyArray<unknown>, headers: Fields): void => {
  const items = itemsOf(list, 2 * maxHeaders)
  if (items.some(isList)) {
    for (const pair of items) add(property(pair, "0"), property(pair, "1"), headers)
  } else {
    for (let i = 0; i < items.length; i += 2) add(items[i], items[i + 1], headers)
  }
}

const addEntries = (source: object, headers: Fields): void => {
  try {
    // Only asked where it is a function, and what it gives is checked like any other list of pairs.
    const entries = (source as { entries: () => Iterable<unknown> }).entries()
    let read = 0
    for (const pair of entries) {
      add(property(pair, "0"), property(pair, "1"), headers)
      if (++read === maxHeaders) return
    }
  } catch {
    // What was read before it threw stays.
  }
}

const add = (name: unknown, value: unknown, headers: Fields): void => {
  if (typeof name !== "string" || name.length > maxName) return
  const text = textOf(isList(value) && property(value, "length") === 1 ? property(value, "0") : value)
  if (text === undefined || text.length > maxValue) return
  const key = name.toLowerCase()
  if (text.length > maxId && /request-?id$/.test(key)) return
  headers[key] = text
}

const textOf = (value: unknown): string | undefined =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : undefined
