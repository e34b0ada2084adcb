/**
 * Copies of messages, to see whether a program has changed them in place.
 *
 * Plain objects and lists are copied. Other objects, such as bytes and URLs, are the same only by identity.
 */

/** A copy, with the type of what it copies. */
export const copied = <A>(value: A): A => {
  if (Array.isArray(value)) return value.map(copied) as A
  if (!isPlain(value)) return value
  const copy: Record<string, unknown> = { ...value }
  for (const field of Object.keys(copy)) copy[field] = copied(copy[field])
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
