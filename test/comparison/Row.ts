/**
 * A row of a comparison: the behaviour of Outlast's and of Effect's module in the same situation.
 *
 * A cell runs the situation, asserts the observation, and derives its text from it, so the text cannot be wrong.
 */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Scope } from "effect"

export interface Cell {
  readonly text: string
  readonly check: Effect.Effect<void, unknown, Scope.Scope>
}

export interface Row {
  readonly behaviour: string
  readonly ours: Cell
  readonly theirs: Cell
}

/** An observation, and the text for it. */
export const cell = <A>(
  expected: NoInfer<A>,
  seen: Effect.Effect<A, unknown, Scope.Scope>,
  text: (seen: NoInfer<A>) => string
): Cell => ({
  text: text(expected),
  check: Effect.map(seen, (actual) => assert.deepStrictEqual(actual, expected))
})
