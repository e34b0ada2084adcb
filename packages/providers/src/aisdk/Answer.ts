/**
 * A whole answer or a stream of an AI SDK model, read to its end.
 *
 * An answer is complete when a finish says so, and only then. Without a finish, with `interrupted` or `error`
 * for one, or with an error among the parts, it is a failure; neither errors nor such finishes are parts.
 *
 * Arguments of a tool call that are no JSON are a cut, whatever the client says of them, and no tool call is
 * made of them. If the answer says itself that it was cut (`length`, `content-filter`), that finish stands;
 * else the answer fails.
 */
import type { ProviderFailure } from "@outlast/agent/failure/ProviderFailure"
import type { Response } from "effect/ai"
import type * as Spec from "./Spec.ts"
import * as Failures from "./SpecError.ts"
import * as Parts from "./SpecResponse.ts"

/** What came of reading: parts, and the failure behind them. */
export interface Read<Part> {
  readonly parts: Array<Part>
  readonly failure: ProviderFailure | undefined
}

type FailureOf = (error: unknown) => ProviderFailure

/** Reads a whole answer. `json`: an object was asked for. */
export const whole = (result: Spec.GenerateResult, json: boolean): Read<Response.PartEncoded> =>
  guarded(() => readWhole(result, json))

const readWhole = (result: Spec.GenerateResult, json: boolean): Read<Response.PartEncoded> => {
  const parts: Array<Response.PartEncoded> = []
  const calls = new Calls()
  if (result.response !== undefined) parts.push(Parts.responseMetadata(result.response))
  for (const part of json ? structured(result) : result.content) {
    const encoded = contentPart(part, calls)
    if (encoded !== undefined) parts.push(encoded)
  }
  const failure = calls.judge(result.finishReason)
  if (failure === undefined) parts.push(Parts.finish(result))
  return { parts, failure }
}

const contentPart = (part: Spec.Content, calls: Calls): Response.PartEncoded | undefined => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return { type: part.type, text: part.text, ...Parts.metadataOf(part) }
    case "tool-call":
      return calls.read(part)
    default:
      return Parts.commonPart(part)
  }
}

/** Where the client names the text that is the object, the other texts are drafts. */
const structured = (result: Spec.GenerateResult): ReadonlyArray<Spec.Content> => {
  const text = result.structuredOutputText
  if (text === undefined) return result.content
  return [...result.content.filter((part) => part.type !== "text"), { type: "text", text }]
}

/** A reader of one stream: give it the parts in their order, then {@link Reader.end}. */
export interface Reader {
  /** Nothing is read behind a failure or a finish. */
  readonly read: (parts: ReadonlyArray<Spec.StreamPart>) => Read<Response.StreamPartEncoded>
  /** A finish was read. */
  readonly finished: () => boolean
}

export const reader = (failureOf: FailureOf): Reader => {
  const calls = new Calls()
  let finished = false
  return {
    finished: () => finished,
    read: (parts) =>
      guarded(() => {
        const encoded: Array<Response.StreamPartEncoded> = []
        for (const part of parts) {
          if (part.type === "error") return { parts: encoded, failure: failureOf(part.error) }
          if (part.type === "finish") {
            const failure = calls.judge(part.finishReason)
            if (failure !== undefined) return { parts: encoded, failure }
            encoded.push(Parts.finish(part))
            finished = true
            break
          }
          const next = streamPart(part, calls)
          if (next !== undefined) encoded.push(next)
        }
        return { parts: encoded, failure: undefined }
      })
  }
}

/** Clients of others keep to their interface or not: what does not is a failure, not a defect. */
const guarded = <Part>(read: () => Read<Part>): Read<Part> => {
  try {
    return read()
  } catch {
    return { parts: [], failure: Failures.unreadable() }
  }
}

const streamPart = (
  part: Exclude<Spec.StreamPart, { readonly type: "error" | "finish" }>,
  calls: Calls
): Response.StreamPartEncoded | undefined => {
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
      return calls.read(part)
    case "response-metadata":
      return Parts.responseMetadata(part)
    default:
      return Parts.commonPart(part)
  }
}

/** The tool calls of one answer: a broken one is judged when the end of the answer is known. */
class Calls {
  private broken: string | undefined

  read(part: Spec.ToolCall): Response.ToolCallPartEncoded | undefined {
    const call = Parts.toolCall(part)
    if (call === undefined) this.broken ??= part.toolName
    return call
  }

  /** Whether this end is one. */
  judge(end: Spec.FinishReason): ProviderFailure | undefined {
    if (end.unified === "interrupted") return Failures.cut("interrupted")
    if (end.unified === "error") return Failures.finishedWithError(end.raw)
    const admitted = end.unified === "length" || end.unified === "content-filter"
    return this.broken === undefined || admitted ? undefined : Failures.cutArguments(this.broken)
  }
}
