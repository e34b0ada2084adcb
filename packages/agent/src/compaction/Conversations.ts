/**
 * Memory of conversations between compactions. Bounded: the least recently used conversation is evicted first.
 */
import { Semaphore } from "effect"
import type { Prepared } from "./Fitting.ts"
import * as Thrash from "./Thrash.ts"

export interface Conversation {
  readonly key: string
  /** Allows one compaction at a time. */
  readonly lock: Semaphore.Semaphore
  thrash: Thrash.Thrash
  /** True when the event `ContextFilling` was published. */
  warned: boolean
  prepared: Prepared | undefined
}

export class Conversations {
  readonly #max: number
  // A map iterates in insertion order, so the first entry is the oldest.
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

/** Creates the state of a new conversation, without remembering it. */
export const make = (key: string): Conversation => ({
  key,
  lock: Semaphore.makeUnsafe(1),
  thrash: Thrash.initial,
  warned: false,
  prepared: undefined
})
