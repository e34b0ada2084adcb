/**
 * Reads fields of events whose type is not known here.
 *
 * The stream is open: an event of another package may have a field of the same name with another type. Both functions
 * then return `undefined`.
 */
const field = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined

export const textOf = (value: unknown, ...path: ReadonlyArray<string>): string | undefined => {
  const found = path.reduce(field, value)
  return typeof found === "string" && found !== "" ? found : undefined
}

export const numberOf = (value: unknown, name: string): number | undefined => {
  const found = field(value, name)
  return typeof found === "number" && Number.isFinite(found) ? found : undefined
}

/** The value of a label, and the key of an alert, beyond the most that are kept apart. */
export const other = "other"
