/**
 * The error of a run that failed: the reason and the conversation so far.
 *
 * The reason is the failure of the call or of compaction. `CannotFit` and `ContextExhausted` say in numbers what
 * does not fit, and what to do.
 *
 * **Example** (Going on after the failure)
 *
 * ```ts
 * Agent.run(options).pipe(
 *   Effect.catchTag("AgentFailed", (failed) =>
 *     Effect.andThen(
 *       Effect.sleep("10 minutes"),
 *       Agent.run({ ...options, prompt: failed.transcript.prompt })
 *     )
 *   )
 * )
 * ```
 */
import { Cause, Context, Option, Schema } from "effect"
import { ErrorText } from "@outlast/resilience"
import { CannotFit, ContextExhausted } from "../compaction/CompactionError.ts"
import { AllTargetsOut } from "../failure/reasons/CallFailure.ts"
import type { CallFailure } from "../failure/reasons/CallFailure.ts"
import type { ContextOverflow } from "../failure/reasons/FailoverReason.ts"
import { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import type { Transcript } from "../conversation/Transcript.ts"
import { schema as transcriptSchema } from "../conversation/Transcript.ts"

export const Reason = Schema.Union([ProviderFailure, AllTargetsOut, CannotFit, ContextExhausted])
export type Reason = typeof Reason.Type

/** The sizes that a provider named when it rejected a prompt. */
export type Overflow = Pick<ContextOverflow, "limit" | "requested" | "output">

/**
 * The overflow with its sizes, if a call failed because its prompt was too long: for the window of the model, or for the
 * tokens per minute of every target. The largest limit counts.
 */
export const overflowOf = (failure: CallFailure): Overflow | undefined => {
  if (failure._tag === "ProviderFailure")
    return failure.reason._tag === "ContextOverflow" ? failure.reason : undefined
  let largest: Overflow | undefined
  for (const { failure: last } of failure.targets) {
    if (last.reason._tag !== "RateLimit" || last.reason.limit === undefined) return undefined
    if (last.reason.limit > (largest?.limit ?? 0)) largest = last.reason
  }
  return largest
}

/** True when the provider rejected the content, in the request or in the answer. */
export const isRefused = (reason: Reason): boolean =>
  reason._tag === "ProviderFailure" && reason.reason._tag === "ContentPolicy"

/** True when the conversation does not fit. Running it again unchanged would fail again. */
export const isTooLong = (reason: Reason): boolean =>
  reason._tag === "CannotFit" || reason._tag === "ContextExhausted" || overflowOf(reason) !== undefined

export class AgentFailed extends Schema.TaggedError<AgentFailed>("@outlast/agent/loop/AgentFailed")(
  "AgentFailed",
  {
    reason: Reason,
    /** The turn that failed, from 1. */
    turn: Schema.Finite,
    /** The conversation so far, usable as a prompt: every tool call in it has its result. */
    transcript: transcriptSchema
  }
) {
  override get message(): string {
    const next = isTooLong(this.reason) ? "." : "; to continue, run again with it as the prompt."
    return `The run failed in turn ${this.turn}. ${this.reason.message}\nThe conversation so far is in \`transcript\`${next}`
  }

  /** The form for loggers, without the conversation. */
  override toJSON(): unknown {
    const { _tag, message, reason, turn } = this
    return { _tag, message, reason, turn }
  }
}

ErrorText.printedOnce(AgentFailed)

/** Annotation of a cause: the conversation of a run that a tool or a defect ended. */
class Left extends Context.Service<Left, Transcript>()("@outlast/agent/loop/AgentFailed/Left") {}

/**
 * Annotates the cause with the conversation so far, replacing that of a sub-agent. Printing the cause does not show
 * it.
 */
export const leaving = <E>(cause: Cause.Cause<E>, transcript: Transcript): Cause.Cause<E> =>
  Cause.annotate(cause, Context.make(Left, transcript), { overwrite: true })

/**
 * Returns the conversation of a run that ended with a tool's declared failure, or with a defect of a tool, a model,
 * a store or an option. Such failures keep their own type, so the transcript is an annotation of the cause.
 *
 * **Example** (Going on after a tool has failed)
 *
 * ```ts
 * Agent.run(options).pipe(
 *   Effect.catchCause((cause) =>
 *     Option.match(AgentFailed.transcriptOf(cause), {
 *       onNone: () => Effect.failCause(cause),
 *       onSome: (transcript) => Agent.run({ ...options, prompt: transcript.prompt })
 *     })
 *   )
 * )
 * ```
 */
export const transcriptOf = <E>(cause: Cause.Cause<E>): Option.Option<Transcript> => {
  for (const reason of cause.reasons) {
    const left = Context.getOption(Cause.reasonAnnotations(reason), Left)
    if (Option.isSome(left)) return left
    if (reason._tag === "Fail" && reason.error instanceof AgentFailed)
      return Option.some(reason.error.transcript)
  }
  return Option.none()
}
