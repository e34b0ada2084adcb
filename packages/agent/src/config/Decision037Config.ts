/**
 * The configuration of DECISION_037 as its document writes it, with its feature switch and its manual overrides.
 *
 * {@link NetworkResilienceConfig} is the document's schema with its defaults. `enableNetworkResilience` is off by
 * default, as in the document, and `agents` switches it for one agent. {@link layer} builds the chain of an agent: with
 * the switch off, or without a configuration, it behaves as before the decision ({@link legacy}).
 *
 * **Meaning of the fields.** `retry`: repeats on the same target. `circuitBreaker`: a circuit for each endpoint; with
 * `healthProbeEnabled: false` all calls pass after the cooldown, and not one probe. `taskRestart`: {@link restarting}.
 * `healthCheck`: {@link monitorOf}. `visibility`: one log line for each retry, and {@link alertsOf}. `manualOverrides`:
 * an endpoint's circuit is held open, or closed when the layer is built.
 *
 * **Limits.** Restarts happen in this process.
 *
 * **Example** (One agent first)
 *
 * ```ts
 * const config = yield* Effect.fromResult(
 *   Decision037Config.decode({ retry: { maxNetworkRetries: 3 }, agents: { oracle: { enableNetworkResilience: true } } })
 * )
 * const Model = Decision037Config.layer([claude, gpt], config, { agent: "oracle" })
 * ```
 */
