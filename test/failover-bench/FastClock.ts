/**
 * A clock that runs faster than the live one. It is the only place that shortens the times of this suite: the chain
 * under test, the provider and the judge all sleep on it and read it. Policies keep their default durations, and every
 * relation between two times stays.
 *
 * The clock counts turns of the event loop of a millisecond each. A turn that takes longer, because the machine is busy,
 * counts as one: client and server share the process, so nothing can arrive late.
 *
 * While it runs, `AbortSignal.timeout` sleeps on it, too: the client ends the body of a complete answer by it.
 */
import { Clock, Context, Duration, Effect } from "effect"
import type { Scope } from "effect"

const live = Context.get(Context.empty(), Clock.Clock)

interface Sleep {
  readonly at: number
  readonly wake: () => void
}

/** With the factor 1 this is the live clock itself. It runs until the scope ends. */
export const make = (factor: number): Effect.Effect<Clock.Clock, never, Scope.Scope> =>
  factor === 1 ? Effect.succeed(live) : fast(factor)

const fast = (factor: number): Effect.Effect<Clock.Clock, never, Scope.Scope> => {
  const sleeps = new Set<Sleep>()
  const wall = live.currentTimeMillisUnsafe()
  let elapsed = 0
  const tick = (): void => {
    elapsed += factor
    const due = [...sleeps].filter(({ at }) => at <= elapsed).toSorted((a, b) => a.at - b.at)
    for (const sleep of due) {
      sleeps.delete(sleep)
      sleep.wake()
    }
  }
  const millis = () => wall + elapsed
  const nanos = () => BigInt(millis()) * 1_000_000n
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: millis,
    currentTimeNanosUnsafe: nanos,
    monotonicTimeNanosUnsafe: nanos,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: (duration) =>
      Effect.callback<void>((resume) => {
        const sleep = { at: elapsed + Duration.toMillis(duration), wake: () => resume(Effect.void) }
        sleeps.add(sleep)
        return Effect.sync(() => void sleeps.delete(sleep))
      })
  }
  const turn = Effect.andThen(live.sleep(Duration.millis(1)), Effect.sync(tick))
  const timeout = (millis: number): AbortSignal => {
    const controller = new AbortController()
    const wake = () => controller.abort(new DOMException("The operation timed out.", "TimeoutError"))
    sleeps.add({ at: elapsed + millis, wake })
    return controller.signal
  }
  return Effect.forkScoped(Effect.forever(turn)).pipe(
    Effect.andThen(Effect.acquireRelease(replaceTimeout(timeout), replaceTimeout)),
    Effect.as(clock)
  )
}

type Timeout = typeof AbortSignal.timeout

/** Replaces `AbortSignal.timeout`, and returns the one before. */
const replaceTimeout = (timeout: Timeout): Effect.Effect<Timeout> =>
  Effect.sync(() => {
    const before = AbortSignal.timeout
    AbortSignal.timeout = timeout
    return before
  })
