/**
 * Whether the clock of this machine can be right. Cooldowns, leases, dates in `Retry-After` and certificates depend on it.
 *
 * Nothing on the network is asked: the clock is compared with the release of this program, with files that this machine
 * has written, and with the clock of a database that is examined anyway. Pure.
 */
import type { Problem } from "./Problem.ts"
import * as Problems from "./Problem.ts"

/** No copy of this program is older. */
const released = Date.UTC(2026, 10, 1)

/** Milliseconds by which two clocks may differ. A lease lasts longer. */
const tolerance = 5_000

const setIt = "Let the system set it (`timedatectl set-ntp true`)."

export const problems = (now: number): ReadonlyArray<Problem> =>
  now < released
    ? [
        Problems.error(
          null,
          `The clock says ${new Date(now).toISOString()}, which is before the release of this program. ${setIt}`
        )
      ]
    : []

/** `written`: when a file was written last. */
export const ofFile = (file: string, written: number, now: number): ReadonlyArray<Problem> =>
  written - now <= tolerance
    ? []
    : [
        {
          level: "warning",
          file,
          message: `It was written ${seconds(written - now)} in the future: the clock was set back. ${setIt} Waits and leases from before end late.`
        }
      ]

/** `theirs`: the clock of a database. */
export const ofServer = (name: string, theirs: number, now: number): ReadonlyArray<Problem> =>
  Math.abs(theirs - now) <= tolerance
    ? []
    : [
        Problems.warning(
          `The clock differs by ${seconds(Math.abs(theirs - now))} from that of ${name}. ${setIt} Leases of several machines need equal clocks.`
        )
      ]

const seconds = (millis: number): string => `${Math.round(millis / 1_000)} s`
