/**
 * Targets, failures and cooldowns for the tests of a chain's state.
 */
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import type { ChainMemory } from "#agent/failover/chain/ChainMemory"
import type { Flight } from "#agent/failover/chain/TargetLog"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import type * as TargetRef from "#agent/conversation/TargetRef"
import { Duration } from "effect"

export const targetOf = (model: string, key: string, provider = "vendor"): TargetRef.TargetRef => ({
  id: `${provider}/${model}#${key}`,
  provider,
  model,
  endpoint: `https://${provider}.example`,
  key
})

const reasons = {
  RateLimit: new FailoverReason.RateLimit({}),
  Overloaded: new FailoverReason.Overloaded(),
  ServerError: new FailoverReason.ServerError(),
  Auth: new FailoverReason.Auth({ permanent: true }),
  Billing: new FailoverReason.Billing(),
  Cancelled: new FailoverReason.Cancelled(),
  ContentPolicy: new FailoverReason.ContentPolicy(),
  ContextOverflow: new FailoverReason.ContextOverflow({}),
  FormatRequest: new FailoverReason.Format({ side: "request" }),
  FormatResponse: new FailoverReason.Format({ side: "response" })
}

export const failureOf = (reason: keyof typeof reasons, detail = "", retryAfter?: number) =>
  new ProviderFailure.ProviderFailure({
    reason: reasons[reason],
    evidence: { rule: "test", signal: "status", status: 429, depth: 0 },
    retryAfter: retryAfter === undefined ? undefined : Duration.millis(retryAfter),
    detail
  })

export const flightOf = (target: TargetRef.TargetRef, startedAt = 0, seen: Partial<Flight> = {}): Flight => ({
  target,
  call: 1,
  startedAt,
  firstTokenAt: undefined,
  isHeard: false,
  ...seen
})

/** An attempt begins at `target` and fails at once. */
export const fails = (
  memory: ChainMemory,
  target: TargetRef.TargetRef,
  failure: ProviderFailure.ProviderFailure,
  now = 0
): void => {
  const flight = flightOf(target, now)
  memory.began(flight)
  memory.failed(flight, failure, { rule: undefined, probedAt: undefined, conversation: undefined, now })
}

/** An attempt begins at `target` and is answered at once. */
export const answers = (memory: ChainMemory, target: TargetRef.TargetRef, now = 0): void => {
  const flight = flightOf(target, now)
  memory.began(flight)
  memory.succeeded(flight, { target: target.id, elapsed: 0, now }, undefined)
}

/** True for a target that is out and may be probed. */
export const mayProbe = (
  cooldowns: Cooldown.Cooldowns,
  target: TargetRef.TargetRef,
  now: number,
  margin: (length: number) => number
): boolean =>
  Cooldown.outOf(cooldowns, target, now) !== undefined &&
  Cooldown.blockedUntil(cooldowns, target, margin) <= now
