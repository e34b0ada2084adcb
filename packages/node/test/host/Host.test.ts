/** Readiness, sections and shutdown in virtual time. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Logger, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Host } from "@outlast/node/host"
import { ResilienceEvents } from "@outlast/resilience"

/** Runs with a host whose log lines are collected. */
const withHost = <A, E>(
  effect: (lines: ReadonlyArray<string>) => Effect.Effect<A, E, Host.Host | Scope.Scope>,
  options: Host.HostOptions = {}
) => {
  const lines: Array<string> = []
  const log = Logger.layer([
    Logger.make(({ logLevel, message }) => lines.push(`${logLevel}: ${String(message)}`))
  ])
  return Effect.suspend(() => effect(lines)).pipe(
    Effect.scoped,
    Effect.provide(Layer.merge(Host.layer(options), log))
  )
}

describe("readiness", () => {
  it.effect("is true without checks, and names the checks that pass and those that do not", () =>
    withHost(() =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* Host.readiness, { isReady: true, passed: [], reasons: [] })
        yield* Host.ready("database", Effect.succeed(true))
        yield* Host.ready("broker", Effect.succeed("it is down"))
        yield* Host.ready("model", Effect.succeed(false))
        yield* Host.ready("disk", Effect.fail("full"))
        yield* Host.ready("thrown", Effect.die(new Error("a secret")))
        assert.deepStrictEqual(yield* Host.readiness, {
          isReady: false,
          passed: ["database"],
          reasons: [
            { name: "broker", reason: "it is down" },
            { name: "model", reason: "not ready" },
            { name: "disk", reason: "its check failed" },
            { name: "thrown", reason: "its check failed" }
          ]
        })
      })
    )
  )

  it.effect("does not wait for a check that is late, also one that cannot be interrupted", () =>
    withHost(
      () =>
        Effect.gen(function* () {
          yield* Host.ready("slow", Effect.uninterruptible(Effect.never))
          const asked = yield* Effect.forkChild(Host.readiness)
          yield* TestClock.adjust("3 seconds")
          assert.deepStrictEqual(yield* Fiber.join(asked), {
            isReady: false,
            passed: [],
            reasons: [{ name: "slow", reason: "no answer within 3s" }]
          })
        }),
      { checkLimit: "3 seconds" }
    )
  )

  it.effect("does not start a check again while an earlier one is left behind", () =>
    withHost(
      () =>
        Effect.gen(function* () {
          const answer = yield* Deferred.make<boolean>()
          let started = 0
          const check = Effect.andThen(
            Effect.sync(() => started++),
            Effect.uninterruptible(Deferred.await(answer))
          )
          yield* Host.ready("slow", check)
          const late = {
            isReady: false,
            passed: [],
            reasons: [{ name: "slow", reason: "no answer within 3s" }]
          }
          const asked = yield* Effect.forkChild(Host.readiness)
          yield* TestClock.adjust("3 seconds")
          assert.deepStrictEqual(yield* Fiber.join(asked), late)
          assert.deepStrictEqual(yield* Host.readiness, late)
          assert.strictEqual(started, 1)
          yield* Deferred.succeed(answer, true)
          yield* TestClock.adjust(0)
          assert.isTrue((yield* Host.readiness).isReady)
          assert.strictEqual(started, 2)
        }),
      { checkLimit: "3 seconds" }
    )
  )

  it.effect("forgets a check when its scope closes, and runs a check with its own services", () =>
    withHost(() =>
      Effect.gen(function* () {
        class Broker extends Context.Service<Broker, { readonly state: string }>()("test/Broker") {}
        const scope = yield* Scope.make()
        yield* Host.ready(
          "broker",
          Effect.map(Broker, ({ state }) => state)
        ).pipe(Scope.provide(scope), Effect.provideService(Broker, { state: "down" }))
        assert.deepStrictEqual((yield* Host.readiness).reasons, [{ name: "broker", reason: "down" }])
        yield* Scope.close(scope, Exit.void)
        assert.isTrue((yield* Host.readiness).isReady)
      })
    )
  )

  it.effect("is false from the start of a shutdown, while the program stays live", () =>
    withHost(() =>
      Effect.gen(function* () {
        const ending = yield* Effect.forkChild(Host.shutdown("test"))
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* Host.status, "draining")
        assert.deepStrictEqual(yield* Host.readiness, {
          isReady: false,
          passed: [],
          reasons: [{ name: "host", reason: "shutting down" }]
        })
        assert.isTrue(yield* Host.isLive)
        yield* TestClock.adjust("4 seconds")
        yield* Fiber.join(ending)
        assert.isFalse((yield* Host.readiness).isReady)
        assert.isTrue(yield* Host.isLive)
      })
    )
  )
})

