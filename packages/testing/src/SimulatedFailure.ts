/**
 * Makes the next call of a chain fail once, for a reason of choice: in a test, or by a command of a chat.
 *
 * {@link Service.target} wraps a target of a chain. While a failure is armed, the next attempt at any wrapped target
 * fails with it, without a request to the provider. The chain then does what its policy says: it waits, switches, cools
 * down. One armed failure fails one attempt.
 *
 * **Limits.** A failure is armed for this process. The simulated failure has no headers and no body.
 *
 * **Example** (A command of a chat)
 *
 * ```ts
 * const simulated = yield* SimulatedFailure.make
 * const Model = Failover.layer([simulated.target(opus), simulated.target(sonnet)])
 *
 * yield* simulated.arm("rate_limit") // the next attempt fails, and the chain recovers
 * ```
 */
import { Data, Duration, Effect, Ref, Stream } from "effect"
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Options as Check } from "@outlast/resilience"

/** No reason has this name. The message lists the reasons that exist. */
export class UnknownReason extends Data.TaggedError("UnknownReason")<{ readonly name: string }> {
  override get message(): string {
    return `"${this.name}" is not a reason. Reasons: ${reasons.join(", ")}.`
  }
}

export interface Options {
  /** The wait that the provider names. Default: none. */
  readonly retryAfter?: Duration.Input | undefined
  /** Number of attempts that fail. Default 1. */
  readonly times?: number | undefined
}

/** A failure that waits for an attempt. */
export interface Armed {
  readonly reason: FailoverReason.ReasonLabel
  /** Attempts that still fail. */
  readonly times: number
}

export interface Service {
  /**
   * Arms a failure by its label (`rate_limit`) or tag (`RateLimit`). It replaces the one that is armed. Dies with an
   * `InvalidOption`, a `RangeError`, for an option out of its range.
   */
  readonly arm: (reason: string, options?: Options) => Effect.Effect<Armed, UnknownReason>
  /** Removes the failure that is armed. */
  readonly disarm: Effect.Effect<void>
  /** The failure that is armed; `undefined` when there is none. */
  readonly armed: Effect.Effect<Armed | undefined>
  /** Returns a target that fails while a failure is armed. */
  readonly target: <E, R>(target: ProviderModel.TargetSpec<E, R>) => ProviderModel.TargetSpec<E, R>
}

/** Labels of all reasons. */
export const reasons: ReadonlyArray<FailoverReason.ReasonLabel> = FailoverReason.reasonTags.map(
  (tag) => FailoverReason.definitions[tag].label
)

/** The HTTP status that usually carries a reason. */
const statuses: Readonly<Partial<Record<FailoverReason.ReasonTag, number>>> = {
  Auth: 401,
  Billing: 402,
  RateLimit: 429,
  Overloaded: 529,
  ServerError: 500,
  ContextOverflow: 400,
  ModelNotFound: 404,
  Format: 400,
  ContentPolicy: 400
}

const { is } = Check
const checks: Check.Checks<Options> = { retryAfter: is.duration(), times: is.integer({ min: 1 }) }

/** Creates a simulation in which nothing is armed. */
export const make: Effect.Effect<Service> = Effect.map(
  Ref.make<(Armed & { readonly failure: ProviderFailure.ProviderFailure }) | undefined>(undefined),
  (state): Service => {
    /** Takes one failure, if one is armed. */
    const taken = Ref.modify(state, (armed) => [
      armed?.failure,
      armed === undefined || armed.times === 1 ? undefined : { ...armed, times: armed.times - 1 }
    ])
    const shown = (armed: Armed | undefined): Armed | undefined =>
      armed === undefined ? undefined : { reason: armed.reason, times: armed.times }
    return {
      arm: (name, options = {}) =>
        Effect.suspend(() => {
          Check.fields("SimulatedFailure.arm", options, checks)
          const tag = FailoverReason.reasonTags.find(
            (tag) => tag === name || FailoverReason.definitions[tag].label === name
          )
          if (tag === undefined) return Effect.fail(new UnknownReason({ name }))
          const armed: Armed = { reason: FailoverReason.definitions[tag].label, times: options.times ?? 1 }
          return Effect.as(Ref.set(state, { ...armed, failure: failureOf(tag, options.retryAfter) }), armed)
        }),
      disarm: Ref.set(state, undefined),
      armed: Effect.map(Ref.get(state), shown),
      target: (target) => ({
        ...target,
        build: Effect.map(target.build, (model): ProviderModel.ProviderModel => ({
          ...model,
          generateText: (request) =>
            Effect.flatMap(taken, (failure) =>
              failure === undefined ? model.generateText(request) : Effect.fail(failure)
            ),
          streamText: (request) =>
            Stream.unwrap(
              Effect.map(taken, (failure) =>
                failure === undefined ? model.streamText(request) : Stream.fail(failure)
              )
            )
        }))
      })
    }
  }
)

/**
 * The failure of a reason, as a provider would cause it. Throws an `InvalidOption`, a `RangeError`, for a tag that does
 * not exist and for a wait that is no duration.
 */
export const failureOf = (
  tag: FailoverReason.ReasonTag,
  retryAfter?: Duration.Input
): ProviderFailure.ProviderFailure => {
  Check.oneOf("SimulatedFailure.failureOf", "tag", tag, FailoverReason.reasonTags)
  if (retryAfter !== undefined) Check.duration("SimulatedFailure.failureOf", "retryAfter", retryAfter)
  const status = statuses[tag]
  const [reason] = FailoverReason.definitions[tag].samples
  return new ProviderFailure.ProviderFailure({
    // Every definition has a sample.
    reason: reason ?? new FailoverReason.Unknown(),
    evidence: { rule: "simulated", signal: status === undefined ? "code" : "status", depth: 0, status },
    retryAfter: retryAfter === undefined ? undefined : Duration.fromInputUnsafe(retryAfter),
    detail: "This failure is simulated."
  })
}
