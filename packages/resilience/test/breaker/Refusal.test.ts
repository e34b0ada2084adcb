/** The error of a refused call. A refusal is an expected outcome, and in an outage every call has one. */
import { assert, describe, it } from "@effect/vitest"
import { CircuitBreaker, Retry } from "@outlast/resilience"
import { Effect } from "effect"
import { inspect } from "node:util"
import * as ErrorText from "#resilience/ErrorText"

const open = Effect.tap(CircuitBreaker.make(), (breaker) => breaker.trip("a", "1 minute"))

const refusal = Effect.flatMap(open, (breaker) => Effect.flip(breaker.execute("a")(Effect.void)))

describe("a refusal", () => {
  it.effect("has no stack, which would cost more than the call, and prints its message", () =>
    Effect.gen(function* () {
      const error = yield* refusal
      const text = "CircuitRefused: Circuit `a` is open for another 60 s. Wait, or call something else."
      assert.strictEqual(error.stack, text)
      assert.strictEqual(inspect(error), text)
    })
  )

  it.effect("ends a retry with an error without a stack, and a failure with one that has a stack", () =>
    Effect.gen(function* () {
      const breaker = yield* open
      const stackOf = (circuit: string) =>
        Effect.fail("down").pipe(
          Retry.with({ classify: () => Retry.stop, breaker: { circuit } }),
          Effect.provideService(CircuitBreaker.CircuitBreaker, breaker),
          Effect.flip,
          Effect.map(({ stack = "" }) => stack)
        )
      assert.strictEqual(
        yield* stackOf("a"),
        "RetryFailed: Gave up after 0 attempts: circuit `a` refused the call."
      )
      assert.include(yield* stackOf("b"), "\n    at ")
    })
  )
})

describe("ErrorText.withoutStack", () => {
  it("leaves the stacks of other errors as they are, also when the constructor throws", () => {
    const limit = Error.stackTraceLimit
    assert.strictEqual(ErrorText.withoutStack(() => new RangeError("far")).stack, "RangeError: far")
    assert.throws(() =>
      ErrorText.withoutStack(() => {
        throw new Error("broken")
      })
    )
    assert.strictEqual(Error.stackTraceLimit, limit)
    assert.include(new Error("down").stack, "\n    at ")
  })
})
