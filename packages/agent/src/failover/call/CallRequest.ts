/**
 * The requests of one call: its options, the request of each attempt, and the changes that make a request acceptable (a
 * shorter conversation, notes in place of refused media).
 *
 * A change returns the event that `CallRun` feeds to `CallState`. No target is chosen here, and nothing is published.
 */
import { Cause, Effect } from "effect"
import type { LanguageModel, Prompt } from "effect/ai"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
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

  /** The request of an attempt. `partial` is the answer so far. */
  of(
    { target, continues, nudge, outputLimit, span }: Attempt,
    partial: string,
    { heard, repaired }: Pick<AttemptRequest, "heard" | "repaired">
  ): AttemptRequest {
    const { memory, policy } = this.#context.chain
    const plain = requestOf(this.#options, target, {
      outputLimit,
      wording: policy.wording,
      refuses: memory.refusedMedia.test(target.ref),
      limits: policy.limits,
      heard,
      repaired,
      span
    })
    // An answer of blanks has nothing to continue.
    const blank = continues === "interrupted" && partial.trim() === ""
    if (nudge === undefined || blank) return plain
    const prompt = Conversation.continued(plain.prompt, continues === undefined ? "" : partial, nudge)
    return { ...plain, prompt }
  }

  /** Judges the answer of an attempt. */
  judge({ continues }: Attempt): AnswerEnd {
    return new AnswerEnd(this.#endsInResults || continues !== undefined)
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

  /** Sends notes to `target` in place of images and files from now on. Returns how many the request has. */
  dropMedia(target: TargetRef): number {
    return this.#context.chain.memory.refusedMedia.add(target, this.#options.prompt)
  }
}

const compactionFailed: Effect.Effect<Event> = Effect.succeed({ _tag: "CompactionFailed" })
