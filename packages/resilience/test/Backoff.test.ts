import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, Fiber, Random, Ref, Schedule } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { Backoff } from "@outlast/resilience"
import * as Sweeps from "../../../test/sweeps.ts"

const exact = { initial: "1 second", factor: 2, cap: "30 seconds", jitter: 0 } as const

/** The largest possible draw. */
const almostOne = 1 - 2 ** -53

const delays = (spec: Backoff.Backoff, count: number, draw = 0): ReadonlyArray<number> =>
  Array.from({ length: count }, (_, index) => Backoff.delay(spec, index + 1, undefined, draw))

const ends = (spec: Backoff.Backoff, n: number, previous?: number): ReadonlyArray<number> => {
  const { shortest, longest } = Backoff.range(spec, n, previous)
  assert.strictEqual(Backoff.delay(spec, n, previous, 0), shortest)
  assert.strictEqual(Backoff.delay(spec, n, previous, 0.5), shortest + (longest - shortest) / 2)
  assert.isAtMost(Backoff.delay(spec, n, previous, almostOne), longest)
  assert.closeTo(Backoff.delay(spec, n, previous, almostOne), longest, 1e-6)
  return [shortest, longest]
}

// -----------------------------------------------------------------------------
// Arbitrary specifications
// -----------------------------------------------------------------------------

const share = fc.double({ min: 0, max: 1, noNaN: true })
const spread = fc.record({ below: share, above: share })
const length = fc.oneof(
  fc.constantFrom(0, 0.5, Duration.toMillis(Backoff.maxDuration)),
  fc.integer({ min: 0, max: 1_000_000 })
)
const sequenceJitter: fc.Arbitrary<Backoff.SequenceJitter> = fc.oneof(
  share,
  fc.constantFrom("full" as const, "equal" as const),
  spread
)
const jitter: fc.Arbitrary<Backoff.Jitter> = fc.oneof(
  sequenceJitter,
  fc.constant("decorrelated" as const),
  fc.record({ below: share, above: share, beyondCap: fc.boolean() })
)
const spec: fc.Arbitrary<Backoff.Backoff> = fc.oneof(
  fc
    .record({ a: length, b: length, factor: fc.double({ min: 1, max: 1e6, noNaN: true }), jitter })
    .map(({ a, b, factor, jitter }) =>
      Backoff.exponential({ initial: Math.min(a, b), cap: Math.max(a, b), factor, jitter })
    ),
  fc
    .tuple(length, fc.array(length, { maxLength: 5 }), sequenceJitter)
    .map(([first, rest, jitter]) => Backoff.sequence([first, ...rest], { jitter }))
)
const draw = fc.oneof(
  fc.constantFrom(0, 0.5, almostOne),
  fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
)
const count = fc.oneof(
  fc.integer({ min: 1, max: 50 }),
  fc.integer({ min: 1, max: 10_000 }),
  fc.constant(10_000)
)

describe("for every specification", () => {
  it("27 any delay of the first 10,000, for any draw, is finite, not negative and at most max", () => {
    fc.assert(
      fc.property(spec, count, fc.option(length, { nil: undefined }), draw, (spec, n, previous, draw) => {
        const delay = Backoff.delay(spec, n, previous, draw)
        assert.isTrue(Number.isFinite(delay))
        assert.isAtLeast(delay, 0)
        assert.isAtMost(delay, Backoff.max(spec))
      }),
      { numRuns: Sweeps.runs(2_000) }
    )
  })

  it("27 a delay is within its range, and grows with the draw", () => {
    fc.assert(
      fc.property(spec, count, fc.tuple(draw, draw), (spec, n, draws) => {
        const { shortest, longest } = Backoff.range(spec, n, undefined)
        const low = Backoff.delay(spec, n, undefined, Math.min(...draws))
        const high = Backoff.delay(spec, n, undefined, Math.max(...draws))
        assert.isAtMost(shortest, low)
        assert.isAtMost(low, high)
        assert.isAtMost(high, longest)
      })
    )
  })

  it.effect("27 the same seed gives the same delays, equal to the formula's", () =>
    Effect.gen(function* () {
      for (const given of fc.sample(spec, { numRuns: Sweeps.runs(40), seed: 1 })) {
        const expected = Effect.gen(function* () {
          const out: Array<number> = []
          for (let n = 1; n <= 12; n++) out.push(Backoff.delay(given, n, out.at(-1), yield* Random.next))
          return out
        })
        const formula = yield* Random.withSeed(expected, "a")
        const first = yield* Random.withSeed(waits(given, 12), "a")
        const second = yield* Random.withSeed(waits(given, 12), "a")
        assert.deepStrictEqual(
          first,
          formula.map((millis) => Duration.toMillis(Duration.millis(millis)))
        )
        assert.deepStrictEqual(second, first)
      }
      const jittered = Backoff.exponential()
      assert.notDeepEqual(
        yield* Random.withSeed(waits(jittered, 3), "a"),
        yield* Random.withSeed(waits(jittered, 3), "b")
      )
    })
  )
})

