/**
 * Turns anything that was thrown into a {@link ProviderFailure}.
 *
 * The error and its causes (5 deep) are normalised to `ErrorFacts`. Then an ordered table of rules is walked, the
 * most specific rules first (`DefaultRules`). A rule looks at the deepest cause first. The first rule that matches
 * decides, and its id is in the evidence. An error that no rule matches is `Unknown`. Never throws.
 *
 * **Example** (A rule of your own in front)
 *
 * ```ts
 * const full = Rule.code({
 *   id: "gateway/full",
 *   why: "Our gateway answers so when no worker is free.",
 *   codes: ["NO_WORKER"],
 *   reason: new FailoverReason.Overloaded()
 * })
 * program.pipe(Effect.provide(Failover.layer(targets)), Effect.provide(Classifier.layerWith([full])))
 * ```
 */
import type { Duration } from "effect"
import { Context, Effect, Layer } from "effect"
import * as Kind from "../options/Kind.ts"
import { defaultRules } from "./rules/DefaultRules.ts"
import type { Chain } from "./facts/ErrorFacts.ts"
import * as Facts from "./facts/ErrorFacts.ts"
import { maxBody } from "./facts/ErrorFacts.ts"
import type { FailoverReason } from "./reasons/FailoverReason.ts"
import type { Evidence } from "./reasons/ProviderFailure.ts"
import { maxDetail, ProviderFailure } from "./reasons/ProviderFailure.ts"
import * as Redaction from "../secrets/Redaction.ts"
import { abortByOthers, cancelled, unknown } from "./rules/reasons.ts"
import type { Rule } from "./rules/Rule.ts"
import { tableOf } from "./rules/RuleTable.ts"
import { prefixed } from "./rules/vendorCodes.ts"
import type { TargetRef } from "../conversation/TargetRef.ts"
import * as WaitHint from "./facts/WaitHint.ts"

export { defaultRules } from "./rules/DefaultRules.ts"
export type { Match, Rule } from "./rules/Rule.ts"

/** The table that classifies inside effects. Default: {@link defaultRules}. */
export const Rules: Context.Reference<ReadonlyArray<Rule>> = Context.Reference<ReadonlyArray<Rule>>(
  "@outlast/agent/failure/Classifier/Rules",
  { defaultValue: () => defaultRules }
)

/** The built-in table. */
export const layer: Layer.Layer<never> = Layer.succeed(Rules, defaultRules)

/**
 * Puts rules in front of the surrounding table, so that they decide before any other rule.
 *
 * Two such layers merged side by side (`Layer.mergeAll`) do not add up: each extends the surrounding table, and one
 * of them is lost. Give all rules to one layer, or provide one layer to the other:
 * `Layer.provide(layerWith(first), layerWith(general))`.
 *
 * Throws an `InvalidOption` (a `RangeError`) if `rules` is not a list of rules.
 */
export const layerWith = (rules: ReadonlyArray<Rule>): Layer.Layer<never> => {
  areRules("Classifier.layerWith", "rules", rules)
  return Layer.effect(
    Rules,
    Effect.map(Rules, (table) => [...rules, ...table])
  )
}

const areRules = Kind.list(
  Kind.having("a rule, for example Rule.code({ … })", "id", "match"),
  "a list of rules"
)

export interface Classified {
  readonly reason: FailoverReason
  readonly evidence: Evidence
  readonly retryAfter: Duration.Duration | undefined
  /** The sentence of the error that decided; that of the outermost one if it has none. */
  readonly message: string
}

export interface Hints {
  /**
   * Default: {@link defaultRules}. A table is indexed once for each array, so create the array once, not for each
   * error.
   */
  readonly rules?: ReadonlyArray<Rule> | undefined
  /** Name of the provider, for example `openai`. Some sentences mean different things from different providers. */
  readonly provider?: string | undefined
  /** Base URL that was asked. With `provider` and `model` it says whose numeric codes an error has. */
  readonly endpoint?: string | undefined
  /** Model that was asked. */
  readonly model?: string | undefined
  /**
   * True when the caller still waits for an answer, as in every attempt of a call. An abort in the error is then not
   * the caller's: it is a failure of the server, or of the connection. Default false.
   */
  readonly waits?: boolean | undefined
}

