/**
 * The request of an attempt: the options of the call, made fit for a target, and the way back.
 */
import { Effect, Redacted, Stream, Tracer } from "effect"
import type { IdGenerator, LanguageModel, Response } from "effect/ai"
import * as CallIds from "../../conversation/CallIds.ts"
import * as Dialect from "../../conversation/Dialect.ts"
import type * as Portable from "../../conversation/Portable.ts"
import { PrefixCache } from "../../conversation/PrefixCache.ts"
import * as ToolNames from "../../conversation/ToolNames.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Wording } from "../../conversation/Wording.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { Target } from "../chain/Chain.ts"
import * as CallTrace from "./CallTrace.ts"
import * as Conversation from "./Conversation.ts"
import * as OutputLimit from "../decide/OutputLimit.ts"
import * as Spans from "../../telemetry/Spans.ts"
import type { ProviderRequest } from "../target/ProviderModel.ts"

export interface AttemptRequest extends ProviderRequest {
  /** Names of the tools at this target, where it does not accept their own names. */
  readonly names: ToolNames.ToolNames | undefined
  /** Ids of the tool calls in the answer. */
  readonly ids: CallIds.Answered
  /** The span of the attempt, where the program has a tracer. */
  readonly attemptSpan: Tracer.Span | undefined
}

/**
 * Builds the request of an attempt. Pure, and built anew for each attempt: nothing is kept for failed calls only.
 *
 * A `previousResponseId` is known only to the target that issued it, and any attempt may go elsewhere: every
 * target gets the whole prompt, in the form that it takes. `wording` is what stands in for what it does not take;
 * default: English.
 */
export const requestOf = (
  options: LanguageModel.ProviderOptions,
  { ref, key, info, model }: Asks,
  { outputLimit, wording, refuses, omitsThinking, limits, failed, heard, repeated, repaired, span }: Asked
): AttemptRequest => {
  const { prompt, tools, toolChoice } = options
  const dialect = model.info.dialect ?? Dialect.defaults
  const names = ToolNames.of(tools, dialect)
  const sent = cacheOf(ref).adapt(prompt, { ref, dialect, wording, names, refuses, omitsThinking })
  return {
    ...options,
    target: ref,
    prompt: sent.prompt,
    tools: names === undefined ? tools : ToolNames.offered(tools, names),
    toolChoice: names === undefined ? toolChoice : ToolNames.chosen(toolChoice, names),
    names,
    ids: new CallIds.Answered(sent.isTaken),
    previousResponseId: undefined,
    incrementalPrompt: undefined,
    key: key?.current,
    maxOutputTokens: OutputLimit.within(outputLimit, info),
    limits,
    failed,
    heard,
    repeated,
    repaired,
    span: span ?? options.span,
    attemptSpan: span
  }
}

/** What a request needs of its target. */
type Asks = Pick<Target, "ref" | "key" | "info" | "model">

/** The prefixes of current conversations that each target has already received. */
const caches = new WeakMap<TargetRef, PrefixCache>()

const cacheOf = (target: TargetRef): PrefixCache => {
  const known = caches.get(target)
  if (known !== undefined) return known
  const made = new PrefixCache(Conversation.outgoing)
  caches.set(target, made)
  return made
}

/** Settings of an attempt, in addition to the options of its call. */
export interface Asked extends Pick<
  ProviderRequest,
  "limits" | "failed" | "heard" | "repeated" | "repaired"
> {
  /** Tokens; lowered to what the target can do. */
  readonly outputLimit: number | undefined
  readonly wording?: Wording | undefined
  /** Kinds of media that the target has refused. `undefined`: none. */
  readonly refuses?: Portable.Options["refuses"]
  readonly omitsThinking?: Portable.Options["omitsThinking"]
  readonly span?: Tracer.Span | undefined
}

/** The target's answer, its calls under the program's names and with ids of their own. */
export const generateText = (
  { model }: Pick<Target, "model">,
  request: AttemptRequest
): Effect.Effect<Array<Response.PartEncoded>, ProviderFailure, IdGenerator.IdGenerator> => {
  const answer = tracedAnswer(model.generateText(request), request)
  return mayCall(request) ? Effect.map(answer, (parts) => parts.map((part) => back(part, request))) : answer
}

/** The parts of the target's answer, its calls under the program's names and with ids of their own. */
export const streamText = (
  { model }: Pick<Target, "model">,
  request: AttemptRequest
): Stream.Stream<Response.StreamPartEncoded, ProviderFailure, IdGenerator.IdGenerator> => {
  const answer = tracedStream(model.streamText(request), request)
  return mayCall(request) ? Stream.map(answer, (part) => back(part, request)) : answer
}

const tracedAnswer = <E, R>(
  answer: Effect.Effect<Array<Response.PartEncoded>, E, R>,
  { attemptSpan: span }: AttemptRequest
): Effect.Effect<Array<Response.PartEncoded>, E, R> =>
  span === undefined
    ? answer
    : Effect.map(Spans.inside(span, answer), (parts) => {
        for (const part of parts) CallTrace.part(span, part)
        return parts
      })

const tracedStream = <E, R>(
  answer: Stream.Stream<Response.StreamPartEncoded, E, R>,
  { attemptSpan: span }: AttemptRequest
): Stream.Stream<Response.StreamPartEncoded, E, R> =>
  span === undefined
    ? answer
    : (Stream.map(Stream.provideService(answer, Tracer.ParentSpan, span), (part) => {
        CallTrace.part(span, part)
        return part
      }) as Stream.Stream<Response.StreamPartEncoded, E, R>)

/** A map costs each pull of a stream: without tools there is nothing to name back. */
const mayCall = ({ tools }: AttemptRequest): boolean => tools.length > 0

const back = <P extends Response.AllPartsEncoded>(part: P, { names, ids }: AttemptRequest): P =>
  ids.of(names === undefined ? part : ToolNames.namedBack(part, names))

/** A failure of this request at this target, without the key and without echoes of the prompt. */
export const failureAt = (
  { ref }: Target,
  { key, prompt }: ProviderRequest,
  failure: ProviderFailure
): ProviderFailure =>
  failure.at(ref, {
    values: key === undefined ? [] : [Redacted.value(key)],
    // The error may also quote thinking or tool results, so all texts are removed.
    prompt: failure.detail === "" ? [] : Conversation.texts(prompt)
  })
