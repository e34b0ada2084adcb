/**
 * Numbers of 32 bits for texts and words: each is compared with some hundreds or thousands of others. No cryptographic
 * ones: who wants two texts to have the same can find some. Pure.
 */

// Not exported: a constant of another module is looked up each time it is used, a function is not.
const seed = 0x811c9dc5 | 0
const prime = 0x01000193
const otherPrime = 0x5bd1e995

/** Of nothing. */
export const begin = (): number => seed

/** With one more number. */
export const step = (hash: number, code: number): number => Math.imul(hash ^ code, prime)

/** In another way, so that what is the same in one is not in the other. */
export const otherStep = (hash: number, code: number): number => Math.imul(hash ^ code, otherPrime)

export const mixed = (x: number): number => {
  const y = Math.imul(x ^ (x >>> 16), 0x45d9f3b)
  return y ^ (y >>> 15)
}

/** So that the order counts. */
export const turned = (x: number): number => (x << 7) | (x >>> 25)

/** Of one text, as it is but for white space. */
export const ofText = (text: string): number => {
  let a = seed
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i) | 0
    if (c > 32) a = step(a, c)
  }
  return mixed(a)
}

/** Of one text, to the blank. */
export const exactly = (text: string): number => {
  let a = seed
  for (let i = 0; i < text.length; i++) a = step(a, text.charCodeAt(i) | 0)
  return mixed(a)
}

/** A word as one that was an argument of a tool. */
export const argument = (tool: number, word: number): number => mixed(mixed(word) ^ tool)

/** Of two numbers, in this order. */
export const both = (a: number, b: number): number => mixed(step(mixed(a), b))
