/** Total time: all time from the start of a run, including waits. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, Fiber, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { Agent, Failover, RecoveryPolicy, SafetyGuard } from "@outlast/agent"
import type { Limits } from "@outlast/agent"
import { ActiveTime } from "@outlast/agent/conversation"
import { InvalidOption } from "@outlast/resilience"
import { Kit, looking, model, over, stopOf, tools, words } from "./support.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

const minutes = (n: number) =>
  Effect.gen(function* () {
    for (let i = 0; i < 500; i++) yield* TestClock.adjust(0)
    for (let i = 0; i < n; i++) yield* TestClock.adjust("1 minute")
  })

const limits = { time: { total: "10 minutes" }, loops: false } as const

/** The stop, and its time in minutes of the clock. */
const stopped = <A, E, R>(program: Effect.Effect<A, E | SafetyGuard.SafetyStop, R>) =>
  Effect.gen(function* () {
    const stopping = Effect.flatMap(stopOf(program), (stop) =>
      Effect.map(Clock.currentTimeMillis, (at) => ({ stop, at: at / 60_000 }))
    )
    const fiber = yield* Effect.forkChild(stopping)
    yield* minutes(60)
    return yield* Fiber.join(fiber)
  })

const isTotal = ({ stop, at }: { readonly stop: SafetyGuard.SafetyStop; readonly at: number }) => {
  assert.deepStrictEqual([stop.reason, stop.subject, stop.limit, at], ["timeout", "total", 600_000, 10])
}

describe("total time interrupts a program", () => {
  it.effect("in a parked wait, and the message names the limit, counts, times and next step", () =>
    Effect.gen(function* () {
      const wait = Effect.andThen(Effect.sleep("2 minutes"), ActiveTime.parked(Effect.sleep("30 minutes")))
      const found = yield* stopped(SafetyGuard.run(limits)(wait))
      isTotal(found)
      assert.strictEqual(
        found.stop.message,
        "Forced stop: reached maximum of 10m of total time. Events processed: 0 | Tool calls: 0 | Elapsed: 10m (active: 2m). Please review the work completed so far. To go on, extend the limit and run again with `transcript` as the prompt."
      )
      assert.deepInclude(found.stop.counts, { elapsed: 120_000, totalElapsed: 600_000 })
    })
  )

  it.effect("in a tool, in the tool of a sub-agent, and in an approval", () =>
    Effect.gen(function* () {
      const slow = tools({ look_up: () => Effect.never })
      const asks = Effect.map(model({ answers: [looking("a"), { text: "done" }] }), over)
      const agent = Agent.run({ prompt: "x", toolkit: Kit, toolTimeout: "3 hours" })
      isTotal(yield* stopped(SafetyGuard.run(limits)(agent).pipe(Effect.provide([slow.layer, yield* asks]))))

      const child = Effect.orDie(Effect.provide(agent, [slow.layer, yield* asks]))
      const nesting = tools({ look_up: () => Effect.as(child, "done") })
      isTotal(
        yield* Effect.gen(function* () {
          yield* TestClock.setTime(0)
          return yield* stopped(
            SafetyGuard.run(limits)(agent).pipe(Effect.provide([nesting.layer, yield* asks]))
          )
        })
      )

      const Pay = Toolkit.make(Tool.make("pay", { success: Schema.String }).setNeedsApproval(true))
      const pays = yield* model({ answers: [{ toolCalls: [{ name: "pay", params: {} }] }, { text: "ok" }] })
      yield* TestClock.setTime(0)
      isTotal(
        yield* stopped(
          Agent.run({ prompt: "x", toolkit: Pay, approve: () => Effect.never }).pipe(
            SafetyGuard.run(limits),
            Effect.provide([Pay.toLayer({ pay: () => Effect.succeed("paid") }), over(pays)])
          )
        )
      )
    })
  )

  it.effect("in a permission hook that waits for a person", () =>
    Effect.gen(function* () {
      const asks = over(yield* model({ answers: [looking("a"), { text: "done" }] }))
      isTotal(
        yield* stopped(
          Agent.run({ prompt: "x", toolkit: Kit }).pipe(
            SafetyGuard.run({ ...limits, permit: () => Effect.never }),
            Effect.provide([tools().layer, asks])
          )
        )
      )
    })
  )

  it.effect("in a cooldown", () =>
    Effect.gen(function* () {
      const target = yield* model({
        answers: [{ text: "never" }],
        faults: [{ fault: { type: "status", status: 429, headers: { "retry-after": "900" } } }]
      })
      const policy = { ...RecoveryPolicy.background, maxWait: Duration.minutes(20) }
      const patient = Failover.layer([target], { policy })
      const ask = LanguageModel.generateText({ prompt: "x" })
      isTotal(yield* stopped(SafetyGuard.run(limits)(ask).pipe(Effect.provide(patient))))
    })
  )

  it.effect("while the consumer of its stream is slow", () =>
    Effect.gen(function* () {
      const text = Array.from({ length: 300 }, (_, n) => words(n)).join(" ")
      let n = 0
      const run = Agent.stream({ prompt: "x" }).pipe(
        SafetyGuard.runStream(limits),
        Stream.runForEach(() => (n++ === 5 ? Effect.sleep("20 minutes") : Effect.void)),
        Effect.provide(over(yield* model({ answers: [{ text }] })))
      )
      // The consumer sees the stop at its next pull.
      const { stop } = yield* stopped(run)
      assert.deepStrictEqual([stop.reason, stop.subject], ["timeout", "total"])
    })
  )

  it.effect("at the narrower of two nested guards", () =>
    Effect.gen(function* () {
      const waits = ActiveTime.parked(Effect.sleep("50 minutes"))
      const inner = SafetyGuard.run(limits)(waits)
      isTotal(yield* stopped(SafetyGuard.run({ time: { total: "20 minutes" } })(inner)))
      yield* TestClock.setTime(0)
      isTotal(yield* stopped(SafetyGuard.run(limits)(SafetyGuard.run({ time: "40 minutes" })(waits))))
    })
  )
})

