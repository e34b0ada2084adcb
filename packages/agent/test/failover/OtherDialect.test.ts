/**
 * A request that a server calls malformed is sent once to a target of another wire format.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { LanguageModel } from "effect/ai"
import { Failover, FailoverReason } from "@outlast/agent"
import { defaults } from "#agent/conversation/Dialect"
import type { Chain, Played } from "../support.ts"
import { answer, failure, failureOf, inTime, limited, played, policy, serverError } from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })

const over = (chain: Chain) => Effect.provide(Failover.layer(chain, { policy }))

const malformed = failure(new FailoverReason.Format({ side: "request" }))
const refuses = Effect.fail(malformed)
const overloaded = Effect.fail(failure(new FailoverReason.Overloaded()))

/** A target with a wire format and its answers in order. */
const of = (format: string | undefined, ...answers: NonNullable<Parameters<typeof played>[0]["answers"]>) =>
  played({ model: `m-${format}`, answers, info: { dialect: { ...defaults, format } } })

const asked = (targets: ReadonlyArray<Played>) => targets.map(({ requests }) => requests.length)

describe("a malformed request", () => {
  it.effect("skips targets of the same wire format and is answered by one of another", () =>
    Effect.gen(function* () {
      const targets = [of("x", refuses), of("x", answer("no")), of("y", answer("hello"))] as const
      const { text } = yield* inTime(ask.pipe(over(targets)))
      assert.strictEqual(text, "hello")
      assert.deepStrictEqual(asked(targets), [1, 0, 1])
    })
  )

  it.effect("ends the call at the second wire format that refuses it", () =>
    Effect.gen(function* () {
      const targets = [of("x", refuses), of("y", refuses), of("z", answer("no"))] as const
      const failed = yield* inTime(failureOf(ask).pipe(over(targets)))
      assert.deepInclude(failed, { _tag: "ProviderFailure", reason: malformed.reason })
      assert.deepStrictEqual(asked(targets), [1, 1, 0])
    })
  )

  it.effect("fails at once when all targets have the same wire format", () =>
    Effect.gen(function* () {
      const targets = [of("x", refuses), of("x", answer("no"))] as const
      const failed = yield* inTime(failureOf(ask).pipe(over(targets)))
      assert.deepInclude(failed, { _tag: "ProviderFailure", reason: malformed.reason })
      assert.deepStrictEqual(asked(targets), [1, 0])
    })
  )

  it.effect("does not wait for a target of another wire format that is cooling", () =>
    Effect.gen(function* () {
      const targets = [of("y", Effect.fail(limited(30)), answer("late")), of("x", refuses)] as const
      const failed = yield* inTime(failureOf(ask).pipe(over(targets)))
      assert.deepInclude(failed, { _tag: "ProviderFailure", reason: malformed.reason })
      assert.deepStrictEqual(asked(targets), [1, 1])
    })
  )

  it.effect("goes to another provider when the wire formats are unknown", () =>
    Effect.gen(function* () {
      const same = { ...of(undefined, answer("no")), model: "m2" }
      const other = { ...of(undefined, answer("hello")), provider: "other" }
      const chain: Chain = [of(undefined, refuses), same, other]
      const { text } = yield* inTime(ask.pipe(over(chain)))
      assert.strictEqual(text, "hello")
      assert.strictEqual(same.requests.length, 0)
    })
  )

  it.effect("recovers from failures of other kinds there as usual", () =>
    Effect.gen(function* () {
      const targets = [of("x", refuses), of("y", Effect.fail(serverError), answer("hello"))] as const
      const { text } = yield* inTime(ask.pipe(over(targets)))
      assert.strictEqual(text, "hello")
      assert.deepStrictEqual(asked(targets), [1, 2])
    })
  )

  it.effect("is detected at the second target after the first was overloaded", () =>
    Effect.gen(function* () {
      const targets = [of("x", overloaded), of("y", refuses), of("z", answer("hello"))] as const
      const { text } = yield* inTime(ask.pipe(over(targets)))
      assert.strictEqual(text, "hello")
    })
  )
})
