/** 32-bit hashes of texts. Not cryptographic: collisions are easy to construct. Pure. */

/** Hash of an empty input. */
export const seed = 0x811c9dc5 | 0

/** Adds one number. The order matters. */
export const step = (hash: number, code: number): number => Math.imul(hash ^ code, 0x01000193)

/** Spreads the bits of a hash. */
export const mixed = (hash: number): number => {
  const x = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b)
  return x ^ (x >>> 15)
}

/** Hash of two hashes, in this order. */
export const both = (a: number, b: number): number => mixed(step(mixed(a), b))

/** Hash of an unchanged text. */
export const ofText = (text: string): number => {
  let hash = seed
  for (let i = 0; i < text.length; i++) hash = step(hash, text.charCodeAt(i))
  return mixed(hash)
}

/** The upper 24 bits, for hashes that are stored as JSON numbers. */
export const short = (hash: number): number => hash >>> 8
