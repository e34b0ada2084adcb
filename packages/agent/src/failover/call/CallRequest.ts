/**
 * The requests of one call: its options, the request of each attempt, and the changes that make a request acceptable (a
 * shorter conversation, without refused parts).
 *
 * A change returns the event that `CallRun` feeds to `CallState`. No target is chosen here, and nothing is published.
 */
import { Cause, Effect } from "effect"
import type { LanguageModel, Prompt } from "effect/ai"
import type { Destination } from "../../conversation/Parts.ts"
import * as Portable from "../../conversation/Portable.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import { countsAll } from "../../failure/reasons/Leavable.ts"
import type { Leavable } from "../../failure/reasons/Leavable.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import * as Omissions from "../chain/Omissions.ts"
import { AnswerEnd } from "../decide/AnswerEnd.ts"
import type { Event } from "../decide/CallState.ts"
import { timed } from "../target/Timed.ts"
import type { Attempt } from "./Attempt.ts"
import type { AttemptRequest } from "./AttemptRequest.ts"
import { requestOf } from "./AttemptRequest.ts"
import type { CallContext } from "./CallContext.ts"
import * as Conversation from "./Conversation.ts"

export class CallRequest {
  readonly #context: CallContext
  /** The conversation ends with tool results: a model may have nothing to add. */
  readonly #endsInResults: boolean
  #options: LanguageModel.ProviderOptions
  #isAsHad: boolean
  /** What this call leaves out, by target id. */
  #omitted: Map<string, Omissions.Omitted> | undefined

  constructor(context: CallContext, options: LanguageModel.ProviderOptions) {
    this.#context = context
    this.#options = options
    const last = options.prompt.content.at(-1)?.role
    this.#endsInResults = last === "tool"
    // Most targets get a user message behind one of the assistant.
    this.#isAsHad = last !== "assistant"
  }

  get prompt(): Prompt.Prompt {
    return this.#options.prompt
  }

  /** True when the conversation that is sent is the program's own, unchanged. */
  get isAsHad(): boolean {
    return this.#isAsHad
  }

  /** The request of an attempt. `partial` is the answer so far; `listeners` are those of a `ProviderRequest`. */
  of(
    { target, continues, failed, nudge, outputLimit, span }: Attempt,
    partial: string,
    listeners: Pick<AttemptRequest, "heard" | "repeated" | "repaired">
  ): AttemptRequest {
    const { policy } = this.#context.chain
    const omitted = this.#omitted?.get(target.ref.id)
    const plain = requestOf(this.#options, target, {
      outputLimit,
      wording: policy.wording,
      refuses: omitted === undefined ? undefined : Omissions.refuses(omitted),
      omitsThinking: omitted?.thinking !== undefined,
      limits: policy.limits,
      failed,
      ...listeners,
      span
    })
    // An answer of blanks has nothing to continue.
    const blank = continues === "interrupted" && partial.trim() === ""
    if (nudge === undefined || blank) return plain
    const shown = continues === undefined ? "" : partial
    const prompt = Conversation.continued(plain.prompt, shown, nudge)
    return { ...plain, prompt, continues: { partial: shown, nudge } }
  }

  /** Judges the answer of an attempt. */
  judge({ continues, nudge }: Attempt): AnswerEnd {
    const mayLackCalls = nudge !== undefined || this.#options.tools.length === 0
    return new AnswerEnd(this.#endsInResults || continues !== undefined, mayLackCalls)
  }

  /** Shortens the conversation, which did not fit. */
  compact(failure: ProviderFailure): Effect.Effect<Event> {
    const { policy } = this.#context.chain
    const compact = this.#context.chain.compact ?? this.#context.runCompact
    const before = this.#options.prompt
    if (compact === undefined) return compactionFailed
    const late = () => Effect.fail("too slow")
    return Effect.matchCauseEffect(timed(compact(before, failure), policy.limits.total, late), {
      onFailure: (cause) => (Cause.hasInterrupts(cause) ? Effect.interrupt : compactionFailed),
      onSuccess: (after) => {
        this.#options = { ...this.#options, prompt: after }
        this.#isAsHad &&= after === before
        const freed = Conversation.estimate(before) - Conversation.estimate(after)
        return Effect.succeed({ _tag: "Compacted", freed } as const)
      }
    })
  }

  /**
   * Leaves out what the model of `target` refused in earlier calls. Returns the number of parts of each kind, the first
   * time that something is left out for the target.
   */
  recall(target: TargetRef): Omissions.Recalled["dropped"] | undefined {
    const { omissions } = this.#context.chain.memory
    if (omissions.isEmpty || this.#omitted?.has(target.id) === true) return undefined
    const recalled = omissions.of(target, this.#options.prompt, this.#destination(target))
    if (recalled !== undefined) this.#omit(target, recalled.omitted)
    return recalled?.dropped
  }

  /** Leaves out what `target` refuses, in this call. */
  leaveOut(target: TargetRef, part: Leavable, { reason }: ProviderFailure): Omissions.Left {
    const before = this.#omitted?.get(target.id) ?? Omissions.nothing
    const { prompt } = this.#options
    const result = Omissions.leaveOut(before, part, countsAll(reason), prompt, this.#destination(target))
    this.#omit(target, result.omitted)
    return result
  }

  /** The target has answered: what the call left out for it is left out in later calls, too. */
  answered(target: TargetRef): void {
    const omitted = this.#omitted?.get(target.id)
    if (omitted !== undefined) this.#context.chain.memory.omissions.answered(target, omitted)
  }

  #omit(target: TargetRef, omitted: Omissions.Omitted): void {
    this.#omitted = new Map(this.#omitted).set(target.id, omitted)
  }

  #destination(target: TargetRef): Destination {
    const { info } = this.#context.targetOf(target).model
    return Portable.destinationOf({ ref: target, dialect: info.dialect })
  }
}

const compactionFailed: Effect.Effect<Event> = Effect.succeed({ _tag: "CompactionFailed" })
