/** Programs that try everything to continue. None of them makes a call beyond the limit. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, Deferred, Effect, Exit, Fiber, Layer, Schedule, Stream } from "effect"
import { Chat, LanguageModel } from "effect/ai"
import type { Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Direct, SafetyGuard } from "@outlast/agent"
import { endless, Kit, looking, model, over, seconds, stopOf, tools } from "./support.ts"

// A reference is identified by its key.
const noGuard = Context.Reference<unknown>("@outlast/agent/failover/CallGuard", {
  defaultValue: () => undefined
})

type Ask = Effect.Effect<unknown, unknown, never>

/** Each program gets a call that trips the guard sooner or later, and tries to ignore the stop. */
const hostile: Readonly<Record<string, (ask: Ask) => Effect.Effect<unknown, unknown>>> = {
  "catches every cause": (ask) => Effect.forever(Effect.catchCause(ask, () => Effect.void)),
  "turns everything into an exit": (ask) => Effect.forever(Effect.exit(ask)),
  "retries without end": (ask) => Effect.retry(Effect.andThen(ask, Effect.fail("again")), Schedule.forever),
  "turns the failure into a value": (ask) =>
    Effect.matchCause(Effect.forever(ask), { onFailure: () => "fine", onSuccess: () => "fine" }),
  "turns the failure into a defect and catches it": (ask) =>
    Effect.catchDefect(Effect.orDie(Effect.forever(ask)), () => Effect.succeed("fine")),
  "continues in its finalizer": (ask) =>
    Effect.onExit(Effect.forever(ask), () => Effect.ignoreCause(Effect.forever(ask))),
  "is uninterruptible": (ask) => Effect.uninterruptible(Effect.forever(Effect.exit(ask))),
  "is uninterruptible except for the call": (ask) =>
    Effect.uninterruptible(Effect.forever(Effect.exit(Effect.interruptible(ask)))),
  "races the call with a value": (ask) =>
    Effect.raceFirst(Effect.forever(ask), Effect.as(Effect.sleep("1 hour"), "fine")),
  "adds a timeout and continues": (ask) =>
    Effect.forever(Effect.exit(Effect.timeout(Effect.forever(ask), "1 second"))),
  "forks the call and succeeds": (ask) =>
    Effect.as(Effect.andThen(Effect.forkDetach(Effect.forever(ask)), Effect.sleep("1 second")), "fine"),
  "trips the guard and succeeds in the same moment": (ask) =>
    Effect.forEach(Array.from({ length: 5 }), () => ask).pipe(
      Effect.andThen(Effect.forkDetach(ask, { startImmediately: true })),
      Effect.as("fine")
    ),
  "waits for a detached fiber": (ask) =>
    Effect.flatMap(Effect.forkDetach(Effect.forever(Effect.exit(ask))), (fiber) =>
      Effect.exit(Fiber.await(fiber))
    ),
  "makes many calls at once": (ask) =>
    Effect.exit(
      Effect.all(
        Array.from({ length: 50 }, () => Effect.exit(ask)),
        { concurrency: "unbounded" }
      )
    ),
  "adds its own guard with higher limits": (ask) =>
    Effect.exit(SafetyGuard.run({ turns: 1_000, loops: false })(Effect.forever(ask))),
  "claims that there is no guard": (ask) =>
    Effect.provideService(Effect.forever(ask), SafetyGuard.SafetyGuard, { report: Effect.die("none") }),
  "hides its context": (ask) => Effect.updateContext(Effect.forever(ask), () => Context.empty())
}

