/**
 * Copies of messages, to see whether a program has changed them in place.
 *
 * Plain objects and lists are copied. Other objects, such as bytes and URLs, are the same only by identity.
 */

/** A copy, with the type of what it copies. A value inside of itself is not copied. */
export const copied = <A>(value: A): A => copiedIn(value, []) as A

/** `around` are the objects that contain the value. */
const copiedIn = (value: unknown, around: Array<object>): unknown => {
  if (typeof value !== "object" || value === null || around.includes(value)) return value
  if (!Array.isArray(value) && !isPlain(value)) return value
  around.push(value)
  const copy = Array.isArray(value)
    ? value.map((inner) => copiedIn(inner, around))
    : copyOf(value as Readonly<Record<string, unknown>>, around)
  around.pop()
  return copy
}

const copyOf = (value: Readonly<Record<string, unknown>>, around: Array<object>): object => {
  const copy: Record<string, unknown> = { ...value }
  for (const field of Object.keys(copy)) copy[field] = copiedIn(copy[field], around)
  return copy
}

/** True for equal values whose fields have the same order: the order is sent, too. */
export const isSame = (a: unknown, b: unknown): boolean => {
  if (a === b) return true
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false
  if (Array.isArray(a)) {
    if (!Array.isArray(b) || a.length !== b.length) return false
    for (let i = 0; i < a.length; i++) if (!isSame(a[i], b[i])) return false
    return true
  }
  if (!isPlain(a) || !isPlain(b)) return false
  const fields = Object.keys(a)
  const others = Object.keys(b)
  if (fields.length !== others.length) return false
  for (let i = 0; i < fields.length; i++) {
    const field = fields[i] ?? ""
    if (field !== others[i] || !isSame(a[field], b[field])) return false
  }
  return true
}

const isPlain = (value: object): value is Record<string, unknown> => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
