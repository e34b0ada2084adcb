/**
 * A value of JSON as a few numbers and facts, without what says nothing: equal numbers, equal meaning.
 *
 * A result is read against what the run has met so far, and against the words of the arguments: what counts is how much
 * of it is new. Pure, but for what it keeps to be fast.
 *
 * **What it does not do.** It is no cryptographic hash: who wants to deceive it can.
 *
 * **Example**
 *
 * ```ts
 * const { hash } = Fingerprint.ofArguments({ a: 1, request_id: "x1" })
 * hash === Fingerprint.ofArguments({ request_id: "y2", a: 1 }).hash // true
 * ```
 */
import * as ArgumentScan from "./ArgumentScan.ts"
import * as ResultScan from "./ResultScan.ts"

export type { OfArguments } from "./ArgumentScan.ts"
export type { OfResult } from "./ResultScan.ts"
export { argument, both, exactly, ofText } from "./Hash.ts"

/** Of a call's arguments. */
export const ofArguments = ArgumentScan.read

/** What a result brings: lent until it is given back, and then no longer to be used. Who never does so may keep it. */
export const ofResult = ResultScan.read
export const giveBack = ResultScan.back
