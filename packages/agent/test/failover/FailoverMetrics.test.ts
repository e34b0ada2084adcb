import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Metric, Redacted } from "effect"
import { LanguageModel } from "effect/ai"
import { Failover, FailoverMetrics, FailoverReason, KeySource } from "@outlast/agent"
import { Metrics, ResilienceEvents } from "@outlast/resilience"
import type { Chain } from "../support.ts"
import { answer, failure, inTime, limited, played, policy, provenByOneCall, serverError } from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })
const secret = "sk-live-0123456789"
const key = (name: string) => KeySource.value(name, Redacted.make(secret))

/** Runs calls over a chain one after the other, and returns the metrics. */
const measured = (chain: Chain, program: Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>) =>
  Effect.gen(function* () {
    const telemetry = FailoverMetrics.layer().pipe(
      Layer.provideMerge(Metrics.layer()),
      Layer.provideMerge(ResilienceEvents.layer())
    )
    yield* inTime(
      program.pipe(
        Effect.provide(Failover.layer(chain, { policy: { ...provenByOneCall(policy), circuits: false } })),
        Effect.provide(telemetry)
      )
    )
    const all = yield* Metric.snapshot
    const of = (id: string) => all.filter((metric) => metric.id === id)
    const labelled = (id: string) =>
      Object.fromEntries(
        of(id).map(({ attributes, state }) => [
          Object.entries(attributes ?? {})
            .toSorted()
            .map(([name, value]) => `${name}=${value}`)
            .join(","),
          "count" in state ? state.count : undefined
        ])
      )
    const histogram = (id: string) => of(id).map(({ state }) => state)
    return { all, labelled, histogram }
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))

describe("the metrics of calls", () => {
  it.effect("give the recovery rate and the average number of retries", () =>
    Effect.gen(function* () {
      const fails = Effect.fail(serverError)
      const refused = Effect.fail(failure(new FailoverReason.ContentPolicy()))
      // One call each: answered at once, recovered after two failures, recovered elsewhere after three, failed.
      const first = played({
        keys: [key("A")],
        answers: [answer("one"), fails, fails, answer("two"), fails, fails, fails]
      })
      const second = played({ model: "m2", answers: [answer("three"), refused] })
      const { all, labelled, histogram } = yield* measured(
        [first, second],
        Effect.forEach([1, 2, 3, 4], () => Effect.exit(ask))
      )
      assert.deepStrictEqual(labelled("outlast_calls_total"), {
        "outcome=answered": 1,
        "outcome=recovered": 2,
        "outcome=failed": 1
      })
      const { "outcome=recovered": recovered = 0, "outcome=failed": failed = 0 } =
        labelled("outlast_calls_total")
      assert.closeTo(Number(recovered) / (Number(recovered) + Number(failed)), 2 / 3, 1e-9)
      const [made] = histogram("outlast_call_attempts")
      assert.deepInclude(made, { count: 4, sum: 1 + 3 + 4 + 1 })
      // (0 + 2 + 3 + 0) / 4
      if (made === undefined || !("sum" in made)) return assert.fail()
      assert.strictEqual(Number(made.sum) / Number(made.count) - 1, 1.25)

      assert.deepStrictEqual(labelled("outlast_attempts_total"), {
        "model=m,provider=vendor": 7,
        "model=m2,provider=vendor": 2
      })
      assert.deepStrictEqual(labelled("outlast_attempt_failures_total"), {
        "model=m,provider=vendor,reason=ServerError": 5,
        "model=m2,provider=vendor,reason=ContentPolicy": 1
      })
      assert.deepStrictEqual(labelled("outlast_call_retries_total"), { "reason=ServerError": 5 })
      assert.deepStrictEqual(labelled("outlast_switches_total"), { "reason=ServerError": 1 })
      assert.deepStrictEqual(labelled("outlast_give_ups_total"), { "reason=ContentPolicy": 1 })
      assert.deepStrictEqual(labelled("outlast_cooldowns_total"), { "reason=ServerError,scope=model": 1 })
      // 1 s and 2 s, twice.
      assert.deepStrictEqual(labelled("outlast_waits_total"), { "reason=backoff": 4 })
      const [waited] = histogram("outlast_wait_seconds")
      assert.deepInclude(waited, { count: 4, sum: 6 })
      // One output token per answer.
      assert.deepStrictEqual(labelled("outlast_tokens_total"), {
        "kind=output,model=m,provider=vendor": 2,
        "kind=output,model=m2,provider=vendor": 1
      })
      const labels = JSON.stringify(all.map(({ attributes }) => attributes))
      assert.notInclude(labels, secret)
      assert.notInclude(labels, "#A")
    })
  )

  it.effect("count all targets out, interruptions and cost", () =>
    Effect.gen(function* () {
      const price = { input: 1, output: 1_000_000 }
      const dear = played({
        model: "dear",
        answers: [answer("one", "stop", 2), Effect.never],
        info: { price }
      })
      const program = Effect.gen(function* () {
        yield* ask
        const hung = yield* Effect.forkChild(ask)
        yield* Effect.sleep("1 second")
        yield* Fiber.interrupt(hung)
      })
      const { labelled } = yield* measured([dear], program)
      assert.deepStrictEqual(labelled("outlast_calls_total"), {
        "outcome=answered": 1,
        "outcome=abandoned": 1
      })
      assert.deepStrictEqual(labelled("outlast_cost_usd_total"), { "model=dear,provider=vendor": 2 })
      const out = played({ answers: [Effect.fail(limited(3_600))] })
      const gone = yield* measured([out], Effect.exit(ask))
      assert.deepStrictEqual(gone.labelled("outlast_give_ups_total"), { "reason=AllTargetsOut": 1 })
    })
  )

  it("reject fewer than one label and an unknown option", () => {
    assert.throws(() => FailoverMetrics.layer({ maxLabels: 0 }), "maxLabels must be an integer of at least 1")
    const untyped = { maxLabel: 10 } as FailoverMetrics.Options
    assert.throws(
      () => FailoverMetrics.layer(untyped),
      '"maxLabel" is not an option. Did you mean maxLabels? Options: maxLabels'
    )
  })
})
