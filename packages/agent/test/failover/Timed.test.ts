import { assert, it } from "@effect/vitest"
import { Clock, Context, Deferred, Duration, Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { afterEach, vi } from "vitest"
import * as Alarm from "#agent/failover/target/Alarm"
import { limited, timed } from "#agent/failover/target/Timed"

const second = Duration.seconds(1)

const late = () => Effect.fail("late")

/** Sleeps, and logs how it ended; after an interruption it needs `cleanup` milliseconds more. */
const working = (log: Array<string>, millis: number, cleanup = 0): Effect.Effect<string> =>
  Effect.sleep(millis).pipe(
    Effect.as("done"),
    Effect.onExit((exit) =>
      Effect.andThen(
        Exit.isFailure(exit) ? Effect.sleep(cleanup) : Effect.void,
        Effect.sync(() => log.push(Exit.isSuccess(exit) ? "done" : "interrupted"))
      )
    )
  )

it.effect("an effect that ends before its limit gives its own result, and no alarm stays set", () =>
  Effect.gen(function* () {
    const log: Array<string> = []
    const fiber = yield* Effect.forkChild(timed(working(log, 999), second, late))
    yield* TestClock.adjust(999)
    assert.strictEqual(yield* Fiber.join(fiber), "done")
    yield* TestClock.adjust("1 hour")
    assert.deepStrictEqual(log, ["done"])
  })
)

it.effect("a limit of less than a test clock can tell passes with the next millisecond", () =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const left = () => 0.000_000_1 - clock.currentTimeMillisUnsafe()
    const fiber = yield* Effect.forkChild(limited(Effect.never, left, () => Effect.succeed("over")))
    yield* TestClock.adjust(1)
    assert.strictEqual(yield* Fiber.join(fiber), "over")
  })
)

it.effect("an effect that fails or dies before its limit ends the same way", () =>
  Effect.gen(function* () {
    const failing = yield* Effect.forkChild(timed(Effect.delay(Effect.fail("own"), 10), second, late))
    const dying = yield* Effect.forkChild(timed(Effect.delay(Effect.die("defect"), 10), second, late))
    yield* TestClock.adjust(10)
    assert.deepStrictEqual(yield* Fiber.await(failing), Exit.fail("own"))
    assert.deepStrictEqual(yield* Fiber.await(dying), Exit.die("defect"))
  })
)

it.effect("the finalizers of an effect that is too slow run before anything follows", () =>
  Effect.gen(function* () {
    const log: Array<string> = []
    const orElse = () => Effect.sync(() => `late after ${log.join()}`)
    const fiber = yield* Effect.forkChild(timed(working(log, 5_000, 500), second, orElse))
    yield* TestClock.adjust(1_499)
    assert.deepStrictEqual(log, [])
    yield* TestClock.adjust(1)
    assert.strictEqual(yield* Fiber.join(fiber), "late after interrupted")
  })
)

it.effect("an effect that succeeds while it is being interrupted is late all the same", () =>
  Effect.gen(function* () {
    const stubborn = Effect.uninterruptible(Effect.delay(Effect.succeed("done"), 1_001))
    const fiber = yield* Effect.forkChild(Effect.exit(timed(stubborn, second, late)))
    yield* TestClock.adjust(2_000)
    assert.deepStrictEqual(yield* Fiber.join(fiber), Exit.fail("late"))
  })
)

it.effect("an interruption of the caller interrupts the effect and waits for its finalizers", () =>
  Effect.gen(function* () {
    const log: Array<string> = []
    const fiber = yield* Effect.forkChild(timed(working(log, 5_000, 500), second, late))
    yield* TestClock.adjust(100)
    const interrupted = yield* Effect.forkChild(Fiber.interrupt(fiber))
    yield* TestClock.adjust(499)
    assert.isUndefined(interrupted.pollUnsafe())
    yield* TestClock.adjust(1)
    yield* Fiber.join(interrupted)
    assert.deepStrictEqual(log, ["interrupted"])
    assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
  })
)

it.effect("an interruption after the limit does not skip the finalizers", () =>
  Effect.gen(function* () {
    const log: Array<string> = []
    const fiber = yield* Effect.forkChild(timed(working(log, 5_000, 500), second, late))
    yield* TestClock.adjust(1_200)
    const interrupted = yield* Effect.forkChild(Fiber.interrupt(fiber))
    yield* TestClock.adjust(300)
    yield* Fiber.join(interrupted)
    assert.deepStrictEqual(log, ["interrupted"])
  })
)

