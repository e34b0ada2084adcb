/**
 * The settings of a program as data: from a file, from the environment, or from code.
 *
 * {@link OutlastConfig} is a Schema with ranges. Every field is optional, and a field that is absent keeps the value of
 * its preset. {@link decode} reads parsed JSON, YAML or TOML and reports every problem with the path of its field.
 * {@link config} reads the same fields from `effect/Config`: `policy.maxAttempts` is `OUTLAST_POLICY_MAX_ATTEMPTS` in
 * the environment. {@link policyOf}, {@link limitsOf} and {@link compactionOf} turn settings into options of the layers.
 *
 * **Limits.** Keys and targets are code: `Failover.layer(chain)`. This module reads no file; `outlast config check` does.
 *
 * **Example** (From the environment)
 *
 * ```ts
 * const Model = OutlastConfig.layerConfig([Anthropic.model("claude-sonnet-4-5"), OpenAi.model("gpt-5.1")])
 * // OUTLAST_POLICY_PRESET=background OUTLAST_POLICY_MAX_ATTEMPTS=6 OUTLAST_POLICY_LIMITS_CONNECT="5 seconds"
 * ```
 */
import { Config, ConfigProvider, Duration, Effect, Layer, Result, Schema } from "effect"
import type { LanguageModel } from "effect/ai"
import { Backoff, InvalidOption, Warnings } from "@outlast/resilience"
import type { CompactionPolicy } from "../compaction/CompactionPolicy.ts"
import * as CompactionPolicies from "../compaction/CompactionPolicy.ts"
import type { ChainError, NonEmpty, Services, Specs } from "../failover/chain/Chain.ts"
import type { RecoveryPolicy, Row } from "../failover/decide/RecoveryPolicy.ts"
import { background, interactive, validate } from "../failover/decide/RecoveryPolicy.ts"
import * as Direct from "../failover/Direct.ts"
import * as Failover from "../failover/Failover.ts"
import type { TargetSpec } from "../failover/target/ProviderModel.ts"
import type { Limits } from "../guard/Limits.ts"
import * as Bounds from "../guard/Limits.ts"
import * as Presets from "../presets/Presets.ts"
import * as Environment from "./Environment.ts"
import type { Problem } from "./Fields.ts"
import { ConfigInvalid, count, decoder, flag, number, share, time } from "./Fields.ts"

export { ConfigInvalid }
export type { Problem }

// -----------------------------------------------------------------------------
// Schema
// -----------------------------------------------------------------------------

const { optionalKey, Struct } = Schema

/** The policies that settings start from. */
const bases: Readonly<Record<string, RecoveryPolicy<string>>> = {
  interactive,
  background,
  claw0: Presets.claw0.policy,
  codebuddy: Presets.codebuddy.policy,
  decision037: Presets.decision037.policy,
  nexo: Presets.nexo.policy,
  s11: Presets.s11.policy
}

const year = Duration.days(365)
const wait = (description: string) => time(description, { min: 0, max: year })
const limit = (description: string) => time(description, { min: "1 milli", max: "1 day" })

const RowSettings = Struct({
  attempts: optionalKey(count("Attempts on one target, including the first.", 1, 1_000)),
  then: optionalKey(
    Schema.Literals(["retry", "move", "stop"]).annotate({ description: "Next move after the failure." })
  ),
  backoff: optionalKey(
    Struct({
      initial: optionalKey(wait("First delay before a repeat.")),
      factor: optionalKey(number("Growth of the delay with each repeat.", 1, 100)),
      cap: optionalKey(wait("Longest delay.")),
      jitter: optionalKey(share("Share by which a delay may be shorter or longer."))
    })
  ),
  retryAfter: optionalKey(
    Schema.Literals(["minimum", "wins", "ignored"]).annotate({
      description: "Effect of a wait that the server names."
    })
  ),
  cooldown: optionalKey(
    wait("Length of the first cooldown of a class that has one. It never grows beyond its cap.")
  )
})

/** A part of the policy, or `false`. */
const orOff = <const Fields extends Schema.Struct.Fields>(description: string, fields: Fields) =>
  Schema.Union([Struct(fields), Schema.Literal(false)]).annotate({
    description,
    expected: `false, or an object with ${Object.keys(fields).join(", ")}`
  })

