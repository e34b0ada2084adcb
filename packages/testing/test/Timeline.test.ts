/** Timelines, properties of waits, simulated failures, and generated worlds. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Clock, Duration, Effect, Fiber, Option, Redacted, Schedule, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { Failover, FailoverReason, KeySource, Outlast, RecoveryPolicy } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Backoff, CircuitBreaker, Retry } from "@outlast/resilience"
import { Arbitraries, FaultPlan, ScriptedModel, SimulatedFailure, Timeline, Timing } from "@outlast/testing"

const policy = RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive)
const ask = LanguageModel.generateText({ prompt: "?" })
const key = (name: string) => KeySource.value(name, Redacted.make(name))

const limited = (seconds: string): FaultPlan.Step => ({
  fault: { type: "status", status: 429, headers: { "retry-after": seconds } }
})

const scripted = (faults: ReadonlyArray<FaultPlan.Step>, provider = "anthropic") =>
  ScriptedModel.make({ provider, model: "m", plan: { answers: [{ text: "Hello." }], faults } })

const chain = (...faults: ReadonlyArray<FaultPlan.Step>) =>
  Effect.map(scripted(faults), (model) => ask.pipe(Effect.provide(Failover.layer([model], { policy }))))

describe("Timeline", () => {
  it.effect("records attempts with their outcome, waits and the end", () =>
    Effect.gen(function* () {
      const timeline = yield* Timeline.record(
        yield* chain(limited("1.5"), { fault: { type: "status", status: 500 } })
      )
      assert.deepStrictEqual(timeline.lines, [
        "+0.000s attempt anthropic#1 → RateLimit (429)",
        "+0.000s key+model of anthropic/m is out for 1.5 s",
        "+0.000s wait 1.500s (backoff)",
        "+1.500s attempt anthropic#2 → ServerError (500)",
        "+1.500s wait 2.000s (backoff)",
        "+3.500s attempt anthropic#3 → answer",
        "+3.500s end: success"
      ])
      assert.strictEqual(timeline.elapsed, 3_500)
    })
  )

  it.effect("shows both attempts of a call that is hedged", () =>
    Effect.gen(function* () {
      const model = (provider: string, seconds: number) =>
        Effect.map(scripted([], provider), (made) => ({
          ...made,
          build: Effect.map(made.build, (built) => ({
            ...built,
            generateText: (request: ProviderModel.ProviderRequest) =>
              Effect.delay(built.generateText(request), Duration.seconds(seconds))
          }))
        }))
      const [slow, quick] = [yield* model("slow", 30), yield* model("quick", 1)]
      const timeline = yield* Timeline.record(
        ask.pipe(Effect.provide(Failover.layer([slow, { ...quick, model: "n" }], { policy })))
      )
      assert.deepStrictEqual(timeline.lines, [
        "+0.000s attempt slow#1 → overtaken by quick/n after 11.000s",
        "+10.000s hedge slow at quick",
        "+10.000s attempt quick#2 → answer after 1.000s",
        "+11.000s model of slow/m is out for 30 s",
        "+11.000s end: success"
      ])
    })
  )

  it("needs no test clock around it, and gives the same lines in each run", async () => {
    const program = Effect.gen(function* () {
      const model = yield* scripted([{ times: 3, fault: { type: "status", status: 500 } }])
      return yield* Timeline.record(ask.pipe(Effect.provide(Failover.layer([model]))))
    })
    const [first, second] = [await Effect.runPromise(program), await Effect.runPromise(program)]
    assert.deepStrictEqual(first.lines, second.lines)
    assert.match(first.lines[1] ?? "", /^\+0\.000s wait \d\.\d{3}s \(backoff\)$/)
    assert.isUndefined(Timeline.diff(first.lines, second))
  })

  it.effect("does not jump over the sleeps of a program that takes its time before them", () =>
    Effect.gen(function* () {
      const busy = Effect.forEach(Array.from({ length: 50 }), () => Effect.yieldNow)
      const promises = Effect.promise(async () => {
        for (let i = 0; i < 20; i++) await Promise.resolve()
      })
      const { lines } = yield* Timeline.record(
        Effect.gen(function* () {
          yield* busy
          yield* Effect.sleep("1 second")
          yield* Timeline.note("one")
          yield* busy
          yield* promises
          const fiber = yield* Effect.forkChild(Effect.sleep("2 seconds"))
          yield* Effect.timeoutOption(Effect.never, "500 millis")
          yield* Timeline.note("two")
          yield* Fiber.join(fiber)
        })
      )
      assert.deepStrictEqual(lines, ["+1.000s one", "+1.500s two", "+3.000s end: success"])
      const busyForever = Effect.forever(Effect.yieldNow)
      const never = yield* Timeline.record(busyForever, { limit: "1 minute" })
      assert.deepStrictEqual(never.lines, ["+60.000s still running"])
    })
  )

  it.effect("names targets by what tells them apart, and shows switches and notes", () =>
    Effect.gen(function* () {
      const plan = yield* FaultPlan.start({
        answers: [{ text: "Hello." }],
        faults: [{ when: { key: "a" }, fault: { type: "status", status: 401 } }, limited("30")]
      })
      const claude = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "claude",
        plan,
        keys: [key("a"), key("b")]
      })
      const gpt = yield* ScriptedModel.make({ provider: "openai", model: "gpt", plan })
      const program = Effect.andThen(Timeline.note("begin"), ask).pipe(
        Effect.provide(Failover.layer([claude, gpt], { policy }))
      )
      const only = ["Note", "AttemptStarted", "AttemptFailed", "TargetSwitched", "CallSucceeded"]
      const { lines } = yield* Timeline.record(program, { only })
      assert.deepStrictEqual(lines, [
        "+0.000s begin",
        "+0.000s attempt anthropic(a)#1 → Auth (401)",
        "+0.000s switch anthropic(a) → anthropic(b) (Auth)",
        "+0.000s attempt anthropic(b)#2 → RateLimit (429)",
        "+0.000s switch anthropic(b) → openai (RateLimit)",
        "+0.000s attempt openai#3 → answer",
        "+0.000s end: success"
      ])
    })
  )

  it.effect("records circuits and retries of any Effect program, and how it ended", () =>
    Effect.gen(function* () {
      const guarded = Effect.fail("down").pipe(
        CircuitBreaker.execute("db"),
        Effect.retry({ times: 3, schedule: Schedule.spaced("2 seconds") }),
        Effect.provide(CircuitBreaker.layer({ trip: { consecutive: { failures: 2 } } }))
      )
      const failed = yield* Timeline.record(guarded)
      assert.include(failed.lines, "+2.000s circuit db closed → open")
      assert.strictEqual(failed.lines.at(-1), "+6.000s end: failure (CircuitRefused)")
      const endless = yield* Timeline.record(Effect.never, { limit: "5 seconds" })
      assert.deepStrictEqual([endless.lines, endless.exit], [["+5.000s still running"], undefined])
      const died = yield* Timeline.record(Effect.die("bug"))
      assert.deepStrictEqual(died.lines, ["+0.000s end: defect"])
    })
  )

  it("shows the difference of two timelines line by line", () => {
    assert.strictEqual(Timeline.diff(["a", "b", "d"], ["a", "c", "d", "e"]), "  a\n- b\n+ c\n  d\n+ e")
    assert.isUndefined(Timeline.diff(["a"], ["a"]))
  })
})

describe("Timing", () => {
  const waited = (...faults: ReadonlyArray<FaultPlan.Step>) =>
    Effect.flatMap(chain(...faults), (program) => Timeline.record(program))

  it.effect("reads the waits between attempts", () =>
    Effect.gen(function* () {
      const timeline = yield* waited(limited("20"), { fault: { type: "status", status: 500 } })
      assert.deepStrictEqual(
        Timing.waits(timeline).map(({ millis, after, retryAfter, attempt }) => [
          attempt,
          millis,
          after,
          retryAfter
        ]),
        [
          [2, 20_000, "RateLimit", 20_000],
          [3, 2_000, "ServerError", undefined]
        ]
      )
      yield* Timing.holds(timeline, [
        Timing.neverMoreThan("20 seconds"),
        Timing.inAllAtMost("22 seconds"),
        Timing.atLeastRetryAfter,
        Timing.atMost(2),
        Timing.every("which is no whole second", ({ millis }) => millis % 1_000 === 0)
      ])
    })
  )

  it.effect("says what does not hold, with the timeline", () =>
    Effect.gen(function* () {
      const timeline = yield* waited(limited("20"))
      const error = yield* Effect.flip(
        Timing.holds(timeline, [
          Timing.neverMoreThan("10 seconds"),
          Timing.inAllAtMost("19 seconds"),
          Timing.atMost(0),
          Timing.every("which is not short", ({ millis }) => millis < 1_000)
        ])
      )
      assert.deepStrictEqual(error.problems, [
        "waited 20s before attempt 2 (after RateLimit), more than 10s",
        "waited 20s in all, more than 19s",
        "made 1 further attempts, more than 0",
        "waited 20s before attempt 2 (after RateLimit), which is not short"
      ])
      assert.include(error.message, "\n+20.000s attempt anthropic#2 → answer\n")
    })
  )

  /** The policy without the waits of the server, in the rows of these classes. */
  const hasty = (...classes: ReadonlyArray<RecoveryPolicy.DefaultClass>): RecoveryPolicy.RecoveryPolicy => ({
    ...policy,
    rows: classes.reduce(
      (rows, name) => ({
        ...rows,
        [name]: { ...rows[name], retryAfter: "ignored" as const, cooldown: undefined }
      }),
      policy.rows
    )
  })

  it.effect("finds a policy that comes back before the server wants it", () =>
    Effect.gen(function* () {
      const model = yield* scripted([limited("20")])
      const program = ask.pipe(Effect.provide(Failover.layer([model], { policy: hasty("RateLimit") })))
      const timeline = yield* Timeline.record(program)
      assert.deepStrictEqual(Timing.problems(timeline, [Timing.atLeastRetryAfter]), [
        "waited 1s before attempt 2 (after RateLimit), less than the 20s that the server named"
      ])
    })
  )

  it.effect("finds a policy that comes back too early from another target", () =>
    Effect.gen(function* () {
      const first = yield* scripted([limited("20")])
      const second = yield* scripted([{ fault: { type: "status", status: 401 }, times: "always" }], "openai")
      const layer = (policy: RecoveryPolicy.RecoveryPolicy) => Failover.layer([first, second], { policy })
      const moving = {
        ...hasty("RateLimit"),
        rows: { ...policy.rows, RateLimit: { ...hasty("RateLimit").rows.RateLimit, switchAfter: 1 } }
      }
      const timeline = yield* Timeline.record(Effect.provide(ask, layer(moving)))
      assert.include(timeline.lines, "+0.000s switch openai → anthropic (Auth)")
      assert.deepStrictEqual(Timing.problems(timeline, [Timing.atLeastRetryAfter]), [
        "waited 0 before attempt 3 (after RateLimit), less than the 20s that the server named"
      ])
    })
  )

  it.effect("finds a retry that comes back before the server wants it", () =>
    Effect.gen(function* () {
      const retried = (retryAfter: "ignored" | "minimum") =>
        Timeline.record(
          Effect.fail("busy").pipe(
            Retry.with({
              classify: () => Retry.again({ class: "busy", retryAfter: "20 seconds" }),
              attempts: 2,
              backoff: Backoff.exponential({ initial: "1 second", jitter: 0 }),
              retryAfter
            })
          )
        )
      assert.deepStrictEqual(Timing.problems(yield* retried("ignored"), [Timing.atLeastRetryAfter]), [
        "waited 1s before attempt 2 (after busy), less than the 20s that the server named"
      ])
      yield* Timing.holds(yield* retried("minimum"), [Timing.atLeastRetryAfter])
    })
  )

  it.effect("finds a policy that ignores the server in one class, in a hundred generated worlds", () =>
    Effect.gen(function* () {
      for (const name of ["RateLimit", "Overloaded"] as const) {
        const found = yield* Arbitrary.checkEffect(
          Arbitrary.schema(Arbitraries.World),
          (world) =>
            Effect.gen(function* () {
              const models = yield* Arbitraries.models(world)
              const call = ask.pipe(Effect.provide(Failover.layer(models, { policy: hasty(name) })))
              const timeline = yield* Timeline.record(call)
              return Timing.problems(timeline, [Timing.atLeastRetryAfter]).length === 0
            }),
          { runs: 100, seed: 1, maxShrinks: 0 }
        )
        assert.strictEqual(found._tag, "Falsified", name)
      }
    })
  )

  it.effect("reads the delays of Retry, too", () =>
    Effect.gen(function* () {
      const retried = Effect.fail("busy").pipe(
        Retry.with({ classify: () => Retry.again({ class: "busy" }), attempts: 3 })
      )
      const timeline = yield* Timeline.record(retried)
      assert.lengthOf(Timing.waits(timeline), 2)
      assert.strictEqual(Timing.waits(timeline)[0]?.after, "busy")
      yield* Timing.holds(timeline, [Timing.neverMoreThan("3 seconds"), Timing.atMost(2)])
    })
  )
})

