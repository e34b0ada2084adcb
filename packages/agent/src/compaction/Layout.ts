/**
 * What of a conversation may be cut, and what may not, and why. Pure.
 *
 * Kept by construction: system messages, pinned messages, the first message of the user (the goal), and the end. All
 * else is `free`.
 */
import type { Prompt } from "effect/ai"
import type { Tail } from "./CompactionPolicy.ts"
import * as Marks from "./Marks.ts"
import type { Meter } from "./TokenCounter.ts"
import type { Unit } from "./Units.ts"

/** Why a unit stays. */
export type Kept = "system" | "pinned" | "goal" | "tail"

export interface Place extends Unit {
  readonly kind: Kept | "free"
}

export interface Options {
  readonly tail: Tail
  /** Tokens that a tail of tokens may have at most. */
  readonly maxTail: number
  /** Pinned beside those that are marked. */
  readonly pinned: ((message: Prompt.Message) => boolean) | undefined
  readonly meter: Meter
}

export const of = (units: ReadonlyArray<Unit>, options: Options): ReadonlyArray<Place> => {
  const tail = tailOf(units, options)
  const goal = units.findIndex(
    ({ messages: [first] }) => first?.role === "user" && Marks.summaryOf(first) === undefined
  )
  const isPinned = (message: Prompt.Message) => Marks.isPinned(message) || options.pinned?.(message) === true
  return units.map((unit, i): Place => {
    if (unit.messages[0]?.role === "system") return { ...unit, kind: "system" }
    if (unit.messages.some(isPinned)) return { ...unit, kind: "pinned" }
    if (i >= tail) return { ...unit, kind: "tail" }
    return { ...unit, kind: i === goal ? "goal" : "free" }
  })
}

/** The first unit of the tail: it begins with a whole unit. */
const tailOf = (units: ReadonlyArray<Unit>, { tail, maxTail, meter }: Options): number => {
  let left = "messages" in tail ? tail.messages : Math.min(tail.tokens, maxTail)
  let i = units.length
  while (i > 0 && left > 0) {
    const { messages } = units[i - 1] ?? { messages: [] }
    const size = "messages" in tail ? messages.length : tokensOf(messages, meter)
    // One message too many is protected, one token too many is not; but something of the end always is.
    if ("tokens" in tail && size > left && i < units.length) break
    left -= size
    i--
  }
  return i
}

/** The messages that may go, and those that stay. */
export const split = (
  places: ReadonlyArray<Place>
): readonly [free: ReadonlyArray<Prompt.Message>, kept: ReadonlyArray<Prompt.Message>] => [
  places.flatMap(({ kind, messages }) => (kind === "free" ? messages : [])),
  places.flatMap(({ kind, messages }) => (kind === "free" ? [] : messages))
]

export const tokensOf = (messages: ReadonlyArray<Prompt.Message>, meter: Meter): number =>
  messages.reduce((sum, message) => sum + meter.message(message), 0)
