/**
 * A timer on the clock of a context, for time limits that are set in every call and almost never reached.
 *
 * On the live clock an alarm is one timer of the runtime and no fiber, which costs a tenth of `Effect.sleep` in a fiber
 * of its own. On any other clock (`TestClock`) a fiber sleeps, so that tests run in virtual time.
 *
 * **Limits.** The function runs outside of every fiber: it must not throw, and it hands results on by a callback.
 */
import { Clock, Context, Duration, Effect, Exit } from "effect"

/** The clock of a program that has set no other. */
const live = Context.get(Context.empty(), Clock.Clock)

/** Timers of the runtime take no more milliseconds. */
const longest = 2 ** 31 - 1

/** Calls `ring` once, after `millis` milliseconds on the clock of `context`. Returns the function that calls it off. */
export const set = (context: Context.Context<never>, millis: number, ring: () => void): (() => void) => {
  if (millis === Infinity) return unset
  if (Context.get(context, Clock.Clock) === live && millis <= longest) {
    // oxlint-disable-next-line no-restricted-globals -- The live clock sleeps by this timer, too. Tests have another clock.
    const timer = setTimeout(ring, millis)
    return () => clearTimeout(timer)
  }
  const sleeper = Effect.runForkWith(context)(Effect.sleep(Duration.millis(millis)))
  const forget = sleeper.addObserver((exit) => {
    if (Exit.isSuccess(exit)) ring()
  })
  return () => {
    forget()
    sleeper.interruptUnsafe()
  }
}

const unset = (): void => {}
