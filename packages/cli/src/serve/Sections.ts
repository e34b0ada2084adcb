/** The sections of the service on its status page. Pure: state in, JSON out. Times are Unix milliseconds. */
import { Duration } from "effect"
import type { Targets } from "@outlast/agent"
import type { CircuitBreaker } from "@outlast/resilience"

const untilOf = (left: Duration.Duration | undefined, now: number): number | null =>
  left === undefined ? null : now + Math.ceil(Duration.toMillis(left))

/** The chain with its keys, by name. */
export const targets = (list: ReadonlyArray<Targets.TargetStatus>, now: number) =>
  list.map(({ availableIn, circuits, cooldowns, lastSuccessAt, limits, message, reason, state, target }) => ({
    id: target.id,
    provider: target.provider,
    model: target.model,
    key: target.key,
    state,
    reason: reason ?? null,
    message: message ?? null,
    until: untilOf(availableIn, now),
    lastSuccessAt: lastSuccessAt ?? null,
    cooldowns: cooldowns.map((one) => ({
      scope: one.scope,
      reason: one.reason,
      until: untilOf(one.availableIn, now)
    })),
    circuits: circuits.map(({ availableIn, circuit, phase }) => ({
      circuit,
      phase,
      until: untilOf(availableIn, now)
    })),
    limits: limits.length
  }))

export const circuits = (list: ReadonlyArray<CircuitBreaker.Status>, now: number) =>
  list.map(({ circuit, lastFailure, phase, retryAfter }) => ({
    circuit,
    phase,
    until: untilOf(retryAfter, now),
    lastFailure: lastFailure ?? null
  }))