/** Returns the first delays of a specification's schedule, in milliseconds. */
const waits = (spec: Backoff.Backoff, count: number) =>
  Effect.gen(function* () {
    const step = yield* Schedule.toStep(Backoff.schedule(spec))
    const out: Array<number> = []
    for (let n = 1; n <= count; n++) {
      const [output, wait] = yield* step(0, undefined)
      assert.strictEqual(output, wait)
      out.push(Duration.toMillis(wait))
    }
    return out
  })

// -----------------------------------------------------------------------------

describe("exponential", () => {
  it("doubles up to its cap", () => {
    assert.deepStrictEqual(
      delays(Backoff.exponential(exact), 8),
      [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
    )
    assert.deepStrictEqual(
      delays(Backoff.exponential({ ...exact, factor: 3 }), 4),
      [1_000, 3_000, 9_000, 27_000]
    )
    assert.deepStrictEqual(delays(Backoff.exponential({ ...exact, factor: 1 }), 3), [1_000, 1_000, 1_000])
  })

  it("defaults to 1 s, doubled, at most 30 s, ±20 %", () => {
    assert.deepStrictEqual(
      Backoff.exponential(),
      Backoff.exponential({ initial: 1_000, factor: 2, cap: 30_000, jitter: 0.2 })
    )
    assert.deepStrictEqual(ends(Backoff.exponential(), 2), [1_600, 2_400])
  })

  it("27 growth never overflows, neither the power nor an initial delay of 0", () => {
    const steep = Backoff.exponential({ ...exact, factor: 1e6 })
    assert.strictEqual(Backoff.delay(steep, 10_000, undefined, 0), 30_000)
    const none = Backoff.exponential({ ...exact, initial: 0 })
    assert.strictEqual(Backoff.delay(none, 10_000, undefined, 0.5), 0)
  })

  it("counts a retry number below 1 as 1", () => {
    for (const spec of [Backoff.exponential(exact), Backoff.sequence(["1 second", "2 seconds"])]) {
      for (const n of [0, -1, -10]) assert.strictEqual(Backoff.delay(spec, n, undefined, 0), 1_000)
    }
  })

  it("is plain data", () => {
    assert.deepStrictEqual(Backoff.exponential(exact), {
      _tag: "Exponential",
      initial: Duration.seconds(1),
      factor: 2,
      cap: Duration.seconds(30),
      jitter: 0
    })
  })
})

describe("jitter", () => {
  const withJitter = (jitter: Backoff.Jitter) => Backoff.exponential({ ...exact, jitter })

  it("a share varies a delay both ways, and stays below the cap without piling up there", () => {
    const spec = withJitter(0.2)
    assert.deepStrictEqual(ends(spec, 1), [800, 1_200])
    assert.deepStrictEqual(ends(spec, 3), [3_200, 4_800])
    assert.deepStrictEqual(ends(spec, 6), [24_000, 30_000])
    assert.strictEqual(Backoff.delay(spec, 6, undefined, 0.5), 27_000)
    assert.strictEqual(Backoff.max(spec), 30_000)
  })

  it("full ranges from 0 to the delay", () => {
    assert.deepStrictEqual(ends(withJitter("full"), 3), [0, 4_000])
    assert.strictEqual(Backoff.max(withJitter("full")), 30_000)
  })

  it("equal ranges from half of the delay to the delay", () => {
    assert.deepStrictEqual(ends(withJitter("equal"), 3), [2_000, 4_000])
    assert.strictEqual(Backoff.max(withJitter("equal")), 30_000)
  })

  it("two shares shorten and lengthen a delay separately", () => {
    assert.deepStrictEqual(ends(withJitter({ below: 0.5, above: 0.25 }), 3), [2_000, 5_000])
    assert.deepStrictEqual(ends(withJitter({ below: 0, above: 0.25 }), 3), [4_000, 5_000])
  })

  it("is limited by the cap unless added after it", () => {
    const within = withJitter({ below: 0.1, above: 0.25 })
    assert.deepStrictEqual(ends(within, 9), [27_000, 30_000])
    assert.strictEqual(Backoff.max(within), 30_000)
    assert.strictEqual(Backoff.max(withJitter({ below: 0.1, above: 0.25, beyondCap: false })), 30_000)
    const beyond = withJitter({ below: 0.1, above: 0.25, beyondCap: true })
    assert.deepStrictEqual(ends(beyond, 9), [27_000, 37_500])
    assert.strictEqual(Backoff.max(beyond), 37_500)
  })

  it("decorrelated ranges from the initial delay to a multiple of the previous one", () => {
    const spec = withJitter("decorrelated")
    assert.deepStrictEqual(ends(spec, 2, 3_000), [1_000, 6_000])
    assert.deepStrictEqual(ends(spec, 500, 3_000), [1_000, 6_000])
    assert.deepStrictEqual(ends(spec, 2, 15_500), [1_000, 30_000])
    assert.deepStrictEqual(ends(spec, 2, 300_000), [1_000, 30_000])
    // The previous wait may be a server's, shorter than any delay of the formula.
    assert.deepStrictEqual(ends(spec, 2, 0), [1_000, 2_000])
    assert.strictEqual(Backoff.max(spec), 30_000)
    assert.deepStrictEqual(
      ends(Backoff.exponential({ ...exact, factor: 3, jitter: "decorrelated" }), 2, 2_000),
      [1_000, 6_000]
    )
  })

  it("decorrelated uses the delay without jitter when the previous one is unknown", () => {
    const spec = withJitter("decorrelated")
    assert.deepStrictEqual(ends(spec, 1), [1_000, 2_000])
    assert.deepStrictEqual(ends(spec, 2), [1_000, 2_000])
    assert.deepStrictEqual(ends(spec, 4), [1_000, 8_000])
    assert.deepStrictEqual(ends(spec, 10_000), [1_000, 30_000])
  })
})

describe("sequence", () => {
  it("waits for the listed delays and repeats the last one", () => {
    const spec = Backoff.sequence(["1 second", "2 seconds", "4 seconds", "8 seconds", "16 seconds"])
    assert.deepStrictEqual(delays(spec, 7, 0.7), [1_000, 2_000, 4_000, 8_000, 16_000, 16_000, 16_000])
    assert.strictEqual(Backoff.delay(spec, 10_000, undefined, 0), 16_000)
    assert.strictEqual(Backoff.max(spec), 16_000)
  })

  it("may decrease, and its max is the longest entry", () => {
    const spec = Backoff.sequence([5_000, 1_000])
    assert.deepStrictEqual(delays(spec, 3), [5_000, 1_000, 1_000])
    assert.strictEqual(Backoff.max(spec), 5_000)
  })

  it("applies jitter around each entry, also above the longest", () => {
    const spec = Backoff.sequence([1_000, 2_000], { jitter: 0.25 })
    assert.deepStrictEqual(ends(spec, 1), [750, 1_250])
    assert.deepStrictEqual(ends(spec, 2), [1_500, 2_500])
    assert.strictEqual(Backoff.max(spec), 2_500)
    assert.deepStrictEqual(ends(Backoff.sequence([1_000], { jitter: "full" }), 1), [0, 1_000])
    assert.deepStrictEqual(
      ends(Backoff.sequence([1_000], { jitter: { below: 0, above: 1 } }), 1),
      [1_000, 2_000]
    )
  })

  it("with one entry is constant", () => {
    const spec = Backoff.constant("5 seconds")
    assert.deepStrictEqual(spec, Backoff.sequence(["5 seconds"]))
    assert.deepStrictEqual(spec, { _tag: "Sequence", delays: [Duration.seconds(5)], jitter: 0 })
    assert.deepStrictEqual(delays(spec, 3, 0.9), [5_000, 5_000, 5_000])
    assert.deepStrictEqual(ends(Backoff.constant("5 seconds", { jitter: "equal" }), 9), [2_500, 5_000])
  })
})

describe("validate", () => {
  const valid = Backoff.exponential(exact)
  const cases: ReadonlyArray<readonly [string, () => unknown]> = [
    [
      "Backoff: initial must be a duration from 0 to 365d, got -1",
      () => Backoff.exponential({ ...exact, initial: -1 })
    ],
    [
      "Backoff: initial must be a duration from 0 to 365d, got NaN",
      () => Backoff.exponential({ initial: Number.NaN })
    ],
    [
      "Backoff: cap must be a duration from 0 to 365d, got Infinity",
      () => Backoff.exponential({ cap: Infinity })
    ],
    [
      "Backoff: cap must be a duration from 1s to 365d, got 999ms",
      () => Backoff.exponential({ ...exact, cap: 999 })
    ],
    [
      "Backoff: factor must be a finite number of at least 1, got 0.9",
      () => Backoff.exponential({ factor: 0.9 })
    ],
    [
      "Backoff: factor must be a finite number of at least 1, got Infinity",
      () => Backoff.exponential({ factor: Infinity })
    ],
    [
      "Backoff: jitter must be a finite number from 0 to 1, got 1.1",
      () => Backoff.exponential({ jitter: 1.1 })
    ],
    [
      "Backoff: jitter must be a finite number from 0 to 1, got -0.1",
      () => Backoff.constant(1, { jitter: -0.1 })
    ],
    [
      "Backoff: jitter.below must be a finite number from 0 to 1, got NaN",
      () => Backoff.exponential({ jitter: { below: Number.NaN, above: 0 } })
    ],
    [
      "Backoff: jitter.above must be a finite number from 0 to 1, got 2",
      () => Backoff.constant(1, { jitter: { below: 0, above: 2 } })
    ],
    [
      'Backoff: delays[0] must be a duration from 0 to 365d, got "-1 seconds"',
      () => Backoff.sequence(["-1 seconds", 1])
    ],
    [
      "Backoff: delays[2] must be a duration from 0 to 365d, got Infinity",
      () => Backoff.sequence([1, 2, Infinity])
    ],
    [
      "Backoff: delays must be a list of at least one duration, got an empty list",
      // Input from a caller without types.
      () =>
        Backoff.validate({ _tag: "Sequence", delays: [] as unknown as Backoff.Sequence["delays"], jitter: 0 })
    ],
    [
      "Mine: initial must be a duration from 0 to 365d, got -1ms",
      () => Backoff.validate({ ...valid, initial: Duration.millis(-1) }, "Mine")
    ],
    [
      "Mine: cap must be a duration from 1s to 365d, got 0",
      () => Backoff.validate({ ...valid, cap: Duration.zero }, "Mine")
    ],
    [
      "Mine: factor must be a finite number of at least 1, got 0",
      () => Backoff.validate({ ...valid, factor: 0 }, "Mine")
    ],
    [
      "Mine: jitter must be a finite number from 0 to 1, got 2",
      () => Backoff.validate({ ...valid, jitter: 2 }, "Mine")
    ],
    [
      "Mine: delays[1] must be a duration from 0 to 365d, got 366d",
      () =>
        Backoff.validate({ _tag: "Sequence", delays: [Duration.zero, Duration.days(366)], jitter: 0 }, "Mine")
    ]
  ]
  for (const [message, f] of cases) {
    it(`rejects: ${message}`, () => {
      assert.throws(f, RangeError)
      try {
        f()
      } catch (error) {
        assert.strictEqual(error instanceof Error ? error.message : error, message)
      }
    })
  }

  it("rejects an unknown jitter instead of waiting NaN", () => {
    const share = "a number from 0 to 1"
    const words = `${share}, "full" or "equal" or "decorrelated", or { below, above }`
    const cases = [
      [() => Backoff.exponential({ jitter: "none" as "full" }), `${words}, got "none"`],
      [() => Backoff.exponential({ jitter: null as never }), undefined],
      [() => Backoff.exponential({ jitter: true as never }), `${words}, got true`],
      [
        () => Backoff.sequence(["1 second"], { jitter: "decorrelated" as "full" }),
        `${share}, "full" or "equal", or { below, above }, got "decorrelated"`
      ]
    ] as const
    for (const [make, message] of cases) {
      if (message === undefined) assert.strictEqual(make().jitter, Backoff.defaults.jitter)
      else assert.throws(make, RangeError, `Backoff: jitter must be ${message}`)
    }
    assert.throws(
      () => Backoff.exponential({ jitter: { below: 0, above: 0.1, beyondCap: "yes" as never } }),
      RangeError,
      'Backoff: jitter.beyondCap must be true or false, got "yes"'
    )
    assert.throws(
      () => Backoff.validate({ ...Backoff.exponential(), jitter: null as never }),
      RangeError,
      "Backoff: jitter must be"
    )
    assert.throws(() => Backoff.validate({ _tag: "Linear" } as never, "Retry: backoff"), RangeError)
    assert.throws(() => Backoff.validate(undefined as never), RangeError, "Backoff: spec must be a Backoff")
  })

  it("accepts both ends of each range", () => {
    for (const jitter of [0, 1, "full", "equal", "decorrelated", { below: 0, above: 1 }] as const) {
      assert.doesNotThrow(() =>
        Backoff.validate(Backoff.exponential({ initial: 0, cap: 0, factor: 1, jitter }))
      )
    }
    Backoff.exponential({ jitter: { below: 0, above: 1, beyondCap: undefined } })
    Backoff.exponential({ initial: "365 days", cap: "365 days" })
    Backoff.sequence([0, "365 days"], { jitter: 1 })
  })
})

// -----------------------------------------------------------------------------

/** Advances the clock until the effect has ended. */
const inTime = <A, E>(self: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(self)
    yield* TestClock.adjust("1 hour")
    return yield* Fiber.join(fiber)
  })