const PolicySettings = Struct({
  preset: optionalKey(
    Schema.Literals([
      "interactive",
      "background",
      "claw0",
      "codebuddy",
      "decision037",
      "nexo",
      "s11"
    ]).annotate({
      description: "The policy that all other fields change. Default: interactive."
    })
  ),
  maxAttempts: optionalKey(count("Attempts of one call over all targets.", 1, 1_000)),
  deadline: optionalKey(wait("Waits and failed attempts of one call, together.")),
  maxWait: optionalKey(wait("Longest wait that a server may ask for. A longer one becomes a cooldown.")),
  patience: optionalKey(wait("Time spent on failures before a different model is asked.")),
  shortWait: optionalKey(
    wait("Longest wait of a server that is slept although an equivalent target is ready.")
  ),
  retryAfterJitter: optionalKey(share("Share by which a wait of a server is lengthened.")),
  maxCost: optionalKey(number("US dollars that the attempts of one call may cost.", 0, 1_000_000)),
  maxCompactions: optionalKey(count("Compactions of one call.", 0, 100)),
  whenAllOut: optionalKey(
    Schema.Literals(["wait", "probe", "fail"]).annotate({ description: "Reaction when no target is left." })
  ),
  lastResort: optionalKey(flag("True when a call may pass an open circuit if it has no other target.")),
  sharedBackoff: optionalKey(flag("True when one backoff holds over all targets that have failed a call.")),
  midStream: optionalKey(
    Schema.Literals(["continue", "fail", "restart"]).annotate({
      description: "Reaction to a stream that fails after text was shown."
    })
  ),
  circuits: optionalKey(flag("False turns the circuits off.")),
  probe: optionalKey(
    orOff("The last part of a cooldown, in which one call may probe the target. False: none.", {
      share: optionalKey(share("Share of the cooldown.")),
      atMost: optionalKey(wait("Longest such part."))
    })
  ),
  hedge: optionalKey(
    orOff("A second attempt for a call whose first token is late. False: none.", {
      after: optionalKey(limit("Time without content after which it starts.")),
      afterLook: optionalKey(limit("The same time for a call that looks whether a target is back.")),
      atMost: optionalKey(share("Largest share of all calls that may be hedged.")),
      reserve: optionalKey(count("Hedges that are allowed before calls have paid for them.", 0)),
      thinking: optionalKey(flag("True to hedge calls to models that think, too."))
    })
  ),
  retryBudget: optionalKey(flag("False turns the retry budget off.")),
  limits: optionalKey(
    Struct({
      connect: optionalKey(limit("Until the connection is open.")),
      firstToken: optionalKey(limit("Until the first token.")),
      firstTokenReasoning: optionalKey(
        limit("Until the first token of a model that thinks before it answers.")
      ),
      idle: optionalKey(limit("Between two tokens.")),
      idleReasoning: optionalKey(limit("Between two tokens of a model that thinks before it answers.")),
      total: optionalKey(limit("For a whole answer."))
    })
  ),
  rows: optionalKey(
    Schema.Record(Schema.String, RowSettings).annotate({
      description: "Changes of single classes of failures, such as RateLimit."
    })
  )
}).annotate({ description: "What happens when a call fails." })

const most = 1_000_000
const days = Duration.days(30)

const GuardSettings = Struct({
  toolCalls: optionalKey(count("Tool calls of a run.", 1, most)),
  turns: optionalKey(count("Model calls of a run.", 1, most)),
  events: optionalKey(count("Events of the transcript.", 1, most)),
  tokens: optionalKey(count("Input and output tokens of a run.", 1, 1_000_000_000_000)),
  money: optionalKey(number("US dollars of a run.", 0, most)),
  fileEdits: optionalKey(count("Edits of any one file.", 1, most)),
  activeTime: optionalKey(time("Active time of a run: waits do not count.", { min: "1 milli", max: days })),
  totalTime: optionalKey(time("All time of a run.", { min: "1 milli", max: days })),
  tools: optionalKey(
    Schema.Record(Schema.String, count("Calls of this tool.", 0, most)).annotate({
      description: "Calls of a tool, by its name. 0 forbids it."
    })
  ),
  subagents: optionalKey(
    Struct({
      depth: optionalKey(count("Levels below the first agent.", 0, 100)),
      breadth: optionalKey(count("Sub-agents of one agent at a time.", 1, most)),
      total: optionalKey(count("Sub-agents of a run.", 0, most))
    })
  )
}).annotate({ description: "Hard limits of a run." })

const CompactionSettings = Struct({
  warn: optionalKey(share("Share of the window from which the conversation is filling.", 0.01)),
  act: optionalKey(share("Share of the window above which the conversation is compacted.", 0.01)),
  reserve: optionalKey(number("Share of the window that stays free.", 0, 0.9)),
  maxAnswer: optionalKey(share("Largest share of a window given by hand that is kept for the answer.", 0.01)),
  downTo: optionalKey(share("Target size after a compaction, as a share of the window.", 0.01)),
  maxResult: optionalKey(share("Largest share of the window for one tool result.", 0.01))
}).annotate({ description: "When a conversation is made shorter." })

