/**
 * An AI SDK model over an Outlast chain: `generateText`, `streamText` and agents of the package `ai` outlast failing
 * providers without another change.
 *
 * It takes the layer of any effect/ai `LanguageModel`, builds it with the first call, and keeps it until
 * {@link ServedModel.dispose}: cooldowns hold from call to call. A layer that cannot be built fails the calls that wait
 * for it, and the next call builds it again. A `ManagedRuntime` of your own stays yours.
 *
 * **What stays with the AI SDK.** It runs the tools, once each, after a complete answer; it checks objects against
 * their schema; it downloads files that are given by URL. Its `maxRetries` does nothing here, because failures leave
 * as `APICallError`s that are not retryable: the chain has one owner of every retry. Its `abortSignal` interrupts the
 * call: the request is aborted, and no attempt follows.
 *
 * **What a call sets.** Sampling, thinking, headers and provider options go to every target that takes them, over what
 * is set there; warnings, response headers, and the raw reason and usage come back. Headers with keys are not sent
 * (there is a warning): they belong to one target.
 *
 * **Objects.** An object that is streamed is shown as it comes. One that is not JSON, or lacks what the schema asks for,
 * is asked for again as long as nothing of it was shown; the last one goes to the AI SDK as it is, which judges and
 * repairs it as it would without Outlast.
 *
 * **Refused content.** An answer that the provider refused goes to the policy's fallback. Where there is none, it goes to
 * the AI SDK with the finish reason `content-filter`, as without Outlast.
 *
 * **Example** (One line)
 *
 * ```ts
 * const model = toAiSdk(Failover.layer([Anthropic.model("claude-sonnet-4-5"), OpenAi.model("gpt-5.1")]))
 * const { text, providerMetadata } = await generateText({ model, prompt: "Name a river that flows north." })
 * providerMetadata?.outlast // => { target: "openai/gpt-5.1#OPENAI_API_KEY", attempts: 2, costUsd: 0.0001, … }
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
import { Options as Check } from "@outlast/resilience"
import { Effect, Exit, Fiber, Latch, Layer, ManagedRuntime, Option, Schema, Stream } from "effect"
import type { AiError } from "effect/ai"
import { LanguageModel, Response, Telemetry } from "effect/ai"
import * as ClientCall from "./ClientCall.ts"
import * as ServedAnswer from "./ServedAnswer.ts"
import * as ServedError from "./ServedError.ts"
import * as ServedRequest from "./ServedRequest.ts"

export interface Options {
  /** The name under which the AI SDK shows the provider. */
  readonly provider?: string | undefined
  /** The name under which the AI SDK shows the model; each answer names the one that gave it. */
  readonly modelId?: string | undefined
}

const defaults = { provider: "outlast", modelId: "chain" } as const

/** What the `model` option of the AI SDK takes. */
export interface ServedModel extends LanguageModelV4, AsyncDisposable {
  /** Ends running calls and releases what the layer holds. A runtime of your own is left alone. */
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
  const { runtime, dispose } =
    "disposeEffect" in source ? { runtime: () => source, dispose: async () => {} } : builtFrom(source)
  return {
    specificationVersion: "v4",
    provider: options.provider ?? defaults.provider,
    modelId: options.modelId ?? defaults.modelId,
    // None: the AI SDK downloads files itself, and every target can take them.
    supportedUrls: {},
    doGenerate: (call) => generate(runtime(), call),
    doStream: (call) => stream(runtime(), call),
    dispose,
    [Symbol.asyncDispose]: dispose
  }
}

const module = "toAiSdk"
const sources = "a Layer or a ManagedRuntime of a LanguageModel, for example Failover.layer([target])"
const checks: Check.Checks<Options> = { provider: Check.is.text, modelId: Check.is.text }

type Runtime = ManagedRuntime.ManagedRuntime<LanguageModel.LanguageModel, unknown>
type Parts = ReadonlyArray<Response.AnyPart>

