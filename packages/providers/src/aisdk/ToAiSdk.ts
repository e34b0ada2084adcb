/**
 * An AI SDK model over an Outlast chain: `generateText`, `streamText` and agents of the package `ai` outlast failing
 * providers without another change.
 *
 * `toAiSdk` takes the layer of any effect/ai `LanguageModel`, builds it with the first call, and keeps it until
 * {@link ServedModel.dispose}, so that cooldowns hold from call to call. A layer that cannot be built fails the calls
 * that wait for it, and the next call builds it again. `dispose` leaves a `ManagedRuntime` of your own running.
 *
 * **The AI SDK's part.** The AI SDK runs the tools, once each, after a complete answer. It checks objects against their
 * schema and downloads files by URL. Its `maxRetries` has no effect, because failures are `APICallError`s that are not
 * retryable: the chain owns every retry. Its `abortSignal` interrupts the call: the request is aborted, and no attempt
 * follows.
 *
 * **Settings of a call.** Sampling, thinking, headers and provider options reach every target that takes them, and
 * replace those of the target. Warnings, response headers, and the raw reason and usage come back. Headers with keys
 * are dropped with a warning: a key belongs to one target.
 *
 * **Objects.** A streamed object is shown as it arrives. An object that is not JSON, or lacks required fields,
 * is requested again unless a part of it was already shown. The last one goes unchanged to the AI SDK, which judges and
 * repairs it as without Outlast.
 *
 * **Refused content.** An answer that the provider refused goes to the policy's fallback. Without a fallback, it
 * reaches the AI SDK with the finish reason `content-filter`, as without Outlast.
 *
 * **Example** (One line)
 *
 * ```ts
 * const model = toAiSdk(Failover.layer([Anthropic.model("claude-sonnet-4-5"), OpenAi.model("gpt-5.1")]))
 * const { text, providerMetadata } = await generateText({ model, prompt: "Name a river that flows north." })
 * providerMetadata?.outlast // e.g. { target: "openai/gpt-5.1#OPENAI_API_KEY", attempts: 2, costUsd: 0.0001, … }
 * ```
 */
import type {
  APICallError,
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult
} from "@ai-sdk/provider"
import { AnswerEnd, OutputLimit, StreamedAnswer, Surface } from "@outlast/agent/failover"
import { EncodedPart, ModelHooks } from "@outlast/agent/internal"
import { Options as Check } from "@outlast/resilience"
import { Context, Effect, Exit, Fiber, Latch, Layer, ManagedRuntime, Option, Stream } from "effect"
import type { Tracer } from "effect"
import type { AiError, Response } from "effect/ai"
import { IdGenerator, LanguageModel, Telemetry } from "effect/ai"
import * as ClientCall from "./ClientCall.ts"
import * as ServedAnswer from "./ServedAnswer.ts"
import { ServedConversations } from "./ServedConversations.ts"
import * as ServedError from "./ServedError.ts"
import * as ServedRequest from "./ServedRequest.ts"

export interface Options {
  /** The name of the provider in the AI SDK. */
  readonly provider?: string | undefined
  /** The name of the model in the AI SDK. Each answer names the model that gave it. */
  readonly modelId?: string | undefined
}

const defaults = { provider: "outlast", modelId: "chain" } as const

/** A model for the `model` option of the AI SDK. */
export interface ServedModel extends LanguageModelV4, AsyncDisposable {
  /** Ends running calls and releases the resources of the layer. Does not dispose of a runtime of your own. */
  readonly dispose: () => Promise<void>
}

/**
 * A model for the AI SDK. If the layer cannot be built because no key is set, its calls fail with a
 * `LoadAPIKeyError` that names the variables.
 */
export const toAiSdk = <E>(
  source:
    | Layer.Layer<LanguageModel.LanguageModel, E>
    | ManagedRuntime.ManagedRuntime<LanguageModel.LanguageModel, E>,
  options: Options = {}
): ServedModel => {
  const isSource = ManagedRuntime.isManagedRuntime(source) || Layer.isLayer(source)
  Check.check(isSource, module, "source", source, sources)
  Check.fields(module, options, checks)
  return serving(
    "disposeEffect" in source ? { runtime: () => source, dispose: async () => {} } : builtFrom(source),
    options
  )
}

/** A model whose calls take a context of effect/ai beside their options. */
export interface Serving extends ServedModel {
  readonly doGenerate: (
    call: LanguageModelV4CallOptions,
    context?: Context.Context<never>
  ) => Promise<LanguageModelV4GenerateResult>
  readonly doStream: (
    call: LanguageModelV4CallOptions,
    context?: Context.Context<never>
  ) => Promise<LanguageModelV4StreamResult>
}