import { Duration, Effect, Layer, Option, Predicate, Schema } from "effect"
import type { Result } from "effect"
import type { Alerts, ConnectionMonitor } from "@outlast/resilience"
import { Backoff, CircuitBreaker, ResilienceEvents, Retry } from "@outlast/resilience"
import type { ChainError, Services, Specs } from "../failover/chain/Chain.ts"
import type { RecoveryPolicy, Row } from "../failover/decide/RecoveryPolicy.ts"
import { base } from "../failover/decide/RecoveryPolicy.ts"
import * as Failover from "../failover/Failover.ts"
import type { FailoverEvent } from "../failover/FailoverEvent.ts"
import { failureOf } from "../failure/reasons/CallFailed.ts"
import { AllTargetsOut } from "../failure/reasons/CallFailure.ts"
import { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import * as Preset from "../presets/Decision037.ts"
import * as Vocabulary from "../presets/Vocabulary.ts"
import type { ConfigInvalid } from "./Fields.ts"
import { count, decoder, flag, number, share } from "./Fields.ts"
import { schemaOf, withoutSchema } from "./OutlastConfig.ts"

// -----------------------------------------------------------------------------
// Schema
// -----------------------------------------------------------------------------

const { optionalKey, Struct } = Schema

const year = 365 * 86_400_000
const millis = (description: string, minimum = 0) => number(`${description} Milliseconds.`, minimum, year)

export const NetworkResilienceConfig = Struct({
  enableNetworkResilience: optionalKey(flag("Turns the configuration on for all agents. Default: false.")),
  agents: optionalKey(
    Schema.Record(
      Schema.String,
      Struct({ enableNetworkResilience: flag("Turns the configuration on or off for this agent.") })
    ).annotate({ description: "The switch for single agents, by name." })
  ),
  retry: optionalKey(
    Struct({
      maxNetworkRetries: optionalKey(count("Repeats on the same target. Default: 5.", 0, 1_000)),
      baseDelayMs: optionalKey(millis("First delay. Default: 1000.")),
      maxDelayMs: optionalKey(millis("Longest delay. Default: 30000.")),
      jitterPercent: optionalKey(share("Share by which a delay is shorter or longer. Default: 0.2."))
    })
  ),
  circuitBreaker: optionalKey(
    Struct({
      failureThreshold: optionalKey(count("Consecutive failures that open a circuit. Default: 5.")),
      cooldownMs: optionalKey(millis("Time that a circuit stays open. Default: 300000.", 1)),
      healthProbeEnabled: optionalKey(flag("One call tests the endpoint after the cooldown. Default: true."))
    })
  ),
  taskRestart: optionalKey(
    Struct({
      maxRestarts: optionalKey(count("Restarts of one task. Default: 3.", 0, 1_000)),
      restartBackoffBaseMs: optionalKey(millis("Delay before the first restart. It doubles. Default: 60000."))
    })
  ),
  healthCheck: optionalKey(
    Struct({
      pingIntervalMs: optionalKey(millis("Time between two pings. Default: 30000.", 1)),
      unhealthyThreshold: optionalKey(
        share("Share of failures from which a connection is unhealthy. Default: 0.5.", 0.01)
      )
    })
  ),
  visibility: optionalKey(
    Struct({
      logRetries: optionalKey(flag("Logs every retry with its error class and delay. Default: true.")),
      alertThreshold: optionalKey(count("Failures within 5 minutes that raise an alert. Default: 10."))
    })
  ),
  manualOverrides: optionalKey(
    Schema.Record(Schema.String, Schema.Literals(["open", "closed"])).annotate({
      description: "Circuits by endpoint: held open, or closed when the configuration is applied."
    })
  )
}).annotate({ title: "NetworkResilienceConfig", description: "The configuration of DECISION_037." })
export type NetworkResilienceConfig = typeof NetworkResilienceConfig.Type

/** The values of the document. */
export const defaults = {
  retry: { maxNetworkRetries: 5, baseDelayMs: 1_000, maxDelayMs: 30_000, jitterPercent: 0.2 },
  circuitBreaker: { failureThreshold: 5, cooldownMs: 300_000, healthProbeEnabled: true },
  taskRestart: { maxRestarts: 3, restartBackoffBaseMs: 60_000 },
  healthCheck: { pingIntervalMs: 30_000, unhealthyThreshold: 0.5 },
  visibility: { logRetries: true, alertThreshold: 10 }
} as const

const decodeFields = decoder(NetworkResilienceConfig)

/** Reads a configuration from parsed JSON, YAML or TOML. Fails with every problem and its path. */
export const decode = (input: unknown): Result.Result<NetworkResilienceConfig, ConfigInvalid> =>
  decodeFields(withoutSchema(input))

/** The JSON Schema of the configuration, for editors. */
export const jsonSchema = () => schemaOf(NetworkResilienceConfig)

// -----------------------------------------------------------------------------
// Options of the layers
// -----------------------------------------------------------------------------

/** True when the configuration applies to an agent. Without a configuration it does not. */
export const isEnabled = (config: NetworkResilienceConfig | undefined, agent?: string): boolean => {
  const own = agent === undefined ? undefined : config?.agents?.[agent]
  return own?.enableNetworkResilience ?? config?.enableNetworkResilience ?? false
}

/** The policy of a configuration: the preset `decision037` with its numbers. */
export const policyOf = (config: NetworkResilienceConfig): RecoveryPolicy<Preset.Class> => {
  const { maxNetworkRetries, baseDelayMs, maxDelayMs, jitterPercent } = { ...defaults.retry, ...config.retry }
  const { failureThreshold, cooldownMs, healthProbeEnabled } = {
    ...defaults.circuitBreaker,
    ...config.circuitBreaker
  }
  const repeated = (row: Row): Row => ({
    ...row,
    attempts: 1 + maxNetworkRetries,
    repeatsBeforeEquivalent: maxNetworkRetries,
    backoff: Backoff.exponential({
      initial: Math.min(baseDelayMs, maxDelayMs),
      factor: 2,
      cap: maxDelayMs,
      jitter: jitterPercent
    })
  })
  const { rows } = Preset.policy
  return {
    ...Preset.policy,
    rows: {
      ...rows,
      NetworkTransient: repeated(rows.NetworkTransient),
      ProviderRateLimit: repeated(rows.ProviderRateLimit)
    },
    maxAttempts: 5 * (1 + maxNetworkRetries),
    circuits: {
      ...Preset.circuits,
      trip: { consecutive: { failures: failureThreshold, distinctCalls: 1 } },
      open: Backoff.constant(cooldownMs),
      halfOpen: { ...Preset.circuits.halfOpen, permits: healthProbeEnabled ? 1 : unlimitedProbes }
    }
  }
}

/** Without a probe, all calls pass after the cooldown. */
const unlimitedProbes = 1_000

/** The retries of the system before the decision: `MAX_MODEL_RETRIES` and `RETRY_DELAY_MS`. */
export const legacyRetries = { times: 10, delay: Duration.millis(500) } as const

const legacyRetry: Row = {
  ...base,
  attempts: 1 + legacyRetries.times,
  repeatsBeforeEquivalent: legacyRetries.times,
  backoff: Backoff.constant(legacyRetries.delay),
  retryAfter: "ignored"
}

/**
 * The behaviour before the decision: connectivity failures are repeated ten times at 500 ms, everything else moves to
 * the next model. No circuits, no cooldowns, no backoff.
 */
export const legacy: RecoveryPolicy<Preset.Class> = {
  ...Preset.policy,
  rows: {
    ...Preset.policy.rows,
    NetworkTransient: legacyRetry,
    ProviderRateLimit: { ...base, then: "move" }
  },
  maxAttempts: 5 * (1 + legacyRetries.times),
  counters: "call",
  circuits: false
}

/** The options of a `ConnectionMonitor`. */
export const monitorOf = (config: NetworkResilienceConfig): ConnectionMonitor.Options => {
  const { pingIntervalMs, unhealthyThreshold } = { ...defaults.healthCheck, ...config.healthCheck }
  return { interval: pingIntervalMs, window: { unhealthyAt: unhealthyThreshold } }
}

/** The options of `Alerts`. */
export const alertsOf = (config: NetworkResilienceConfig): Alerts.Options => ({
  failures: config.visibility?.alertThreshold ?? defaults.visibility.alertThreshold,
  window: "5 minutes"
})

/** Restarts a task that failed because of the network, as often and as late as the configuration says. */
export const restarting =
  (config: NetworkResilienceConfig) =>
  <A, E, R>(task: Effect.Effect<A, E, R>): Effect.Effect<A, Retry.Failed<E, never>, R> => {
    const { maxRestarts, restartBackoffBaseMs } = { ...defaults.taskRestart, ...config.taskRestart }
    return Retry.with({
      name: "task restart",
      attempts: 1 + maxRestarts,
      backoff: Backoff.exponential({ initial: restartBackoffBaseMs, factor: 2, cap: year, jitter: 0 }),
      classify: (error: E) => (isNetworkFailure(error) ? Retry.again() : Retry.stop)
    })(task)
  }

/** True for a call, or a run, that failed because every target had a network failure. */
const isNetworkFailure = (error: unknown): boolean => {
  const inner =
    Predicate.isTagged(error, "AgentFailed") && Predicate.hasProperty(error, "reason") ? error.reason : error
  const failure = Option.getOrUndefined(failureOf(inner)) ?? inner
  const failures =
    failure instanceof AllTargetsOut
      ? failure.targets.map((out) => out.failure)
      : failure instanceof ProviderFailure
        ? [failure]
        : []
  return (
    failures.length > 0 &&
    failures.every(({ reason }) => Vocabulary.decision037(reason) === "NetworkTransient")
  )
}

// -----------------------------------------------------------------------------
// Layer
// -----------------------------------------------------------------------------

export interface Options extends Omit<Failover.Options<Preset.Class>, "policy"> {
  /** Name of the agent, for its own switch. Default: the switch of all agents. */
  readonly agent?: string | undefined
}

/** The chain of an agent. Without a configuration, or with the switch off, it has the {@link legacy} behaviour. */
export const layer = <const S extends Specs>(
  chain: S,
  config: NetworkResilienceConfig | undefined,
  { agent, ...options }: Options = {}
): Layer.Layer<Failover.Provided, ChainError, Services<S>> => {
  if (config === undefined || !isEnabled(config, agent)) {
    return Failover.layer<S, Preset.Class>(chain, { ...options, policy: legacy })
  }
  const policy = policyOf(config)
  const made = Layer.unwrap(
    Effect.gen(function* () {
      const { circuits } = policy
      const breaker = options.breaker ?? (yield* CircuitBreaker.make(circuits === false ? {} : circuits))
      yield* Effect.forEach(Object.entries(config.manualOverrides ?? {}), ([circuit, state]) =>
        state === "open" ? breaker.isolate(circuit) : breaker.reset(circuit)
      )
      return Failover.layer<S, Preset.Class>(chain, { ...options, policy, breaker })
    })
  )
  return config.visibility?.logRetries === false ? made : Layer.provide(made, layerRetryLog)
}

/** Logs each wait before a repeat: the target, the failure and the delay. */
const layerRetryLog = ResilienceEvents.layerTap(
  Effect.sync(() => {
    const failures = new Map<number, string>()
    return (event) => {
      const known = event as FailoverEvent
      switch (known._tag) {
        case "AttemptFailed":
          failures.set(known.call, known.reason)
          return Effect.void
        case "CallWaiting":
          if (known.reason !== "backoff") return Effect.void
          return Effect.logInfo(
            `Retry of ${known.target.id} after ${failures.get(known.call) ?? "a failure"}, in ${known.delay ?? 0} ms.`
          )
        case "CallSucceeded":
        case "CallGaveUp":
        case "CallAbandoned":
          failures.delete(known.call)
          return Effect.void
        default:
          return Effect.void
      }
    }
  })
)
