/**
 * What a user asks of a call: why it failed, who answered and what it cost; a log of every attempt
 * ({@link layerLog}); and a stream that says more than `LanguageModel.streamText` can.
 *
 * {@link streamText} takes the same options over the same layer. Beside the parts of the answer it has two of its own:
 * a `Notice` when another model answers than before, and a `Rewind` when the text so far is void and the answer begins
 * anew (`midStream: "restart"`). Nothing else is ever taken back. It fails with the typed failure itself.
 *
 * With a `schema` the answer is an object, and the stream shows it as it comes: a `PartialObject` for each piece, and at
 * the end the `WholeObject`, decoded. An object is never continued: a stream that breaks after something was shown begins
 * anew or fails. effect/ai has no stream of an object.
 *
 * **Gotcha** Over a layer that is not Outlast's there are neither notices nor rewinds, and nobody tells the model the schema.
 *
 * **Example** (Reading both, and a stream that may begin anew)
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
import { ResilienceEvents, Warnings } from "@outlast/resilience"
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
  /** What happens when the stream breaks after text was seen. Default: as the policy says. */
  readonly midStream?: MidStream | undefined
}

/** Asks for an object. */
export interface ObjectOptions<S extends Schema.Top> {
  /** What the answer must be. Not with a toolkit. */
  readonly schema: S
  /** What the model is told that it is called. Default: the identifier of the schema, or `object`. */
  readonly objectName?: string | undefined
}

/** The object as far as it has come: unchecked, not decoded, its last string perhaps not whole. */
export interface PartialObject {
  readonly type: "partial-object"
  readonly value: unknown
}

/** The whole object, decoded. It stands before the `finish` part. */
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
 * Errors: `CallFailure` when all recovery has failed, and what the tools of the toolkit declare. Throws an
 * `InvalidOption` (a `RangeError`) for an unknown option, and for a `midStream` that does not exist.
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
    // The overloads state the types that the options imply; here they are erased.
    return open(LanguageModel.streamText(options as WithoutToolkit), { midStream }) as never
  }
  const noToolkit = options.toolkit === undefined
  Options.check(noToolkit, "Outlast.streamText", "toolkit", options.toolkit, "none beside a schema")
  const format = ObjectAnswer.formatOf(schema, objectName)
  const parts = open(LanguageModel.streamText(options as WithoutToolkit), { midStream, format })
  return withObjects(parts, format) as never
}

type AllOptions = LanguageModel.GenerateTextOptions<{}> & StreamOptions & Partial<ObjectOptions<Schema.Top>>

/** Shows the object that the text of an answer is, and what there is of it so far. */
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
 * Writes one line for each event to Effect's log: attempts, failures, waits, cooldowns, switches, answers. Failures are
 * warnings, or errors where only a person can help; everything else has the level Info.
 *
 * Put it under the chain and the program. It takes the events of the surrounding `ResilienceEvents` layer, or makes
 * one. The warnings that are written without any layer are off then: the lines of the events say the same.
 *
 * **Example** (A log of every attempt)
 *
 * ```ts
 * const runtime = ManagedRuntime.make(Model.pipe(Layer.provideMerge(Outlast.layerLog())))
 * // → anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY
 * // ✗ RateLimit (HTTP 429), retry after 3.0 s
 * ```
 */
export const layerLog = (): Layer.Layer<never> =>
  Layer.merge(
    ResilienceEvents.layerTap(
      Effect.succeed((event) => {
        const line = EventLine.of(event)
        return line === undefined ? Effect.void : Warnings.log(line)
      })
    ),
    Warnings.layerOff
  )

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
    : // What is no AiError is what the tools declare.
      Effect.succeed(error as Exclude<E, AiError.AiError>)
