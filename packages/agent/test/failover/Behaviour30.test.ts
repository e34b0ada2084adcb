/**
 * Behaviour 30: the limits of a failover run. A cooldown takes the place of a target's open circuit here. The parts
 * have their own tests in this folder, and `CallState.test.ts` checks them for every policy.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { Failover, FailoverReason } from "@outlast/agent"
import type { RecoveryPolicy } from "@outlast/agent"
import type { Chain } from "../support.ts"
import {
  answer,
  failure,
  failureOf,
  finish,
  inTime,
  limited,
  played,
  policy,
  say,
  serverError,
  text,
  textOf,
  timed,
  timesOf
} from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })
const stream = LanguageModel.streamText({ prompt: "What is the plan?" })

const over = (chain: Chain, changes: Partial<RecoveryPolicy.RecoveryPolicy> = {}) =>
  Effect.provide(Failover.layer(chain, { policy: { ...policy, ...changes } }))

it.effect("30 a run makes at most the attempts of its policy, over all providers", () =>
  Effect.gen(function* () {
    for (const maxAttempts of [1, 4, 5]) {
      const chain = [1, 2, 3].map((n) => played({ model: `m${n}`, answers: [Effect.fail(serverError)] }))
      const [first, ...others] = chain
      if (first === undefined) return
      yield* inTime(Effect.exit(ask.pipe(over([first, ...others], { maxAttempts }))))
      const attempts = chain.reduce((sum, { requests }) => sum + requests.length, 0)
      assert.strictEqual(attempts, maxAttempts)
    }
  })
)

it.effect("30 the next provider is asked without delay", () =>
  Effect.gen(function* () {
    const first = played({ model: "m1", answers: [Effect.fail(failure(new FailoverReason.ModelNotFound()))] })
    const second = played({ model: "m2", answers: [answer("hello")] })
    const { value, took } = yield* inTime(timed(ask.pipe(over([first, second]))))
    assert.deepStrictEqual([value.text, took], ["hello", 0])
    assert.deepStrictEqual([timesOf(first), timesOf(second)], [[0], [0]])
  })
)

it.effect("30 a cooling provider is skipped, unless all providers cool", () =>
  Effect.gen(function* () {
    const first = played({ model: "m1", answers: [Effect.fail(limited(50)), answer("first")] })
    const second = played({
      model: "m2",
      answers: [answer("second"), Effect.fail(limited(55)), answer("too late")]
    })
    const said = yield* inTime(
      Effect.gen(function* () {
        const before = yield* ask
        // The first one still cools and the second one fails now. The call waits for the one that is back first.
        const after = yield* ask
        return [before.text, after.text]
      }).pipe(over([first, second]))
    )
    assert.deepStrictEqual(said, ["second", "first"])
    assert.deepStrictEqual(
      [timesOf(first), timesOf(second)],
      [
        [0, 50_000],
        [0, 0]
      ]
    )
  })
)

it.effect("30 a cancelled call is neither repeated nor sent to another provider", () =>
  Effect.gen(function* () {
    const first = played({ model: "m1", answers: [Effect.fail(failure(new FailoverReason.Cancelled()))] })
    const second = played({ model: "m2", answers: [answer("hello")] })
    const { value, took } = yield* inTime(timed(failureOf(ask)).pipe(over([first, second])))
    assert.isTrue(value._tag === "ProviderFailure" && value.reason._tag === "Cancelled")
    assert.deepStrictEqual([took, first.requests.length, second.requests.length], [0, 1, 0])
    const interrupted = played({ model: "m1", answers: [Effect.interrupt] })
    yield* inTime(Effect.exit(ask.pipe(over([interrupted, second]))))
    assert.deepStrictEqual([interrupted.requests.length, second.requests.length], [1, 0])
  })
)

it.effect(
  "30 seen text is never sent again: the answer is continued, or the call fails if the policy says so",
  () =>
    Effect.gen(function* () {
      const cut = () =>
        played({
          model: "m1",
          streams: [say(text.start(), text.delta("one ")), say(...text.block("two"), finish())]
        })
      const collect = (chain: Chain, changes?: Partial<RecoveryPolicy.RecoveryPolicy>) =>
        inTime(Effect.exit(Stream.runCollect(stream).pipe(over(chain, changes))))
      const continued = yield* collect([cut()])
      assert.strictEqual(continued._tag === "Success" ? textOf(continued.value) : "", "one two")
      const target = cut()
      const failed = yield* collect([target], { midStream: "fail" })
      assert.deepStrictEqual([failed._tag, target.requests.length], ["Failure", 1])
    })
)
