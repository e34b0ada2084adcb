/** Properties of all presets. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { FailoverReason, Presets, RecoveryPolicy } from "@outlast/agent"
import { failure, failureOf, inTime, played } from "../support.ts"
import { ask, model, over, times } from "./scenario.ts"

const presets: Readonly<Record<string, { readonly policy: RecoveryPolicy.RecoveryPolicy<string> }>> = Presets

const reasons: ReadonlyArray<FailoverReason.FailoverReason> = [
  new FailoverReason.Auth({ permanent: true }),
  new FailoverReason.Billing(),
  new FailoverReason.RateLimit(),
  new FailoverReason.RateLimit({ liftable: false }),
  new FailoverReason.Overloaded(),
  new FailoverReason.ServerError(),
  new FailoverReason.Timeout({ phase: "total", local: false }),
  new FailoverReason.Network(),
  new FailoverReason.PermanentNetwork(),
  new FailoverReason.ContextOverflow({}),
  new FailoverReason.ModelNotFound(),
  new FailoverReason.Format({ side: "request" }),
  new FailoverReason.ContentPolicy(),
  new FailoverReason.Cancelled(),
  new FailoverReason.Unknown()
]

assert.sameMembers(Object.keys(presets), [
  "codebuddy",
  "decision037",
  "s11",
  "nexo",
  "claw0",
  "interactive",
  "background"
])

for (const [name, { policy }] of Object.entries(presets)) {
  describe(name, () => {
    it("is a valid policy", () => assert.doesNotThrow(() => RecoveryPolicy.validate(policy)))

    it.effect("ends for every reason within its attempts, and stops at a cancel", () =>
      Effect.gen(function* () {
        for (const reason of reasons) {
          const failing = Effect.fail(failure(reason))
          const first = played({ model: "m1", answers: [failing] })
          const second = played({ model: "m2", answers: [failing] })
          yield* inTime(failureOf(ask).pipe(over(policy, [first, second])))
          const attempts = first.requests.length + second.requests.length
          assert.isAtMost(attempts, policy.maxAttempts)
          if (reason._tag === "Cancelled") assert.strictEqual(attempts, 1)
        }
      })
    )

    it.effect("does not change a call that succeeds", () =>
      Effect.gen(function* () {
        const [first, second] = [yield* model("anthropic", "m1", []), yield* model("openai", "m2", [])]
        yield* ask.pipe(over(policy, [first, second]))
        assert.deepStrictEqual([yield* times(first), yield* times(second)], [[0], []])
      })
    )
  })
}
