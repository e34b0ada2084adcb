/**
 * The part of nexo-rs' "fault tolerance" about calls. Rate limits get five attempts and server errors three; any
 * other 4xx fails at once. Below the retries each provider has a circuit.
 *
 * {@link deviations} lists where it differs from the document, and how gaps of the document are filled.
 *
 * The document has no deadline for a call. Here the deadline is half an hour. `circuits` and `circuitsOf` also
 * configure a separate breaker, which has `trip` and `reset`.
 *
 * **Example** (Resetting a circuit by hand)
 *
 * ```ts
 * const { policy, circuits, circuitsOf } = Presets.nexo
 * const breaker = yield* CircuitBreaker.make(circuits)
 * const Model = Failover.layer(chain, { policy, circuitsOf, breaker })
 * yield* breaker.reset("anthropic")
 * ```
 */
import type { Effect } from "effect"
import { Duration, Layer } from "effect"
import type { Tool } from "effect/ai"
import type { ChainError, NonEmpty, Services, Specs } from "../failover/chain/Chain.ts"
import type * as Agent from "../loop/Agent.ts"
import type { Outcome } from "../loop/Outcome.ts"
import * as Preset from "./PresetLayer.ts"
import * as Failover from "../failover/Failover.ts"
import type { CircuitBreaker } from "@outlast/resilience"
import type { Circuits } from "../failover/chain/Permits.ts"
import type { RecoveryPolicy, Row } from "../failover/decide/RecoveryPolicy.ts"
import { base, interactive } from "../failover/decide/RecoveryPolicy.ts"
import type { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../conversation/TargetRef.ts"
import * as Backoffs from "./Backoffs.ts"
import * as Vocabulary from "./Vocabulary.ts"

/** Differences from the document, and how its gaps are filled. `outlast explain --preset` prints them. */
export const deviations: ReadonlyArray<string> = [
  "Retries are above the circuit, so each attempt passes through it. In the code the order is reversed.",
  'Server errors and network failures count for a circuit. The document calls rate limits and similar failures "failures that don\'t warrant flipping the breaker". Here a rate limit never counts, and the others count only as consecutive failures. The code counts all of them.',
  '"Network blips" are retried, as in the document but not in the code. The document has no numbers for them; here they use those of server errors.',
  "The wait after a rate limit is the longer of the server's wait and the backoff, at most 60 s. A longer wait fails the call, and the failure says when to retry.",
  "A half-open circuit allows one call at a time. The code allows all.",
  "nexo-rs has a single target. In a chain of several, a call moves to the next target when its attempts are used up or the circuit is open."
]

/** The classes of the document's retry table. */
export type Class = "rate_limit" | "server_error" | "network" | "not_retryable"

const classOf = ({ reason }: ProviderFailure): Class => {
  if (Vocabulary.nexo(reason) === "not_retryable") return "not_retryable"
  switch (reason._tag) {
    case "RateLimit":
      return "rate_limit"
    case "Network":
    case "Timeout":
      return "network"
    default:
      return "server_error"
  }
}

/**
 * Opens after five consecutive failures, which may all belong to one call. Open for 10 s, twice as long each time,
 * at most 120 s. Two successes close the circuit.
 */
export const circuits = {
  trip: { consecutive: { failures: 5, distinctCalls: 1 } },
  halfOpen: { successes: 2 },
  open: Backoffs.nexoCircuit,
  restart: "closed",
  maxRetryAfter: 0
} satisfies CircuitBreaker.Options

/** One circuit for each provider, under the provider's name, for all of its endpoints. */
export const circuitsOf = ({ provider, model }: TargetRef): Circuits => ({
  endpoint: provider,
  model: `${model}@${provider}`
})

/** nexo-rs' lockfile: a second process ends the first. For `SingleInstance.acquire` of `@outlast/node`. */
export const instance = {
  path: "data/agent.lock",
  options: { whenHeld: { takeOver: { grace: Duration.seconds(5), afterKill: Duration.millis(500) } } }
} as const

/**
 * nexo-rs' stdio extensions, for `Supervised.make` of `@outlast/node`: five restarts in 300 s, 1 s to 16 s apart, 10 s
 * for the handshake and 3 s for the stop. A call has 30 s (`StdioRpc.make`).
 */
export const processes = {
  options: {
    handshakeLimit: Duration.seconds(10),
    stopLimit: Duration.seconds(3),
    respawn: { restarts: 5, window: Duration.seconds(300), backoff: Backoffs.nexoProcess }
  },
  call: { limit: Duration.seconds(30) }
} as const

/** nexo-rs' grace windows of a shutdown, for `Host` of `@outlast/node`: 5 s each for loops and for processes. */
export const shutdown = {
  limits: { loops: Duration.seconds(5), processes: Duration.seconds(5) }
} as const

const failing: Row = {
  ...base,
  attempts: 3,
  repeatsBeforeEquivalent: 2,
  backoff: Backoffs.nexoServerError,
  // The document mentions Retry-After for rate limits only.
  retryAfter: "ignored",
  circuit: "endpoint"
}

const deadline = Duration.minutes(30)

export const policy: RecoveryPolicy<Class> = {
  ...interactive,
  hedge: false,
  classOf,
  rows: {
    rate_limit: { ...base, attempts: 5, repeatsBeforeEquivalent: 4, backoff: Backoffs.nexoRateLimit },
    server_error: failing,
    network: failing,
    not_retryable: { ...base, then: "stop" }
  },
  maxAttempts: 10,
  deadline,
  patience: deadline,
  retryAfterJitter: 0,
  circuits,
  probe: false,
  retryBudget: false,
  sharedBackoff: false,
  lastResort: false,
  truncation: false
}

// -----------------------------------------------------------------------------
// Layer and agent
// -----------------------------------------------------------------------------

/** The preset over a chain: its policy, with one circuit for each provider, and alerts. Compaction is off. */
export const layer = <const S extends Specs>(
  chain: NonEmpty<S>,
  options: Options = {}
): Layer.Layer<Failover.Provided, ChainError, Services<S>> => {
  const { onAlert, ...failover } = options
  return Failover.layer(chain, { circuitsOf, ...failover, policy }).pipe(
    Layer.provideMerge(Preset.telemetry({}, onAlert))
  )
}

export type Options = Omit<Preset.Options<Class>, "recall" | "summariser">

/** An agent run. The document has no limit of its own, so the defaults of `Agent` and `SafetyGuard` apply. */
export const agent = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Agent.Options<Tools, R>
): Effect.Effect<Outcome, Preset.Failures<Tools>, Agent.Services<Tools, R>> => Preset.guarded({}, options)

// -----------------------------------------------------------------------------
// For the host and for delivery
// -----------------------------------------------------------------------------

/** Ports of a host: `/ready` and `/live`, and `/metrics`. */
export const ports = { health: 8080, metrics: 9090 } as const

/**
 * Options of an outbox. The oldest event is shed at the cap, and becomes a dead letter: nothing is dropped silently.
 * The cap is that of the code, because the document has none.
 */
export const outbox = {
  mode: "brokerFirst",
  rejections: 3,
  whenFull: "shedOldest",
  cap: { events: 10_000 }
} as const