describe("sections", () => {
  it.effect("have the content of each part, or its error", () =>
    withHost(() =>
      Effect.gen(function* () {
        yield* Host.section("outbox", Effect.succeed({ backlog: 3 }))
        yield* Host.section("broken", Effect.die("no"))
        yield* Host.section("slow", Effect.never)
        const reading = yield* Effect.forkChild(Effect.flatMap(Host.Host, ({ sections }) => sections))
        yield* TestClock.adjust("2 seconds")
        assert.deepStrictEqual(yield* Fiber.join(reading), {
          outbox: { backlog: 3 },
          broken: { error: "It could not be read." },
          slow: { error: "It did not answer in time." }
        })
      })
    )
  )
})

describe("shutdown", () => {
  it.effect("waits 5 s, and then runs the phases in order, the steps of each at once", () =>
    withHost(() =>
      Effect.gen(function* () {
        const order: Array<string> = []
        const step = (phase: Host.Phase, name: string, seconds: number) =>
          Host.onShutdown(phase, {
            name,
            run: Effect.andThen(
              Effect.sleep(`${seconds} seconds`),
              Effect.sync(() => order.push(name))
            )
          })
        yield* step("last", "metrics", 0)
        yield* step("outbox", "flush", 1)
        yield* step("runs", "slow run", 2)
        yield* step("runs", "quick run", 1)
        yield* step("intake", "server", 1)
        const ending = yield* Effect.forkChild(Host.shutdown("test"))
        yield* TestClock.adjust("4999 millis")
        assert.strictEqual(yield* Host.status, "draining")
        yield* TestClock.adjust("1 millis")
        assert.strictEqual(yield* Host.status, "intake")
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* Host.status, "runs")
        yield* TestClock.adjust("2 seconds")
        assert.strictEqual(yield* Host.status, "outbox")
        yield* TestClock.adjust("1 second")
        const report = yield* Fiber.join(ending)
        assert.deepStrictEqual(order, ["server", "quick run", "slow run", "flush", "metrics"])
        assert.deepInclude(report, { reason: "test", isComplete: true, took: 9_000 })
        assert.strictEqual(yield* Host.status, "ended")
      })
    )
  )

  it.effect("leaves a step behind at its limit, names it, and runs the later phases", () =>
    withHost((lines) =>
      Effect.gen(function* () {
        let isFlushed = false
        yield* Host.onShutdown("runs", { name: "stuck", run: Effect.uninterruptible(Effect.never) })
        yield* Host.onShutdown("runs", { name: "short", limit: "1 second", run: Effect.never })
        yield* Host.onShutdown("outbox", { name: "flush", run: Effect.sync(() => (isFlushed = true)) })
        const ending = yield* Effect.forkChild(Host.shutdown("SIGTERM"))
        yield* TestClock.adjust("5 seconds")
        yield* TestClock.adjust("10 seconds")
        const { ends, isComplete } = yield* Fiber.join(ending)
        assert.deepStrictEqual(ends, [
          { phase: "runs", name: "stuck", result: "blocked", took: 10_000 },
          { phase: "runs", name: "short", result: "blocked", took: 1_000 },
          { phase: "outbox", name: "flush", result: "done", took: 0 }
        ])
        assert.isFalse(isComplete)
        assert.isTrue(isFlushed)
        assert.deepStrictEqual(lines, [
          "Info: Shutdown started: SIGTERM.",
          "Error: Shutdown: step `short` of phase `runs` had not ended after 1.0 s and was left behind.",
          "Error: Shutdown: step `stuck` of phase `runs` had not ended after 10.0 s and was left behind.",
          "Info: Shutdown ended after 15.0 s, 2 of its steps incomplete."
        ])
      })
    )
  )

  it.effect("bounds a step by the limit of its phase, also where its own is longer", () =>
    withHost(
      () =>
        Effect.gen(function* () {
          yield* Host.onShutdown("runs", { name: "long", limit: "1 minute", run: Effect.never })
          yield* Host.onShutdown("outbox", { name: "flush", limit: "1 minute", run: Effect.void })
          const ending = yield* Effect.forkChild(Host.shutdown("test"))
          yield* TestClock.adjust("3 seconds")
          const { ends, took } = yield* Fiber.join(ending)
          assert.deepStrictEqual(ends, [
            { phase: "runs", name: "long", result: "blocked", took: 3_000 },
            { phase: "outbox", name: "flush", result: "done", took: 0 }
          ])
          assert.strictEqual(took, 3_000)
        }),
      { wait: 0, limits: { runs: "3 seconds" } }
    )
  )

  it.effect("goes on after a step that fails, dies or throws", () =>
    withHost(
      (lines) =>
        Effect.gen(function* () {
          yield* Host.onShutdown("intake", { name: "fails", run: Effect.fail("no") })
          yield* Host.onShutdown("loops", { name: "dies", run: Effect.die(new Error("no")) })
          yield* Host.onShutdown("runs", {
            name: "throws",
            run: Effect.sync(() => {
              throw new Error("no")
            })
          })
          yield* Host.onShutdown("last", { name: "ends", run: Effect.void })
          const { ends } = yield* Host.shutdown("test")
          assert.deepStrictEqual(
            ends.map(({ result }) => result),
            ["failed", "failed", "failed", "done"]
          )
          assert.isTrue(lines.some((line) => line.includes("step `dies` of phase `loops` failed")))
        }),
      { wait: 0 }
    )
  )

  it.effect("takes a step that waits for an interrupted fiber for done", () =>
    withHost(
      () =>
        Effect.gen(function* () {
          const loop = yield* Effect.forkChild(Effect.never)
          yield* Host.onShutdown("loops", {
            name: "loop",
            run: Effect.andThen(Fiber.interrupt(loop), Fiber.join(loop))
          })
          const { ends, isComplete } = yield* Host.shutdown("test")
          assert.deepStrictEqual(ends, [{ phase: "loops", name: "loop", result: "done", took: 0 }])
          assert.isTrue(isComplete)
        }),
      { wait: 0 }
    )
  )

  it.effect("never takes longer than its total, and leaves each later phase its share", () =>
    withHost(() =>
      Effect.gen(function* () {
        for (const phase of Host.phases) {
          yield* Host.onShutdown(phase, { name: "stuck", run: Effect.never })
        }
        const ending = yield* Effect.forkChild(Host.shutdown("test"))
        for (let i = 0; i < 30; i++) yield* TestClock.adjust("1 second")
        const report = yield* Fiber.join(ending)
        assert.isAtMost(report.took, 25_000)
        assert.isTrue(report.ends.every(({ took }) => took >= 1_000))
      })
    )
  )

  it.effect("runs once, for all that ask for it, and outlives those that ask", () =>
    withHost(
      () =>
        Effect.gen(function* () {
          let runs = 0
          yield* Host.onShutdown("loops", {
            name: "counts",
            run: Effect.andThen(
              Effect.sleep("1 second"),
              Effect.sync(() => runs++)
            )
          })
          const first = yield* Effect.forkChild(Host.shutdown("first"))
          const second = yield* Effect.forkChild(Host.shutdown("second"))
          yield* TestClock.adjust("500 millis")
          yield* Fiber.interrupt(first)
          yield* TestClock.adjust("500 millis")
          assert.strictEqual((yield* Fiber.join(second)).reason, "first")
          assert.strictEqual((yield* Host.shutdown("third")).reason, "first")
          assert.strictEqual(runs, 1)
        }),
      { wait: 0 }
    )
  )

  it.effect("publishes what happens, on the events of the part that registered", () =>
    Effect.gen(function* () {
      const events: Array<ResilienceEvents.ResilienceEvent> = []
      yield* withHost(
        () =>
          Effect.gen(function* () {
            const host = yield* Host.Host
            yield* Host.onShutdown("loops", { name: "ends", run: Effect.void })
            // As `runMain` does it: without the layers of the program.
            yield* Effect.promise(() => Effect.runPromise(host.shutdown("test")))
          }).pipe(
            Effect.provide(ResilienceEvents.layerHandler((event) => Effect.sync(() => events.push(event))))
          ),
        { wait: 0 }
      )
      assert.deepStrictEqual(
        events.map((event): object => ({ ...event, took: 0, at: 0 })),
        [
          { _tag: "ShutdownStarted", reason: "test", took: 0, at: 0 },
          { _tag: "ShutdownStepEnded", phase: "loops", name: "ends", result: "done", took: 0, at: 0 },
          { _tag: "ShutdownEnded", reason: "test", incomplete: 0, took: 0, at: 0 }
        ]
      )
    })
  )

  it.effect("runs a step that is registered while its phase runs, within the limit of the phase", () =>
    withHost(
      () =>
        Effect.gen(function* () {
          const scope = yield* Effect.scope
          const add = (phase: Host.Phase, name: string, run: Effect.Effect<unknown, never, Host.Host>) =>
            Scope.provide(Host.onShutdown(phase, { name, run }), scope)
          yield* add(
            "runs",
            "first",
            Effect.gen(function* () {
              yield* add("intake", "too late", Effect.void)
              yield* add(
                "runs",
                "second",
                Effect.andThen(Effect.sleep("1 second"), add("runs", "third", Effect.never))
              )
              yield* Effect.sleep("1 second")
            })
          )
          const ending = yield* Effect.forkChild(Host.shutdown("test"))
          yield* TestClock.adjust("10 seconds")
          const { ends } = yield* Fiber.join(ending)
          assert.deepStrictEqual(ends, [
            { phase: "runs", name: "first", result: "done", took: 1_000 },
            { phase: "runs", name: "second", result: "done", took: 1_000 },
            { phase: "runs", name: "third", result: "blocked", took: 8_000 }
          ])
        }),
      { wait: 0 }
    )
  )

  it.effect("goes on where a handler of its events never ends, and where a logger throws", () =>
    Effect.gen(function* () {
      const throwing = Logger.layer([
        Logger.make(() => {
          throw new Error("the log is closed")
        })
      ])
      const events = ResilienceEvents.layerHandler(() => Effect.uninterruptible(Effect.never))
      yield* Effect.gen(function* () {
        yield* Host.onShutdown("intake", { name: "fails", run: Effect.fail("failed") })
        yield* Host.onShutdown("last", { name: "last", run: Effect.void })
        const ending = yield* Effect.forkChild(Host.shutdown("test"))
        yield* TestClock.adjust("1 second")
        const { ends, took } = yield* Fiber.join(ending)
        assert.deepStrictEqual(
          ends.map(({ name, result }) => [name, result]),
          [
            ["fails", "failed"],
            ["last", "done"]
          ]
        )
        assert.isAtMost(took, 1_000)
      }).pipe(Effect.scoped, Effect.provide(Layer.mergeAll(Host.layer({ wait: 0 }), throwing, events)))
    })
  )

  it.effect("has the limits of its options", () =>
    withHost(
      () =>
        Effect.gen(function* () {
          yield* Host.onShutdown("runs", { name: "stuck", run: Effect.never })
          const ending = yield* Effect.forkChild(Host.shutdown("test"))
          yield* TestClock.adjust("7 seconds")
          yield* TestClock.adjust("3 seconds")
          const { took } = yield* Fiber.join(ending)
          assert.strictEqual(took, 10_000)
        }),
      { wait: "7 seconds", total: "10 seconds", limits: { runs: "1 minute" } }
    )
  )
})