describe("SimulatedFailure", () => {
  it.effect("fails the next attempt once, for each reason, and the chain reacts", () =>
    Effect.gen(function* () {
      for (const label of SimulatedFailure.reasons) {
        const simulated = yield* SimulatedFailure.make
        const model = yield* scripted([])
        const layer = Failover.layer([simulated.target(model)], { policy })
        yield* simulated.arm(label)
        assert.deepStrictEqual(yield* simulated.armed, { reason: label, times: 1 })
        const { events } = yield* Timeline.record(Effect.ignore(Effect.provide(ask, layer)))
        const failed = events.filter(({ _tag }) => _tag === "AttemptFailed")
        assert.lengthOf(failed, 1, label)
        assert.strictEqual(
          FailoverReason.definitions[(failed[0] as unknown as { reason: FailoverReason.ReasonTag }).reason]
            .label,
          label
        )
        assert.isUndefined(yield* simulated.armed)
        assert.strictEqual((yield* Effect.provide(ask, layer)).text, "Hello.")
      }
    })
  )

  it.effect("takes tags, waits and times, streams too, and can be disarmed", () =>
    Effect.gen(function* () {
      const simulated = yield* SimulatedFailure.make
      const model = yield* scripted([])
      const layer = Failover.layer([simulated.target(model)], { policy })
      yield* simulated.arm("RateLimit", { retryAfter: "7 seconds", times: 2 })
      const said = Stream.runDrain(LanguageModel.streamText({ prompt: "?" }))
      const { lines } = yield* Timeline.record(Effect.provide(said, layer))
      assert.include(lines, "+7.000s attempt anthropic#2 → RateLimit (429)")
      assert.include(lines, "+14.000s attempt anthropic#3 → answer")
      yield* simulated.arm("auth")
      yield* simulated.disarm
      assert.strictEqual((yield* Effect.provide(ask, layer)).text, "Hello.")
    })
  )

  it.effect("rejects an unknown reason with those that exist", () =>
    Effect.gen(function* () {
      const simulated = yield* SimulatedFailure.make
      const error = yield* Effect.flip(simulated.arm("rate limit"))
      assert.strictEqual(error._tag, "UnknownReason")
      assert.include(error.message, '"rate limit" is not a reason. Reasons: auth, billing, rate_limit,')
    })
  )
})

