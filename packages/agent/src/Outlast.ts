/**
 * Answers about a call: why it failed, which target answered, and what it cost. The module also has a log of every
 * attempt ({@link layerLog}), and a stream with more information than `LanguageModel.streamText`.
 *
 * {@link streamText} takes the same options over the same layer. Besides the parts of the answer its stream has two
 * parts of its own: a `Notice` when another model takes over, and a `Rewind` when the text so far is void and the
 * answer begins again (`midStream: "restart"`). Nothing else is ever retracted. The stream fails with the typed
 * failure itself.
 *
 * With a `schema` the answer is an object. The stream has a `PartialObject` for each piece of it, and at the end
 * the decoded `WholeObject`. An object is never continued: a stream that breaks after something was shown begins
 * again or fails. effect/ai has no such stream.
 *
 * **Gotcha** A layer that is not Outlast's sends no notices and no rewinds, and does not give the model the schema.
 *
 * **Example** (The target and cost of a call, its failure, and a stream that may begin again)
 *
 * ```ts
 * const response = yield* LanguageModel.generateText({ prompt })
 * Option.map(Outlast.answeredBy(response.content), (by) => `${by.target} for $${by.costUsd}`)
 *
 * program.pipe(Effect.catchTag("AiError", (error) => Effect.logError(Outlast.failureOf(error))))
 *
 * Outlast.streamText({ prompt, midStream: "restart" }).pipe(
 *   Stream.runForEach((part) => (part.type === "rewind" ? clearScreen : show(part)))
 * )
 *
 * Outlast.streamText({ prompt, schema: Recipe }).pipe(
 *   Stream.runForEach((part) => (part.type === "partial-object" ? draw(part.value) : Effect.void))
 * )
 * ```
 */
import { Effect, Layer, Option, Schema, Stream } from "effect"
import { AiError, LanguageModel } from "effect/ai"
import type { Response, Tool } from "effect/ai"
import { EventDefinition, Metrics, ResilienceEvents, Warnings } from "@outlast/resilience"
import { Options } from "@outlast/resilience"
import type { CallFailure } from "./failure/reasons/CallFailure.ts"
import * as Classifier from "./failure/Classifier.ts"
import * as Kind from "./options/Kind.ts"
import { PartialJson } from "./conversation/PartialJson.ts"
import { failureOf } from "./failure/reasons/CallFailed.ts"
import * as EventLine from "./EventLine.ts"
import type { Notice } from "./failover/decide/Notice.ts"
import * as ObjectAnswer from "./failover/call/ObjectAnswer.ts"
import { midStream } from "./failover/decide/PolicyChecks.ts"
import type { MidStream } from "./failover/decide/RecoveryPolicy.ts"
import type { Rewind } from "./failover/call/Surface.ts"
import * as Surface from "./failover/call/Surface.ts"

export { answeredBy } from "./conversation/Answered.ts"
export { CallFailed, failureOf } from "./failure/reasons/CallFailed.ts"
export type { Notice } from "./failover/decide/Notice.ts"
export type { Rewind } from "./failover/call/Surface.ts"

export interface StreamOptions {
  /** Behaviour when the stream breaks after text was shown. Default: the policy decides. */
  readonly midStream?: MidStream | undefined
}

/** Options for an answer that is an object. */
export interface ObjectOptions<S extends Schema.Top> {
  /** Schema of the answer. Cannot be combined with a toolkit. */
  readonly schema: S
  /** Name of the object for the model. Default: the identifier of the schema, or `object`. */
  readonly objectName?: string | undefined
}

/** The object so far: unchecked and not decoded. The last string may be incomplete. */
export interface PartialObject {
  readonly type: "partial-object"
  readonly value: unknown
}

/** The complete, decoded object. Precedes the `finish` part. */
export interface WholeObject<A> {
  readonly type: "object"
  readonly value: A
}

