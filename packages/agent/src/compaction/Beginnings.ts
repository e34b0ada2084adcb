/**
 * Token counts and hashes for every prefix of a conversation. A new turn costs only its own size.
 *
 * A conversation is recognised by its messages: the same objects in the same order, followed by new ones. Known
 * messages are compared, not counted again. The cache entry is held by the last message of a conversation (a
 * `WeakMap`) and is freed with it. When a conversation forks, one branch is counted again.
 */
import { Hash } from "effect"
import type { Prompt, Tool } from "effect/ai"
import * as Content from "./Content.ts"
import type { Meter } from "./TokenCounter.ts"

/** The request to measure, and the meter that counts it. */
export interface Request {
  readonly model: string | undefined
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly tools: ReadonlyArray<Tool.Any>
  readonly meter: Meter
}

/** Running sums. Index 0 covers the tools alone, index `n` the tools and the first `n` messages. */
export interface Sums {
  /** Token counts by the meter. */
  readonly counted: ReadonlyArray<number>
  /**
   * Hashes of model, tools, message kinds, counts and content. Equal in every process, independent of object
   * identity.
   */
  readonly keys: ReadonlyArray<number>
}

interface Known {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly meter: Meter
  readonly counted: Array<number>
  readonly keys: Array<number>
}

export class Beginnings {
  readonly #known = new WeakMap<Prompt.Message, Known>()

  /** Returns the sums of a request. The arrays are reused: read them before the next call of `of`. */
  of({ model, messages, tools, meter }: Request): Sums {
    const schemas = meter.tools(tools)
    const key = mixed(Hash.string(model ?? ""), schemas)
    const known = this.#take(messages, meter, key)
    const { counted, keys } = known ?? { counted: [schemas], keys: [key] }
    for (let i = counted.length - 1; i < messages.length; i++) {
      const message = messages[i]
      if (message === undefined) break
      const tokens = meter.message(message)
      counted.push((counted[i] ?? 0) + tokens)
      const key = mixed(mixed(keys[i] ?? 0, numberOf[message.role]), tokens)
      keys.push(ofContent(Content.of(message), key))
    }
    const last = messages.at(-1)
    if (last !== undefined) this.#known.set(last, { messages, meter, counted, keys })
    return { counted, keys }
  }

  /** Takes the longest known prefix out of the cache. The caller extends it and stores it again. */
  #take(messages: ReadonlyArray<Prompt.Message>, meter: Meter, key: number): Known | undefined {
    for (let i = messages.length - 1; i >= 0; i--) {
      const last = messages[i]
      const known = last === undefined ? undefined : this.#known.get(last)
      if (last === undefined || known === undefined || known.meter !== meter || known.keys[0] !== key)
        continue
      if (known.messages.length !== i + 1 || !isBeginning(known.messages, messages)) continue
      this.#known.delete(last)
      return known
    }
    return undefined
  }
}

/** Identity comparison of each message: the only cost that grows with the history. */
const isBeginning = (begin: ReadonlyArray<Prompt.Message>, whole: ReadonlyArray<Prompt.Message>): boolean => {
  if (begin === whole) return true
  for (let i = 0; i < begin.length; i++) if (begin[i] !== whole[i]) return false
  return true
}

const numberOf: Readonly<Record<Prompt.Message["role"], number>> = {
  system: 1,
  user: 2,
  assistant: 3,
  tool: 4
}

/** Hashes the content, too: two different results that were cut to the same length have the same token count. */
const ofContent = (content: Content.Content, hash: number): number =>
  Content.kinds.reduce((sum, kind) => mixed(sum, Math.round(content[kind])), hash)

/** Mixes a value into a 32-bit hash. */
const mixed = (hash: number, value: number): number => {
  const next = Math.imul(hash ^ value, 0x9e3779b1)
  return next ^ (next >>> 15)
}