describe("Arbitraries", () => {
  it.effect.prop(
    "failures have a message and a reason, and waits that a server may name",
    { failure: Arbitraries.Failure },
    ({ failure }) =>
      Effect.sync(() => {
        assert.include(FailoverReason.reasonTags, failure.reason._tag)
        assert.isNotEmpty(failure.message)
        const wait = failure.retryAfter === undefined ? 0 : Duration.toMillis(failure.retryAfter)
        assert.isTrue(wait >= 0 && wait <= 120_000)
      })
  )

  it.effect.prop("plans are valid fault plans", { plan: Arbitraries.Plan }, ({ plan }) =>
    Effect.map(FaultPlan.decode(plan), (decoded) => assert.deepStrictEqual(decoded, plan))
  )

  it.effect.prop("policies pass validation", { policy: Arbitraries.Policy }, ({ policy }) =>
    Effect.sync(() => assert.doesNotThrow(() => RecoveryPolicy.validate(policy)))
  )

  it.effect.prop(
    "every call in any world under any policy ends in a typed outcome within its attempts",
    { world: Arbitraries.World, policy: Arbitraries.Policy },
    ({ world, policy }) =>
      Effect.gen(function* () {
        const models = yield* Arbitraries.models(world)
        const program = ask.pipe(Effect.provide(Failover.layer(models, { policy })))
        const timeline = yield* Timeline.record(program, { limit: "2 hours" })
        assert.isDefined(timeline.exit, timeline.lines.join("\n"))
        // The first attempt after a refused key or target is free.
        const keys = world.targets.reduce((sum, target) => sum + target.keys, 0)
        yield* Timing.holds(timeline, [Timing.atMost(policy.maxAttempts - 1 + keys)])
        if (timeline.exit?._tag === "Failure") {
          const error = yield* Effect.flip(timeline.exit)
          assert.isTrue(Option.isSome(Outlast.failureOf(error)))
        }
      }),
    { arbitrary: { runs: 50 } }
  )
})

it.effect("moves from a sleep to one that ends a rounding later", () =>
  Effect.gen(function* () {
    // The sums of both are equal, and their floating-point values are not.
    const times = [
      [14_044.217152, 10_000, 590_000],
      [14_044.217152, 600_000]
    ]
    const program = Effect.all(
      times.map((sleeps) => Effect.forEach(sleeps, (millis) => Effect.sleep(millis), { discard: true })),
      { concurrency: 2 }
    )
    const timeline = yield* Timeline.record(program, { limit: "1 hour" })
    assert.strictEqual(timeline.exit?._tag, "Success")
  })
)

it.effect(
  "a recorder inside a test moves the clock of the test to the end of the program, and no further",
  () =>
    Effect.gen(function* () {
      const outside = yield* Effect.forkChild(Effect.sleep("1 hour"))
      yield* Timeline.record(Effect.sleep("1 second"))
      assert.strictEqual(yield* Clock.currentTimeMillis, 1_000)
      assert.isUndefined(outside.pollUnsafe())
      yield* Timeline.record(Effect.sleep("1 hour"))
      yield* Fiber.join(outside)
      assert.isDefined(outside.pollUnsafe())
    })
)
