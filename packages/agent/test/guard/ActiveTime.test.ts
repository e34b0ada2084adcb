/** Active time: time of work, without waits and without slow consumers. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber, Schema, Stream } from "effect"
import type { Duration } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { ActiveTime } from "@outlast/agent/conversation"
import { Agent, SafetyGuard } from "@outlast/agent"
import { Kit, looking, model, over, stopOf, tools, words } from "./support.ts"

/** Many fibers must run before the first minute passes, so the clock moves in small steps. */
const minutes = (n: number) =>
  Effect.gen(function* () {
    for (let i = 0; i < 2_000; i++) yield* TestClock.adjust(0)
    for (let i = 0; i < n; i++) yield* TestClock.adjust("1 minute")
  })

const limits = { time: "10 minutes", loops: false } as const

/** More parts than all queues can buffer. */
const long = Array.from({ length: 300 }, (_, n) => words(n)).join(" ")

/** Reason and minute of the stop; `undefined` when there was none. */
const stoppedAt = <A, E, R>(program: Effect.Effect<A, E | SafetyGuard.SafetyStop, R>) =>
  Effect.gen(function* () {
    const stopping = Effect.flatMap(stopOf(program), ({ reason }) =>
      Effect.map(Clock.currentTimeMillis, (at) => [reason, Math.floor(at / 60_000)])
    )
    const fiber = yield* Effect.forkChild(Effect.exit(stopping))
    yield* minutes(400)
    const exit = yield* Fiber.join(fiber)
    return Exit.isSuccess(exit) ? exit.value : undefined
  })

/** Takes two hours for its last part. Work behind it would run while the clock moves, and take minutes of it. */
const slowly = <A, E, R>(stream: Stream.Stream<A, E, R>) => {
  let n = 0
  return stream.pipe(
    Stream.take(6),
    Stream.runForEach(() => (n++ === 5 ? Effect.sleep("2 hours") : Effect.void))
  )
}

const text = { answers: [{ text: long }] }

describe("a slow consumer", () => {
  it.effect("does not use active time of an agent", () =>
    Effect.gen(function* () {
      const run = Agent.stream({ prompt: "x" }).pipe(SafetyGuard.runStream(limits), slowly)
      assert.isUndefined(yield* stoppedAt(Effect.provide(run, over(yield* model(text)))))
    })
  )

  it.effect("does not use active time of a model", () =>
    Effect.gen(function* () {
      const run = LanguageModel.streamText({ prompt: "x" }).pipe(SafetyGuard.runStream(limits), slowly)
      assert.isUndefined(yield* stoppedAt(Effect.provide(run, over(yield* model(text)))))
    })
  )

  it.effect("does not use active time of answers and their tools", () =>
    Effect.gen(function* () {
      const target = yield* model({ answers: ({ turn }) => looking(`question ${words(turn)}`) })
      const run = Stream.range(1, 100).pipe(
        Stream.rechunk(1),
        Stream.mapEffect(() => LanguageModel.generateText({ prompt: "x", toolkit: Kit })),
        SafetyGuard.runStream(limits),
        slowly
      )
      assert.isUndefined(yield* stoppedAt(Effect.provide(run, [tools().layer, over(target)])))
    })
  )

  it.effect("does not use active time of a tool that reports progress", () =>
    Effect.gen(function* () {
      const Count = Toolkit.make(Tool.make("count", { success: Schema.Finite }))
      const layer = Count.toLayer({
        count: (_, { preliminary }) =>
          Effect.as(
            Effect.forEach(Array.from({ length: 300 }), (_, n) => preliminary(n)),
            300
          )
      })
      const run = Stream.unwrap(
        Effect.flatMap(SafetyGuard.toolkit(Count), (kit) => kit.handle("count", {}, "c"))
      ).pipe(Stream.rechunk(1), SafetyGuard.runStream(limits), slowly)
      assert.isUndefined(yield* stoppedAt(Effect.provide(run, layer)))
    })
  )

  it.effect("does not protect a concurrent tool from its limit", () =>
    Effect.gen(function* () {
      let ended = -1
      const { layer } = tools({
        look_up: () =>
          Effect.onExit(Effect.never, () =>
            Effect.map(Clock.currentTimeMillis, (at) => void (ended = at / 60_000))
          )
      })
      const target = yield* model({ answers: [{ text: long.slice(0, 700), ...looking("a") }] })
      let taken = 0
      yield* Agent.stream({ prompt: "x", toolkit: Kit, toolTimeout: "10 hours" }).pipe(
        SafetyGuard.runStream(limits),
        Stream.runForEach(() => (taken++ === 5 ? Effect.sleep("2 hours") : Effect.void)),
        Effect.provide([layer, over(target)]),
        stoppedAt
      )
      assert.strictEqual(Math.floor(ended), 10)
    })
  )

  it.effect("uses active time when it runs under the guard itself", () =>
    Effect.gen(function* () {
      const own = <A, E, R>(stream: Stream.Stream<A, E, R>) => SafetyGuard.run(limits)(slowly(stream))
      const agent = own(Agent.stream({ prompt: "x" }))
      assert.deepStrictEqual(yield* stoppedAt(Effect.provide(agent, over(yield* model(text)))), [
        "timeout",
        10
      ])
    })
  )

  it.effect("uses active time of an outer guard that it runs under", () =>
    Effect.gen(function* () {
      const inner = slowly(SafetyGuard.runStream({ time: "5 minutes" })(Agent.stream({ prompt: "x" })))
      const both = Effect.provide(SafetyGuard.run(limits)(inner), over(yield* model(text)))
      assert.deepStrictEqual(yield* stoppedAt(both), ["timeout", 10])
    })
  )
})

