/**
 * The effect of each policy setting: a call with it, and the same call without it.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { LanguageModel } from "effect/ai"
import { Failover, FailoverReason, KeySource, Targets } from "@outlast/agent"
import type { RecoveryPolicy } from "@outlast/agent"
import type { Chain } from "../support.ts"
import {
  answer,
  failure,
  failureOf,
  inTime,
  key,
  limited,
  played,
  policy,
  serverError,
  timed,
  timesOf
} from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })

type Changes = Partial<RecoveryPolicy.RecoveryPolicy>
const over = (chain: Chain, changes: Changes) =>
  Effect.provide(Failover.layer(chain, { policy: { ...policy, circuits: false, ...changes } }))

const withRow = (name: RecoveryPolicy.DefaultClass, changes: Partial<RecoveryPolicy.Row>): Changes => ({
  rows: { ...policy.rows, [name]: { ...policy.rows[name], ...changes } }
})

const fails = Effect.fail(serverError)
const overloaded = Effect.fail(failure(new FailoverReason.Overloaded()))
const hour = { patience: Duration.hours(1) }

describe("policy settings: when to switch, and to which target", () => {
  it.effect("switchAfter leaves a target after that many consecutive failures of one class", () =>
    Effect.gen(function* () {
      for (const [switchAfter, asked] of [
        [undefined, 5],
        [1, 1],
        [2, 2]
      ] as const) {
        const first = played({ answers: [overloaded] })
        const second = played({ model: "m2", answers: [answer("hello")] })
        yield* inTime(ask.pipe(over([first, second], { ...hour, ...withRow("Overloaded", { switchAfter }) })))
        assert.deepStrictEqual([first.requests.length, second.requests.length], [asked, 1])
      }
    })
  )

  it.effect("switchAfter keeps a call at its target when there is no other", () =>
    Effect.gen(function* () {
      const alone = played({ answers: [overloaded, overloaded, answer("hello")] })
      yield* inTime(ask.pipe(over([alone], withRow("Overloaded", { switchAfter: 1 }))))
      assert.strictEqual(alone.requests.length, 3)
    })
  )

  it.effect("`to` selects the targets for a class: any, another model, or a list of models", () =>
    Effect.gen(function* () {
      for (const [to, answering] of [
        ["next", "m#B"],
        ["other-model", "m2"],
        [["m3"], "m3"]
      ] as const) {
        const first = played({ keys: [key("A")], answers: [overloaded] })
        const same = played({ keys: [key("B")], answers: [answer("m#B")] })
        const second = played({ model: "m2", answers: [answer("m2")] })
        const third = played({ model: "m3", answers: [answer("m3")] })
        const chain: Chain = [first, same, second, third]
        const { text } = yield* inTime(
          ask.pipe(over(chain, withRow("Overloaded", { to, switchAfter: 1, cooldown: undefined })))
        )
        assert.strictEqual(text, answering)
      }
    })
  )

  it.effect("a class restricted to some models fails with its own failure when they cannot answer", () =>
    Effect.gen(function* () {
      const first = played({ answers: [overloaded] })
      const second = played({ model: "m2", answers: [answer("no")] })
      // The key of this target is not set.
      const third = played({ model: "m9", keys: [KeySource.env("KEY_THAT_IS_NOT_SET")] })
      const failed = yield* inTime(
        failureOf(ask).pipe(over([first, second, third], withRow("Overloaded", { to: ["m9"] })))
      )
      assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "Overloaded")
      assert.strictEqual(second.requests.length, 0)
    })
  )

  it.effect("a class restricted to some models goes nowhere else when circuits refuse them", () =>
    Effect.gen(function* () {
      const first = played({
        answers: [Effect.fail(failure(new FailoverReason.Billing()))],
        keys: [key("A")]
      })
      const second = played({ model: "m2", answers: [answer("no")] })
      const third = played({ model: "m3", answers: [answer("no")] })
      const options = {
        policy: { ...policy, circuits: false as const, ...withRow("Billing", { to: ["m3"] }) },
        isHealthy: ({ model }: { readonly model: string }) => Effect.succeed(model !== "m3")
      }
      yield* inTime(Effect.exit(ask.pipe(Effect.provide(Failover.layer([first, second, third], options)))))
      assert.deepStrictEqual([second.requests.length, third.requests.length], [0, 0])
    })
  )
})

describe("policy settings: attempts that count", () => {
  it.effect("pool: failures of other classes count, or only those of the row's own class", () =>
    Effect.gen(function* () {
      for (const [pool, asked] of [
        ["shared", 3],
        ["own", 5]
      ] as const) {
        const mixed = played({ answers: [fails, overloaded, fails, overloaded, fails, overloaded] })
        const rows = {
          ...policy.rows,
          ServerError: { ...policy.rows.ServerError, attempts: 3, pool },
          Overloaded: { ...policy.rows.Overloaded, pool }
        }
        yield* inTime(Effect.exit(ask.pipe(over([mixed], { rows, retryBudget: false, whenAllOut: "fail" }))))
        assert.strictEqual(mixed.requests.length, asked)
      }
    })
  )

  it.effect("counters: counts start again in each call, or last for a target until it succeeds", () =>
    Effect.gen(function* () {
      const times = (counters: "call" | "target") =>
        Effect.gen(function* () {
          const target = played({
            answers: [fails, fails, fails, fails, answer("hello"), fails, answer("hello")]
          })
          const exits = yield* inTime(
            Effect.forEach([1, 2, 3, 4], () => Effect.exit(timed(ask))).pipe(
              over([target], { counters, ...withRow("ServerError", { attempts: 3, worthWaiting: false }) })
            )
          )
          return exits.map((exit) => (exit._tag === "Success" ? exit.value.took : undefined))
        })
      // After three failures the next call starts its count again.
      assert.deepStrictEqual(yield* times("call"), [undefined, 1_000, 1_000, 0])
      // The fourth consecutive failure ends the second call at once. A success resets the count.
      assert.deepStrictEqual(yield* times("target"), [undefined, undefined, 0, 1_000])
    })
  )
})

it.effect("an operator's reset clears the consecutive failures of a target", () =>
  Effect.gen(function* () {
    const target = played({ answers: [fails, fails, fails, fails, answer("hello")] })
    const took = yield* inTime(
      Effect.gen(function* () {
        yield* Effect.exit(ask)
        yield* (yield* Targets.Targets).reset({ target: "vendor/m" })
        return (yield* timed(ask)).took
      }).pipe(over([target], { counters: "target", ...withRow("ServerError", { attempts: 3 }) }))
    )
    // The fourth failure counts as the first.
    assert.strictEqual(took, 1_000)
  })
)

describe("policy settings: when all targets are out", () => {
  /** Runs a call that finds both targets out, for 30 s and for 20 s. */
  const finding = <A, E>(call: Effect.Effect<A, E, LanguageModel.LanguageModel>, changes: Changes) =>
    Effect.gen(function* () {
      const first = played({ answers: [Effect.fail(limited(30)), answer("hello")] })
      const second = played({ model: "m2", answers: [Effect.fail(limited(20)), answer("hello")] })
      const once = withRow("RateLimit", { attempts: 1 })
      const result = yield* inTime(
        Effect.andThen(Effect.exit(ask), timed(call)).pipe(over([first, second], { ...once, ...changes }))
      )
      return { ...result, asked: [timesOf(first), timesOf(second)] }
    })

  it.effect("wait: waits for the target that is back first (BerriAI/litellm#3646)", () =>
    Effect.gen(function* () {
      const { took, asked } = yield* finding(ask, { whenAllOut: "wait" })
      assert.deepStrictEqual([took, asked], [20_000, [[0], [0, 20_000]]])
    })
  )

  it.effect("probe: asks the target that is back first at once", () =>
    Effect.gen(function* () {
      const { took, asked } = yield* finding(ask, { whenAllOut: "probe" })
      assert.deepStrictEqual([took, asked], [0, [[0], [0, 0]]])
    })
  )

  it.effect("fail: fails at once with the time at which a call may work again", () =>
    Effect.gen(function* () {
      const { value, took } = yield* finding(failureOf(ask), { whenAllOut: "fail" })
      assert.strictEqual(took, 0)
      assert.isTrue(value._tag === "AllTargetsOut" && value.soonest !== undefined)
      assert.strictEqual(
        value._tag === "AllTargetsOut" && value.soonest && Duration.toMillis(value.soonest),
        20_000
      )
    })
  )
})