/** The runtime of a layer. A `ManagedRuntime` keeps a failure to build it for ever: it is replaced then. */
const builtFrom = (layer: Layer.Layer<LanguageModel.LanguageModel, unknown>) => {
  let current: Runtime = ManagedRuntime.make(layer)
  let state: "new" | "used" | "failed" | "disposed" = "new"
  const runtime = (): Runtime => {
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
  options: LanguageModelV4CallOptions
): Promise<LanguageModelV4GenerateResult> => {
  const { abortSignal: signal } = options
  signal?.throwIfAborted()
  const request = ServedRequest.make(options)
  const exit = await runtime.runPromiseExit(
    served(request, answerOf(request)),
    signal === undefined ? {} : { signal }
  )
  if (Exit.isSuccess(exit)) return ServedAnswer.whole(exit.value, request.warnings, request.client)
  throw signal?.aborted === true ? signal.reason : ServedError.ofCause(exit.cause)
}

const answerOf = (
  request: ServedRequest.Request
): Effect.Effect<Parts, AiError.AiError, LanguageModel.LanguageModel> =>
  request.object === undefined
    ? Effect.map(LanguageModel.generateText(request.call), ({ content }): Parts => content)
    : objectOf(request, request.object)

/**
 * The answer to a request for an object, as it was said: whether it is one is the AI SDK's to judge. It may also be a
 * tool call; effect/ai fails then, but not before it has shown the answer.
 */
const objectOf = (
  { call, client }: ServedRequest.Request,
  { name, schema }: NonNullable<ServedRequest.Request["object"]>
): Effect.Effect<Parts, AiError.AiError, LanguageModel.LanguageModel> =>
  Effect.gen(function* () {
    const outer = Option.getOrUndefined(yield* Effect.serviceOption(Telemetry.CurrentSpanTransformer))
    let said: Parts | undefined
    return yield* LanguageModel.generateObject({ ...call, schema, objectName: name }).pipe(
      Effect.map(({ content }): Parts => content),
      Effect.catch((error) =>
        Effect.suspend(() => (said === undefined ? lastObject(error, client) : Effect.succeed(said)))
      ),
      Effect.provideService(Telemetry.CurrentSpanTransformer, (seen) => {
        said = seen.response
        outer?.(seen)
      })
    )
  })

/** The answer that stayed wrong in every attempt, for the AI SDK to judge. */
const lastObject = <E extends AiError.AiError>(
  error: E,
  { answered: { metadata, finish } }: ClientCall.ClientCall
): Effect.Effect<Parts, E> => {
  const { reason } = error
  if (reason._tag !== "StructuredOutputError") return Effect.fail(error)
  return decodeParts([
    ...(metadata === undefined ? [] : [metadata]),
    ...(reason.responseText === "" ? [] : [{ type: "text" as const, text: reason.responseText }]),
    finish ?? { type: "finish", reason: "stop", usage: noUsage, response: undefined }
  ]).pipe(Effect.orDie)
}

const decodeParts = Schema.decodeEffect(
  Schema.Array(Schema.Union([Response.ResponseMetadataPart, Response.TextPart, Response.FinishPart]))
)

const noUsage = { inputTokens: {}, outputTokens: {} }

/**
 * Resolves with the first part: until then a failure is the call's. Later it is a part of the stream, as with every
 * provider of the AI SDK.
 */
const stream = async (
  runtime: Runtime,
  options: LanguageModelV4CallOptions
): Promise<LanguageModelV4StreamResult> => {
  const { abortSignal: signal } = options
  signal?.throwIfAborted()
  const request = ServedRequest.make(options)
  const opened = Promise.withResolvers<void>()
  const demand = Latch.makeUnsafe(false)
  let stop = async (): Promise<void> => {}

  const source = new ReadableStream<LanguageModelV4StreamPart>({
    start(controller) {
      let begun = false
      const give = (parts: ReadonlyArray<LanguageModelV4StreamPart>) => {
        if (!begun) {
          const warnings = [...request.warnings, ...(request.client.answered.warnings ?? [])]
          if (request.client.answered.isStarted === true || warnings.length > 0) {
            controller.enqueue({ type: "stream-start", warnings })
          }
        }
        begun = true
        for (const part of parts) controller.enqueue(part)
        opened.resolve()
      }
      const fail = (error: unknown) => {
        opened.reject(error)
        controller.error(error)
      }
      // The stream ends with the reason, also before its first part: the AI SDK takes a rejection for an error.
      const abort = () => {
        void stop()
        opened.resolve()
        controller.error(signal?.reason)
      }
      const end = (exit: Exit.Exit<void, unknown>) => {
        signal?.removeEventListener("abort", abort)
        const error = Exit.isFailure(exit) ? ServedError.ofCause(exit.cause) : undefined
        if (error !== undefined && !begun) return fail(error)
        give(error === undefined ? [] : ServedAnswer.failed(error))
        controller.close()
      }
      const fiber = runtime.runFork(
        streamed(request, (parts) =>
          Effect.andThen(
            demand.await,
            Effect.sync(() => {
              give(parts)
              if ((controller.desiredSize ?? 0) <= 0) demand.closeUnsafe()
            })
          )
        )
      )
      // What is left of a call that nobody reads any more is nobody's.
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
  await opened.promise
  const { request: sent, response } = request.client.answered
  return {
    stream: source,
    ...(sent === undefined ? undefined : { request: sent }),
    ...(response?.headers === undefined ? undefined : { response: { headers: response.headers } })
  }
}

/** Gives what the answer consists of, as it comes. */
const streamed = (
  request: ServedRequest.Request,
  give: (parts: ReadonlyArray<LanguageModelV4StreamPart>) => Effect.Effect<void>
): Effect.Effect<void, unknown, LanguageModel.LanguageModel> =>
  served(
    request,
    Effect.suspend(() => {
      let isBegun = false
      return Stream.runForEachArray(streamOf(request), (parts) => {
        isBegun = true
        return give(parts.flatMap((part) => ServedAnswer.streamPart(part, request.client)))
      }).pipe(
        Effect.catch((error) =>
          isBegun
            ? Effect.fail(error)
            : Effect.flatMap(lastObject(error, request.client), (parts) =>
                give(ServedAnswer.pieces(parts, request.client))
              )
        )
      )
    })
  )

const streamOf = ({ call, object }: ServedRequest.Request) => {
  const parts = LanguageModel.streamText(call)
  if (object === undefined) return parts
  const format = { type: "json" as const, objectName: object.name, schema: object.schema }
  return Surface.offered({ ...Surface.closed, format })(parts)
}

/** With the limit of the request, and with its failures as errors of the AI SDK. */
const served = <A>(
  { call, client, maxOutputTokens }: ServedRequest.Request,
  self: Effect.Effect<A, AiError.AiError, LanguageModel.LanguageModel>
): Effect.Effect<A, APICallError, LanguageModel.LanguageModel> => {
  const failing = Effect.catch(self, (error) =>
    Effect.flatMap(ServedError.ofCall(error, call.prompt), (failed) => Effect.fail(failed))
  ).pipe(
    // The AI SDK has asked for this form itself.
    Effect.provideService(StreamedAnswer.Override, "request"),
    // So does an AI SDK model.
    Effect.provideService(AnswerEnd.RefusedAnswers, "deliver"),
    ClientCall.provided(client)
  )
  return maxOutputTokens === undefined
    ? failing
    : // Here it is the user's last word: an answer that reaches it is cut, and not continued.
      Effect.provideService(failing, OutputLimit.OutputLimit, {
        start: maxOutputTokens,
        max: maxOutputTokens
      })
}
