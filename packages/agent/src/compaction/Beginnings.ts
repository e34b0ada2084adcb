/**
 * What each beginning of a conversation comes to by a meter, so that a new turn costs by its own size.
 *
 * A conversation is known again by its messages: the same objects in the same order, with new ones behind them. They
 * are compared, not counted again. What is remembered hangs on the last message of a conversation and goes with it; a
 * conversation that goes on two ways is counted anew on one of them.
 */
import { Hash } from "effect"
import type { Prompt, Tool } from "effect/ai"
import * as Content from "./Content.ts"
import type { Meter } from "./TokenCounter.ts"

/** A request, by a meter. */
export interface Request {
  readonly model: string | undefined
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly tools: ReadonlyArray<Tool.Any>
  readonly meter: Meter
}

/** Of the tools, and of them with the first message, the first two, and so on. */
export interface Sums {
  /** Tokens by the meter. */
  readonly counted: ReadonlyArray<number>
  /** Hashes of model, tools, kinds, counts and content: the same in each process, whoever made the objects. */
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

  /** Valid until it is asked for the next. */
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

  /** The longest beginning that is known: it is what goes on now. */
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

/** All that a turn costs of the history. */
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

/** Two results that were cut to one length have one count, whatever they consist of. */
const ofContent = (content: Content.Content, hash: number): number =>
  Content.kinds.reduce((sum, kind) => mixed(sum, Math.round(content[kind])), hash)

/** A hash of 32 bits. */
const mixed = (hash: number, value: number): number => {
  const next = Math.imul(hash ^ value, 0x9e3779b1)
  return next ^ (next >>> 15)
}
