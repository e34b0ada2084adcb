import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { Alone } from "#tasks/worker/Alone"

const setting = () => {
  const drained = Deferred.makeUnsafe<void>()
  const said: Array<string> = []
  const state = { isBusy: false }
  const alone = new Alone({
    isBusy: () => state.isBusy,
    isDraining: () => Deferred.isDoneUnsafe(drained),
    draining: Deferred.await(drained)
  })
  /** A step of a task, which says when it begins. */
  const step = (task: object, name: string, seconds: number) =>
    alone
      .step(
        task,
        Effect.andThen(
          Effect.sync(() => said.push(name)),
          Effect.sleep(1_000 * seconds)
        )
      )
      .pipe(Effect.forkChild({ startImmediately: true }))
  return { alone, drained, said, state, step }
}

describe("Alone", () => {
  it.effect("holds up the steps of other tasks, and the second one of a suspect, until it is over", () =>
    Effect.gen(function* () {
      const { alone, said, step } = setting()
      const suspect = {}
      yield* Effect.scoped(
        Effect.gen(function* () {
          assert.isTrue(yield* alone.enter(suspect))
          yield* step({}, "other", 1)
          yield* step(suspect, "first", 1)
          yield* step(suspect, "second", 1)
          assert.deepStrictEqual(said, ["first"])
          yield* TestClock.adjust("1 hour")
          assert.deepStrictEqual(said, ["first"])
        })
      )
      yield* TestClock.adjust("1 millis")
      assert.sameMembers(said, ["first", "other", "second"])
    })
  )

  it.effect("waits for the steps and the handlers under way, and for a suspect before", () =>
    Effect.gen(function* () {
      const { alone, state, step } = setting()
      yield* step({}, "other", 3)
      state.isBusy = true
      const entered: Array<string> = []
      const enter = (name: string) =>
        alone.enter({}).pipe(
          Effect.tap(() => Effect.sync(() => entered.push(name))),
          Effect.andThen(Effect.sleep("2 seconds")),
          Effect.scoped,
          Effect.forkChild({ startImmediately: true })
        )
      yield* enter("a")
      yield* enter("b")
      yield* TestClock.adjust("4 seconds")
      assert.deepStrictEqual(entered, [])
      state.isBusy = false
      yield* TestClock.adjust("100 millis")
      assert.deepStrictEqual(entered, ["a"])
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(entered, ["a", "b"])
    })
  )

  it.effect("opens between two waits for a long step, and gives up after a minute", () =>
    Effect.gen(function* () {
      const { alone, said, step } = setting()
      yield* step({}, "long", 3_600)
      const entering = yield* Effect.forkChild(Effect.scoped(alone.enter({})), { startImmediately: true })
      yield* step({}, "next", 1)
      yield* TestClock.adjust("4 seconds")
      assert.deepStrictEqual(said, ["long"])
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(said, ["long", "next"])
      yield* TestClock.adjust("63 seconds")
      assert.isUndefined(entering.pollUnsafe())
      yield* TestClock.adjust("2 seconds")
      assert.isFalse(yield* Fiber.join(entering))
    })
  )

  it.effect("holds nothing up when the worker stops, or when a suspect is cancelled while it waits", () =>
    Effect.gen(function* () {
      const { alone, drained, said, step } = setting()
      yield* step({}, "long", 3_600)
      const entering = yield* Effect.forkChild(Effect.scoped(alone.enter({})), { startImmediately: true })
      yield* step({}, "after the cancel", 1)
      yield* Fiber.interrupt(entering)
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(said, ["long", "after the cancel"])
      yield* Effect.forkChild(Effect.scoped(alone.enter({})), { startImmediately: true })
      yield* step({}, "after the stop", 1)
      assert.lengthOf(said, 2)
      Deferred.doneUnsafe(drained, Effect.void)
      yield* TestClock.adjust("1 millis")
      assert.lengthOf(said, 3)
    })
  )
})
