/**
 * The text that the consumer has seen of one call.
 *
 * A string that grows by its deltas holds every one of them: 32 bytes for each part of a stream. Here they are joined
 * in groups, so that a long answer holds little more than its characters. Where no attempt may continue the text, only
 * its length is kept.
 */

import { joinedDeltas } from "../decide/Bounds.ts"

export class ShownText {
  readonly #isKept: boolean
  #length = 0
  #isBlank = true
  /** Joined groups of deltas. */
  #joined: Array<string> = []
  #deltas: Array<string> = []

  constructor(isKept: boolean) {
    this.#isKept = isKept
  }

  /** Number of characters. */
  get length(): number {
    return this.#length
  }

  /** True for white space, and for nothing. */
  get isBlank(): boolean {
    return this.#isBlank
  }

  /** The text; empty where it is not kept. */
  get all(): string {
    return this.#joined.join("") + this.#deltas.join("")
  }

  add(delta: string): void {
    this.#length += delta.length
    this.#isBlank &&= delta.trim() === ""
    if (!this.#isKept || this.#deltas.push(delta) < joinedDeltas) return
    this.#joined.push(this.#deltas.join(""))
    this.#deltas = []
  }

  clear(): void {
    this.#length = 0
    this.#isBlank = true
    this.#joined = []
    this.#deltas = []
  }
}