/** Classifies facts. Pure. A rule that throws does not match. */
export const classify = (
  chain: Chain,
  { rules = defaultRules, provider, endpoint, model, waits = false }: Hints = {}
): Classified => {
  const status = chain.find((facts) => facts.status !== undefined)?.status
  const requestId = requestIdOf(chain)
  const origin = { provider: word(provider), endpoint: word(endpoint), model: word(model) }
  const found = tableOf(rules).first(
    chain.map((facts) => prefixed(facts, origin)),
    origin.provider
  )
  const said = found?.match.reason ?? unknown
  // A rule of the user's own that says `Cancelled` means it.
  const reason = waits && said === cancelled ? abortByOthers(found?.facts.said ?? status) : said
  const retryAfter = WaitHint.from(chain, reason._tag)
  const refused = chain.some(({ headers }) => headers["x-should-retry"]?.trim().toLowerCase() === "false")
  const seen = refused ? { status, requestId, shouldRetry: false } : { status, requestId }
  const evidence: Evidence =
    found === undefined
      ? { rule: "none", signal: "text", depth: 0, ...seen }
      : {
          rule: found.rule.id,
          signal: found.match.signal,
          matched: found.match.matched,
          depth: found.facts.depth,
          ...seen
        }
  return { reason, evidence, retryAfter, message: found?.facts.message || chain[0].message }
}

const word = (value: unknown): string => (typeof value === "string" ? value.toLowerCase() : "")

const requestIdOf = (chain: Chain): string | undefined => {
  for (const { headers } of chain) {
    const id = headers["request-id"] ?? headers["x-request-id"] ?? headers["x-amzn-requestid"]
    if (id !== undefined) return id
  }
  return undefined
}

export interface Options extends Hints {
  /** Target that failed, and whose provider is the default of {@link Hints.provider}. */
  readonly target?: TargetRef | undefined
  /** Keys and texts of the prompt that are removed from the failure. */
  readonly secrets?: Redaction.Secrets | undefined
}

/** `instanceof` may throw, e.g. for a revoked proxy. */
const isFailure = (error: unknown): error is ProviderFailure => {
  try {
    return error instanceof ProviderFailure
  } catch {
    return false
  }
}

/** Classifies an error and keeps the provider's sentence without secrets. Pure: see {@link failure}. */
export const failureOf = (error: unknown, options: Options = {}): ProviderFailure => {
  if (isFailure(error)) return error
  const chain = Facts.fromUnknown(error)
  const { target } = options
  const { reason, evidence, retryAfter, message } = classify(chain, {
    ...options,
    provider: options.provider ?? target?.provider,
    endpoint: options.endpoint ?? target?.endpoint,
    model: options.model ?? target?.model
  })
  const clean = (text: string | undefined) =>
    text === undefined ? undefined : Redaction.scrub(text, maxDetail, options.secrets)
  return new ProviderFailure({
    reason,
    evidence: { ...evidence, matched: clean(evidence.matched), requestId: clean(evidence.requestId) },
    retryAfter,
    target: options.target,
    // A caller that knows more secrets scrubs again (`ProviderFailure.at`) and cuts to the length that is shown.
    detail: Redaction.scrub(message, options.secrets === undefined ? maxBody : maxDetail, options.secrets)
  })
}

/** As {@link failureOf}, with the table of {@link Rules}, which users extend. */
export const failure = (error: unknown, options: Options = {}): Effect.Effect<ProviderFailure> =>
  Effect.map(Rules, (rules) => failureOf(error, { rules, ...options }))
