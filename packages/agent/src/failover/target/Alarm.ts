/**
 * A timer on the clock of a context, for time limits that are set in every call and almost never reached.
 *
 * On the live clock an alarm is one timer of the runtime and no fiber, which costs a tenth of `Effect.sleep` in a fiber
 * of its own. On any other clock (`TestClock`) a fiber sleeps, so that tests run in virtual time.
 *
 * **A blocked event loop is not the provider's silence.** On the live clock the time in which the event loop stood still
 * (`EventLoop`) does not count: the alarm rings later by as much. It rings only after the loop has read what arrived.
 *
 * **Limits.** The function runs outside of every fiber: it must not throw, and it hands results on by a callback.
 */
import { Clock, Context, Duration, Effect, Exit } from "effect"
import * as EventLoop from "./EventLoop.ts"

/** Timers of the runtime take no more milliseconds. */
const longest = 2 ** 31 - 1

/** Calls `ring` once, after `millis` milliseconds on the clock of `context`. Returns the function that calls it off. */
export const set = (context: Context.Context<never>, millis: number, ring: () => void): (() => void) => {
  if (millis === Infinity) return unset
  if (EventLoop.isLive(Context.get(context, Clock.Clock)) && millis <= longest) return onLoop(millis, ring)
  // A rest of rounding is no time on a clock of tests: the alarm would ring at once, and be set again without end.
  const whole = millis > 0 ? Math.max(1, millis) : 0
  const sleeper = Effect.runForkWith(context)(Effect.sleep(Duration.millis(whole)))
  const forget = sleeper.addObserver((exit) => {
    if (Exit.isSuccess(exit)) ring()
  })
  return () => {
    forget()
    sleeper.interruptUnsafe()
  }
}

const unset = (): void => {}

const onLoop = (millis: number, ring: () => void): (() => void) => {
  const unwatch = EventLoop.watch()
  const end = EventLoop.awake() + millis
  const lost = EventLoop.lost()
  let stop = unset
  let isOver = false
  const wait = (millis: number): void => {
    // oxlint-disable-next-line no-restricted-globals -- The live clock sleeps by this timer, too. Tests have another clock.
    const timer = setTimeout(due, millis)
    stop = () => clearTimeout(timer)
  }
  const due = (): void => {
    stop = EventLoop.afterTurn(() => {
      // Timers may be early by a fraction of a millisecond: only a standstill is worth another timer.
      const left = EventLoop.lost() === lost ? 0 : end - EventLoop.awake()
      if (left > 0) return wait(left)
      callOff()
      ring()
    })
  }
  const callOff = (): void => {
    if (isOver) return
    isOver = true
    stop()
    unwatch()
  }
  wait(millis)
  return callOff
}
