import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { ResilienceEvents, StoreError } from "@outlast/resilience"
import * as StoreOutage from "#tasks/store/StoreOutage"

const failing = (reason: StoreError.Reason) => new StoreError.StoreError({ reason, store: "tasks" })

/** An operation that fails until `works` is set, and its tries. */
const operation = (reason: StoreError.Reason = "full") => {
  const own = { works: false, tries: 0 }
  const effect = Effect.suspend(() => {
    own.tries++
    return own.works ? Effect.succeed("stored") : Effect.fail(failing(reason))
  })
  return { own, effect }
}

const test = <A, E>(
  body: (outage: StoreOutage.Service, events: Array<string>) => Effect.Effect<A, E>
): Effect.Effect<void, E> => {
  const events: Array<string> = []
  return Effect.asVoid(
    Effect.gen(function* () {
      return yield* body(yield* StoreOutage.StoreOutage, events)
    }).pipe(
      Effect.provide(
        Layer.merge(
          StoreOutage.layer,
          ResilienceEvents.layerTap(
            Effect.succeed((event: { readonly _tag: string }) =>
              Effect.sync(() => void events.push(event._tag))
            )
          )
        )
      )
    )
  )
}

describe("a store that is away", () => {
  it.effect("is asked again until it takes the operation, at most every two seconds", () =>
    test((outage) =>
      Effect.gen(function* () {
        const { own, effect } = operation()
        const fiber = yield* Effect.forkChild(StoreOutage.kept(outage, effect))
        yield* TestClock.adjust("1 hour")
        assert.isAtLeast(own.tries, 1_800)
        assert.isAtMost(own.tries, 3_610)
        assert.strictEqual(outage.current()?.error.reason, "full")
        own.works = true
        yield* TestClock.adjust("2 seconds")
        assert.strictEqual(yield* Fiber.join(fiber), "stored")
        assert.isUndefined(outage.current())
      })
    )
  )

  it.effect("is one outage, however many operations wait, and the first success lets all try", () =>
    test((outage, events) =>
      Effect.gen(function* () {
        const all = [operation(), operation(), operation()]
        const fibers = yield* Effect.forEach(all, ({ effect }) =>
          Effect.forkChild(StoreOutage.kept(outage, effect))
        )
        yield* TestClock.adjust("10 minutes")
        for (const { own } of all) own.works = true
        assert.strictEqual(yield* StoreOutage.kept(outage, Effect.succeed("another")), "another")
        assert.deepStrictEqual(
          yield* Effect.forEach(fibers, Fiber.join),
          all.map(() => "stored")
        )
        assert.deepStrictEqual(events, ["TaskStoreLost", "TaskStoreBack"])
      })
    )
  )

  it.effect("does not ask for one operation at each success of others", () =>
    test((outage, events) =>
      Effect.gen(function* () {
        const { own, effect } = operation()
        const fiber = yield* Effect.forkChild(StoreOutage.kept(outage, effect))
        yield* TestClock.adjust("1 minute")
        const before = own.tries
        for (let n = 0; n < 100; n++) {
          yield* StoreOutage.kept(outage, Effect.void)
          yield* TestClock.adjust("1 millis")
        }
        assert.isAtMost(own.tries - before, 2)
        assert.deepStrictEqual(events, ["TaskStoreLost"])
        yield* Fiber.interrupt(fiber)
        // Nothing waits any more.
        assert.deepStrictEqual(events, ["TaskStoreLost", "TaskStoreBack"])
      })
    )
  )

  it.effect("lets a worker stop: what waits, and what fails from then on, is interrupted", () =>
    test((outage) =>
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(StoreOutage.kept(outage, operation().effect))
        yield* TestClock.adjust("1 minute")
        yield* outage.stop
        assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
        const later = yield* Effect.forkChild(StoreOutage.kept(outage, operation().effect))
        assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(later)))
      })
    )
  )

  it.effect("repeats nothing that is no error of the store", () =>
    test((outage, events) =>
      Effect.gen(function* () {
        assert.strictEqual(yield* Effect.flip(StoreOutage.kept(outage, Effect.fail("no row"))), "no row")
        assert.deepStrictEqual(events, [])
      })
    )
  )
})