describe("active and total time", () => {
  it.effect("each stop a run at their own limit, whichever comes first", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(
          fc.array(fc.record({ wait: fc.integer({ min: 1, max: 9 }), parked: fc.boolean() }), {
            maxLength: 12
          }),
          fc.integer({ min: 1, max: 30 }),
          fc.integer({ min: 1, max: 40 }),
          (steps, active, total) =>
            Effect.runPromise(
              Effect.gen(function* () {
                const program = Effect.forEach(steps, ({ wait, parked }) => {
                  const sleep = Effect.sleep(`${wait} minutes`)
                  return parked ? ActiveTime.parked(sleep) : sleep
                })
                // Half a minute off, so that no wait ends at the same moment.
                const before = (minutes: number) => Duration.seconds(60 * minutes - 30)
                const time = { active: before(active), total: before(total) }
                const fiber = yield* program.pipe(
                  SafetyGuard.run({ time, loops: false }),
                  Effect.exit,
                  Effect.forkChild
                )
                yield* minutes(120)
                const exit = yield* Fiber.join(fiber)
                const stop = Exit.isFailure(exit) ? yield* stopOf(exit) : undefined
                assert.strictEqual(stop?.subject, expected(steps, active, total))
              }).pipe(Effect.provide(TestClock.layer()))
            )
        ),
        { numRuns: Sweeps.runs(40) }
      )
    )
  )

  /** The limit reached first; total time when both are reached at once. */
  const expected = (
    steps: ReadonlyArray<{ readonly wait: number; readonly parked: boolean }>,
    active: number,
    total: number
  ): "active" | "total" | undefined => {
    let [worked, passed] = [0, 0]
    for (const { wait, parked } of steps) {
      for (let minute = 0; minute < wait; minute++) {
        passed++
        if (!parked) worked++
        if (passed >= total) return "total"
        if (worked >= active) return "active"
      }
    }
    return undefined
  }

  it.effect("can both be extended, and the time between stop and next run does not count", () =>
    Effect.gen(function* () {
      const guard = yield* SafetyGuard.make({ time: { active: "1 minute", total: "2 minutes" } })
      const fiber = yield* Effect.gen(function* () {
        const first = yield* stopOf(guard.run(ActiveTime.parked(Effect.sleep("9 minutes"))))
        yield* Effect.sleep("30 minutes")
        yield* guard.extend({ time: { total: "3 minutes" } })
        const second = yield* stopOf(guard.run(Effect.sleep("9 minutes")))
        yield* guard.extend({ time: { active: "4 minutes", total: "1 minute" } })
        const { limits } = yield* guard.report
        const third = yield* stopOf(guard.run(Effect.sleep("9 minutes")))
        return [first, second, third]
          .map(({ subject, counts }) => [subject, counts.totalElapsed / 60_000])
          .concat([[limits.time / 60_000, limits.totalTime / 60_000]])
      }).pipe(Effect.forkChild)
      yield* minutes(60)
      assert.deepStrictEqual(yield* Fiber.join(fiber), [
        ["total", 2],
        ["active", 3],
        ["total", 6],
        [5, 6]
      ])
    })
  )

  it.effect("treat a plain duration as active time, and keep an unlimited total unlimited", () =>
    Effect.gen(function* () {
      const guard = yield* SafetyGuard.make({ time: "1 minute" })
      yield* guard.extend({ time: "1 minute" })
      yield* guard.extend({ time: { total: "1 minute" } })
      const { limits } = yield* guard.report
      assert.deepInclude(limits, { time: 120_000, totalTime: Infinity })
    })
  )

  it("accept only durations", () => {
    const good: ReadonlyArray<Limits.Limits["time"]> = [{ minutes: 5 }, {}, { total: false }, [5, 0], 5]
    for (const time of good) SafetyGuard.run({ time })
    const bad: ReadonlyArray<[unknown, string]> = [
      [{ totl: "5 minutes" }, "time.totl"],
      [{ total: 0 }, "time.total"],
      [{ total: "31 days" }, "time.total"],
      [{ active: false }, "time.active"],
      [{ active: "soon" }, "time.active"],
      ["soon", "time"]
    ]
    for (const [time, field] of bad) {
      try {
        // As from an untyped program.
        SafetyGuard.run({ time: time as Limits.Limits["time"] })
        assert.fail(field)
      } catch (error) {
        assert.isTrue(error instanceof InvalidOption && error.field === field, field)
      }
    }
  })

  it("reject unknown options at any depth", () => {
    for (const [options, field] of [
      [{ toolcalls: 5 }, "toolcalls"],
      [{ subagents: { width: 5 } }, "subagents.width"],
      [{ texts: { stop: "" } }, "texts.stop"],
      [{ loop: false }, "loop"],
      [{ loops: { act: {} } }, "act"]
    ] as ReadonlyArray<[{}, string]>) {
      assert.throws(() => SafetyGuard.run(options), InvalidOption, `"${field}" is not an option`)
    }
  })
})
