/**
 * The waits of one call inside the client (backoff, cooldown, circuit, limit, health check, key). Publishes when each
 * begins and ends, and adds them up. {@link asleep} and {@link asleepUntil} are the sleeps of these waits.
 *
 * A call without listeners has {@link none}, which adds no cost to a wait.
 */
import { Duration, Effect, Fiber } from "effect"
import * as ActiveTime from "../../conversation/ActiveTime.ts"
import { knownLimit } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type * as CallLimiter from "../../limiter/CallLimiter.ts"
import type { Soonest } from "../decide/CallModel.ts"
import type { CallContext } from "./CallContext.ts"
import type { CallStillWaiting, CallWaited, CallWaiting, WaitReason } from "./CallEvent.ts"

/** A wait, and how long it may take, in milliseconds, as far as that is known. */
export interface Wait {
  readonly reason: WaitReason
  readonly target: TargetRef
  readonly delay?: number | undefined
  readonly by?: string | undefined
}

export interface Waits {
  /** Reports the whole run of the effect as a wait. */
  readonly during: <A, E, R>(wait: Wait, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Reports a wait only if the effect does not end at once. */
  readonly unlessReady: <A, E, R>(wait: Wait, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Asks a limiter, which reports by `onWait` that the call has to wait. */
  readonly inQueue: <A, E>(
    target: TargetRef,
    ask: (onWait: CallLimiter.Request["onWait"]) => Effect.Effect<A, E>
  ) => Effect.Effect<A, E>
  /** Milliseconds since the last attempt, or since the call began. Counted from 0 again from here on. */
  readonly take: () => number
  /** Milliseconds of the whole call. */
  readonly total: () => number
}

export const none: Waits = {
  during: (_, effect) => effect,
  unlessReady: (_, effect) => effect,
  inQueue: (_, ask) => ask(undefined),
  take: () => 0,
  total: () => 0
}

type Told<E> = E extends unknown ? Omit<E, "at" | "call" | "attempt"> : never

/** `now` in monotonic milliseconds. `heartbeat` is the time between two reports of one long wait. */
export const make = (
  tell: (event: Told<CallStillWaiting | CallWaited | CallWaiting>) => Effect.Effect<void>,
  now: () => number,
  heartbeat?: Duration.Duration
): Waits => {
  let recent = 0
  let total = 0

  const begin = ({ reason, target, delay, by }: Wait): Effect.Effect<void> =>
    tell({ _tag: "CallWaiting", reason, target, delay, by })

  const end = ({ reason, target }: Wait, since: number): Effect.Effect<void> =>
    Effect.suspend(() => {
      const elapsed = now() - since
      recent += elapsed
      total += elapsed
      return tell({ _tag: "CallWaited", reason, target, elapsed })
    })

  const during: Waits["during"] = (wait, effect) =>
    Effect.suspend(() => {
      const since = now()
      return Effect.onExit(Effect.andThen(begin(wait), beating(wait, since, effect)), () => end(wait, since))
    })

  const beating = <A, E, R>(
    { reason, target }: Wait,
    since: number,
    effect: Effect.Effect<A, E, R>
  ): Effect.Effect<A, E, R> => {
    if (heartbeat === undefined) return effect
    const beat = Effect.suspend(() =>
      tell({ _tag: "CallStillWaiting", reason, target, elapsed: now() - since })
    )
    return Effect.raceFirst(effect, Effect.forever(Effect.andThen(Effect.sleep(heartbeat), beat)))
  }

  return {
    during,
    unlessReady: <A, E, R>(wait: Wait, effect: Effect.Effect<A, E, R>) =>
      // As `timed`: uninterruptible up to `ensuring`.
      Effect.uninterruptibleMask((restore) =>
        Effect.withFiber((parent): Effect.Effect<A, E> => {
          // The context of the fiber that evaluates an Effect<A, E, R> has R.
          const fiber = Effect.runForkWith(parent.context)(effect as Effect.Effect<A, E>)
          const joined = during(wait, Fiber.join(fiber))
          return fiber.pollUnsafe() ?? Effect.ensuring(restore(joined), Fiber.interrupt(fiber))
        })
      ),
    inQueue: (target, ask) =>
      Effect.suspend(() => {
        // Up to two waits, one after the other: in the queue of this process, then for the shared limits.
        const waits: Array<{ readonly wait: Wait; readonly since: number }> = []
        const over = Effect.suspend(() => {
          const last = waits.pop()
          return last === undefined ? Effect.void : end(last.wait, last.since)
        })
        const asked = ask(({ limit, delay }) => {
          const wait: Wait = { reason: "limit", target, delay, by: limit }
          return Effect.andThen(
            over,
            Effect.suspend(() => {
              waits.push({ wait, since: now() })
              return begin(wait)
            })
          )
        })
        return Effect.onExit(asked, () => over)
      }),
    take: () => {
      const taken = recent
      recent = 0
      return taken
    },
    total: () => total
  }
}

/** The wait of a call while all targets are out. */
export const untilBack = ({ target, failure, refused }: Soonest, delay: number): Wait => {
  if (!refused) return { reason: "cooldown", target, delay }
  const { circuit, evidence } = failure
  if (circuit !== undefined) return { reason: "circuit", target, delay, by: circuit.circuit }
  return { reason: evidence.rule === knownLimit ? "limit" : "health", target, delay }
}

/** The wait of a call for the retry budget, before it asks `target` or another one. */
export const forBudget = (target: TargetRef, delay: number): Wait => ({ reason: "budget", target, delay })

/** Sleeps for so many milliseconds, which are no active time of the program. */
const asleep = (millis: number): Effect.Effect<void> =>
  ActiveTime.parked(Effect.sleep(Duration.millis(millis)))

/**
 * Sleeps until a time in monotonic milliseconds, or until `mayWake` returns true, which is asked about every
 * `pacing.lookEvery`. Returns
 * true when `mayWake` ended the sleep, as {@link asleepUnless} does.
 */
export const asleepUntil = (
  until: number,
  call: Pick<CallContext, "chain" | "draw" | "now">,
  mayWake: () => boolean
): Effect.Effect<boolean> =>
  Effect.suspend(() => {
    const left = until - call.now()
    if (left <= 0) return Effect.succeed(false)
    const { lookEvery } = call.chain.policy.pacing
    // With jitter, so that calls that wait for the same target do not go on together.
    // Whole milliseconds: a clock of a test that is moved in steps never reaches the end of a fraction.
    const pause = Math.ceil(Math.min(left, Duration.toMillis(lookEvery) * (1 / 2 + call.draw())))
    return Effect.flatMap(asleep(pause), () =>
      mayWake() ? Effect.succeed(true) : asleepUntil(until, call, mayWake)
    )
  })

/**
 * Sleeps for so many milliseconds, or until the `news`. Returns true when the news ended the sleep. The clock cannot tell:
 * timers may fire a fraction of a millisecond early.
 */
export const asleepUnless = (millis: number, news: Effect.Effect<void>): Effect.Effect<boolean> =>
  Effect.raceFirst(Effect.as(asleep(millis), false), Effect.as(news, true))

/** Completes when `isSo` returns true. It is asked every so many milliseconds. */
export const looking = (every: number, isSo: Effect.Effect<boolean>): Effect.Effect<void> =>
  Effect.flatMap(asleep(every), () =>
    Effect.flatMap(isSo, (holds) => (holds ? Effect.void : looking(every, isSo)))
  )
