/**
 * Reads a complete answer or a stream of an AI SDK model to its end.
 *
 * An answer is complete only if it has a finish. An answer without a finish, with the finish `interrupted` or `error`,
 * or with an error among its parts, is a failure. Neither errors nor such finishes become parts. An answer that
 * finishes as `other` without content is a failure, too, because Google's client reads any JSON as an answer.
 *
 * Invalid JSON in the arguments of a tool call, followed by a finish, is a mistake of the model and not a failure of
 * the provider. The call keeps its text and never runs.
 */
import type { ProviderFailure, ProviderModel } from "@outlast/agent"
import { Predicate } from "effect"
import type { Response } from "effect/ai"
import type { ClientAttempt } from "./ClientCall.ts"
import { objectInside } from "./form/Fields.ts"
import { meaningOf } from "./form/Meaning.ts"
import { RepeatedCalls } from "./RepeatedCalls.ts"
import type * as Spec from "./Spec.ts"
import * as Failures from "./SpecError.ts"
import * as Parts from "./SpecResponse.ts"

type OnRepair = (repair: ProviderModel.Repair) => void
type FailureOf = (error: unknown) => ProviderFailure.ProviderFailure

/** The parts of a complete answer, or the reason it is incomplete. `json`: the call asked for an object. */
export const whole = (
  result: Spec.GenerateResult,
  json: boolean,
  client?: ClientAttempt,
  onRepair: OnRepair = () => {}
): Array<Response.PartEncoded> | ProviderFailure.ProviderFailure =>
  guarded(() => readWhole(result, json, client, onRepair))

const readWhole = (
  result: Spec.GenerateResult,
  json: boolean,
  client: ClientAttempt | undefined,
  onRepair: OnRepair
): Array<Response.PartEncoded> | ProviderFailure.ProviderFailure => {
  const parts: Array<Response.PartEncoded> = []
  const end = new Ending()
  const calls = new RepeatedCalls<Spec.Content>(() => onRepair("duplicate"))
  if (result.response !== undefined) {
    const metadata = Parts.responseMetadata(result.response)
    client?.saw(metadata)
    parts.push(metadata)
  }
  for (const given of (json ? structured(result) : result.content).flatMap((part) => calls.of(part))) {
    const part = repaired(given, onRepair)
    end.saw(part)
    const encoded = carried(part, contentPart(part), client)
    if (encoded !== undefined) parts.push(encoded)
  }
  const failure = end.judge(result.finishReason)
  if (failure !== undefined) return failure
  const { finishReason, usage } = result
  const finish = Parts.finish(called(result, calls.hasCalls, onRepair))
  return [...parts, ended(finish, { type: "finish", finishReason, usage }, client)]
}

/** The finish, recorded in the call of the AI SDK. */
const ended = (
  finish: Response.FinishPartEncoded,
  original: Extract<Spec.StreamPart, { readonly type: "finish" }>,
  client: ClientAttempt | undefined
): Response.FinishPartEncoded => {
  if (client === undefined) return finish
  const made = client.mark(finish, original)
  client.saw(made)
  return made
}

/** The part, with arguments whose object stands in a text or in a fence as that object. */
const repaired = <P extends Spec.Content | Piece>(part: P, onRepair: OnRepair): P => {
  if (part.type !== "tool-call" || part.input.startsWith("{")) return part
  const input = objectInside(part.input)
  if (input === undefined) return part
  onRepair("call")
  return { ...part, input }
}

type Part = Response.PartEncoded | Response.StreamPartEncoded

/** The part as it travels to a call of the AI SDK: with its original, also where effect/ai has no such part. */
const carried = <P extends Part>(
  part: Spec.Content | Spec.StreamPart,
  encoded: P | undefined,
  client: ClientAttempt | undefined
): P | Response.ResponseMetadataPartEncoded | undefined => {
  if (client === undefined) return encoded
  if (isCarried(part, client)) return client.carrier(part)
  if (encoded?.type === "response-metadata") client.saw(encoded)
  // Signed at their start: deltas are many.
  if (encoded === undefined || isDelta.has(part.type)) return encoded
  return isPlain.has(part.type) ? client.sign(encoded) : client.mark(encoded, part)
}

/**
 * True for parts that effect/ai lacks or changes: files in any form, and results of tools that the program did not
 * offer.
 */
const isCarried = (part: Spec.Content | Spec.StreamPart, client: ClientAttempt): boolean => {
  switch (part.type) {
    case "custom":
    case "reasoning-file":
    case "file":
    case "raw":
      return true
    case "source":
      return part.sourceType === "url" && !URL.canParse(part.url)
    case "tool-result":
      return !client.call.isDeclared(part.toolName)
    default:
      return false
  }
}

const isDelta = new Set(["text-delta", "reasoning-delta", "tool-input-delta"])

/** Other parts that effect/ai represents without loss. */
const isPlain = new Set([
  "text-start",
  "reasoning",
  "reasoning-start",
  "reasoning-end",
  "tool-input-end",
  "response-metadata"
])

const contentPart = (part: Spec.Content): Response.PartEncoded | undefined => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return { type: part.type, text: part.text, ...Parts.metadataOf(part) }
    case "tool-call":
      return Parts.toolCall(part)
    default:
      return Parts.commonPart(part)
  }
}

/** Where the client names the text that is the object, drops the other texts, which are drafts. */
const structured = (result: Spec.GenerateResult): ReadonlyArray<Spec.Content> => {
  const text = result.structuredOutputText
  if (text === undefined) return result.content
  return [...result.content.filter((part) => part.type !== "text"), { type: "text", text }]
}