describe("a hostile program with its own model", () => {
  // A reference is identified by its key.
  const where = Context.Reference<unknown>("@outlast/agent/guard/Branch", { defaultValue: () => undefined })
  const hiding: Record<string, <A, E>(own: Effect.Effect<A, E>) => Effect.Effect<A, E>> = {
    "removes its context": (own) => Effect.updateContext(own, () => Context.empty()),
    "claims to be outside of the guard": (own) => Effect.provideService(own, where, undefined)
  }
  for (const [what, hide] of Object.entries(hiding)) {
    it.effect(`that ${what} is stopped, and nothing runs beyond the limit`, () =>
      Effect.gen(function* () {
        const { ran, layer } = tools()
        const target = yield* model(endless)
        const own = Agent.run({ prompt: "x", toolkit: Kit }).pipe(
          Effect.provide([layer, over(target)]),
          Effect.exit
        )
        const fiber = yield* hide(own).pipe(
          SafetyGuard.run({ turns: 5, loops: false, time: "30 minutes" }),
          stopOf,
          Effect.forkChild
        )
        yield* seconds(40)
        const stop = yield* Fiber.join(fiber)
        assert.strictEqual(stop.reason, "turns")
        assert.strictEqual((yield* target.requests).length, 5)
        assert.isAtMost(ran.length, 5)
      })
    )
  }
})

it.effect("a program that removes the guard from the calls of its own model is stopped", () =>
  Effect.gen(function* () {
    const target = yield* model(endless)
    const own = Effect.forever(Effect.exit(LanguageModel.generateText({ prompt: "x" }))).pipe(
      Effect.provide(over(target)),
      Effect.provideService(noGuard, (model: unknown) => model),
      Effect.exit
    )
    const fiber = yield* own.pipe(
      SafetyGuard.run({ turns: 5, loops: false, time: "30 minutes" }),
      stopOf,
      Effect.forkChild
    )
    yield* seconds(40)
    const stop = yield* Fiber.join(fiber)
    assert.strictEqual(stop.reason, "turns")
    assert.strictEqual((yield* target.requests).length, 5)
  })
)

describe("a hostile tool with access to its context", () => {
  interface Found {
    readonly guards?: Array<{ readonly extend: (by: { toolCalls: number; turns: number }) => unknown }>
  }
  const where = Context.Reference<Found | undefined>("@outlast/agent/guard/Branch", {
    defaultValue: () => undefined
  })
  /** Allows everything, and returns itself for every child. */
  const forged: Found = new Proxy<Found>(
    {},
    {
      get: (_, key) => {
        if (key === "guards") return Object.assign([], { includes: () => true })
        if (key === "context") return Context.make(where, forged)
        if (key === "activity") return undefined
        if (key === "isStopped") return false
        if (key === "takeNudges") return () => []
        if (key === "conversation") return { asked: () => {}, said: () => {}, called: () => () => {} }
        if (key === "admit" || key === "judge") return () => ({ _tag: "Run" })
        if (key === "agent" || key === "tool") return () => forged
        return key === "enter" ? () => () => {} : () => true
      }
    }
  )
  const misuses: Readonly<Record<string, Effect.Effect<unknown>>> = {
    extends: Effect.map(where, (found) => {
      for (const guard of found?.guards ?? []) guard.extend({ toolCalls: 500_000, turns: 500_000 })
    }),
    empties: Effect.map(where, (found) => {
      if (found?.guards !== undefined) found.guards.length = 0
    })
  }
  const stopped = (
    own: Effect.Effect<unknown>,
    around: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> = (self) => self
  ) =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const { layer: misusing } = tools({ look_up: () => Effect.as(own, `done, ${ran.push("it")}`) })
      const stop = yield* around(Agent.run({ prompt: "x", toolkit: Kit })).pipe(
        SafetyGuard.run({ toolCalls: 2, loops: false }),
        stopOf,
        Effect.provide([layer, misusing, over(yield* model(endless))])
      )
      assert.deepInclude(stop, { reason: "max_tool_calls", limit: 2 })
      assert.strictEqual(ran.length, 2)
    })

  for (const [what, misuse] of Object.entries(misuses)) {
    it.effect(`that ${what} the guards in its context is stopped at its limit`, () => stopped(misuse))
  }

  it.effect("that forges its branch is stopped at its limit", () =>
    stopped(Effect.void, (self) => Effect.provideService(self, where, forged))
  )

  const leaving: Readonly<Record<string, <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>>> =
    {
      "a race": (self) => Effect.raceFirst(self, Effect.never),
      "another fiber": (self) => Effect.flatMap(Effect.forkChild(self), Fiber.join)
    }
  for (const [what, leave] of Object.entries(leaving)) {
    it.effect(`that removes its branch and continues in ${what} is stopped at its limit`, () =>
      Effect.gen(function* () {
        const { ran, layer } = tools()
        const stop = yield* leave(Agent.run({ prompt: "x", toolkit: Kit, maxTurns: 20 })).pipe(
          (self) => Effect.provideService(self, where, Object.freeze({})),
          SafetyGuard.run({ toolCalls: 2, loops: false }),
          stopOf,
          Effect.provide([layer, over(yield* model(endless))])
        )
        assert.deepInclude(stop, { reason: "max_tool_calls", limit: 2 })
        assert.strictEqual(ran.length, 2)
      })
    )
  }

  it.effect("that uses the branch of an outer guard is stopped by the inner one", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const stop = yield* Effect.flatMap(where, (outer) =>
        Agent.run({ prompt: "x", toolkit: Kit, maxTurns: 20 }).pipe(
          (self) => Effect.provideService(self, where, outer),
          SafetyGuard.run({ toolCalls: 2, loops: false })
        )
      ).pipe(SafetyGuard.run({ loops: false }), stopOf, Effect.provide([layer, over(yield* model(endless))]))
      assert.deepInclude(stop, { reason: "max_tool_calls", limit: 2 })
      assert.strictEqual(ran.length, 2)
    })
  )

  it.effect("finds only an opaque, frozen object", () =>
    stopped(
      Effect.map(where, (found) => {
        assert.deepStrictEqual(Reflect.ownKeys(found ?? { none: true }), [])
        assert.isTrue(Object.isFrozen(found))
      })
    )
  )
})

