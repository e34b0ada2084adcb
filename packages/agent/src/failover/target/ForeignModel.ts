/**
 * Uses any `LanguageModel` layer as a target, for example a vendor's own.
 *
 * Every call passes through effect/ai twice, which costs about twice as much as a `ProviderModel`. A key per attempt
 * and time limits inside the layer are not supported. An output limit needs `withOutputLimit`, which sets it for the
 * vendor. Objects are always requested as whole answers, because only `generateObject` takes their schema, so a
 * streamed object arrives in one piece. Tools never run inside the layer. Tool calls are returned unchecked.
 *
 * **Example** (A vendor's own layer behind ours)
 *
 * ```ts
 * Failover.layer([
 *   ForeignModel.target({
 *     provider: "vendor",
 *     model: "vendor-1",
 *     layer: vendorLayer,
 *     withOutputLimit: (tokens) => Context.make(VendorConfig, { max_tokens: tokens })
 *   }),
 *   Anthropic.model("claude-sonnet-4-5")
 * ])
 * ```
 */
import { Context, Duration, Effect, Layer, Option, Stream } from "effect"
import type { Schema } from "effect"
import { LanguageModel } from "effect/ai"
import type { AiError, Response, Tool, Toolkit } from "effect/ai"
import { Options as Check } from "@outlast/resilience"
import * as Classifier from "../../failure/Classifier.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { failureOf } from "../../failure/reasons/CallFailed.ts"
import * as Kind from "../../options/Kind.ts"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"
import { checks as infoChecks } from "../../conversation/ModelInfo.ts"
import * as EncodedPart from "./EncodedPart.ts"
import type { ProviderModel, ProviderRequest, TargetSpec } from "./ProviderModel.ts"

/**
 * Returns the services that set the output limit of a vendor's layer, usually its configuration for one call. They
 * are provided while the call runs, whole or streamed.
 */
export type WithOutputLimit = (tokens: number) => Context.Context<never>

/**
 * Makes the layer's model an entry of a chain. The entry has no keys, because the layer has its own.
 *
 * Throws an `InvalidOption` (a `RangeError`) for an option that is missing, unknown or not allowed.
 */
export const target = <E, R>(options: Options<E, R>): TargetSpec<E, R> => {
  Check.fields("ForeignModel", options, checks)
  const { wholeAnswers } = options.info ?? {}
  Check.check(wholeAnswers !== "stream", "ForeignModel", "info.wholeAnswers", wholeAnswers, '"request"')
  return {
    provider: options.provider,
    model: options.model,
    endpoint: "",
    keys: [],
    build: Effect.gen(function* () {
      const scope = yield* Effect.scope
      const context = yield* Layer.buildWithScope(options.layer, scope)
      return fromLanguageModel(
        Context.get(context, LanguageModel.LanguageModel),
        options.info,
        options.provider,
        options.withOutputLimit
      )
    })
  }
}

export interface Options<E, R> {
  readonly provider: string
  readonly model: string
  readonly layer: Layer.Layer<LanguageModel.LanguageModel, E, R>
  /** Facts about the model. Default: none. */
  readonly info?: ModelInfo | undefined
  /** Sets the output limit of the vendor's layer. Default: the layer gets no limit and uses its own. */
  readonly withOutputLimit?: WithOutputLimit | undefined
}

const { is } = Check

const checks: Check.Checks<Options<unknown, unknown>> = {
  provider: is.required(Kind.publicName),
  model: is.required(Kind.publicName),
  layer: is.required(Kind.layer("a Layer of a LanguageModel")),
  info: Kind.object("what is known of the model, for example { contextWindow: 200_000 }", infoChecks),
  withOutputLimit: is.fn("(tokens) => Context")
}

/**
 * Builds the two hooks over a model. `provider` selects how error messages are read that differ between providers.
 */
export const fromLanguageModel = (
  model: LanguageModel.LanguageModel,
  info: ModelInfo = {},
  provider?: string,
  withOutputLimit: WithOutputLimit = () => Context.empty()
): ProviderModel => {
  Kind.languageModel("ForeignModel.fromLanguageModel", "model", model)
  return hooksOf(model, info, provider, withOutputLimit)
}