/** The model over a runtime. */
export const serving = ({ runtime, dispose }: Built, options: Options = {}): Serving => {
  const conversations = new ServedConversations()
  const requestOf = (call: LanguageModelV4CallOptions) => {
    call.abortSignal?.throwIfAborted()
    return ServedRequest.make(call, (prompt) => conversations.decode(prompt))
  }
  return {
    specificationVersion: "v4",
    provider: options.provider ?? defaults.provider,
    modelId: options.modelId ?? defaults.modelId,
    // Empty: the AI SDK downloads files itself, so that every target can take them.
    supportedUrls: {},
    doGenerate: async (call, context) => generate(runtime(), requestOf(call), context),
    doStream: async (call, context) => stream(runtime(), requestOf(call), context),
    dispose,
    [Symbol.asyncDispose]: dispose
  }
}

const module = "toAiSdk"
const sources = "a Layer or a ManagedRuntime of a LanguageModel, for example Failover.layer([target])"
const checks: Check.Checks<Options> = { provider: Check.is.text, modelId: Check.is.text }

type Runtime = ManagedRuntime.ManagedRuntime<LanguageModel.LanguageModel, unknown>
type Parts = ReadonlyArray<Response.AllPartsEncoded>
type Decoded = ReadonlyArray<Response.AnyPart>

/** A runtime that is built when it is first used. */
export interface Built<R = LanguageModel.LanguageModel, E = unknown> {
  readonly runtime: () => ManagedRuntime.ManagedRuntime<R, E>
  readonly dispose: () => Promise<void>
}

/**
 * The runtime of a layer. A `ManagedRuntime` caches a failure to build, so a failed one is replaced. `runtime` throws after
 * `dispose`.
 */
export const builtFrom = <R, E>(layer: Layer.Layer<R, E>): Built<R, E> => {
  let current = ManagedRuntime.make(layer)
  let state: "new" | "used" | "failed" | "disposed" = "new"
  const runtime = (): ManagedRuntime.ManagedRuntime<R, E> => {
    if (state === "disposed") throw new Error("The model was disposed of. Make a new one to make calls.")
    if (state === "failed") {
      void current.dispose()
      current = ManagedRuntime.make(layer)
      state = "new"
    }
    if (state === "new") {
      state = "used"
      const used = current
      used.context().catch(() => {
        if (state === "used" && current === used) state = "failed"
      })
    }
    return current
  }
  const dispose = (): Promise<void> => {
    state = "disposed"
    return current.dispose()
  }
  return { runtime, dispose }
}

const generate = async (
  runtime: Runtime,
  request: ServedRequest.Request,
  context: Context.Context<never> | undefined
): Promise<LanguageModelV4GenerateResult> => {
  const { abortSignal: signal } = request.client.options
  const exit = await runtime.runPromiseExit(
    served(
      request,
      Effect.catch(answerOf(request), (error) => lastObject(error, request.client)),
      context
    ),
    signal === undefined ? {} : { signal }
  )
  if (Exit.isSuccess(exit)) return ServedAnswer.whole(exit.value, request.warnings, request.client)
  throw signal?.aborted === true ? signal.reason : ServedError.ofCause(exit.cause)
}

type Asking<A> = Effect.Effect<A, AiError.AiError, LanguageModel.LanguageModel | IdGenerator.IdGenerator>

/** The parts of a whole answer, from the hooks of the model where it has them. */
const answerOf = (request: ServedRequest.Request): Asking<Parts> =>
  Effect.flatMap(hooksOf, (hooks) =>
    hooks === undefined
      ? decodedAnswer(request)
      : spanned(request.object === undefined ? "generateText" : "generateObject", request, hooks.generateText)
  )

const hooksOf = Effect.withFiber((fiber: Fiber.Fiber<unknown, unknown>) =>
  Effect.map(LanguageModel.LanguageModel, (model) => ModelHooks.of(model, fiber))
)

