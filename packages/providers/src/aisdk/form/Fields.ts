/** Helpers that the forms of all protocols share. Objects are changed in place: they were parsed for this. */
import type { ProviderModel } from "@outlast/agent"

type Repair = ProviderModel.Repair

/** Called for each change. */
export type Note = (repair: Repair) => void

export type Fields = Record<string, unknown>

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The objects of a list; of anything else, none. */
export const objects = (value: unknown): ReadonlyArray<Fields> =>
  Array.isArray(value) ? value.filter(isFields) : []

/** The text; of anything else, an empty one. */
export const textOf = (value: unknown): string => (typeof value === "string" ? value : "")

export const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Matches data with a count that {@link counts} would change. */
export const badCount =
  /(?:tokens|TokenCount)"\s*:(?!\s*(?:\d{1,15}\s*[,}]|null\s*[,}]))|"(?:usage|usageMetadata|\w+_details)"\s*:(?!\s*(?:\{|null))/

const isCount = /tokens$|TokenCount$/

/** The object under `name` with plain counts. `required` counts are 0 where there is none. */
export const counts = (
  parent: Fields,
  name: string,
  note: Note,
  required: ReadonlyArray<string> = []
): void => {
  const given = parent[name]
  if (!isFields(given)) {
    if (required.length === 0 && (given === undefined || given === null)) return
    note("usage")
    if (required.length === 0) delete parent[name]
    else parent[name] = {}
  }
  const usage = parent[name]
  if (!isFields(usage)) return
  cleaned(usage, note, 0)
  for (const field of required) {
    if (typeof usage[field] === "number") continue
    note("usage")
    usage[field] = 0
  }
}

const cleaned = (usage: Fields, note: Note, depth: number): void => {
  for (const [field, value] of Object.entries(usage)) {
    if (depth < 2 && isFields(value) && !isCount.test(field)) {
      cleaned(value, note, depth + 1)
      continue
    }
    if (field.endsWith("_details") && value !== null) {
      note("usage")
      delete usage[field]
      continue
    }
    if (!isCount.test(field) || value === null) continue
    const count = countOf(value)
    if (count === value) continue
    note("usage")
    if (count === undefined) delete usage[field]
    else usage[field] = count
  }
}

/** The number of tokens, if the value is one. */
const countOf = (value: unknown): number | undefined => {
  const number = typeof value === "string" && /^\d+(?:\.\d+)?$/.test(value) ? Number(value) : value
  return typeof number === "number" && number >= 0 && number <= Number.MAX_SAFE_INTEGER
    ? Math.trunc(number)
    : undefined
}

/** The arguments of a call as the text of JSON. `undefined`: they already are one, or their meaning is unclear. */
export const argumentsText = (value: unknown): string | undefined =>
  isFields(value) ? JSON.stringify(value) : value === null || value === undefined ? "{}" : undefined

/** The object that a text of arguments holds: in a text of JSON, or in a fence. `undefined`: it has none, or is one. */
export const objectInside = (text: string): string | undefined => {
  const trimmed = text.trim()
  if (trimmed === "null") return "{}"
  const fenced = /^```\w*\s([^]*?)\s*```$/.exec(trimmed)?.[1]
  const inner = fenced ?? (trimmed.startsWith('"') ? parsed(trimmed) : undefined)
  return typeof inner === "string" && isFields(parsed(inner)) ? inner : undefined
}

/** The arguments of a call as an object. `undefined`: they already are one, or their meaning is unclear. */
export const argumentsObject = (value: unknown): Fields | undefined => {
  if (value === null || value === undefined) return {}
  if (typeof value !== "string") return undefined
  const object = value.trim() === "" ? {} : parsed(value)
  return isFields(object) ? object : undefined
}