describe("schedule", () => {
  it.effect("retries an effect at the formula's times, and each run counts from the first", () =>
    Effect.gen(function* () {
      const spec = Backoff.exponential(exact)
      const times = yield* Ref.make<ReadonlyArray<number>>([])
      const failing = Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.andThen(
          Ref.update(times, (all) => [...all, now]),
          Effect.fail("no")
        )
      )
      const retried = Effect.retry(failing, { schedule: Backoff.schedule(spec), times: 3 })
      for (const run of [0, 1]) {
        const start = yield* Clock.currentTimeMillis
        yield* Ref.set(times, [])
        const exit = yield* inTime(Effect.exit(retried))
        assert.isTrue(Exit.isFailure(exit), `run ${run}`)
        assert.deepStrictEqual(
          (yield* Ref.get(times)).map((at) => at - start),
          [0, 1_000, 3_000, 7_000]
        )
      }
    })
  )

  it.effect("decorrelated delays depend on the previous ones", () =>
    Effect.gen(function* () {
      const spec = Backoff.exponential({ ...exact, jitter: "decorrelated" })
      const drawn = waits(spec, 4).pipe(
        Effect.provideService(Random.Random, { nextDoubleUnsafe: () => 0.5, nextIntUnsafe: () => 0 })
      )
      assert.deepStrictEqual(yield* drawn, [1_500, 2_000, 2_500, 3_000])
    })
  )

  it.effect("26 an interruption during a delay ends at once and starts no attempt", () =>
    Effect.gen(function* () {
      const attempts = yield* Ref.make(0)
      const failing = Effect.andThen(
        Ref.update(attempts, (n) => n + 1),
        Effect.fail("no")
      )
      const fiber = yield* Effect.forkChild(
        Effect.retry(failing, Backoff.schedule(Backoff.exponential(exact)))
      )
      yield* TestClock.adjust("1500 millis")
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* Ref.get(attempts), 2)
    })
  )
})

