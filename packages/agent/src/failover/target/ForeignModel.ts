/**
 * A `LanguageModel` layer that is not ours, as a target.
 *
 * It costs a second pass of effect/ai over every call (about twice as much as a `ProviderModel`), and what it
 * cannot know: a key per attempt, and time limits that the layer sets itself. It knows an output limit only if
 * `withOutputLimit` says how its vendor is told. It is always asked for whole answers with a request: only that takes
 * the schema of an object. So an object that is streamed comes in one piece. Its tools never run inside it; its calls
 * come back unchecked.
 *
 * **Example** (A vendor's own layer behind ours)
 *
 * ```ts
 * Failover.layer([
 *   ForeignModel.target({
 *     provider: "vendor",
 *     model: "vendor-1",
 *     layer: VendorLanguageModel.layer,
 *     withOutputLimit: (tokens) => Context.make(VendorLanguageModel.Config, { max_tokens: tokens })
 *   }),
 *   Anthropic.model("claude-sonnet-4-5")
 * ])
 * ```
 */
import { Context, Duration, Effect, Layer, Option, Schema, Stream } from "effect"
import { LanguageModel, Response, Toolkit } from "effect/ai"
import type { AiError, Tool } from "effect/ai"
import { Options as Check } from "@outlast/resilience"
import * as Classifier from "../../failure/Classifier.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { failureOf } from "../../failure/reasons/CallFailed.ts"
import * as Kind from "../../options/Kind.ts"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"
import { checks as infoChecks } from "../../conversation/ModelInfo.ts"
import type { ProviderModel, ProviderRequest, TargetSpec } from "./ProviderModel.ts"

/**
 * The services with which a vendor's layer is told how many tokens an answer may have: its configuration for one call,
 * usually. They are there while the call runs, whole or streamed.
 */
export type WithOutputLimit = (tokens: number) => Context.Context<never>

/**
 * The layer's model as an entry of a chain, without keys of ours: the layer has its own.
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
  /** Default: nothing is known. */
  readonly info?: ModelInfo | undefined
  /** Default: the layer is told nothing, and an answer is as long as the layer lets it be. */
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

/** The two hooks over a model. `provider` tells sentences apart that mean different things at different providers. */
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
            // The user's own schema; the outer model asked for it as an open type.
            schema: responseFormat.schema as Schema.Codec<unknown, Record<string, unknown>>,
            objectName: responseFormat.objectName
          })
    return response.pipe(
      Effect.catch((error) => Effect.flatMap(toFailure(error, provider), Effect.fail)),
      // A whole answer has no stream parts.
      Effect.map(({ content }) => content.map(encoded) as Array<Response.PartEncoded>),
      Effect.provideContext(limited(request, withOutputLimit))
    )
  }
  const streamText: ProviderModel["streamText"] = (request) => {
    // Only a request takes the schema of an object.
    if (request.responseFormat.type === "json") {
      return Stream.fromIterableEffect(Effect.map(generateText(request), inPieces))
    }
    const parts: Stream.Stream<Response.AnyPart, AiError.AiError> = model.streamText(callOf(request))
    return parts.pipe(
      Stream.catch((error) => Stream.fromEffect(Effect.flatMap(toFailure(error, provider), Effect.fail))),
      // A stream has no whole parts.
      Stream.map((part) => encoded(part) as Response.StreamPartEncoded),
      Stream.provideContext(limited(request, withOutputLimit))
    )
  }
  return { info: { ...info, wholeAnswers: "request" }, generateText, streamText }
}

/** A whole answer as a stream, each text in one piece. */
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

/** The verdict of a chain inside a chain is kept: that of the target that is back first, or of its first. */
const toFailure = (error: AiError.AiError, provider: string | undefined): Effect.Effect<ProviderFailure> => {
  const failure = Option.getOrUndefined(failureOf(error))
  if (failure === undefined) return Classifier.failure(error, { provider })
  if (failure._tag === "ProviderFailure") return Effect.succeed(failure)
  const { soonest, targets } = failure
  const told =
    targets.find(
      ({ availableIn }) =>
        soonest !== undefined && availableIn !== undefined && Duration.equals(availableIn, soonest)
    ) ?? targets[0]
  return told === undefined ? Classifier.failure(error, { provider }) : Effect.succeed(told.failure)
}

/** The request as a user of the model would make it, with tools that are offered and never run. */
const callOf = ({ prompt, tools, toolChoice }: ProviderRequest) => ({
  prompt,
  // It names one of `tools`, whose names the empty type does not know.
  toolChoice: toolChoice as LanguageModel.ToolChoice<never>,
  toolkit: offering(tools),
  disableToolCallResolution: true as const,
  toolCallValidation: "deferred" as const
})

/** Typed as empty: calls come back unchecked, whatever tools there are. */
const offering = (tools: ReadonlyArray<Tool.Any>): Toolkit.WithHandler<{}> => ({
  tools: Object.fromEntries(tools.map((tool) => [tool.name, tool])),
  handle: () => Effect.die(new Error("ForeignModel: a tool call was resolved although resolution is off"))
})

const encode = Schema.encodeUnknownSync(Response.AllParts(Toolkit.empty))

/** Tool calls and results are in their encoded form already: nobody has decoded them. */
const encoded = (part: Response.AnyPart): Response.AllPartsEncoded => {
  switch (part.type) {
    case "tool-call": {
      const { type, id, name, params, providerExecuted, metadata } = part
      return { type, id, name, params, providerExecuted, metadata }
    }
    case "tool-result": {
      const { type, id, name, encodedResult, isFailure, providerExecuted, preliminary, metadata } = part
      return { type, id, name, result: encodedResult, isFailure, providerExecuted, preliminary, metadata }
    }
    default:
      return encode(part)
  }
}
