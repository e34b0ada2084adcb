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
import { Cause, Context, Data, Option } from "effect"
import { ErrorText } from "@outlast/resilience"
import type { CannotFit, ContextExhausted } from "../compaction/CompactionError.ts"
import type { CallFailure } from "../failure/reasons/CallFailure.ts"
import { overflowOf } from "./Compacting.ts"
import type { Transcript } from "../conversation/Transcript.ts"

export type Reason = CallFailure | CannotFit | ContextExhausted

/** True when the conversation does not fit. Running it again unchanged would fail again. */
export const isTooLong = (reason: Reason): boolean =>
  reason._tag === "CannotFit" || reason._tag === "ContextExhausted" || overflowOf(reason) !== undefined

export class AgentFailed extends Data.TaggedError("AgentFailed")<{
  readonly reason: Reason
  /** The turn that failed, from 1. */
  readonly turn: number
  /** The conversation so far, usable as a prompt: every tool call in it has its result. */
  readonly transcript: Transcript
}> {
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
