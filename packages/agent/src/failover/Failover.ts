/**
 * Layer 1: a `LanguageModel` that sends each call to the targets of a chain until one answers.
 *
 * Code that uses `LanguageModel`, `Chat` or `Toolkit` does not change: it gets this layer instead of one provider's.
 * One owner makes every attempt of a call: `CallState` decides and `CallRun` carries out. Text and objects share one
 * path, streams have another. No tool handler runs for a failed attempt.
 *
 * **Limits.** This layer does not shorten conversations by itself (see `compact`). Calls do not survive the process.
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
import { Context, Effect, Layer, Stream } from "effect"
import type { Scope } from "effect"
import { AiError, LanguageModel } from "effect/ai"
import type { CallFailure } from "../failure/reasons/CallFailure.ts"
import { guardable } from "./CallGuard.ts"
import type { CallFailed } from "../failure/reasons/CallFailed.ts"
import { fromFailure } from "../failure/reasons/CallFailed.ts"
import type { ChainError, NonEmpty, Services, Specs } from "./chain/Chain.ts"
import type * as Chain from "./chain/Chain.ts"
import * as ChainOptions from "./ChainOptions.ts"
import type { Options } from "./ChainOptions.ts"
import * as ModelHooks from "./ModelHooks.ts"
import { Priority } from "../limiter/Priority.ts"
import type { DefaultClass } from "./decide/RecoveryPolicy.ts"
import { streamText } from "./call/StreamCall.ts"
import { mistakeIn } from "./call/StrictCalls.ts"
import { make as makeTargets, Targets } from "./chain/Targets.ts"
import { generateText } from "./call/TextCall.ts"
import * as UndeclaredTools from "./call/UndeclaredTools.ts"

export type { Options } from "./ChainOptions.ts"

/**
 * Makes a model over a chain of at least one entry. Fails only when no target can be built.
 *
 * Dies with an `InvalidOption` (a `RangeError`) for an empty chain, an entry that is not a target, and an option that
 * is unknown or not allowed.
 */
export const make = <const S extends Specs, Class extends string = DefaultClass>(
  chain: NonEmpty<S>,
  options: Options<Class> = {}
): Effect.Effect<
  Context.Service.Shape<typeof LanguageModel.LanguageModel>,
  ChainError,
  Services<S> | Scope.Scope
> => Effect.map(makeContext(chain, options), (context) => Context.get(context, LanguageModel.LanguageModel))

/** Services that {@link layer} provides. */
export type Provided = LanguageModel.LanguageModel | Targets

/**
 * The layer of {@link make}, used instead of one provider's layer. Also provides `Targets` for operators.
 *
 * Errors: `ChainError` when no target can be built, for example because no key is set. Wrong options and an empty
 * chain are defects, as in {@link make}.
 */
export const layer = <const S extends Specs, Class extends string = DefaultClass>(
  chain: NonEmpty<S>,
  options: Options<Class> = {}
): Layer.Layer<Provided, ChainError, Services<S>> =>
  // `Layer.effectContext` provides the scope.
  Layer.effectContext(makeContext(chain, options)) as Layer.Layer<Provided, ChainError, Services<S>>

const makeContext = <const S extends Specs, Class extends string>(
  chain: NonEmpty<S>,
  options: Options<Class>
): Effect.Effect<Context.Context<Provided>, ChainError, Services<S> | Scope.Scope> =>
  Effect.gen(function* () {
    const { built, background: unhurried } = yield* ChainOptions.build<S, Class>(chain, options)
    const { policy } = built
    const chainOf = (priority: Priority): Chain.Chain =>
      priority === "background" ? (unhurried ?? built) : built
    const boundary = makeBoundary()
    const hooks: ModelHooks.ModelHooks = {
      generateText: (request) => {
        const asked = (chain: Chain.Chain) =>
          generateText(chain, request, boundary.toAiError("generateText", request))
        return (
          boundary.repeated(request) ??
          (unhurried === undefined
            ? asked(built)
            : Effect.flatMap(Priority, (priority) => asked(chainOf(priority))))
        )
      },
      streamText: (request) => {
        const repeated = boundary.repeated(request)
        if (repeated !== undefined) return Stream.fromEffect(repeated)
        const streamed = (chain: Chain.Chain) =>
          streamText(chain, request, boundary.toAiError("streamText", request), mistaken("streamText"))
        return unhurried === undefined
          ? streamed(built)
          : Stream.unwrap(Effect.map(Priority, (priority) => streamed(chainOf(priority))))
      }
    }
    const model = yield* UndeclaredTools.make({
      ...hooks,
      generateText: (request) =>
        Effect.flatMap(hooks.generateText(request), (parts) => {
          const mistake = mistakeIn(request, parts)
          return mistake === undefined
            ? Effect.succeed(UndeclaredTools.inAnswer(parts, request))
            : Effect.fail(mistaken("generateText")(mistake))
        })
    })
    const compacts = built.compact !== undefined && policy.maxCompactions > 0
    const own = guardable(model)
    yield* ModelHooks.keep(own, hooks)
    return Context.make(LanguageModel.LanguageModel, own).pipe(
      Context.add(Targets, makeTargets({ ...built, compacts }))
    )
  })

/** An error inside `LanguageModel.make` that is not a failure of the call. */
const mistaken =
  (method: string) =>
  (reason: AiError.AiErrorReason): AiError.AiError =>
    AiError.make({ module: "Outlast", method, reason })

/**
 * Converts failures to `CallFailed`. `LanguageModel.make` reacts to an InvalidRequestError of an incremental request
 * with a second call. Ours has sent the whole prompt already, so the second call gets the first one's error.
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
      (failure: CallFailure, object?: string): CallFailed => {
        const error = fromFailure(method, failure, object)
        if (request.incrementalPrompt !== undefined) incremental.set(request.span, error)
        return error
      }
  }
}
