/**
 * Copies of messages, to see whether a program has changed them in place.
 *
 * Plain objects and lists are copied. Other objects, such as bytes and URLs, are the same only by identity.
 */

/** A copy, with the type of what it copies. A value inside of itself is not copied. */
export const copied = <A>(value: A): A => copiedIn(value, [])

const copiedIn = <A>(value: A, around: ReadonlyArray<unknown>): A => {
  const isList = Array.isArray(value)
  if ((!isList && !isPlain(value)) || around.includes(value)) return value
  const inside = [...around, value]
  if (isList) return value.map((inner) => copiedIn(inner, inside)) as A
  const copy: Record<string, unknown> = { ...value }
  for (const field of Object.keys(copy)) copy[field] = copiedIn(copy[field], inside)
  return copy as A
}

/** True for equal values whose fields have the same order: the order is sent, too. */
export const isSame = (a: unknown, b: unknown): boolean => {
  if (a === b) return true
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((inner, i) => isSame(inner, b[i]))
  }
  if (!isPlain(a) || !isPlain(b)) return false
  const fields = Object.keys(a)
  const others = Object.keys(b)
  if (fields.length !== others.length) return false
  return fields.every((field, i) => field === others[i] && isSame(a[field], b[field]))
}

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype
