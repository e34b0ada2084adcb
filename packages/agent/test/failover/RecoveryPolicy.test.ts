import { assert, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Random } from "effect"
import { LanguageModel } from "effect/ai"
import { Classifier, Failover, FailoverReason, ProviderFailure, RecoveryPolicy } from "@outlast/agent"
import * as Truncation from "#agent/recovery/Truncation"
import { Backoff } from "@outlast/resilience"
import { answer, failureOf, inTime, limited, played, serverError, timesOf } from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })
const { interactive } = RecoveryPolicy
const shrinking: Backoff.Backoff = { ...Backoff.exponential(), factor: 0.5 }

it.effect("the attempts of a row hold for a bad tool call, too", () =>
  Effect.gen(function* () {
    for (const attempts of [1, 2, 4]) {
      const reason = new FailoverReason.Format({ side: "response" })
      const bad = Effect.fail(ProviderFailure.local(ProviderFailure.badCall, reason, undefined))
      const target = played({ answers: [bad, bad, bad, bad] })
      const { rows } = interactive
      const policy = {
        ...interactive,
        rows: { ...rows, FormatResponse: { ...rows.FormatResponse, attempts } }
      }
      yield* inTime(failureOf(ask).pipe(Effect.provide(Failover.layer([target], { policy }))))
      assert.strictEqual(target.requests.length, attempts)
    }
  })
)

it.effect("a number out of its range is a RangeError that names the field", () =>
  Effect.gen(function* () {
    const withOverloaded = (changes: Partial<RecoveryPolicy.Row>) => ({
      ...interactive,
      rows: { ...interactive.rows, Overloaded: { ...interactive.rows.Overloaded, ...changes } }
    })
    const withAttempts = (attempts: number) => withOverloaded({ attempts })
    const withSlow = (charactersPerSecond: number, over: Duration.Duration) => ({
      ...interactive,
      limits: { ...interactive.limits, slow: { charactersPerSecond, over } }
    })
    const cases: ReadonlyArray<readonly [string, RecoveryPolicy.RecoveryPolicy]> = [
      ["maxAttempts", { ...interactive, maxAttempts: 0 }],
      ["maxAttempts", { ...interactive, maxAttempts: 1.5 }],
      ["maxAttempts", { ...interactive, maxAttempts: Number.NaN }],
      ["retryAfterJitter", { ...interactive, retryAfterJitter: -0.1 }],
      ["retryAfterJitter", { ...interactive, retryAfterJitter: 1.1 }],
      ["retryAfterJitter", { ...interactive, retryAfterJitter: Number.NaN }],
      ["maxCompactions", { ...interactive, maxCompactions: -1 }],
      ["probe.share", { ...interactive, probe: { share: 1.1, atMost: Duration.seconds(1) } }],
      ["limits.slow.charactersPerSecond", withSlow(0, Duration.seconds(1))],
      ["limits.slow.over", withSlow(1, Duration.zero)],
      ["limits.total", { ...interactive, limits: { ...interactive.limits, total: Duration.zero } }],
      [
        "rows.Overloaded.cooldown.factor",
        withOverloaded({ cooldown: { ...RecoveryPolicy.steady("model", "1 minute"), factor: 0.5 } })
      ],
      ["truncation.raiseTo", { ...interactive, truncation: { ...Truncation.defaults, raiseTo: 0 } }],
      ["rows.Overloaded.switchAfter", withOverloaded({ switchAfter: 0 })],
      ["rows.Overloaded.repeatsBeforeEquivalent", withOverloaded({ repeatsBeforeEquivalent: NaN })],
      ["maxCost", { ...interactive, maxCost: 0 }],
      ["maxCost", { ...interactive, maxCost: Number.NaN }],
      ["rows.Overloaded.attempts", withAttempts(0)],
      ["rows.Overloaded.attempts", withAttempts(2.5)]
    ]
    for (const [field, policy] of cases) {
      const exit = yield* Effect.exit(
        ask.pipe(Effect.provide(Failover.layer([played({ answers: [answer("hello")] })], { policy })))
      )
      const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
      assert.instanceOf(error, RangeError)
      assert.include(String(error), `RecoveryPolicy: ${field} must be`)
    }
    for (const policy of [
      interactive,
      RecoveryPolicy.background,
      { ...interactive, retryAfterJitter: 1, maxCost: 0.01 }
    ]) {
      RecoveryPolicy.validate(policy)
    }
    const { Overloaded } = interactive.rows
    const steep = {
      ...interactive,
      rows: { ...interactive.rows, Overloaded: { ...Overloaded, backoff: shrinking } }
    }
    assert.throws(
      () => RecoveryPolicy.validate(steep),
      RangeError,
      "RecoveryPolicy: rows.Overloaded.backoff.factor must be"
    )
  })
)

