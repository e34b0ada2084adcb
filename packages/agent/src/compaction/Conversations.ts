/**
 * What is remembered of conversations between compactions: bounded, the one that was used longest ago goes first.
 */
import { Semaphore } from "effect"
import type { Prepared } from "./Fitting.ts"
import * as Thrash from "./Thrash.ts"

export interface Conversation {
  readonly key: string
  /** One compaction at a time. */
  readonly lock: Semaphore.Semaphore
  thrash: Thrash.Thrash
  /** It was said that the window is getting full. */
  warned: boolean
  prepared: Prepared | undefined
}

export class Conversations {
  readonly #max: number
  // A map goes through its entries in the order in which they came.
  readonly #all = new Map<string, Conversation>()

  constructor(max: number) {
    this.#max = max
  }

  of(key: string): Conversation {
    const conversation = this.#all.get(key) ?? make(key)
    this.#all.delete(key)
    this.#all.set(key, conversation)
    for (const oldest of this.#all.keys()) {
      if (this.#all.size <= this.#max) break
      this.#all.delete(oldest)
    }
    return conversation
  }
}

/** One that nobody remembers. */
export const make = (key: string): Conversation => ({
  key,
  lock: Semaphore.makeUnsafe(1),
  thrash: Thrash.initial,
  warned: false,
  prepared: undefined
})