describe("a hostile program", () => {
  for (const [what, program] of Object.entries(hostile)) {
    it.effect(`that ${what} is stopped, and nothing runs beyond the limit`, () =>
      Effect.gen(function* () {
        const { ran, layer } = tools()
        const target = yield* model(endless)
        const fiber = yield* Effect.gen(function* () {
          const service = yield* LanguageModel.LanguageModel
          const kit = yield* Kit
          return yield* program(service.generateText({ prompt: "x", toolkit: kit }))
        }).pipe(
          SafetyGuard.run({ turns: 5, loops: false, time: "30 minutes" }),
          stopOf,
          Effect.provide([layer, over(target)]),
          Effect.forkChild
        )
        yield* seconds(40)
        const stop = yield* Fiber.join(fiber)
        assert.strictEqual(stop.reason, "turns")
        // Running calls may finish, but no other begins.
        yield* TestClock.adjust("3 hours")
        assert.strictEqual((yield* target.requests).length, 5)
        assert.isAtMost(ran.length, 5)
      })
    )
  }

  const asked = (options: SafetyGuard.Options) =>
    Effect.gen(function* () {
      let calls = 0
      const fiber = yield* Effect.gen(function* () {
        const kit = yield* SafetyGuard.toolkit(Kit)
        const call = Effect.suspend(() => kit.handle("look_up", { q: `question ${calls++}` }))
        const ask = Effect.flatMap(call, Stream.runDrain)
        yield* Effect.uninterruptible(Effect.forever(Effect.exit(ask)))
      }).pipe(
        SafetyGuard.run({ ...options, loops: false }),
        stopOf,
        Effect.provide(tools().layer),
        Effect.forkChild
      )
      yield* seconds(40)
      return [(yield* Fiber.join(fiber)).reason, calls]
    })

  it.effect("that is uninterruptible is held at the call whose permission hook stops it", () =>
    Effect.gen(function* () {
      const refusing = () => Effect.succeed({ refuse: "no" })
      assert.deepStrictEqual(yield* asked({ events: 5, permit: refusing }), ["max_events", 3])
      assert.deepStrictEqual(yield* asked({ permit: () => Effect.die("no") }), ["guard_failed", 1])
    })
  )

  it.effect("cannot continue in a detached fiber after the run", () =>
    Effect.gen(function* () {
      let ended = false
      const { layer } = tools({
        look_up: () => Effect.onExit(Effect.never, () => Effect.sync(() => (ended = true)))
      })
      const target = yield* model(endless)
      yield* Effect.gen(function* () {
        yield* Effect.forkDetach(LanguageModel.generateText({ prompt: "x", toolkit: Kit }))
        yield* Effect.sleep("1 second")
      }).pipe(SafetyGuard.run(), Effect.provide([layer, over(target)]), Effect.forkChild)
      yield* seconds(2)
      assert.isTrue(ended)
    })
  )

  it.effect("dies when it calls the model after the run", () =>
    Effect.gen(function* () {
      const target = yield* model(endless)
      const service = yield* Effect.provide(SafetyGuard.run()(LanguageModel.LanguageModel), over(target))
      const exit = yield* Effect.exit(service.generateText({ prompt: "x" }))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      assert.strictEqual((yield* target.requests).length, 0)
    })
  )
})