type Failing<E> = CallFailure | Exclude<E, AiError.AiError>
type WithoutToolkit = LanguageModel.GenerateTextOptions<{}> & { readonly toolkit?: undefined }
type WithToolkit<Tools extends Record<string, Tool.Any>> = LanguageModel.GenerateTextOptions<Tools> & {
  readonly toolkit: LanguageModel.ToolkitOption<Tools>
}

/**
 * `LanguageModel.streamText` with notices, rewinds and typed failures: see the header.
 *
 * Errors: `CallFailure` when all recovery has failed, and the failures that the tools of the toolkit declare.
 * Throws an `InvalidOption` (a `RangeError`) for an unknown option, and for an unknown `midStream`.
 */
export const streamText: {
  <S extends Schema.Top, O extends WithoutToolkit>(
    options: O & StreamOptions & ObjectOptions<S>
  ): Stream.Stream<
    Response.StreamPart<{}> | Notice | Rewind | PartialObject | WholeObject<S["Type"]>,
    CallFailure,
    S["DecodingServices"] | LanguageModel.LanguageModel
  >
  <O extends WithoutToolkit>(
    options: O & StreamOptions
  ): Stream.Stream<
    Response.StreamPart<{}> | Notice | Rewind,
    Failing<LanguageModel.ExtractError<O>>,
    LanguageModel.ExtractServices<O> | LanguageModel.LanguageModel
  >
  <Tools extends Record<string, Tool.Any>, O extends WithToolkit<Tools>>(
    options: O & WithToolkit<Tools> & StreamOptions
  ): Stream.Stream<
    Response.StreamPart<Tools, LanguageModel.ExtractToolParametersMode<O>> | Notice | Rewind,
    Failing<LanguageModel.ExtractError<O>>,
    LanguageModel.ExtractServices<O> | LanguageModel.LanguageModel
  >
} = (all: AllOptions): never => {
  Kind.carrier("options such as { prompt, midStream }")("Outlast.streamText", "options", all)
  Options.fields("Outlast.streamText", all, checks)
  const { midStream, schema, objectName, ...options } = all
  if (schema === undefined) {
    // The overloads state the types that the options imply. They are erased here.
    return open(LanguageModel.streamText(options as WithoutToolkit), { midStream }) as never
  }
  const noToolkit = options.toolkit === undefined
  Options.check(noToolkit, "Outlast.streamText", "toolkit", options.toolkit, "none beside a schema")
  const format = ObjectAnswer.formatOf(schema, objectName)
  const parts = open(LanguageModel.streamText(options as WithoutToolkit), { midStream, format })
  return withObjects(parts, format) as never
}

type AllOptions = LanguageModel.GenerateTextOptions<{}> & StreamOptions & Partial<ObjectOptions<Schema.Top>>

/** Parses the text of an answer as an object, and shows the object so far. */
const withObjects = <A extends { readonly type: string; readonly delta?: string }, R>(
  parts: Stream.Stream<A, CallFailure, R>,
  format: ObjectAnswer.ObjectFormat
): Stream.Stream<A | PartialObject | WholeObject<unknown>, CallFailure, R> =>
  Stream.suspend(() => {
    let text = ""
    let json = new PartialJson()
    type Shown = ReadonlyArray<A | PartialObject | WholeObject<unknown>>
    const read = (part: A): Effect.Effect<Shown, CallFailure> => {
      if (part.type === "rewind") {
        text = ""
        json = new PartialJson()
      }
      if (part.type === "text-delta" && part.delta !== undefined) {
        text += part.delta
        const value = json.push(part.delta)
        if (value !== undefined) return Effect.succeed([part, { type: "partial-object", value }])
      }
      if (part.type !== "finish") return Effect.succeed([part])
      return Effect.mapBoth(ObjectAnswer.read(format, text), {
        onSuccess: (value): Shown => [{ type: "object", value }, part],
        onFailure: (problem) => ObjectAnswer.failure(problem, undefined)
      })
    }
    return Stream.flattenIterable(Stream.mapEffect(parts, read))
  })

const { is } = Options