const hooksOf = (
  model: LanguageModel.LanguageModel,
  info: ModelInfo,
  provider: string | undefined,
  withOutputLimit: WithOutputLimit
): ProviderModel => {
  const generateText: ProviderModel["generateText"] = (request) => {
    const { responseFormat } = request
    const response: Effect.Effect<{ readonly content: ReadonlyArray<Response.AnyPart> }, AiError.AiError> =
      responseFormat.type === "text"
        ? model.generateText(callOf(request))
        : model.generateObject({
            ...callOf(request),
            // The schema is the user's own. The outer model passes it on with an open type.
            schema: responseFormat.schema as Schema.Codec<unknown, Record<string, unknown>>,
            objectName: responseFormat.objectName
          })
    return response.pipe(
      Effect.catch((error) => Effect.flatMap(toFailure(error, provider), Effect.fail)),
      // A whole answer has no stream parts.
      Effect.map(({ content }) => content.map(EncodedPart.of) as Array<Response.PartEncoded>),
      Effect.provideContext(limited(request, withOutputLimit))
    )
  }
  const streamText: ProviderModel["streamText"] = (request) => {
    // Only a whole answer takes the schema of an object.
    if (request.responseFormat.type === "json") {
      return Stream.fromIterableEffect(Effect.map(generateText(request), inPieces))
    }
    const parts: Stream.Stream<Response.AnyPart, AiError.AiError> = model.streamText(callOf(request))
    return parts.pipe(
      Stream.catch((error) => Stream.fromEffect(Effect.flatMap(toFailure(error, provider), Effect.fail))),
      // A stream has no whole parts.
      Stream.map((part) => EncodedPart.of(part) as Response.StreamPartEncoded),
      Stream.provideContext(limited(request, withOutputLimit))
    )
  }
  return { info: { ...info, wholeAnswers: "request" }, generateText, streamText }
}

/** Converts a whole answer to a stream, with each text in one piece. */
const inPieces = (parts: ReadonlyArray<Response.PartEncoded>): Array<Response.StreamPartEncoded> =>
  parts.flatMap((part, index): Array<Response.StreamPartEncoded> => {
    if (part.type !== "text" && part.type !== "reasoning") return [part]
    const { type, text: delta, metadata } = part
    const id = String(index)
    return [
      { type: `${type}-start`, id, metadata },
      { type: `${type}-delta`, id, delta },
      { type: `${type}-end`, id }
    ]
  })

const limited = ({ maxOutputTokens }: ProviderRequest, withOutputLimit: WithOutputLimit) =>
  maxOutputTokens === undefined ? Context.empty() : withOutputLimit(maxOutputTokens)

/**
 * Keeps the verdict of a chain inside a chain: the failure of the target that is back first, or of its first target.
 */
const toFailure = (error: AiError.AiError, provider: string | undefined): Effect.Effect<ProviderFailure> => {
  const failure = Option.getOrUndefined(failureOf(error))
  const classified = Effect.suspend(() => Classifier.failure(error, { provider, waits: true }))
  if (failure === undefined) return classified
  if (failure._tag === "ProviderFailure") return Effect.succeed(failure)
  const { soonest, targets } = failure
  const told =
    targets.find(
      ({ availableIn }) =>
        soonest !== undefined && availableIn !== undefined && Duration.equals(availableIn, soonest)
    ) ?? targets[0]
  return told === undefined ? classified : Effect.succeed(told.failure)
}

/** Builds the request as a user of the model would. The tools are offered and never run. */
const callOf = ({ prompt, tools, toolChoice }: ProviderRequest) => ({
  prompt,
  // The choice names one of `tools`. The empty toolkit type does not know their names.
  toolChoice: toolChoice as LanguageModel.ToolChoice<never>,
  toolkit: offering(tools),
  disableToolCallResolution: true as const,
  toolCallValidation: "deferred" as const
})

/** Has an empty type, because tool calls are returned unchecked. */
const offering = (tools: ReadonlyArray<Tool.Any>): Toolkit.WithHandler<{}> => ({
  tools: Object.fromEntries(tools.map((tool) => [tool.name, tool])),
  handle: () => Effect.die(new Error("ForeignModel: a tool call was resolved although resolution is off"))
})
