/**
 * Reads properties of untrusted values. A property that throws when it is read (a getter, a revoked proxy) counts
 * as absent; the properties next to it are still read.
 */

/** The property, or `undefined`. Some errors throw from their getters. */
export const property = (value: unknown, key: string): unknown => {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return undefined
  try {
    return (value as Record<string, unknown>)[key] // narrowed to a non-null object above
  } catch {
    return undefined
  }
}

/** Runs a test on a value. False if the test throws. */
export const holds = (test: (value: unknown) => boolean, value: unknown): boolean => {
  try {
    return test(value)
  } catch {
    return false
  }
}

/** `Array.isArray`, which throws for a revoked proxy. */
export const isList = (value: unknown): value is ReadonlyArray<unknown> => {
  try {
    return Array.isArray(value)
  } catch {
    return false
  }
}

export const isError = (value: unknown): value is Error => {
  try {
    return value instanceof Error
  } catch {
    return false
  }
}

/** The first `most` items of a list. */
export const itemsOf = (list: unknown, most: number): ReadonlyArray<unknown> => {
  if (!isList(list)) return []
  const length = property(list, "length")
  const count = typeof length === "number" ? Math.min(length, most) : 0
  return Array.from({ length: count }, (_, i) => property(list, String(i)))
}

/** The first `most` own keys. Empty for bytes. */
export const keysOf = (value: object, most: number): ReadonlyArray<string> => {
  try {
    if (ArrayBuffer.isView(value)) return []
    const keys = Object.keys(value)
    return keys.length > most ? keys.slice(0, most) : keys
  } catch {
    return []
  }
}