/** effect/ai checks its own options. */
const checks: Options.Checks<AllOptions> = {
  prompt: is.required(Kind.prompt),
  toolkit: is.anything,
  toolChoice: is.anything,
  concurrency: is.anything,
  disableToolCallResolution: is.anything,
  toolCallValidation: is.anything,
  midStream,
  schema: Kind.where(Schema.isSchema, "a Schema, for example Schema.Struct({ name: Schema.String })"),
  objectName: Kind.name
}

/**
 * Writes one line for each event to Effect's log: attempts, failures, waits, cooldowns, switches, answers. The
 * level is Warning for failures, Error where only a person can help, and Info for everything else.
 *
 * Provide this layer to the chain and the program. It uses the events of the surrounding `ResilienceEvents` layer,
 * or creates one. The default warnings are then off, because the lines of the events repeat them.
 *
 * The line of an attempt after a failure has all that explains the retry: the target, the delay, the reason, and its
 * evidence (HTTP status and rule of the classifier). `others` are the definitions of the events of other packages;
 * without them an event is named by its tag.
 *
 * **Example** (A log of every attempt)
 *
 * ```ts
 * const runtime = ManagedRuntime.make(Model.pipe(Layer.provideMerge(Outlast.layerLog())))
 * // → anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY
 * // ✗ RateLimit (HTTP 429), retry after 3.0 s: anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY, rule status/429
 * // → anthropic/claude-sonnet-4-5#KEY_2, attempt 2 after 0.0 s: RateLimit (HTTP 429, rule status/429)
 * ```
 */
export const layerLog = (others: EventDefinition.AnyDefinitions = {}): Layer.Layer<never> =>
  Layer.merge(
    ResilienceEvents.layerTap(
      Effect.succeed((event) => {
        const line = EventLine.of(event, others)
        return line === undefined ? Effect.void : Warnings.log(line)
      })
    ),
    Warnings.layerOff
  )

/**
 * Counts all events of `@outlast/agent` and `@outlast/resilience` as Effect metrics: calls, attempts, waits, cooldowns,
 * tokens, cost, circuits, retries, alerts, guards, runs and tools. `docs/lookup/metrics.md` lists them. It contains
 * `Metrics.layer` and `FailoverMetrics.layer`, so provide it alone. An exporter is yours to add.
 *
 * **Example** (For a collector of OpenTelemetry)
 *
 * ```ts
 * const Telemetry = Outlast.layerMetrics().pipe(
 *   Layer.provideMerge(Outlast.layerLog()),
 *   Layer.provideMerge(ResilienceEvents.layer()),
 *   Layer.provideMerge(Otlp.layerJson({ baseUrl: "http://localhost:4318", resource: { serviceName: "agent" } }))
 * )
 * ```
 */
export const layerMetrics = (options: Metrics.Options = {}): Layer.Layer<never> =>
  ResilienceEvents.layerTap(
    Effect.sync(() => EventDefinition.reader(EventLine.counted, options.maxLabels))
  ).pipe(Layer.provideMerge(Metrics.layer(options)))

const open = <A extends { readonly type: string }, E, R>(
  stream: Stream.Stream<A, E, R>,
  surface: Omit<Surface.Surface, "rewindable">
): Stream.Stream<A | Notice | Rewind, Failing<E>, R> =>
  stream.pipe(
    Stream.map((part): A | Notice | Rewind => Surface.carriedBy(part) ?? part),
    Stream.catch((error) => Stream.fromEffect(Effect.flatMap(typed(error), Effect.fail))),
    Surface.offered({ rewindable: true, ...surface })
  )

const typed = <E>(error: E): Effect.Effect<Failing<E>> =>
  AiError.isAiError(error)
    ? Option.match(failureOf(error), {
        onNone: () => Classifier.failure(error),
        onSome: Effect.succeed<CallFailure>
      })
    : // An error other than AiError is one that the tools declare.
      Effect.succeed(error as Exclude<E, AiError.AiError>)