/** The settings of a program. Every field is optional. */
export const OutlastConfig = Struct({
  enabled: optionalKey(
    flag(
      "False is the kill switch: each call goes once to the first target, without recovery. Default: true."
    )
  ),
  policy: optionalKey(PolicySettings),
  guard: optionalKey(GuardSettings),
  compaction: optionalKey(CompactionSettings)
}).annotate({ title: "Outlast", description: "Settings of Outlast. Every field is optional." })
export type OutlastConfig = typeof OutlastConfig.Type

/** The JSON Schema of a configuration file, for editors. */
export const jsonSchema = () => schemaOf(OutlastConfig)

/** A JSON Schema in one document, which rejects unknown fields. */
export const schemaOf = (schema: Schema.Constraint): Readonly<Record<string, unknown>> => {
  const document = Schema.toJsonSchemaDocument(schema)
  const root = closed(document.schema) as Readonly<Record<string, unknown>>
  const { definitions } = document
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    ...root,
    // An editor names the schema in the file itself.
    properties: { $schema: { type: "string" }, ...(root["properties"] as object | undefined) },
    ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions })
  }
}

/** Rejects unknown fields in every object with known ones, as {@link decode} does. */
const closed = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== "object" || schema === null) return schema
  const made = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, closed(value)]))
  return "properties" in made ? { ...made, additionalProperties: false } : made
}

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

const decodeFields = decoder(OutlastConfig)

/**
 * Reads settings from parsed JSON, YAML or TOML. Fails with every problem: unknown fields, values out of range, and
 * settings that do not fit together. The field `$schema`, which editors use, is allowed.
 */
export const decode = (input: unknown): Result.Result<OutlastConfig, ConfigInvalid> =>
  Result.flatMap(decodeFields(withoutSchema(input)), checked)

/** Removes the field that names the JSON Schema for editors. */
export const withoutSchema = (input: unknown): unknown => {
  if (typeof input !== "object" || input === null || Array.isArray(input) || !("$schema" in input))
    return input
  const { $schema: _, ...rest } = input
  return rest
}

/** Checks that settings fit together: those that are valid one by one may contradict each other. */
export const checked = (config: OutlastConfig): Result.Result<OutlastConfig, ConfigInvalid> => {
  const problems = [
    ...unknownRows(config),
    ...problemIn("policy", () => validate(policyOf(config))),
    ...problemIn("guard", () => Bounds.make(limitsOf(config))),
    ...problemIn("compaction", () => CompactionPolicies.validate(compactionOf(config)))
  ]
  return problems.length === 0 ? Result.succeed(config) : Result.fail(new ConfigInvalid({ problems }))
}

const unknownRows = ({ policy }: OutlastConfig): ReadonlyArray<Problem> => {
  const known = Object.keys(baseOf(policy?.preset).rows)
  return Object.keys(policy?.rows ?? {}).flatMap((name) =>
    known.includes(name)
      ? []
      : [
          {
            path: `policy.rows.${name}`,
            problem: `is not a class of this preset. Classes: ${known.join(", ")}`
          }
        ]
  )
}

const problemIn = (part: string, check: () => unknown): ReadonlyArray<Problem> => {
  try {
    check()
    return []
  } catch (error) {
    if (!(error instanceof InvalidOption)) throw error
    const { field, allowed } = error
    return [{ path: `${part}.${field}`, problem: `must be ${allowed}` }]
  }
}

/**
 * The settings as a `Config`: with the default provider, environment variables that begin with `OUTLAST_`. Names are
 * in upper case with underscores: `policy.limits.connect` is `OUTLAST_POLICY_LIMITS_CONNECT`.
 */
export const config: Config.Config<OutlastConfig> = Config.schema(OutlastConfig, "outlast")

/**
 * Reads {@link config} from the surrounding `ConfigProvider`, and checks that the settings fit together. A problem
 * has the name of its variable: `OUTLAST_POLICY_MAX_ATTEMPTS`. Warns about each variable that is probably meant as a
 * setting and is none, with the nearest one.
 */
export const load: Effect.Effect<OutlastConfig, Config.ConfigError | ConfigInvalid> = Effect.gen(
  function* () {
    const provider = yield* ConfigProvider.ConfigProvider
    const document = Schema.toJsonSchemaDocument(OutlastConfig)
    for (const text of yield* Environment.mistaken(document, provider)) {
      yield* Warnings.write({ level: "Warn", text })
    }
    const read = yield* config
      .parse(ConfigProvider.constantCase(provider))
      .pipe(Effect.mapError(Environment.invalid(document)))
    return yield* Effect.fromResult(Result.mapError(checked(read), Environment.named))
  }
)