/** Runs the call in the span that effect/ai makes for a call. */
const spanned = <A, E, R>(
  method: string,
  request: ServedRequest.Request,
  ask: (options: LanguageModel.ProviderOptions) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan>> =>
  Effect.useSpan(`LanguageModel.${method}`, client, (span) => {
    const options = optionsOf(request, span)
    const { responseFormat, toolChoice } = options
    span.attribute("gen_ai.output.type", responseFormat.type)
    if (responseFormat.type === "json") span.attribute("effect.ai.object_name", responseFormat.objectName)
    span.attribute(
      "effect.ai.tool_choice",
      typeof toolChoice === "string" ? toolChoice : JSON.stringify(toolChoice)
    )
    return Effect.withParentSpan(ask(options), span, client)
  })

const client = { kind: "client", captureStackTrace: false } as const

const optionsOf = (
  { call, object }: ServedRequest.Request,
  span: Tracer.Span
): LanguageModel.ProviderOptions => ({
  prompt: call.prompt,
  tools: Object.values(call.toolkit.tools),
  toolChoice: call.toolChoice,
  responseFormat: object === undefined ? { type: "text" } : { type: "json", ...object },
  span,
  previousResponseId: undefined,
  incrementalPrompt: undefined,
  toolCallValidation: "deferred"
})

/** The answer of a model without hooks. */
const decodedAnswer = (request: ServedRequest.Request): Asking<Parts> =>
  Effect.map(
    request.object === undefined
      ? Effect.map(LanguageModel.generateText(request.call), ({ content }): Decoded => content)
      : objectOf(request, request.object),
    (content) => content.map(EncodedPart.of)
  )

/**
 * The answer to a request for an object, unchanged. The AI SDK checks it. The answer may also be a tool call: effect/ai
 * fails then, but only after the span transformer has seen the answer.
 */
const objectOf = (
  { call }: ServedRequest.Request,
  object: NonNullable<ServedRequest.Request["object"]>
): Effect.Effect<Decoded, AiError.AiError, LanguageModel.LanguageModel> =>
  Effect.gen(function* () {
    const outer = Option.getOrUndefined(yield* Effect.serviceOption(Telemetry.CurrentSpanTransformer))
    let said: Decoded | undefined
    return yield* LanguageModel.generateObject({ ...call, ...object }).pipe(
      Effect.map(({ content }): Decoded => content),
      Effect.catch((error) => (said === undefined ? Effect.fail(error) : Effect.succeed(said))),
      Effect.provideService(Telemetry.CurrentSpanTransformer, (seen) => {
        said = seen.response
        outer?.(seen)
      })
    )
  })

/** The object that stayed wrong in every attempt. The AI SDK judges it. */
const lastObject = (
  error: AiError.AiError,
  { finished: { metadata, finish } }: ClientCall.ClientCall
): Effect.Effect<Parts, AiError.AiError> => {
  const { reason } = error
  if (reason._tag !== "StructuredOutputError") return Effect.fail(error)
  return Effect.succeed([
    ...(metadata === undefined ? [] : [metadata]),
    ...(reason.responseText === "" ? [] : [{ type: "text" as const, text: reason.responseText }]),
    finish ?? { type: "finish", reason: "stop", usage: noUsage, response: undefined }
  ])
}

const noUsage = {
  inputTokens: { uncached: undefined, total: undefined, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: undefined, text: undefined, reasoning: undefined }
}

/**
 * Resolves with the first part. A failure before it rejects the call. A later failure is a part of the stream, as with
 * every provider of the AI SDK.
 */
const stream = async (
  runtime: Runtime,
  request: ServedRequest.Request,
  context: Context.Context<never> | undefined
): Promise<LanguageModelV4StreamResult> => {
  const { abortSignal: signal } = request.client.options
  const opened = Promise.withResolvers<ClientCall.Answered>()
  const demand = Latch.makeUnsafe(false)
  let stop = async (): Promise<void> => {}

  const source = new ReadableStream<LanguageModelV4StreamPart>({
    start(controller) {
      let begun = false
      const give: Give = (parts, from) => {
        if (!begun) {
          const answered = request.client.answered(from)
          const warnings = [...request.warnings, ...(answered.warnings ?? [])]
          if (answered.isStarted === true || warnings.length > 0) {
            controller.enqueue({ type: "stream-start", warnings })
          }
          opened.resolve(answered)
        }
        begun = true
        for (const part of parts) controller.enqueue(part)
      }
      const fail = (error: unknown) => {
        opened.reject(error)
        controller.error(error)
      }
      // Ends with the reason, also before the first part: the AI SDK reports a rejection as an error.
      const abort = () => {
        void stop()
        opened.resolve({})
        controller.error(signal?.reason)
      }
      const end = (exit: Exit.Exit<void, unknown>) => {
        signal?.removeEventListener("abort", abort)
        const error = Exit.isFailure(exit) ? ServedError.ofCause(exit.cause) : undefined
        if (error !== undefined && !begun) return fail(error)
        give(error === undefined ? [] : ServedAnswer.failed(error), [])
        controller.close()
      }
      const fiber = runtime.runFork(
        streamed(
          request,
          (parts, from) =>
            Effect.andThen(
              demand.await,
              Effect.sync(() => {
                give(parts, from)
                if ((controller.desiredSize ?? 0) <= 0) demand.closeUnsafe()
              })
            ),
          context
        )
      )
      // After a cancel, the result of the call is dropped.
      const forget = fiber.addObserver(end)
      stop = async () => {
        signal?.removeEventListener("abort", abort)
        forget()
        await Effect.runPromise(Fiber.interrupt(fiber))
      }
      if (fiber.pollUnsafe() === undefined) signal?.addEventListener("abort", abort, { once: true })
    },
    pull() {
      demand.openUnsafe()
    },
    cancel: () => stop()
  })
  const { request: sent, response } = await opened.promise
  return {
    stream: source,
    ...(sent === undefined ? undefined : { request: sent }),
    ...(response?.headers === undefined ? undefined : { response: { headers: response.headers } })
  }
}

/** Takes parts for the AI SDK, with those of effect/ai that they are made from. */
type Give<A = void> = (parts: ReadonlyArray<LanguageModelV4StreamPart>, from: Parts) => A

/** Emits the parts of the answer as they arrive. */
const streamed = (
  request: ServedRequest.Request,
  give: Give<Effect.Effect<void>>,
  context: Context.Context<never> | undefined
): Effect.Effect<void, unknown, LanguageModel.LanguageModel> =>
  served(
    request,
    Effect.suspend(() => {
      let isBegun = false
      return eachArray(request, (parts) => {
        isBegun = true
        return give(
          parts.flatMap((part) => ServedAnswer.streamPart(part, request.client)),
          parts
        )
      }).pipe(
        Effect.catch((error) =>
          isBegun
            ? Effect.fail(error)
            : Effect.flatMap(lastObject(error, request.client), (parts) =>
                give(ServedAnswer.pieces(parts, request.client), parts)
              )
        )
      )
    }),
    context
  )

/** Runs `give` for the parts of a streamed answer, from the hooks of the model where it has them. */
const eachArray = (
  request: ServedRequest.Request,
  give: (parts: Parts) => Effect.Effect<void>
): Asking<void> =>
  Effect.flatMap(hooksOf, (hooks): Asking<void> =>
    hooks === undefined
      ? Stream.runForEachArray(inFormat(request, LanguageModel.streamText(request.call)), (parts) =>
          give(parts.map(EncodedPart.of))
        )
      : spanned("streamText", request, (options) =>
          Stream.runForEachArray(inFormat(request, hooks.streamText(options)), give)
        )
  )

/** A streamed call has no format of its own. */
const inFormat = <A, E, R>(
  { object }: ServedRequest.Request,
  parts: Stream.Stream<A, E, R>
): Stream.Stream<A, E, R> =>
  object === undefined
    ? parts
    : Surface.offered({ ...Surface.closed, format: { type: "json" as const, ...object } })(parts)

/** Runs the call with its output limit, in the context `around`. Failures become errors of the AI SDK. */
const served = <A>(
  { call, client, maxOutputTokens }: ServedRequest.Request,
  self: Asking<A>,
  around: Context.Context<never> | undefined
): Effect.Effect<A, APICallError, LanguageModel.LanguageModel> => {
  const failing = Effect.catch(self, (error) =>
    Effect.flatMap(ServedError.ofCall(error, call.prompt), (failed) => Effect.fail(failed))
  )
  // One change of the context instead of one for each setting.
  const context = ClientCall.added(around === undefined ? settings : Context.merge(settings, around), client)
  return Effect.provideContext(
    failing,
    maxOutputTokens === undefined
      ? context
      : // The limit is final here: an answer that reaches it is cut, and not continued.
        Context.add(context, OutputLimit.OutputLimit, { start: maxOutputTokens, max: maxOutputTokens })
  )
}

const settings = Context.empty().pipe(
  Context.add(IdGenerator.IdGenerator, IdGenerator.defaultIdGenerator),
  // The AI SDK has chosen between a stream and a request itself.
  Context.add(StreamedAnswer.Override, "request"),
  // An AI SDK model delivers refused answers.
  Context.add(AnswerEnd.RefusedAnswers, "deliver")
)
