/**
 * The configuration of DECISION_037 as its document writes it, from a file, with its switch for each agent.
 *
 * {@link NetworkResilienceConfig} is the document's schema, `Presets.decision037.Settings`, and `agents`: the feature
 * switch of single agents. {@link decode} reports every problem with its path. {@link layer} builds the chain of an
 * agent. With the switch off, or without a configuration, its calls make one attempt at the first target, as without
 * Outlast.
 *
 * **Manual overrides.** `circuitBreaker.keepClosed` and `circuitBreaker.keepOpen` list endpoints whose circuit is held
 * by hand.
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
import { Option, Predicate, Schema } from "effect"
import type { Effect, Layer, Result } from "effect"
import { Retry } from "@outlast/resilience"
import type { ChainError, NonEmpty, Services, Specs } from "../failover/chain/Chain.ts"
import * as Failover from "../failover/Failover.ts"
import { failureOf } from "../failure/reasons/CallFailed.ts"
import { AllTargetsOut } from "../failure/reasons/CallFailure.ts"
import { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import * as Preset from "../presets/Decision037.ts"
import * as Vocabulary from "../presets/Vocabulary.ts"
import type { ConfigInvalid } from "./Fields.ts"
import { decoder, flag } from "./Fields.ts"
import { schemaOf, withoutSchema } from "./OutlastConfig.ts"

// -----------------------------------------------------------------------------
// Schema
// -----------------------------------------------------------------------------

export const NetworkResilienceConfig = Schema.Struct({
  ...Preset.Settings.fields,
  agents: Schema.optionalKey(
    Schema.Record(
      Schema.String,
      Schema.Struct({ enableNetworkResilience: flag("Turns the configuration on or off for this agent.") })
    ).annotate({ description: "The switch for single agents, by name." })
  )
}).annotate({ title: "NetworkResilienceConfig", description: "The configuration of DECISION_037." })
export type NetworkResilienceConfig = typeof NetworkResilienceConfig.Type

const decodeFields = decoder(NetworkResilienceConfig)

/** Reads a configuration from parsed JSON, YAML or TOML. Fails with every problem and its path. */
export const decode = (input: unknown): Result.Result<NetworkResilienceConfig, ConfigInvalid> =>
  decodeFields(withoutSchema(input))

/** The JSON Schema of the configuration, for editors. */
export const jsonSchema = () => schemaOf(NetworkResilienceConfig)

/** True when the configuration applies to an agent. Without a configuration it does not. */
export const isEnabled = (config: NetworkResilienceConfig | undefined, agent?: string): boolean => {
  const own = agent === undefined ? undefined : config?.agents?.[agent]
  return own?.enableNetworkResilience ?? config?.enableNetworkResilience ?? false
}

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

export interface Options extends Omit<Preset.Options, "settings"> {
  /** Name of the agent, for its own switch. Default: the switch of all agents. */
  readonly agent?: string | undefined
}

/** The chain of an agent: the preset `decision037` with these settings, or one attempt while it is switched off. */
export const layer = <const S extends Specs>(
  chain: NonEmpty<S>,
  config: NetworkResilienceConfig | undefined,
  { agent, ...options }: Options = {}
): Layer.Layer<Failover.Provided, ChainError, Services<S>> =>
  config !== undefined && isEnabled(config, agent)
    ? Preset.layer(chain, { ...options, settings: config })
    : Failover.layer<S, Preset.Class>(chain, { policy: Preset.off })

/** Restarts a task that failed because of the network, as often and as late as the configuration says. */
export const restarting =
  (config: NetworkResilienceConfig) =>
  <A, E, R>(task: Effect.Effect<A, E, R>): Effect.Effect<A, Retry.Failed<E, never>, R> => {
    const { max, backoff } = Preset.restartsOf(config)
    return Retry.with({
      name: "task restart",
      attempts: 1 + max,
      backoff,
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