/** Reads one stream: pass the parts in their order, until a failure or a finish. */
export interface Reader {
  /** The parts of effect/ai that pass with this one, or a failure. None for a part without a counterpart. */
  readonly read: (
    part: Spec.StreamPart
  ) => ReadonlyArray<Response.StreamPartEncoded> | ProviderFailure.ProviderFailure
  /** True after a finish. */
  readonly finished: () => boolean
  /** True after content. */
  readonly said: () => boolean
}

/** `json`: the call asked for an object. */
export const reader = (
  failureOf: FailureOf,
  json = false,
  client?: ClientAttempt,
  onRepair: OnRepair = () => {}
): Reader => {
  const end = new Ending()
  const calls = new RepeatedCalls<Piece>(() => onRepair("duplicate"))
  const drafts = new Set<string>()
  let finished = false
  const passed = (pieces: ReadonlyArray<Piece>): Array<Response.StreamPartEncoded> => {
    const parts: Array<Response.StreamPartEncoded> = []
    for (const given of pieces) {
      const piece = repaired(given, onRepair)
      end.saw(piece)
      const part = carried(piece, streamPart(piece), client)
      if (part !== undefined) parts.push(part)
    }
    return parts
  }
  const read: Reader["read"] = (part) => {
    switch (part.type) {
      case "error":
        return failureOf(part.error)
      case "finish": {
        const failure = end.judge(part.finishReason)
        if (failure !== undefined) return failure
        finished = true
        const finish = Parts.finish(called(part, calls.hasCalls, onRepair))
        return [...passed(calls.rest()), ended(finish, part, client)]
      }
      default:
        if (json && isDraft(part, drafts)) return []
        if (part.type === "stream-start") client?.start(part.warnings)
        return passed(calls.of(part))
    }
  }
  return {
    read: (part) => guarded(() => read(part)),
    finished: () => finished,
    said: () => end.said
  }
}

/** True for a text that Responses marks as commentary beside an object. Complete answers drop these texts, too. */
const isDraft = (part: Spec.StreamPart, drafts: Set<string>): boolean => {
  if (part.type === "text-start") {
    const { openai } = part.providerMetadata ?? {}
    if (Predicate.hasProperty(openai, "phase") && openai.phase === "commentary") drafts.add(part.id)
  }
  const isText = part.type === "text-start" || part.type === "text-delta" || part.type === "text-end"
  return isText && drafts.has(part.id)
}

/** Turns a defect of a client that breaks its interface into a failure. */
const guarded = <A>(read: () => A): A | ProviderFailure.ProviderFailure => {
  try {
    return read()
  } catch {
    return Failures.unreadable()
  }
}

/** A part of a stream before its end. */
type Piece = Exclude<Spec.StreamPart, { readonly type: "error" | "finish" }>

const streamPart = (part: Piece): Response.StreamPartEncoded | undefined => {
  switch (part.type) {
    case "text-start":
    case "text-end":
    case "reasoning-start":
    case "reasoning-end":
      return { type: part.type, id: part.id, ...Parts.metadataOf(part) }
    case "text-delta":
    case "reasoning-delta":
      return { type: part.type, id: part.id, delta: part.delta, ...Parts.metadataOf(part) }
    case "tool-input-start":
      return {
        type: "tool-params-start",
        id: part.id,
        name: part.toolName,
        providerExecuted: part.providerExecuted ?? false,
        ...Parts.metadataOf(part)
      }
    case "tool-input-delta":
      return { type: "tool-params-delta", id: part.id, delta: part.delta, ...Parts.metadataOf(part) }
    case "tool-input-end":
      return { type: "tool-params-end", id: part.id, ...Parts.metadataOf(part) }
    case "tool-call":
      return Parts.toolCall(part)
    case "response-metadata":
      return Parts.responseMetadata(part)
    case "stream-start":
      return undefined
    default:
      return Parts.commonPart(part)
  }
}

/**
 * The finish of an answer. Its reason becomes `tool-calls` if the provider's reason is unknown and the answer has complete
 * calls of the program.
 */
const called = <E extends { readonly finishReason: Spec.FinishReason }>(
  end: E,
  hasCalls: boolean,
  onRepair: OnRepair
): E => {
  const { unified, raw } = end.finishReason
  if (unified !== "other" || !hasCalls || meaningOf(raw) !== undefined) return end
  onRepair("finish")
  return { ...end, finishReason: { unified: "tool-calls", raw } }
}

/** The state of one answer that decides if its end is complete. */
class Ending {
  /** The answer has content. */
  said = false

  saw(part: Spec.Content | Spec.StreamPart): void {
    this.said ||= isContent(part)
  }

  /** The failure, if this finish reason does not complete the answer. */
  judge({ unified, raw }: Spec.FinishReason): ProviderFailure.ProviderFailure | undefined {
    if (unified === "interrupted") return Failures.cut("interrupted")
    const meaning = meaningOf(raw)
    if (unified === "error" || (unified === "other" && meaning === "error")) {
      return Failures.finishedWithError(raw)
    }
    return unified === "other" && !this.said && meaning === undefined ? Failures.nothing(raw) : undefined
  }
}

const isContent = (part: Spec.Content | Spec.StreamPart): boolean => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return part.text !== ""
    case "text-delta":
    case "reasoning-delta":
      return part.delta !== ""
    case "stream-start":
    case "response-metadata":
    case "raw":
    case "ping":
    case "text-start":
    case "text-end":
    case "reasoning-start":
    case "reasoning-end":
    case "finish":
    case "error":
      return false
    default:
      return true
  }
}