it.effect("without jitter the waits of a policy follow its formula exactly", () =>
  Effect.gen(function* () {
    const exact = RecoveryPolicy.withoutJitter(RecoveryPolicy.background)
    assert.strictEqual(exact.retryAfterJitter, 0)
    for (const row of Object.values<RecoveryPolicy.Row>(exact.rows)) assert.strictEqual(row.backoff.jitter, 0)
    assert.isAbove(interactive.retryAfterJitter, 0)
    for (const row of Object.values<RecoveryPolicy.Row>(interactive.rows))
      assert.strictEqual(row.backoff.jitter, 0.2)
    const target = played({ answers: [Effect.fail(serverError)] })
    yield* inTime(Effect.exit(ask.pipe(Effect.provide(Failover.layer([target], { policy: exact })))))
    assert.deepStrictEqual(timesOf(target), [0, 1_000, 3_000, 7_000, 15_000])
  })
)

it.effect("a custom policy decides by its own classes", () =>
  Effect.gen(function* () {
    const { Network, ContentPolicy } = interactive.rows
    const policy: RecoveryPolicy.RecoveryPolicy<"again" | "no"> = {
      ...interactive,
      deadline: Duration.minutes(10),
      classOf: ({ reason }) => (reason._tag === "ServerError" ? "again" : "no"),
      rows: { again: { ...Network, backoff: { ...Network.backoff, jitter: 0 } }, no: ContentPolicy }
    }
    const target = played({ answers: [Effect.fail(serverError)] })
    yield* inTime(Effect.exit(ask.pipe(Effect.provide(Failover.layer([target], { policy })))))
    assert.deepStrictEqual(timesOf(target), [0, 1_000, 3_000, 7_000, 15_000])
  })
)

it.effect(
  "the background policy waits a minute for a model before it takes another, the default five seconds",
  () =>
    Effect.gen(function* () {
      for (const [policy, attempts] of [
        [interactive, 3],
        [RecoveryPolicy.background, 5]
      ] as const) {
        const cuts = Effect.fail(serverError)
        const exact = RecoveryPolicy.withoutJitter({
          ...policy,
          rows: { ...policy.rows, ServerError: { ...policy.rows.ServerError, attempts: 5 } }
        })
        const first = played({ model: "m1", answers: [cuts] })
        const second = played({ model: "m2", answers: [answer("hello")] })
        yield* inTime(ask.pipe(Effect.provide(Failover.layer([first, second], { policy: exact }))))
        assert.strictEqual(first.requests.length, attempts)
      }
    })
)

it.effect("a decorrelated backoff depends on the previous wait", () =>
  Effect.gen(function* () {
    const { ServerError } = interactive.rows
    const backoff = Backoff.exponential({
      initial: "1 second",
      factor: 3,
      cap: "1 minute",
      jitter: "decorrelated"
    })
    const policy: RecoveryPolicy.RecoveryPolicy = {
      ...interactive,
      rows: { ...interactive.rows, ServerError: { ...ServerError, attempts: 4, backoff } }
    }
    const target = played({ answers: [Effect.fail(serverError)] })
    yield* inTime(Effect.exit(ask.pipe(Effect.provide(Failover.layer([target], { policy }))))).pipe(
      Effect.provideService(Random.Random, { nextDoubleUnsafe: () => 0.5, nextIntUnsafe: () => 0 })
    )
    // The middle of 1 to 3 s, of 1 to 6 s, of 1 to 10.5 s.
    assert.deepStrictEqual(timesOf(target), [0, 2_000, 5_500, 11_250])
  })
)

it.effect("28 a server's wait of 0 means now, whatever the backoff", () =>
  Effect.gen(function* () {
    const target = played({ answers: [Effect.fail(limited(0)), answer("hello")] })
    yield* inTime(ask.pipe(Effect.provide(Failover.layer([target]))))
    assert.deepStrictEqual(timesOf(target), [0, 0])
  })
)

it("a local limit opens no cooldown, but a refused connection does, whichever side gave up", () => {
  const classed = (error: unknown) => interactive.classOf(Classifier.failureOf(error))
  assert.strictEqual(classed(new DOMException("The operation timed out", "TimeoutError")), "TimeoutLocal")
  const connect = Object.assign(new Error("Connect Timeout Error"), { code: "UND_ERR_CONNECT_TIMEOUT" })
  assert.strictEqual(classed(connect), "TimeoutConnect")
})

it("a refusal that only words support ends a call with a status of the request, and asks another model otherwise", () => {
  const then = (status: number | undefined) =>
    RecoveryPolicy.rowOf(
      interactive,
      new ProviderFailure.ProviderFailure({
        reason: new FailoverReason.ContentPolicy(),
        evidence: { rule: "test", signal: "text", depth: 0, ...(status === undefined ? {} : { status }) },
        detail: ""
      })
    ).then
  assert.deepStrictEqual([undefined, 200, 400, 499, 500].map(then), ["move", "move", "stop", "stop", "move"])
})