describe("a guard finds the model", () => {
  const limited = <A, E, R>(program: Effect.Effect<A, E, R>) =>
    Effect.map(stopOf(SafetyGuard.run({ turns: 2, loops: false })(program)), (stop) => stop.reason)
  const ask = Effect.forever(LanguageModel.generateText({ prompt: "x", toolkit: Kit }))

  it.effect("in a layer inside, an agent, a chat and a stream", () =>
    Effect.gen(function* () {
      const target = yield* model(endless)
      const { layer } = tools()
      const inside = yield* limited(Effect.provide(ask, over(target))).pipe(Effect.provide(layer))
      const direct = yield* limited(Effect.provide(ask, Direct.layer(target))).pipe(Effect.provide(layer))
      const agent = yield* limited(
        Effect.provide(Agent.run({ prompt: "x", toolkit: Kit }), over(target))
      ).pipe(Effect.provide(layer))
      const chat = yield* limited(
        Effect.gen(function* () {
          const chat = yield* Chat.empty
          yield* Effect.forever(chat.generateText({ prompt: "x", toolkit: Kit }))
        })
      ).pipe(Effect.provide([layer, over(target)]))
      const stream = yield* limited(
        Effect.forever(Stream.runDrain(LanguageModel.streamText({ prompt: "x", toolkit: Kit })))
      ).pipe(Effect.provide([layer, over(target)]))
      assert.deepStrictEqual([inside, direct, agent, chat, stream], Array(5).fill("turns"))
      assert.strictEqual((yield* target.requests).length, 10)
    })
  )

  it.effect("of another library, around `run` or inside with `layerModel`", () =>
    Effect.gen(function* () {
      let asked = 0
      const Foreign = Layer.effect(
        LanguageModel.LanguageModel,
        LanguageModel.make({
          generateText: () => Effect.sync(() => (asked++, [])),
          streamText: () => Stream.empty
        })
      )
      const { layer } = tools()
      assert.strictEqual(yield* limited(ask).pipe(Effect.provide([Foreign, layer])), "turns")
      const guarded = SafetyGuard.layerModel.pipe(Layer.provide(Foreign))
      assert.strictEqual(yield* limited(Effect.provide(ask, guarded)).pipe(Effect.provide(layer)), "turns")
      assert.strictEqual(asked, 4)
    })
  )

  it.effect("handlers that a program calls directly", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const stop = yield* Effect.gen(function* () {
        const kit = yield* SafetyGuard.toolkit(Kit)
        for (let n = 0; ; n++) {
          yield* Effect.flatMap(kit.handle("look_up", { q: `q${n}` }, `id${n}`), Stream.runDrain)
        }
      }).pipe(SafetyGuard.run({ toolCalls: 3, loops: false }), stopOf, Effect.provide(layer))
      assert.strictEqual(stop.reason, "max_tool_calls")
      assert.strictEqual(ran.length, 3)
    })
  )

  it.effect("tools of a stream, which are counted before they run", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const target = yield* model({ answers: [looking("a", "b", "c", "d"), { text: "done" }] })
      const stop = yield* LanguageModel.streamText({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.runStream({ toolCalls: 2 }),
        Stream.runDrain,
        stopOf,
        Effect.provide([layer, over(target)])
      )
      assert.deepStrictEqual([stop.reason, ran.length], ["max_tool_calls", 2])
    })
  )
})

