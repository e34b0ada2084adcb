/**
 * Layer 1: a `LanguageModel` that sends each call to the targets of a chain until one answers.
 *
 * Code that uses `LanguageModel`, `Chat` or `Toolkit` does not change: it gets this layer instead of one
 * provider's. Behind it one owner makes every attempt (`CallState` decides, `CallRun` carries out); text and
 * objects are one path, streams the other. No tool handler runs for an attempt that failed.
 *
 * **What it does not do.** It does not shorten conversations, and it does not survive the process.
 *
 * **Example** (Two keys of one model, then another provider)
 *
 * ```ts
 * const Model = Failover.layer([
 *   Anthropic.model("claude-sonnet-4-5", { keys: ["ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY_2"] }),
 *   OpenAi.model("gpt-5.1")
 * ])
 * program.pipe(Effect.provide(Model))
 * ```
 */
import { Effect, Layer, Stream } from "effect"
import type { Scope } from "effect"
import { LanguageModel } from "effect/ai"
import type { CallFailure } from "../failure/CallFailure.ts"
import type { CallFailed } from "./CallFailed.ts"
import { fromFailure } from "./CallFailed.ts"
import type { ChainError, Services, Specs } from "./Chain.ts"
import * as Chain from "./Chain.ts"
import type { DefaultClass, RecoveryPolicy } from "./RecoveryPolicy.ts"
import { interactive, validate } from "./RecoveryPolicy.ts"
import { streamText } from "./StreamCall.ts"
import { generateText } from "./TextCall.ts"

export interface Options<Class extends string> {
  /** What to do when a call fails. Default: `RecoveryPolicy.interactive`. */
  readonly policy?: RecoveryPolicy<Class> | undefined
}

/** A model over a chain of at least one entry. Fails only when no target can be built. */
export const make = <const S extends Specs, Class extends string = DefaultClass>(
  chain: S,
  options: Options<Class> = {}
): Effect.Effect<LanguageModel.LanguageModel, ChainError, Services<S> | Scope.Scope> =>
  Effect.gen(function* () {
    const policy: RecoveryPolicy<string> = options.policy ?? interactive
    validate(policy)
    const built = yield* Chain.build(chain, policy)
    const boundary = makeBoundary()
    return yield* LanguageModel.make({
      generateText: (request) =>
        boundary.repeated(request) ??
        Effect.mapError(generateText(built, request), boundary.toAiError("generateText", request)),
      streamText: (request) => {
        const repeated = boundary.repeated(request)
        return repeated === undefined
          ? streamText(built, request, boundary.toAiError("streamText", request))
          : Stream.fromEffect(repeated)
      }
    })
    // `Specs` leaves the entries' services open; `Services` names them.
  }) as Effect.Effect<LanguageModel.LanguageModel, ChainError, Services<S> | Scope.Scope>

/**
 * The layer of {@link make}: put it where one provider's layer stood.
 *
 * Errors: `ChainError` when no target can be built, for example because no key is set. A policy with a number
 * out of its range is a defect, a `RangeError` that names it.
 */
export const layer = <const S extends Specs, Class extends string = DefaultClass>(
  chain: S,
  options: Options<Class> = {}
): Layer.Layer<LanguageModel.LanguageModel, ChainError, Services<S>> =>
  // Layer.effect provides the scope.
  Layer.effect(LanguageModel.LanguageModel, make(chain, options)) as Layer.Layer<
    LanguageModel.LanguageModel,
    ChainError,
    Services<S>
  >

/**
 * Failures leave as `CallFailed`. `LanguageModel.make` answers an InvalidRequestError of an incremental request
 * with a second call; ours has sent the whole prompt already, so the second call gets the first one's error.
 */
const makeBoundary = () => {
  const incremental = new WeakMap<object, CallFailed>()
  return {
    repeated: (request: LanguageModel.ProviderOptions): Effect.Effect<never, CallFailed> | undefined => {
      const error = request.incrementalFallback === true ? incremental.get(request.span) : undefined
      return error === undefined ? undefined : Effect.fail(error)
    },
    toAiError:
      (method: string, request: LanguageModel.ProviderOptions) =>
      (failure: CallFailure): CallFailed => {
        const error = fromFailure(method, failure)
        if (request.incrementalPrompt !== undefined) incremental.set(request.span, error)
        return error
      }
  }
}
