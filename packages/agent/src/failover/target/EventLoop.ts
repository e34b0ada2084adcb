/**
 * Measures the time in which the event loop of this process did not run: a long computation, a paused process.
 *
 * What arrived in that time has not been read, and what should have been sent was not. A time limit therefore does not
 * count it. A timer that is due every {@link beatEvery} milliseconds shows it by its delay. The timer runs only while a
 * limit is watched.
 *
 * **Limits.** A standstill is measured up to {@link beatEvery} milliseconds too short. Delays of up to {@link usual}
 * milliseconds, as in a busy process, do not count.
 */
import { Clock, Context } from "effect"

/** The clock of a program that has set no other. */
const live = Context.get(Context.empty(), Clock.Clock)

/** True for the live clock. No event loop moves the others. */
export const isLive = (clock: Clock.Clock): boolean => clock === live

/** Milliseconds between two beats. */
const beatEvery = 100

/** Milliseconds that a beat may be late. */
const usual = 50

let sum = 0
let watchers = 0
let stop = (): void => {}

/** Milliseconds that the event loop has stood still so far, while it was watched. */
export const lost = (): number => sum

/** Monotonic milliseconds of the live clock without those that were lost. */
export const awake = (): number => now() - sum

/** Watches until the returned function is called, which must be called once. */
export const watch = (): (() => void) => {
  if (watchers++ === 0) beat()
  return unwatch
}

const unwatch = (): void => {
  if (--watchers === 0) stop()
}

const beat = (): void => {
  const due = now() + beatEvery
  // oxlint-disable-next-line no-restricted-globals -- Measures the live clock itself. Tests have another clock.
  const timer = setTimeout(() => {
    const late = now() - due
    if (late > usual) sum += late
    beat()
  }, beatEvery)
  stop = () => clearTimeout(timer)
}

const now = (): number => Number(live.monotonicTimeNanosUnsafe()) / 1_000_000

/** Runs `f` after the event loop has read what has arrived. Returns the function that calls it off. */
export const afterTurn: (f: () => void) => () => void =
  "setImmediate" in globalThis
    ? (f) => {
        const turn = globalThis.setImmediate(f)
        return () => globalThis.clearImmediate(turn)
      }
    : (f) => {
        // oxlint-disable-next-line no-restricted-globals -- As above.
        const turn = setTimeout(f, 0)
        return () => clearTimeout(turn)
      }
