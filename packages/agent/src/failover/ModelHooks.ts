/**
 * The hooks of a `Failover` model: its calls on encoded parts, without what effect/ai does around them.
 *
 * A program that has its own form of answers, and runs no tool handlers, decodes each part for nothing. `toAiSdk` asks the
 * hooks of the model in its layer instead. A model of any other layer has none.
 */
import { Context, Effect, Option } from "effect"
import type { Fiber, Stream } from "effect"
import { IdGenerator, Telemetry } from "effect/ai"
import type { AiError, LanguageModel, Response } from "effect/ai"
import { guardOf } from "./CallGuard.ts"
import type { Model } from "./CallGuard.ts"

export interface ModelHooks {
  /** The parts of a whole answer, the `finish` last. */
  readonly generateText: (
    options: LanguageModel.ProviderOptions
  ) => Effect.Effect<Array<Response.PartEncoded>, AiError.AiError, IdGenerator.IdGenerator>
  /** The parts of an answer as they come, the `finish` last. */
  readonly streamText: (
    options: LanguageModel.ProviderOptions
  ) => Stream.Stream<Response.StreamPartEncoded, AiError.AiError, IdGenerator.IdGenerator>
}

const known = new WeakMap<Model, ModelHooks>()

/**
 * Makes the hooks of a model available to {@link of}. effect/ai takes a span transformer and a generator of ids also where
 * the model is made: a model that has one is asked through effect/ai.
 */
export const keep = (model: Model, hooks: ModelHooks): Effect.Effect<void> =>
  Effect.withFiber(({ context }) => {
    const isPlain =
      !isTransformed(context) && Option.isNone(Context.getOption(context, IdGenerator.IdGenerator))
    if (isPlain) known.set(model, hooks)
    return Effect.void
  })

/** The hooks of a model; `undefined` for a model without hooks, and where a guard or a span transformer sees calls. */
export const of = (model: Model, fiber: Fiber.Fiber<unknown, unknown>): ModelHooks | undefined =>
  guardOf(fiber) === undefined && !isTransformed(fiber.context) ? known.get(model) : undefined

const isTransformed = (context: Context.Context<never>): boolean =>
  Option.isSome(Context.getOption(context, Telemetry.CurrentSpanTransformer))
