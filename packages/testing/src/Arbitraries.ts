/**
 * Schemas whose generated values are failures, fault plans, worlds and policies: for `it.effect.prop`, or for
 * `Arbitrary.schema` of `effect`.
 *
 * `ProviderFailure`, `FaultPlan` and a policy have Schemas or types of their own, which allow every legal value. These
 * are narrower: waits of at most two minutes, plans of a few faults, policies that pass `RecoveryPolicy.validate`. A
 * property then spends its runs on situations that occur.
 *
 * {@link models} makes the targets of a world, for `Failover.layer`.
 *
 * **Example** (A policy of your own, in any world)
 *
 * ```ts
 * it.effect.prop("never waits longer than a minute", { world: Arbitraries.World }, ({ world }) =>
 *   Effect.gen(function* () {
 *     const models = yield* Arbitraries.models(world)
 *     const call = LanguageModel.generateText({ prompt: "?" }).pipe(Effect.provide(Failover.layer(models, { policy: RecoveryPolicy.background })))
 *     yield* Timing.holds(yield* Timeline.record(call), [Timing.neverMoreThan("1 minute")])
 *   })
 * )
 * ```
 */
import { Duration, Effect, Predicate, Redacted, Schema, SchemaGetter } from "effect"
import { FailoverReason, KeySource, RecoveryPolicy } from "@outlast/agent"
import type { ProviderFailure } from "@outlast/agent"
import { Backoff } from "@outlast/resilience"
import * as FaultPlan from "./plan/FaultPlan.ts"
import * as ScriptedModel from "./ScriptedModel.ts"
import * as SimulatedFailure from "./SimulatedFailure.ts"

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

// -----------------------------------------------------------------------------
// Failures
// -----------------------------------------------------------------------------

/** The tag of any reason. */
export const Reason = Schema.Literals(FailoverReason.reasonTags)

const FailureShape = Schema.Struct({
  reason: Reason,
  /** Seconds. */
  retryAfter: Schema.optionalKey(between(0, 120))
})

const isFailure = (value: unknown): value is ProviderFailure.ProviderFailure =>
  Predicate.isTagged(value, "ProviderFailure")

/** A failure of any reason, as a provider causes it, with or without a wait that the provider names. */
export const Failure: Schema.declare<ProviderFailure.ProviderFailure> = Schema.declare(isFailure, {
  toCodecArbitrary: () =>
    Schema.link<ProviderFailure.ProviderFailure>()(FailureShape, {
      decode: SchemaGetter.transform(({ reason, retryAfter }) =>
        SimulatedFailure.failureOf(
          reason,
          retryAfter === undefined ? undefined : Duration.seconds(retryAfter)
        )
      ),
      encode: SchemaGetter.transform(({ reason, retryAfter }) => ({
        reason: reason._tag,
        ...(retryAfter === undefined ? {} : { retryAfter: Math.round(Duration.toSeconds(retryAfter)) })
      }))
    })
})

// -----------------------------------------------------------------------------
// Plans
// -----------------------------------------------------------------------------

/**
 * A failure that passes, with a wait that the server names. It is a third of all faults: in a hundred worlds, a policy
 * that ignores such a wait must meet one.
 */
const Waiting = Schema.Struct({
  type: Schema.Literal("status"),
  status: Schema.Literals([429, 500, 502, 503, 529]),
  headers: Schema.Struct({ "retry-after": Schema.Literals(["3", "20", "90"]) })
})

const Refused = Schema.Union([
  Schema.Struct({
    type: Schema.Literal("status"),
    status: Schema.Literals([400, 401, 402, 403, 404, 408, 429, 500, 502, 503, 529]),
    headers: Schema.optionalKey(
      Schema.Struct({ "retry-after": Schema.Literals(["0", "1", "3", "20", "90"]) })
    )
  }),
  Schema.Struct({
    type: Schema.Literal("stream-error"),
    after: between(0, 6),
    error: Schema.Struct({
      type: Schema.Literals(["overloaded_error", "api_error", "rate_limit_error"]),
      message: Schema.Literal("Simulated.")
    })
  })
])

const Broken = Schema.Union([
  Schema.Struct({ type: Schema.Literal("reset"), after: Schema.optionalKey(between(0, 6)) }),
  Schema.Struct({ type: Schema.Literal("cut"), after: between(0, 6) }),
  Schema.Struct({ type: Schema.Literal("stall"), after: Schema.optionalKey(between(0, 6)) }),
  Schema.Struct({ type: Schema.Literal("slow"), delay: between(1, 2_000) })
])

/** A fault that real providers have. */
export const Fault = Schema.Union([Refused, Waiting, Broken])

const Step = Schema.Struct({
  skip: Schema.optionalKey(between(0, 3)),
  times: Schema.optionalKey(between(1, 4)),
  fault: Fault
})

