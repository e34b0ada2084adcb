/**
 * Reads parsed JSON of unknown shape. Each function returns the empty value for anything else.
 */
export type Fields = Readonly<Record<string, unknown>>

const none: Fields = {}

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The object; an empty one for any other value. */
export const fields = (value: unknown): Fields => (isFields(value) ? value : none)

/** The array; an empty one for any other value. */
export const list = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** The text; an empty one for any other value. */
export const text = (value: unknown): string => (typeof value === "string" ? value : "")

/** The number; `undefined` for any other value. */
export const number = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined)

/** The whole number above 0; `undefined` for any other value. */
export const count = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : undefined

/** The value of a JSON text; `undefined` where it is none. */
export const parse = (json: string): unknown => {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

/** All texts inside of a value. */
export const textsIn = (value: unknown): ReadonlyArray<string> => {
  if (typeof value === "string") return [value]
  if (typeof value !== "object" || value === null) return []
  return Object.values(value).flatMap(textsIn)
}
