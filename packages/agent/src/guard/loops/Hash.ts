/** Hashes of 32 bits for texts. They tell values apart and hide nothing: a collision is easy to construct. Pure. */

/** Hash of nothing. */
export const seed = 0x811c9dc5 | 0

/** Adds one number; the order counts. */
export const step = (hash: number, code: number): number => Math.imul(hash ^ code, 0x01000193)

/** Spreads the bits of a hash. */
export const mixed = (hash: number): number => {
  const x = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b)
  return x ^ (x >>> 15)
}

/** Hash of two hashes, in this order. */
export const both = (a: number, b: number): number => mixed(step(mixed(a), b))

/** Hash of a text as it is. */
export const ofText = (text: string): number => {
  let hash = seed
  for (let i = 0; i < text.length; i++) hash = step(hash, text.charCodeAt(i))
  return mixed(hash)
}

/** The first 24 bits, for hashes that are stored in numbers. */
export const short = (hash: number): number => hash >>> 8
