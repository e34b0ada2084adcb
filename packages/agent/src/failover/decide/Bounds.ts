/**
 * Bounds of what a call keeps in memory, and its rough measures. None of them decides about an attempt: those numbers
 * stand in the policy (`RecoveryPolicy`). `scripts/numbers.ts` holds that no other file of `call` and `decide` has a
 * number of its own.
 */

/** Arrays of parts of an attempt that are read before the consumer asks. */
export const readAhead = 64

/** Deltas of a text that are joined to one string. */
export const joinedDeltas = 1_024

/** Levels of JSON that are looked at. Deeper values are left to the schema. */
export const jsonDepth = 8

/** Characters of a token, where nothing better is known: English prose has about four. */
export const charactersPerToken = 4

/** Messages that the key of a conversation reads. */
export const keyMessages = 8

/** Texts of a message that it reads. */
export const keyTexts = 8

/** Characters of each end of a text that it reads. */
export const keyCharacters = 1_024

/** Changes of the cooldowns that nobody has read, and that are kept together. */
export const unreadChanges = 16
