/**
 * Decides which parts of a conversation may be cut, and why the others stay. Pure.
 *
 * System messages, pinned messages, the first user message (the goal) and the tail always stay. Everything else is
 * `free`.
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
  /** Maximum tokens of a tail that is given in tokens. */
  readonly maxTail: number
  /** Selects pinned messages, in addition to the marked ones. */
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

/** Index of the first unit of the tail. The tail starts with a whole unit. */
const tailOf = (units: ReadonlyArray<Unit>, { tail, maxTail, meter }: Options): number => {
  let left = "messages" in tail ? tail.messages : Math.min(tail.tokens, maxTail)
  let i = units.length
  while (i > 0 && left > 0) {
    const { messages } = units[i - 1] ?? { messages: [] }
    const size = "messages" in tail ? messages.length : tokensOf(messages, meter)
    // A tail of messages may exceed its number by a few; a tail of tokens may not. The last unit is always protected.
    if ("tokens" in tail && size > left && i < units.length) break
    left -= size
    i--
  }
  return i
}

/** Splits the messages into those that may be removed and those that stay. */
export const split = (
  places: ReadonlyArray<Place>
): readonly [free: ReadonlyArray<Prompt.Message>, kept: ReadonlyArray<Prompt.Message>] => [
  places.flatMap(({ kind, messages }) => (kind === "free" ? messages : [])),
  places.flatMap(({ kind, messages }) => (kind === "free" ? [] : messages))
]

export const tokensOf = (messages: ReadonlyArray<Prompt.Message>, meter: Meter): number =>
  messages.reduce((sum, message) => sum + meter.message(message), 0)
