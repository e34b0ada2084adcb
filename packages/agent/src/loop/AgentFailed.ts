/**
 * How a run fails: the call's own failure, and the conversation so far.
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
import { Data } from "effect"
import type { CallFailure } from "../failure/CallFailure.ts"
import type { Transcript } from "./Transcript.ts"

export class AgentFailed extends Data.TaggedError("AgentFailed")<{
  readonly reason: CallFailure
  /** The turn that failed, from 1. */
  readonly turn: number
  /** Legal as a prompt: every tool call in it has its result. */
  readonly transcript: Transcript
}> {
  override get message(): string {
    return `The run failed in turn ${this.turn}. ${this.reason.message}\nThe conversation so far is in \`transcript\`; run again with it as the prompt to go on.`
  }
}