const Answers = Schema.Array(
  Schema.Struct({ text: Schema.Literals(["Yes.", "The meeting is on Tuesday at ten."]) })
).check(Schema.isMinLength(1), Schema.isMaxLength(3))

/** A plan of at most five faults, and one to three answers. A program with more turns needs answers of its own. */
export const Plan = Schema.Struct({
  faults: Schema.Array(Step).check(Schema.isMaxLength(5)),
  answers: Answers
})
export type Plan = typeof Plan.Type

// -----------------------------------------------------------------------------
// Worlds
// -----------------------------------------------------------------------------

const Target = Schema.Struct({
  provider: Schema.Literals(["anthropic", "openai", "google"]),
  model: Schema.Literals(["large", "small"]),
  /** Number of keys. */
  keys: between(1, 2)
})

/** One to three targets, and a plan that all of them share. */
export const World = Schema.Struct({
  targets: Schema.NonEmptyArray(Target).check(Schema.isMaxLength(3)),
  plan: Plan
})
export type World = typeof World.Type

/** Starts the plan of a world and makes its targets. Targets that occur twice are made once. */
export const models = (
  world: World
): Effect.Effect<readonly [ScriptedModel.ScriptedModel, ...ReadonlyArray<ScriptedModel.ScriptedModel>]> =>
  Effect.gen(function* () {
    const plan = yield* FaultPlan.start(world.plan)
    const [first, ...rest] = world.targets
    const known = new Set([nameOf(first)])
    const others = rest.filter((target) => {
      const isNew = !known.has(nameOf(target))
      known.add(nameOf(target))
      return isNew
    })
    const made = (target: typeof Target.Type) =>
      ScriptedModel.make({
        provider: target.provider,
        model: target.model,
        plan,
        keys: Array.from({ length: target.keys }, (_, i) => {
          const name = `${target.provider}_${i + 1}`
          return KeySource.value(name, Redacted.make(name))
        })
      })
    return [yield* made(first), ...(yield* Effect.forEach(others, made))]
  })

const nameOf = ({ provider, model }: typeof Target.Type): string => `${provider}/${model}`

// -----------------------------------------------------------------------------
// Policies
// -----------------------------------------------------------------------------

const seconds = between(1, 120)

const PolicyShape = Schema.Struct({
  background: Schema.Boolean,
  attempts: between(1, 6),
  maxAttempts: between(1, 12),
  initial: seconds,
  factor: between(1, 4),
  cap: seconds,
  /** Percent. */
  jitter: between(0, 100),
  deadline: between(1, 600),
  maxWait: seconds,
  patience: seconds,
  whenAllOut: Schema.Literals(["wait", "probe", "fail"]),
  midStream: Schema.Literals(["continue", "fail", "restart"]),
  circuits: Schema.Boolean,
  retryBudget: Schema.Boolean
})

const policyOf = (shape: typeof PolicyShape.Type): RecoveryPolicy.RecoveryPolicy => {
  const base = shape.background ? RecoveryPolicy.background : RecoveryPolicy.interactive
  const backoff = Backoff.exponential({
    initial: Duration.seconds(Math.min(shape.initial, shape.cap)),
    factor: shape.factor,
    cap: Duration.seconds(shape.cap),
    jitter: shape.jitter / 100
  })
  const of = (row: RecoveryPolicy.Row): RecoveryPolicy.Row =>
    row.then === "retry" ? { ...row, attempts: shape.attempts, backoff } : row
  return {
    ...base,
    // Object.entries forgets the key type; the keys are those of `rows`.
    rows: Object.fromEntries(
      Object.entries<RecoveryPolicy.Row>(base.rows).map(([name, row]) => [name, of(row)])
    ) as RecoveryPolicy.RecoveryPolicy["rows"],
    maxAttempts: shape.maxAttempts,
    deadline: Duration.seconds(shape.deadline),
    maxWait: Duration.seconds(shape.maxWait),
    patience: Duration.seconds(shape.patience),
    whenAllOut: shape.whenAllOut,
    midStream: shape.midStream,
    circuits: shape.circuits ? base.circuits : false,
    retryBudget: shape.retryBudget ? base.retryBudget : false
  }
}

const isPolicy = (value: unknown): value is RecoveryPolicy.RecoveryPolicy =>
  Predicate.hasProperty(value, "rows") && Predicate.hasProperty(value, "classOf")

/** A policy with other attempts, waits, limits and reactions than the defaults. It passes `RecoveryPolicy.validate`. */
export const Policy: Schema.declare<RecoveryPolicy.RecoveryPolicy> = Schema.declare(isPolicy, {
  toCodecArbitrary: () =>
    Schema.link<RecoveryPolicy.RecoveryPolicy>()(PolicyShape, {
      decode: SchemaGetter.transform(policyOf),
      encode: SchemaGetter.forbidden(() => "A policy has functions: it is only generated.")
    })
})
