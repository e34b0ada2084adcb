/**
 * Numbers for texts and words. No cryptographic ones: who wants two texts to have the same can find some. Pure.
 */

// Not exported: a constant of another module is looked up each time it is used, a function is not.
const seed = 0x811c9dc5 | 0
const prime = 0x01000193
const otherPrime = 0x5bd1e995

/** Of nothing. */
export const begin = (): number => seed

/** With one more number: two ways, so that what is the same in one is not in the other. */
export const step = (hash: number, code: number): number => Math.imul(hash ^ code, prime)
export const otherStep = (hash: number, code: number): number => Math.imul(hash ^ code, otherPrime)

export const mixed = (x: number): number => {
  const y = Math.imul(x ^ (x >>> 16), 0x45d9f3b)
  return y ^ (y >>> 15)
}

/** So that the order counts. */
export const turned = (x: number): number => (x << 7) | (x >>> 25)

/** 52 bits: a whole number without loss. */
export const joined = (a: number, b: number): number => (a >>> 0) + (b & 0xfffff) * 0x1_0000_0000

/** Of one text, as it is but for white space: 32 bits. */
export const ofText = (text: string): number => {
  let a = seed
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i) | 0
    if (c > 32) a = step(a, c)
  }
  return mixed(a)
}

/** Of one text, to the blank: 32 bits. */
export const exactly = (text: string): number => {
  let a = seed
  for (let i = 0; i < text.length; i++) a = step(a, text.charCodeAt(i) | 0)
  return mixed(a)
}

/** A word as one that was an argument of a tool. */
export const argument = (tool: number, word: number): number => mixed(mixed(word) ^ tool)

/** Of two numbers, in this order: 32 bits, for what is compared with a few others. */
export const both = (a: number, b: number): number => mixed(step(mixed(a | 0), b | 0))

/** Of two numbers, in this order. */
export const pair = (a: number, b: number): number => {
  const low = Math.imul(mixed(a | 0) ^ (b | 0), prime)
  const high = Math.imul(mixed((a / 0x1_0000_0000) | 0) ^ ((b / 0x1_0000_0000) | 0), otherPrime)
  return joined(low, mixed(high ^ low))
}