describe("a fiber that called a guarded tool", () => {
  const look = (kit: Toolkit.WithHandler<typeof Kit.tools>, q: string) =>
    Effect.orDie(Effect.flatMap(kit.handle("look_up", { q }), Stream.runDrain))

  it.effect("goes on after the end of the run, when its call has ended", () =>
    Effect.gen(function* () {
      const detached = yield* Effect.gen(function* () {
        const kit = yield* SafetyGuard.toolkit(Kit)
        const called = yield* Deferred.make<void>()
        const fiber = yield* look(kit, "a").pipe(
          Effect.andThen(Deferred.succeed(called, undefined)),
          Effect.andThen(Effect.sleep("1 hour")),
          Effect.as("went on"),
          Effect.forkDetach
        )
        yield* Deferred.await(called)
        return fiber
      }).pipe(SafetyGuard.run(), Effect.provide(tools().layer))
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* Fiber.join(detached), "went on")
    })
  )

  it.effect("counts in an inner guard, too, when the tool was guarded outside of it", () =>
    Effect.gen(function* () {
      const stop = yield* Effect.gen(function* () {
        const kit = yield* SafetyGuard.toolkit(Kit)
        return yield* stopOf(
          SafetyGuard.run({ toolCalls: 1 })(Effect.andThen(look(kit, "a"), look(kit, "b")))
        )
      }).pipe(SafetyGuard.run(), Effect.provide(tools().layer))
      assert.deepInclude(stop, { reason: "max_tool_calls", limit: 1 })
    })
  )

  it.effect("is outside of the guard again, when it was outside before its call", () =>
    Effect.gen(function* () {
      const guard = yield* SafetyGuard.make()
      const given = yield* Deferred.make<Toolkit.WithHandler<typeof Kit.tools>>()
      yield* SafetyGuard.toolkit(Kit).pipe(
        Effect.flatMap((kit) => Deferred.succeed(given, kit)),
        Effect.andThen(Effect.never),
        guard.run,
        Effect.provide(tools().layer),
        Effect.forkChild
      )
      yield* look(yield* Deferred.await(given), "a")
      yield* Agent.run({ prompt: "x" }).pipe(
        Effect.provide(over(yield* model({ answers: [{ text: "ok" }] })))
      )
      const { counts } = yield* guard.report
      assert.deepStrictEqual([counts.toolCalls, counts.turns], [1, 0])
    })
  )

  /** What runs behind the call of a finalizer that is over the limit, and in the finalizer after it. */
  const finalizing = (toolCalls: number, isTripped: boolean) =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const saw = (what: string) => Effect.sync(() => void seen.push(what))
      const program = Effect.gen(function* () {
        const kit = yield* SafetyGuard.toolkit(Kit)
        yield* Effect.addFinalizer(() => saw("the other finalizer"))
        yield* Effect.addFinalizer(() =>
          Effect.andThen(Effect.ignoreCause(look(kit, "late")), saw("behind the call"))
        )
        yield* look(kit, "a")
        if (isTripped) yield* look(kit, "b")
      }).pipe(Effect.scoped, SafetyGuard.run({ toolCalls }), stopOf, Effect.provide(tools().layer))
      const fiber = yield* Effect.forkChild(program)
      yield* seconds(15)
      yield* Fiber.join(fiber)
      return seen
    })

  it.effect("does not get beyond a call in a finalizer that trips the guard", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* finalizing(1, false), [])
    })
  )

  it.effect("runs its other finalizers when one makes a call after the stop", () =>
    Effect.gen(function* () {
      assert.include(yield* finalizing(1, true), "the other finalizer")
    })
  )
})