it.effect("an interruption in the step in which the effect begins reaches the effect", () =>
  Effect.gen(function* () {
    const log: Array<string> = []
    const self = yield* Deferred.make<Fiber.Fiber<string, string>>()
    // Interrupts its caller before the caller has anything to clean up.
    const begun = Effect.flatMap(Deferred.await(self), (caller) => {
      caller.interruptUnsafe()
      return working(log, 5_000)
    })
    const fiber = yield* Effect.forkChild(
      Effect.suspend(() => timed(begun, second, late)),
      { startImmediately: false }
    )
    yield* Deferred.succeed(self, fiber)
    assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    assert.deepStrictEqual(log, ["interrupted"])
  })
)

it.effect("a limit that moves ends the effect only when none of it is left", () =>
  Effect.gen(function* () {
    let end = 1_000
    const clock = yield* TestClock.testClockWith((clock) => Effect.succeed(clock))
    const left = () => end - clock.currentTimeMillisUnsafe()
    const fiber = yield* Effect.forkChild(Effect.exit(limited(Effect.never, left, late)))
    yield* TestClock.adjust(900)
    end = 1_900
    yield* TestClock.adjust(999)
    assert.isUndefined(fiber.pollUnsafe())
    yield* TestClock.adjust(1)
    assert.deepStrictEqual(yield* Fiber.join(fiber), Exit.fail("late"))
  })
)

it.effect("a limit of zero lets an effect pass that ends at once, and no other", () =>
  Effect.gen(function* () {
    assert.strictEqual(
      yield* timed(
        Effect.sync(() => "now"),
        Duration.zero,
        late
      ),
      "now"
    )
    assert.deepStrictEqual(yield* Effect.exit(timed(Effect.never, Duration.zero, late)), Exit.fail("late"))
  })
)

it.effect("an infinite limit never ends the effect", () =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(timed(working([], 10_000_000), Duration.infinity, late))
    yield* TestClock.adjust("1 day")
    assert.strictEqual(yield* Fiber.join(fiber), "done")
  })
)

afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

it("on the live clock an alarm is one timer, which is cleared when it is called off", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setImmediate", "clearImmediate"] })
  const rung: Array<string> = []
  Alarm.set(Context.empty(), 1_000, () => rung.push("first"))
  const callOff = Alarm.set(Context.empty(), 1_000, () => rung.push("second"))
  Alarm.set(Context.empty(), Infinity, () => rung.push("never"))
  // One more, for all alarms, watches the event loop.
  assert.strictEqual(vi.getTimerCount(), 3)
  vi.advanceTimersByTime(999)
  assert.deepStrictEqual(rung, [])
  callOff()
  callOff()
  // A faked turn of the event loop takes a millisecond.
  vi.advanceTimersByTime(2)
  assert.deepStrictEqual(rung, ["first"])
  assert.strictEqual(vi.getTimerCount(), 0)
})

it("an alarm can be called off between its time and the reading of what arrived", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setImmediate", "clearImmediate"] })
  const rung: Array<string> = []
  const callOff = Alarm.set(Context.empty(), 1_000, () => rung.push("late"))
  setTimeout(callOff, 1_000)
  vi.advanceTimersByTime(5_000)
  assert.deepStrictEqual([rung, vi.getTimerCount()], [[], 0])
})

it("an alarm does not count the time in which the event loop stood still", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setImmediate", "clearImmediate"] })
  let now = 0
  const clock = Context.get(Context.empty(), Clock.Clock)
  vi.spyOn(clock, "monotonicTimeNanosUnsafe").mockImplementation(() => BigInt(now) * 1_000_000n)
  const pass = (millis: number) => {
    for (let n = 0; n < millis; n++, now++) vi.advanceTimersByTime(1)
  }
  const standStill = (millis: number) => {
    now += millis
    vi.advanceTimersByTime(millis)
  }
  let rungAt: number | undefined
  Alarm.set(Context.empty(), 1_000, () => (rungAt = now))
  pass(500)
  standStill(3_000)
  pass(300)
  standStill(600)
  pass(10_000)
  assert.isAtLeast(rungAt ?? 0, 4_300)
  assert.isAtMost(rungAt ?? 0, 4_610)
})

it("a limit on the live clock interrupts the effect", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  const log: Array<string> = []
  const exit = Effect.runPromiseExit(
    timed(
      Effect.onInterrupt(Effect.never, () => Effect.sync(() => log.push("interrupted"))),
      second,
      late
    )
  )
  vi.advanceTimersByTime(1_000)
  assert.deepStrictEqual(await exit, Exit.fail("late"))
  assert.deepStrictEqual(log, ["interrupted"])
})