describe("work inside a wait", () => {
  const nested = (around: <A, E, R>(child: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      const below = yield* model({ answers: [looking("a"), { text: "done" }] })
      const slow = tools({ look_up: () => Effect.as(Effect.sleep("30 minutes"), "found") }).layer
      const child = Agent.run({ prompt: "y", toolkit: Kit, toolTimeout: "1 hour" })
      const { layer } = tools({
        look_up: () =>
          around(child).pipe(Effect.provide([slow, over(below)]), Effect.as("done"), Effect.orDie)
      })
      const top = yield* model({ answers: [looking("a"), { text: "done" }] })
      return yield* Agent.run({ prompt: "x", toolkit: Kit, toolTimeout: "1 hour" }).pipe(
        SafetyGuard.run(limits),
        Effect.provide([layer, over(top)]),
        stoppedAt
      )
    })

  it.effect("counts an agent in a tool that is parked", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* nested(ActiveTime.parked), ["timeout", 10])
    })
  )

  it.effect("does not count a wait without work", () =>
    Effect.gen(function* () {
      const run = SafetyGuard.run(limits)(ActiveTime.parked(Effect.sleep("2 hours")))
      assert.isUndefined(yield* stoppedAt(run))
    })
  )

  it.effect("does not count a wait after an agent has ended", () =>
    Effect.gen(function* () {
      const agent = Agent.run({ prompt: "x" })
      const run = SafetyGuard.run(limits)(Effect.andThen(agent, ActiveTime.parked(Effect.sleep("2 hours"))))
      assert.isUndefined(yield* stoppedAt(Effect.provide(run, over(yield* model(text)))))
    })
  )

  it.effect("counts a model that a permission hook calls", () =>
    Effect.gen(function* () {
      const slow = { faults: [{ times: 1, fault: { type: "stall" } }] } as const
      const judging = Effect.flatMap(model({ answers: [{ text: "yes" }], ...slow }), (judge) =>
        LanguageModel.generateText({ prompt: "may it?" }).pipe(
          Effect.provide(over(judge)),
          Effect.orDie,
          Effect.as("allow" as const)
        )
      )
      const run = Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ ...limits, time: "10 seconds", permit: () => judging }),
        Effect.provide([tools().layer, over(yield* model({ answers: [looking("a"), { text: "ok" }] }))])
      )
      assert.deepStrictEqual(yield* stoppedAt(run), ["timeout", 0])
    })
  )
})

describe("the clock of a guard", () => {
  it.effect("stops each of two concurrent programs that wait", () =>
    Effect.gen(function* () {
      const guard = yield* SafetyGuard.make(limits)
      const waits = (time: Duration.Input) => ActiveTime.parked(Effect.sleep(time))
      const first = guard.run(Effect.andThen(waits("11 minutes"), Effect.never))
      yield* Effect.forkChild(Effect.exit(Effect.andThen(Effect.yieldNow, guard.run(waits("12 minutes")))))
      assert.deepStrictEqual(yield* stoppedAt(first), ["timeout", 21])
    })
  )

  it.effect("pauses at the stop while tools finish, and resumes after an extension", () =>
    Effect.gen(function* () {
      const { layer } = tools({ look_up: () => Effect.as(Effect.sleep("8 seconds"), "found") })
      const fiber = yield* Effect.gen(function* () {
        const guard = yield* SafetyGuard.make({ toolCalls: 1 })
        const elapsed = Effect.map(guard.report, ({ counts }) => counts.elapsed)
        yield* stopOf(guard.run(Agent.run({ prompt: "x", toolkit: Kit })))
        const stopped = yield* elapsed
        yield* guard.extend({ toolCalls: 1 })
        yield* guard.run(Effect.sleep("5 seconds"))
        return [stopped, yield* elapsed]
      }).pipe(Effect.provide([layer, over(yield* model({ answers: [looking("a", "b")] }))]), Effect.forkChild)
      yield* minutes(1)
      assert.deepStrictEqual(yield* Fiber.join(fiber), [0, 5_000])
    })
  )
})
