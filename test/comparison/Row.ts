/**
 * A row of a comparison: what ours and Effect's own do in the same situation.
 *
 * A cell runs the situation, expects what it sees, and makes its text of that: it cannot say anything else.
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

/** What is seen is this, and so much is to be said about it. */
export const cell = <A>(
  expected: NoInfer<A>,
  seen: Effect.Effect<A, unknown, Scope.Scope>,
  text: (seen: NoInfer<A>) => string
): Cell => ({
  text: text(expected),
  check: Effect.map(seen, (actual) => assert.deepStrictEqual(actual, expected))
})
