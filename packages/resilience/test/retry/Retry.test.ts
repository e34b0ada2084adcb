/** Attempts, limits by class, errors, events and options. Waits, circuits and streams have separate files. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Data, Duration, Effect, Exit, Redacted } from "effect"
import { Backoff, CircuitBreaker, Retry } from "@outlast/resilience"
import {
  Busy,
  busy,
  classify,
  common,
  exact,
  failureOf,
  Malformed,
  quick,
  recorded,
  scripted,
  settle
} from "../support/attempts.ts"

describe("attempts", () => {
  it.effect("25 include the first and the retries, and the last failure is returned with their number", () =>
    Effect.gen(function* () {
      for (const attempts of [1, 2, 3, 7]) {
        let n = 0
        const attempt = Effect.suspend(() => Effect.fail(new Busy({ n: ++n })))
        const error = yield* failureOf(attempt.pipe(Retry.with({ ...common, attempts })))
        assert.strictEqual(n, attempts)
        assert.strictEqual(error.attempts, attempts)
        assert.propertyVal(error.failure, "n", attempts)
        assert.strictEqual(error.stopped, "attempts")
      }
    })
  )

  it.effect("25 are limited to three by default", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy)
      yield* failureOf(attempt.pipe(Retry.with({ classify })))
      assert.strictEqual(at.length, 3)
      assert.strictEqual(Retry.defaults.attempts, 3)
    })
  )

  it.effect("25 end with the first success, whose value is returned", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy, Effect.succeed("fine"), busy)
      const { exit } = yield* settle(attempt.pipe(Retry.with(common)))
      assert.deepStrictEqual(exit, Exit.succeed("fine"))
      assert.strictEqual(at.length, 2)
    })
  )

  it.effect("25 a defect is not retried and is passed on", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(Effect.die("bug"))
      const { exit } = yield* settle(attempt.pipe(Retry.with({ classify: () => Retry.again() })))
      assert.deepStrictEqual(exit, Exit.die("bug"))
      assert.strictEqual(at.length, 1)
    })
  )

  it.effect("25 an interruption is not retried and is passed on", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(Effect.interrupt)
      const { exit } = yield* settle(attempt.pipe(Retry.with({ classify: () => Retry.again() })))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
      assert.strictEqual(at.length, 1)
    })
  )

  it.effect("25 a failure that is not retryable ends the call, also after a retryable one", () =>
    Effect.gen(function* () {
      const once = scripted(Effect.fail(new Malformed()))
      const first = yield* failureOf(once.attempt.pipe(Retry.with(common)))
      assert.strictEqual(once.at.length, 1)
      assert.strictEqual(first.attempts, 1)
      assert.strictEqual(first.stopped, "not-retryable")
      assert.strictEqual(first.after, 0)
      const later = scripted<never, Busy | Malformed, never>(busy, Effect.fail(new Malformed()))
      const second = yield* failureOf(later.attempt.pipe(Retry.with({ ...common, attempts: 9 })))
      assert.strictEqual(second.attempts, 2)
      assert.strictEqual(second.failure._tag, "Malformed")
      assert.strictEqual(second.stopped, "not-retryable")
    })
  )

  it.effect(
    "25 a failure next to a defect is not retried, and both are passed on, the failure with its type",
    () =>
      Effect.gen(function* () {
        const cause = Cause.combine(Cause.fail(new Busy({})), Cause.die("bug"))
        const { at, attempt } = scripted(Effect.failCause(cause))
        const { exit } = yield* settle(attempt.pipe(Retry.with(common)))
        assert.strictEqual(at.length, 1)
        assert.isTrue(Exit.isFailure(exit))
        if (!Exit.isFailure(exit)) return
        assert.isTrue(Cause.hasDies(exit.cause))
        const [failed] = exit.cause.reasons.filter(Cause.isFailReason)
        assert.instanceOf(failed?.error, Retry.RetryFailed)
        assert.instanceOf(failed?.error.failure, Busy)
      })
  )

  it.effect("25 a failure together with an interruption of child fibers is classified", () =>
    Effect.gen(function* () {
      const one = scripted(busy, Effect.void)
      const both = Effect.all([one.attempt, Effect.sleep("1 second")], { concurrency: "unbounded" })
      const { exit } = yield* settle(both.pipe(Retry.with(common)))
      assert.isTrue(Exit.isSuccess(exit))
      assert.strictEqual(one.at.length, 2)
    })
  )

  it.effect(
    "25 a classifier that throws ends the call, and both the failure and the defect are passed on",
    () =>
      Effect.gen(function* () {
        const { at, attempt } = scripted(Effect.fail(new Busy({ n: 503 })))
        const throwing = Retry.with({
          classify: (): Retry.Verdict => {
            throw new Error("bug")
          }
        })
        const { exit } = yield* settle(throwing(attempt))
        assert.strictEqual(at.length, 1)
        assert.isTrue(Exit.isFailure(exit))
        if (!Exit.isFailure(exit)) return
        const [failed] = exit.cause.reasons.filter(Cause.isFailReason)
        assert.propertyVal(failed?.error.failure, "n", 503)
        assert.deepStrictEqual([failed?.error.attempts, failed?.error.stopped], [1, "not-retryable"])
        const [died] = exit.cause.reasons.filter(Cause.isDieReason)
        assert.propertyVal(died?.defect, "message", "bug")
      })
  )

  for (const [verdict, shown] of [
    [true, "true"],
    [undefined, "undefined"],
    [Promise.resolve(Retry.stop), "a promise"],
    [Retry.again, "a function"],
    [{}, "an object"]
  ] as const) {
    it.effect(`a classifier that returns ${shown} ends the call with an InvalidOption`, () =>
      Effect.gen(function* () {
        const { at, attempt } = scripted(Effect.fail(new Busy({ n: 503 })))
        // As in a JavaScript program.
        const classify = (() => verdict) as unknown as () => Retry.Verdict
        const { exit } = yield* settle(attempt.pipe(Retry.with({ classify })))
        assert.strictEqual(at.length, 1)
        if (!Exit.isFailure(exit)) return assert.fail("it succeeded")
        const error = Cause.squash(exit.cause)
        assert.strictEqual(
          String(error),
          `InvalidOption: Retry: classify must return a Verdict, for example Retry.again() or Retry.stop, got ${shown}`
        )
        assert.propertyVal((error as Error).cause, "n", 503)
      })
    )
  }

  it("again refuses options that are no object", () => {
    assert.throws(
      () => Retry.again(5 as never),
      RangeError,
      "Retry.again: options must be an object such as { class, retryAfter }, got 5"
    )
  })

  it.effect("the effect can be the first argument", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy, Effect.succeed("fine"))
      const { exit } = yield* settle(Retry.with(attempt, common))
      assert.deepStrictEqual(exit, Exit.succeed("fine"))
      assert.deepStrictEqual(at, [0, 1_000])
      assert.strictEqual(yield* Retry.with(Effect.succeed(1), {}), 1)
      assert.throws(
        () => Retry.with(attempt, { ...common, attempts: 0 }),
        RangeError,
        "Retry: attempts must be"
      )
    })
  )

  it.effect("a class has its own limit, and the call has one for all classes", () =>
    Effect.gen(function* () {
      const of = (name: string) => Effect.fail(new Busy({ class: name }))
      const call = (...script: readonly [typeof busy, ...Array<typeof busy>]) => {
        const { attempt } = scripted(...script)
        const attemptsPerClass = { RateLimit: 4, Server: 2, constructor: 1 }
        return failureOf(attempt.pipe(Retry.with({ ...common, attemptsPerClass, attempts: 5 })))
      }
      assert.strictEqual((yield* call(of("RateLimit"))).attempts, 4)
      assert.strictEqual((yield* call(of("Server"))).attempts, 2)
      assert.strictEqual((yield* call(of("constructor"))).attempts, 1)
      assert.strictEqual((yield* call(of("Other"))).attempts, 5)
      assert.strictEqual((yield* call(busy)).attempts, 5)
      // One of Server, then RateLimit until the call's five are used up, although RateLimit alone allows four.
      const mixed = yield* call(of("Server"), of("Other"), of("RateLimit"))
      assert.strictEqual(mixed.attempts, 5)
      assert.propertyVal(mixed.failure, "class", "RateLimit")
      // The second of Server is its last, however many the call has left.
      assert.strictEqual((yield* call(of("Server"), of("Other"), of("Server"))).attempts, 3)
    })
  )

  it.effect("a class may have more than the default of three attempts", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(Effect.fail(new Busy({ class: "RateLimit" })))
      yield* failureOf(attempt.pipe(Retry.with({ ...common, attemptsPerClass: { RateLimit: 5 } })))
      assert.strictEqual(at.length, 5)
      // Unlisted classes share three attempts, also next to a class with more.
      const of = (name: string) => Effect.fail(new Busy({ class: name }))
      const calls = [
        [["Server"], 3],
        [["Server", "Other"], 3],
        [["RateLimit", "Server"], 4],
        [["RateLimit", "RateLimit", "Server", "Other", "RateLimit"], 5]
      ] as const
      for (const [names, wanted] of calls) {
        const [first, ...rest] = names.map(of)
        const one = scripted(first ?? busy, ...rest)
        const error = yield* failureOf(
          one.attempt.pipe(Retry.with({ ...common, attemptsPerClass: { RateLimit: 5 } }))
        )
        assert.strictEqual(error.attempts, wanted, names.join())
      }
      const fewer = scripted(busy)
      yield* failureOf(fewer.attempt.pipe(Retry.with({ ...common, attemptsPerClass: { RateLimit: 1 } })))
      assert.strictEqual(fewer.at.length, 3)
      const unnamed = scripted(busy)
      yield* failureOf(unnamed.attempt.pipe(Retry.with({ ...common, attemptsPerClass: { failure: 2 } })))
      assert.strictEqual(unnamed.at.length, 2)
    })
  )

  it.effect('classes share one pool by default, and have separate limits with "own"', () =>
    Effect.gen(function* () {
      const of = (name: string) => Effect.fail(new Busy({ class: name }))
      const attempts = (options: Pick<Retry.Options<Busy>, "attempts" | "attemptPools">) => {
        const { attempt } = scripted(of("A"), of("A"), of("B"), of("B"), of("C"), of("D"), of("C"))
        const attemptsPerClass = { A: 3, B: 3 }
        return Effect.map(
          failureOf(attempt.pipe(Retry.with({ ...common, ...options, attemptsPerClass }))),
          (error) => error.attempts
        )
      }
      assert.strictEqual(yield* attempts({}), 3)
      assert.strictEqual(yield* attempts({ attempts: 4 }), 4)
      assert.strictEqual(yield* attempts({ attemptPools: "pooled" }), 3)
      // The seventh failure is the third of the unlisted classes.
      assert.strictEqual(yield* attempts({ attemptPools: "own" }), 7)
      assert.strictEqual(yield* attempts({ attemptPools: "own", attempts: 2 }), 6)
    })
  )

  it.effect("runs are independent, sequentially and concurrently", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy)
      const call = Effect.flip(attempt.pipe(Retry.with({ ...common, breaker: { circuit: "a" } })))
      const first = yield* settle(call)
      const { exit } = yield* settle(Effect.all([call, call, call], { concurrency: "unbounded" }))
      assert.isTrue(Exit.isSuccess(first.exit) && Exit.isSuccess(exit))
      if (Exit.isSuccess(exit))
        assert.deepStrictEqual(
          exit.value.map(({ attempts }) => attempts),
          [3, 3, 3]
        )
      assert.strictEqual(at.length, 12)
    }).pipe(Effect.provide(CircuitBreaker.layer({ trip: { consecutive: { failures: 100 } } })))
  )

  it.effect("three thousand attempts end without a stack overflow", () =>
    Effect.gen(function* () {
      const { attempt } = scripted(busy)
      const now = Backoff.constant(0)
      const error = yield* failureOf(
        attempt.pipe(Retry.with({ classify, backoff: now, attempts: 3_000, breaker: { circuit: "a" } }))
      )
      assert.strictEqual(error.attempts, 3_000)
    }).pipe(Effect.provide(CircuitBreaker.layer({ trip: { consecutive: { failures: 1e6 } } })))
  )
})

describe("without classify", () => {
  class Told extends Data.TaggedError("Told")<{
    readonly isRetryable: boolean
    readonly retryAfter?: Duration.Duration
  }> {}

  it.effect("a retryable error is retried after the wait it names", () =>
    Effect.gen(function* () {
      const yes = scripted(Effect.fail(new Told({ isRetryable: true, retryAfter: Duration.seconds(20) })))
      yield* failureOf(yes.attempt.pipe(Retry.with({ attempts: 2, backoff: exact, retryAfterJitter: 0 })))
      assert.deepStrictEqual(yes.at, [0, 20_000])
      const no = scripted(Effect.fail(new Told({ isRetryable: false })))
      const error = yield* failureOf(no.attempt.pipe(Retry.with()))
      assert.strictEqual(no.at.length, 1)
      assert.strictEqual(error.stopped, "not-retryable")
    })
  )

  it.effect("nested retries do not multiply attempts", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(Effect.fail(new Told({ isRetryable: true })))
      const error = yield* failureOf(attempt.pipe(Retry.with(), Retry.with({ attempts: 5 })))
      assert.strictEqual(at.length, 3)
      assert.strictEqual(error.attempts, 1)
      assert.strictEqual(error.failure.attempts, 3)
    })
  )
})

describe("RetryFailed", () => {
  it.effect("holds the failure (also as cause), the number of attempts, and the reason", () =>
    Effect.gen(function* () {
      const failure = new Busy({ n: 1 })
      const error = yield* failureOf(Effect.fail(failure).pipe(Retry.with(common)))
      assert.instanceOf(error, Error)
      assert.strictEqual(error._tag, "RetryFailed")
      assert.strictEqual(error.failure, failure)
      assert.strictEqual(error.cause, failure)
      assert.strictEqual(error.message, "Gave up after 3 attempts: the attempt limit is reached.")
      assert.isFalse(error.isRetryable)
    })
  )

  it("has a message with the reason and without the failure", () => {
    const secret = "sk-ant-0123456789"
    const failure = { _tag: "Denied", key: Redacted.make(secret), prompt: secret }
    const messageOf = (stopped: Retry.RetryFailed<unknown>["stopped"], attempts = 2) =>
      new Retry.RetryFailed({ failure, attempts, stopped }).message
    const all = [
      "not-retryable",
      "attempts",
      "deadline",
      "retry-after",
      "budget",
      "refused",
      "started"
    ] as const
    const messages = all.map((stopped) => messageOf(stopped))
    assert.strictEqual(new Set(messages).size, all.length)
    for (const message of messages) {
      assert.match(message, /^Gave up after 2 attempts: [^.]+\.$/)
      assert.notInclude(message, secret)
    }
    assert.include(messageOf("not-retryable", 1), "after 1 attempt:")
    assert.include(messageOf("refused", 0), "after 0 attempts:")
  })

  it.effect("is caught by its tag", () =>
    Effect.gen(function* () {
      const answer = yield* Effect.fail(new Malformed()).pipe(
        Retry.with(common),
        Effect.catchTag("RetryFailed", ({ failure, attempts }) =>
          Effect.succeed(`${failure._tag} ${attempts}`)
        )
      )
      assert.strictEqual(answer, "Malformed 1")
    })
  )
})

const sameEvents = (events: ReadonlyArray<object>, wanted: ReadonlyArray<object>) =>
  assert.deepStrictEqual(events, wanted)

describe("events", () => {
  it.effect("contain the failure, the next step and the name of the call", () =>
    Effect.gen(function* () {
      const { attempt } = scripted(Effect.fail(new Busy({ class: "RateLimit" })), busy, Effect.void)
      const { events } = yield* recorded(settle(attempt.pipe(Retry.with({ ...common, name: "answer" }))))
      sameEvents(events, [
        {
          _tag: "Retrying",
          at: 0,
          name: "answer",
          attempt: 1,
          delay: 1_000,
          class: "RateLimit",
          because: "failed"
        },
        { _tag: "Retrying", at: 1_000, name: "answer", attempt: 2, delay: 2_000, because: "failed" },
        { _tag: "RetrySucceeded", at: 3_000, name: "answer", attempts: 3 }
      ])
    })
  )

  it.effect("contain the wait that the server requested, also where it is ignored", () =>
    Effect.gen(function* () {
      const { attempt } = scripted(Effect.fail(new Busy({ wait: "20 seconds" })), Effect.void)
      const call = attempt.pipe(Retry.with({ ...common, retryAfter: "ignored" }))
      sameEvents((yield* recorded(settle(call))).events, [
        { _tag: "Retrying", at: 0, attempt: 1, delay: 1_000, retryAfter: 20_000, because: "failed" },
        { _tag: "RetrySucceeded", at: 1_000, attempts: 2 }
      ])
    })
  )

  it.effect("report a call that failed, with the reason", () =>
    Effect.gen(function* () {
      const { events } = yield* recorded(settle(busy.pipe(Retry.with({ ...common, attempts: 2 }))))
      sameEvents(events, [
        { _tag: "Retrying", at: 0, attempt: 1, delay: 1_000, because: "failed" },
        { _tag: "RetriesExhausted", at: 1_000, attempts: 2, stopped: "attempts" }
      ])
    })
  )

  it.effect("are not published for a call that succeeds at once, or for defects and interruptions", () =>
    Effect.gen(function* () {
      const calls = [Effect.void, Effect.die("bug"), Effect.interrupt].map((effect) =>
        Effect.exit(effect.pipe(Retry.with()))
      )
      sameEvents((yield* recorded(Effect.all(calls))).events, [])
    })
  )

  it.effect(
    "say once that a call succeeded that had to wait for its circuit, if it was not the first attempt",
    () =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.CircuitBreaker
        yield* breaker.trip("a")
        const { events } = yield* recorded(
          settle(Effect.void.pipe(Retry.with({ ...common, breaker: { circuit: "a", whenRefused: "wait" } })))
        )
        sameEvents(
          events.filter(({ _tag }) => _tag !== "CircuitTransition" && _tag !== "CircuitRefusal"),
          [{ _tag: "Retrying", at: 0, attempt: 0, delay: 10_000, because: "refused" }]
        )
      }).pipe(Effect.provide(quick))
  )
})

describe("options out of their range are rejected by `Retry.with`", () => {
  const refused: ReadonlyArray<readonly [Retry.Options<never>, string]> = [
    [{ attempts: 0 }, "Retry: attempts must be an integer of at least 1, got 0"],
    [{ attempts: 1.5 }, "Retry: attempts must be an integer of at least 1, got 1.5"],
    [{ attempts: Number.NaN }, "Retry: attempts must be an integer of at least 1, got NaN"],
    [
      { attemptsPerClass: { Server: 0 } },
      "Retry: attemptsPerClass.Server must be an integer of at least 1, got 0"
    ],
    [{ deadline: -1 }, "Retry: deadline must be a finite duration of at least 0, got -1"],
    [{ deadline: "Infinity" }, "Retry: deadline must be a finite duration of at least 0"],
    [{ deadline: Number.NaN }, "Retry: deadline must be a finite duration of at least 0, got NaN"],
    [{ maxRetryAfter: -1 }, "Retry: maxRetryAfter must be a duration from 0 to 365d, got -1"],
    [{ retryAfterJitter: 2 }, "Retry: retryAfterJitter must be a finite number from 0 to 1, got 2"],
    [
      { backoff: { ...exact, cap: Duration.millis(1) } },
      "Retry: backoff: cap must be a duration from 1s to 365d, got 1ms"
    ]
  ]
  const unknown: ReadonlyArray<readonly [object, string]> = [
    [{ retryAfter: "never" }, 'Retry: retryAfter must be "wins" or "minimum" or "ignored", got "never"'],
    [{ attemptPools: "shared" }, 'Retry: attemptPools must be "own" or "pooled", got "shared"'],
    [
      { breaker: { circuit: "a", whenRefused: "retry" } },
      'Retry: breaker.whenRefused must be "fail" or "wait", got "retry"'
    ],
    [{ classify: "always" }, 'Retry: classify must be a function (error) => Verdict, got "always"'],
    [{ budget: "yes" }, 'Retry: budget must be true or false, got "yes"'],
    [{ name: 7 }, "Retry: name must be a string, got 7"],
    [
      { backoff: { ...exact, jitter: "some" } },
      'Retry: backoff: jitter must be a number from 0 to 1, "full" or "equal" or "decorrelated", or { below, above }, got "some"'
    ],
    [
      { backoff: "exponential" },
      'Retry: backoff must be a Backoff, for example Backoff.exponential(), got "exponential"'
    ]
  ]
  for (const [options, message] of unknown) {
    it(message, () => {
      // As read from a file, without types.
      const loose = { classify: () => Retry.stop, ...options } as Retry.Options<never>
      for (const make of [Retry.with, Retry.withStream] as ReadonlyArray<(options: object) => unknown>) {
        assert.throws(() => make(loose), RangeError, message)
      }
    })
  }
  for (const [options, message] of refused) {
    it(message, () => {
      const checked = { ...options, classify: () => Retry.stop, budget: false, breaker: undefined } as const
      assert.throws(() => Retry.with(checked), RangeError, message)
      assert.throws(() => Retry.withStream(checked), RangeError, message)
    })
  }
})
