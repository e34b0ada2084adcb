import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { ResilienceEvents } from "@outlast/resilience"

interface Numbered extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "Numbered"
  readonly n: number
}

const numbered = (n: number): Numbered => ({ _tag: "Numbered", at: 0, n })
const numberOf = (event: ResilienceEvents.ResilienceEvent) => ("n" in event ? event.n : undefined)

describe("ResilienceEvents", () => {
  it.effect("discards events without a layer", () =>
    Effect.gen(function* () {
      yield* ResilienceEvents.publish(numbered(1))
      assert.deepStrictEqual(yield* Stream.runCollect(ResilienceEvents.stream), [])
    })
  )

  it.effect("accepts unknown events, and delivers them to every reader in order", () =>
    Effect.gen(function* () {
      const read = Effect.forkChild(Stream.runCollect(Stream.take(ResilienceEvents.stream, 3)), {
        startImmediately: true
      })
      const readers = [yield* read, yield* read]
      for (const n of [1, 2, 3]) yield* ResilienceEvents.publish(numbered(n))
      for (const reader of readers) {
        assert.deepStrictEqual((yield* Fiber.join(reader)).map(numberOf), [1, 2, 3])
      }
    }).pipe(Effect.provide(ResilienceEvents.layer()))
  )

  it.effect("a slow reader loses the oldest events and blocks neither callers nor other readers", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const seen: Array<unknown> = []
      const slow = yield* ResilienceEvents.stream.pipe(
        Stream.tap((event) =>
          Effect.andThen(
            Deferred.await(gate),
            Effect.sync(() => seen.push(numberOf(event)))
          )
        ),
        Stream.take(4),
        Stream.runDrain,
        Effect.forkChild({ startImmediately: true })
      )
      const quick: Array<unknown> = []
      yield* ResilienceEvents.stream.pipe(
        Stream.runForEach((event) => Effect.sync(() => quick.push(numberOf(event)))),
        Effect.forkChild({ startImmediately: true })
      )
      // The gate stays closed. If publishing waited for the slow reader, this would never end.
      for (let n = 1; n <= 10; n++) {
        yield* ResilienceEvents.publish(numbered(n))
        yield* Effect.yieldNow
      }
      assert.deepStrictEqual(quick, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(slow)
      assert.deepStrictEqual(seen, [1, 8, 9, 10])
    }).pipe(Effect.provide(ResilienceEvents.layer({ capacity: 3 })))
  )

  it.effect("a caller that outlives the layer continues, and readers end", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(ResilienceEvents.layer(), scope)
      const events = Context.get(context, ResilienceEvents.ResilienceEvents)
      const reader = yield* Effect.forkChild(Stream.runCollect(events.stream), { startImmediately: true })
      yield* events.publish(numbered(1))
      yield* Effect.yieldNow
      yield* Scope.close(scope, Exit.void)
      yield* events.publish(numbered(2))
      assert.deepStrictEqual((yield* Fiber.join(reader)).map(numberOf), [1])
    })
  )

  const broken: Record<string, ResilienceEvents.Handler> = {
    dies: () => Effect.die(new Error("boom")),
    throws: () => {
      throw new Error("boom")
    },
    "interrupts itself": () => Effect.interrupt,
    // A handler that breaks its type, as in a JavaScript program.
    fails: () => Effect.suspend(() => Effect.fail("boom") as unknown as Effect.Effect<void>)
  }
  for (const [name, handler] of Object.entries(broken)) {
    it.effect(
      `a handler that ${name} does not change the result of the caller, nor stop the next handler`,
      () => {
        const seen: Array<unknown> = []
        const layer = ResilienceEvents.layerTap(
          Effect.succeed((event) => Effect.sync(() => void seen.push(numberOf(event))))
        ).pipe(Layer.provideMerge(ResilienceEvents.layerHandler(handler)))
        return Effect.gen(function* () {
          const exit = yield* Effect.exit(
            Effect.as(ResilienceEvents.publish(numbered(1)), "the caller's value")
          )
          assert.deepStrictEqual(exit, Exit.succeed("the caller's value"))
          assert.deepStrictEqual(seen, [1])
        }).pipe(Effect.provide(layer))
      }
    )
  }

  it.effect("an interrupted caller stays interrupted while its handler waits", () => {
    let after = false
    return Effect.gen(function* () {
      const fiber = yield* ResilienceEvents.publish(numbered(1)).pipe(
        Effect.andThen(Effect.sync(() => (after = true))),
        Effect.forkChild({ startImmediately: true })
      )
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.isFailure(exit))
      assert.isFalse(after)
    }).pipe(Effect.provide(ResilienceEvents.layerHandler(() => Effect.never)))
  })

  it.effect("a handler and a stream reader both see the event", () => {
    const handled: Array<unknown> = []
    const layer = ResilienceEvents.layerHandler((event) =>
      Effect.sync(() => void handled.push(numberOf(event)))
    )
    return Effect.gen(function* () {
      const reader = yield* Effect.forkChild(Stream.runCollect(Stream.take(ResilienceEvents.stream, 1)), {
        startImmediately: true
      })
      yield* ResilienceEvents.publish(numbered(7))
      assert.deepStrictEqual((yield* Fiber.join(reader)).map(numberOf), [7])
      assert.deepStrictEqual(handled, [7])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a tap ends with its scope", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const tap = ResilienceEvents.tap((event) => Effect.sync(() => void seen.push(numberOf(event))))
      yield* Effect.scoped(Effect.andThen(tap, ResilienceEvents.publish(numbered(1))))
      yield* ResilienceEvents.publish(numbered(2))
      assert.deepStrictEqual(seen, [1])
    }).pipe(Effect.provide(ResilienceEvents.layer()))
  )

  it.effect("layerTap without a surrounding layer creates its own stream", () => {
    const seen: Array<unknown> = []
    const layer = ResilienceEvents.layerTap(
      Effect.succeed((event) => Effect.sync(() => void seen.push(numberOf(event))))
    )
    return ResilienceEvents.publish(numbered(3)).pipe(
      Effect.provide(layer),
      Effect.tap(() => Effect.sync(() => assert.deepStrictEqual(seen, [3])))
    )
  })

  it("rejects an invalid capacity", () => {
    assert.throws(
      () => Effect.runSync(Effect.scoped(ResilienceEvents.make({ capacity: 0 }))),
      /ResilienceEvents: capacity must be an integer of at least 1, got 0/
    )
  })
})
