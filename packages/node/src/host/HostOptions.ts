/** Options of `Host`, with their defaults. */
import { Duration } from "effect"
import * as Check from "@outlast/resilience/Options"
import type { Phase, Plan } from "./ShutdownState.ts"

export interface HostOptions {
  /**
   * Time between "not ready" and the first phase, in which load balancers stop sending requests. Default 5 seconds, and
   * 0 when the program runs on a terminal.
   */
  readonly wait?: Duration.Input | undefined
  /**
   * Longest time of a whole shutdown. Default 25 seconds: Kubernetes kills after 30. A phase gets less than its limit
   * where the total would not suffice.
   */
  readonly total?: Duration.Input | undefined
  /** Longest time of single phases. See {@link defaults}`.limits`. */
  readonly limits?: { readonly [P in Phase]?: Duration.Input | undefined } | undefined
  /** Longest time of one check of readiness or one read of a section. Default 2 seconds. */
  readonly checkLimit?: Duration.Input | undefined
}

export const defaults = {
  wait: Duration.seconds(5),
  waitOnTerminal: Duration.zero,
  total: Duration.seconds(25),
  limits: {
    intake: Duration.seconds(2),
    loops: Duration.seconds(5),
    runs: Duration.seconds(10),
    outbox: Duration.seconds(5),
    processes: Duration.seconds(5),
    last: Duration.seconds(2)
  },
  checkLimit: Duration.seconds(2)
} as const

const limit = Check.is.duration()

export const checks: Check.Checks<HostOptions> = {
  wait: limit,
  total: limit,
  limits: Check.is.object<NonNullable<HostOptions["limits"]>>({
    intake: limit,
    loops: limit,
    runs: limit,
    outbox: limit,
    processes: limit,
    last: limit
  }),
  checkLimit: limit
}

/** The options in milliseconds, with their defaults. */
export const planOf = (options: HostOptions, isTerminal: boolean): Plan => {
  const wait = options.wait ?? (isTerminal ? defaults.waitOnTerminal : defaults.wait)
  const total = options.total ?? defaults.total
  const allowed = `longer than the wait of ${Duration.format(Duration.fromInputUnsafe(wait))}`
  Check.check(Duration.toMillis(total) > Duration.toMillis(wait), "Host", "total", total, allowed)
  const limitOf = (phase: Phase) => Duration.toMillis(options.limits?.[phase] ?? defaults.limits[phase])
  return {
    wait: Duration.toMillis(wait),
    total: Duration.toMillis(total),
    limits: {
      intake: limitOf("intake"),
      loops: limitOf("loops"),
      runs: limitOf("runs"),
      outbox: limitOf("outbox"),
      processes: limitOf("processes"),
      last: limitOf("last")
    }
  }
}