describe("Host.run", () => {
  it.effect("interrupts the effect in its phase, and waits for its finalizer", () =>
    withHost(
      () =>
        Effect.gen(function* () {
          let isSaved = false
          const run = yield* Effect.forkChild(
            Effect.never.pipe(
              Effect.onInterrupt(() =>
                Effect.andThen(
                  Effect.sleep("1 second"),
                  Effect.sync(() => (isSaved = true))
                )
              ),
              Host.run("runs", { name: "run 1", drain: "2 seconds" })
            )
          )
          yield* Effect.yieldNow
          const ending = yield* Effect.forkChild(Host.shutdown("test"))
          yield* TestClock.adjust("2 seconds")
          assert.isFalse(isSaved)
          yield* TestClock.adjust("1 second")
          const report = yield* Fiber.join(ending)
          assert.isTrue(isSaved)
          assert.deepInclude(report, { isComplete: true, took: 3_000 })
          assert.isTrue(Exit.isFailure(yield* Fiber.await(run)))
        }),
      { wait: 0 }
    )
  )

  it.effect("leaves what the effect acquires to the scope of the caller", () =>
    withHost(() =>
      Effect.gen(function* () {
        let isOpen = false
        const open = Effect.acquireRelease(
          Effect.sync(() => (isOpen = true)),
          () => Effect.sync(() => (isOpen = false))
        )
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* open.pipe(Host.run("runs", { name: "a" }))
            assert.isTrue(isOpen)
          })
        )
        assert.isFalse(isOpen)
      })
    )
  )

  it.effect("lets an effect end by itself within `drain`", () =>
    withHost(
      () =>
        Effect.gen(function* () {
          const run = yield* Effect.forkChild(
            Effect.as(Effect.sleep("1 second"), "done").pipe(
              Host.run("runs", { name: "a", drain: "2 seconds" })
            )
          )
          yield* Effect.yieldNow
          const ending = yield* Effect.forkChild(Host.shutdown("test"))
          yield* TestClock.adjust("1 second")
          assert.strictEqual(yield* Fiber.join(run), "done")
          assert.strictEqual((yield* Fiber.join(ending)).took, 1_000)
        }),
      { wait: 0 }
    )
  )

  it.effect("starts nothing once its phase has begun, and ends its registration with the effect", () =>
    withHost(
      () =>
        Effect.gen(function* () {
          assert.strictEqual(yield* Effect.succeed(1).pipe(Host.run("runs", { name: "a" })), 1)
          const begun = yield* Deferred.make<void>()
          yield* Host.onShutdown("runs", {
            name: "a",
            run: Effect.andThen(Deferred.succeed(begun, undefined), Effect.sleep("1 second"))
          })
          const ending = yield* Effect.forkChild(Host.shutdown("test"))
          yield* Deferred.await(begun)
          let isStarted = false
          const late = yield* Effect.exit(
            Effect.sync(() => (isStarted = true)).pipe(Host.run("runs", { name: "late" }))
          )
          assert.isTrue(Exit.isFailure(late))
          assert.isFalse(isStarted)
          yield* TestClock.adjust("1 second")
          yield* Fiber.join(ending)
        }),
      { wait: 0 }
    )
  )
})