// -----------------------------------------------------------------------------

describe("withHint", () => {
  const rule = Backoff.hintRule({ retryAfterJitter: 0 })
  const wait = (millis: number): Backoff.Wait => ({ _tag: "Wait", millis })

  it("the default rule is a minimum, up to a minute, lengthened by 0 to 10 %", () => {
    assert.deepStrictEqual(Backoff.hintRule(), {
      retryAfter: "minimum",
      maxRetryAfter: Duration.minutes(1),
      retryAfterJitter: 0.1
    })
    assert.throws(() => Backoff.hintRule({ maxRetryAfter: -1 }), "Backoff: maxRetryAfter must be")
    assert.throws(() => Backoff.hintRule({ retryAfterJitter: 1.5 }), "Backoff: retryAfterJitter must be")
  })

  it("28 a minimum lengthens the backoff and never shortens it", () => {
    assert.deepStrictEqual(Backoff.withHint(rule, 4_000, 7_000, 0.5), wait(7_000))
    assert.deepStrictEqual(Backoff.withHint(rule, 4_000, 3_000, 0.5), wait(4_000))
  })

  it('28 "wins" replaces the backoff by the wait of the server', () => {
    const wins = Backoff.hintRule({ retryAfter: "wins", retryAfterJitter: 0 })
    assert.deepStrictEqual(Backoff.withHint(wins, 4_000, 7_000, 0.5), wait(7_000))
    assert.deepStrictEqual(Backoff.withHint(wins, 4_000, 3_000, 0.5), wait(3_000))
    assert.deepStrictEqual(Backoff.withHint(wins, 4_000, undefined, 0.5), wait(4_000))
  })

  it('28 "ignored" drops the wait of the server, however long', () => {
    const ignored = Backoff.hintRule({ retryAfter: "ignored" })
    for (const hint of [undefined, 0, 7_000, 3_600_000]) {
      assert.deepStrictEqual(Backoff.withHint(ignored, 4_000, hint, 0.5), wait(4_000))
    }
  })

  it("28 a Retry-After of 0 means now, also as a minimum", () => {
    for (const retryAfter of ["wins", "minimum"] as const) {
      assert.deepStrictEqual(Backoff.withHint(Backoff.hintRule({ retryAfter }), 4_000, 0, 0.9), wait(0))
    }
  })

  it("28 a wait above the limit is TooLong; at the limit it is slept", () => {
    for (const retryAfter of ["wins", "minimum"] as const) {
      const rule = Backoff.hintRule({ retryAfter, maxRetryAfter: "30 seconds" })
      assert.deepStrictEqual(Backoff.withHint(rule, 99_000, 30_001, 0), {
        _tag: "TooLong",
        retryAfter: 30_001
      })
      assert.deepStrictEqual(Backoff.withHint(rule, 4_000, 30_000, 0.5), wait(31_500))
    }
    assert.deepStrictEqual(Backoff.withHint(rule, 4_000, Infinity, 0), {
      _tag: "TooLong",
      retryAfter: Infinity
    })
  })

  it("28 NaN is ignored, and a time in the past means now", () => {
    for (const retryAfter of ["wins", "minimum"] as const) {
      const rule = Backoff.hintRule({ retryAfter })
      assert.deepStrictEqual(Backoff.withHint(rule, 4_000, Number.NaN, 0.5), wait(4_000))
      for (const past of [-1, -5_000, -Infinity]) {
        assert.deepStrictEqual(Backoff.withHint(rule, 4_000, past, 0.5), wait(0))
      }
    }
  })

  it("rejects an unknown rule", () => {
    assert.throws(
      () => Backoff.hintRule({ retryAfter: "sometimes" as "wins" }),
      'Backoff: retryAfter must be "wins" or "minimum" or "ignored", got "sometimes"'
    )
  })

  it("28 jitter only lengthens a server's wait", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60_000 }), share, draw, (hint, retryAfterJitter, draw) => {
        const rule = Backoff.hintRule({ retryAfter: "wins", retryAfterJitter })
        const given = Backoff.withHint(rule, 0, hint, draw)
        assert.strictEqual(given._tag, "Wait")
        if (given._tag === "TooLong") return
        assert.isAtLeast(given.millis, hint)
        assert.isAtMost(given.millis, hint * (1 + retryAfterJitter))
      })
    )
    assert.strictEqual(Backoff.lengthened(1_000, 0.1, 0.5), 1_050)
    assert.strictEqual(Backoff.lengthened(1_000, 0, 0.5), 1_000)
  })
})