// -----------------------------------------------------------------------------
// Options of the layers
// -----------------------------------------------------------------------------

const baseOf = (preset = "interactive"): RecoveryPolicy<string> => bases[preset] ?? interactive

/** The policy of settings: the preset with their changes. */
export const policyOf = ({ policy = {} }: OutlastConfig): RecoveryPolicy<string> => {
  const { preset, rows = {}, limits = {}, circuits, hedge, probe, retryBudget, ...rest } = policy
  const base = baseOf(preset)
  return {
    ...base,
    ...rest,
    limits: { ...base.limits, ...limits },
    circuits: circuits === false ? false : base.circuits,
    hedge: partOf(base.hedge, interactive.hedge, hedge),
    probe: partOf(base.probe, interactive.probe, probe),
    retryBudget: retryBudget === false ? false : base.retryBudget,
    rows: Object.fromEntries(Object.entries(base.rows).map(([name, row]) => [name, rowOf(row, rows[name])]))
  }
}

/** A part of the policy with its settings. `usual` has the fields that a preset without the part lacks. */
const partOf = <A extends object>(
  base: A | false,
  usual: A | false,
  settings: Partial<A> | false | undefined
): A | false => {
  // A variable with a wrong name gives an object without fields.
  if (settings === undefined || (settings !== false && Object.keys(settings).length === 0)) return base
  return settings !== false && usual !== false ? { ...(base || usual), ...settings } : false
}

const rowOf = (row: Row, settings: typeof RowSettings.Type | undefined): Row => {
  if (settings === undefined) return row
  const { cooldown, backoff, ...rest } = settings
  return {
    ...row,
    ...rest,
    ...(backoff === undefined ? {} : { backoff: backoffOf(row.backoff, backoff) }),
    ...(cooldown === undefined || row.cooldown === undefined
      ? {}
      : { cooldown: { ...row.cooldown, initial: cooldown, cap: Duration.max(cooldown, row.cooldown.cap) } })
  }
}

const backoffOf = (
  base: Backoff.Backoff,
  settings: NonNullable<(typeof RowSettings.Type)["backoff"]>
): Backoff.Backoff => {
  const known = base._tag === "Exponential" ? base : Backoff.exponential()
  const cap = settings.cap ?? known.cap
  return Backoff.exponential({
    initial: Duration.min(settings.initial ?? known.initial, cap),
    factor: settings.factor ?? known.factor,
    cap,
    jitter: settings.jitter ?? known.jitter
  })
}

/** The limits of a `SafetyGuard`. */
export const limitsOf = ({ guard = {} }: OutlastConfig): Limits => {
  const { activeTime, totalTime, ...rest } = guard
  return {
    ...rest,
    ...(activeTime === undefined && totalTime === undefined
      ? {}
      : { time: { active: activeTime, total: totalTime } })
  }
}

/** The policy of a `Compaction`. */
export const compactionOf = ({ compaction = {} }: OutlastConfig): CompactionPolicy => ({
  ...CompactionPolicies.defaults,
  ...compaction
})

/**
 * `Failover.layer` with the policy of {@link load}. Fails for a variable that is wrong. With `OUTLAST_ENABLED=false` each
 * call goes once to the first target; `LiveConfig` has a switch that works while the program runs.
 */
export const layerConfig = <const S extends Specs>(
  chain: NonEmpty<S>,
  options: Omit<Failover.Options<string>, "policy"> = {}
): Layer.Layer<Failover.Provided, ChainError | Config.ConfigError | ConfigInvalid, Services<S>> =>
  Layer.unwrap(
    Effect.map(load, (settings) => {
      const layer = Failover.layer<S, string>(chain, { ...options, policy: policyOf(settings) })
      return settings.enabled === false ? Layer.merge(layer, unprotected(chain)) : layer
    })
  )

/** The model of the first target, without recovery. Merged over a chain, it replaces the chain's model. */
export const unprotected = <const S extends Specs>(
  chain: NonEmpty<S>
): Layer.Layer<LanguageModel.LanguageModel, ChainError, Services<S>> =>
  Layer.suspend(() => {
    const [first] = chain
    // The first entry needs some of the services of the chain. Without one, `Direct` throws.
    return Direct.layer(first as TargetSpec) as Layer.Layer<
      LanguageModel.LanguageModel,
      ChainError,
      Services<S>
    >
  })