describe("invalid use", () => {
  it.effect("rejects a name that is registered already, and says which", () =>
    withHost(() =>
      Effect.gen(function* () {
        yield* Host.onShutdown("runs", { name: "a", run: Effect.void })
        yield* Host.onShutdown("loops", { name: "a", run: Effect.void })
        const twice = yield* Effect.exit(Host.onShutdown("runs", { name: "a", run: Effect.void }))
        assert.include(String(twice), "Host: runs `a` is registered already")
      })
    )
  )

  it("throws for invalid options", () => {
    const odd = (options: unknown) => () => Host.layer(options as Host.HostOptions)
    assert.throws(odd({ total: -1 }), /Host: total must be/)
    assert.throws(odd({ total: "5 seconds" }), /Host: total must be longer than the wait of 5s, got/)
    assert.throws(odd({ limits: { run: 1 } }), /Host: "limits.run" is not an option/)
    assert.throws(odd({ wait: "soon" }), /Host: wait must be/)
    assert.throws(odd({ checkLimit: Infinity }), /Host: checkLimit must be/)
    assert.throws(
      () => Host.run("run" as Host.Phase, { name: "a" })(Effect.void),
      /Host: phase must be "intake"/
    )
    assert.throws(() => Host.run("runs", { name: "" })(Effect.void), /Host: name must be/)
  })

  it.effect("reports a mistake in a registration as a defect", () =>
    withHost(() =>
      Effect.gen(function* () {
        const exits = yield* Effect.forEach(
          [
            Host.ready("", Effect.succeed(true)),
            Host.ready("a", true as unknown as Effect.Effect<boolean>),
            Host.section("a", (() => 1) as unknown as Effect.Effect<number>),
            Host.onShutdown("runs", { name: "a", run: Promise.resolve() as unknown as Effect.Effect<void> }),
            Host.onShutdown("run" as Host.Phase, { name: "a", run: Effect.void })
          ],
          Effect.exit
        )
        for (const exit of exits) assert.include(String(exit), "InvalidOption")
      })
    )
  )
})
