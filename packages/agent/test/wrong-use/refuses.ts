/**
 * A table of wrong uses. Each row has a title, a use in plain JavaScript or from a JSON file, and the expected
 * message.
 */
import { assert, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Stream } from "effect"

export type Row = readonly [title: string, use: () => unknown, message: string]

/** A JavaScript program may pass anything, because it has no types. */
export const untyped = (value: unknown): any => value

const runOf = (used: unknown): Effect.Effect<unknown, unknown> => {
  if (Layer.isLayer(used)) return untyped(Effect.scoped(Layer.build(untyped(used))))
  if (Stream.isStream(used)) return untyped(Stream.runDrain(untyped(used)))
  return Effect.isEffect(used) ? untyped(Effect.scoped(untyped(used))) : Effect.succeed(used)
}

/** The name and the message of the error that a use throws, dies with or fails with. */
const told = (use: () => unknown): Effect.Effect<string> =>
  Effect.map(
    Effect.exit(
      Effect.suspend(() => {
        const used = use()
        return runOf(used)
      })
    ),
    (exit) => (Exit.isSuccess(exit) ? "it was accepted" : String(Cause.squash(exit.cause)))
  )

/** Adds one test a row. The message must match word for word. */
export const refuses = (rows: ReadonlyArray<Row>): void => {
  for (const [title, use, message] of rows) {
    it.effect(title, () => Effect.map(told(use), (said) => assert.strictEqual(said, message)))
  }
}
