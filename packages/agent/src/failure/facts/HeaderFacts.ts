/**
 * Reads headers from any container that a client uses into one record.
 *
 * Supported are records, `Headers`, `Map` and anything else with `entries`, lists of pairs, and Node's flat list of
 * names and values. A value may be a number, or a list of one.
 */
import { isList, itemsOf, keysOf, property } from "./Looking.ts"

/** Longest header value, in characters. Longer ones are ignored. */
const maxValue = 1_000

/** Longest request id, in characters. Evidence carries these ids. */
const maxId = 200

const maxName = 100
const maxHeaders = 200

type Fields = Record<string, string>

/** All headers by lower-cased name. A later source wins. */
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
    // The caller checked that `entries` is a function. Each pair is checked like those of any other list.
    const entries = (source as { entries: () => Iterable<unknown> }).entries()
    let read = 0
    for (const pair of entries) {
      add(property(pair, "0"), property(pair, "1"), headers)
      if (++read === maxHeaders) return
    }
  } catch {
    // Pairs that were read before the iterator threw are kept.
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
