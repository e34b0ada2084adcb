/**
 * Compaction inside one run: before each call, after a rejection, for tool results as they arrive, and learning
 * token counts from answers.
 *
 * `NextModel` determines the window. Each run is a conversation of its own, so that runs with the same beginning,
 * such as sub-agents, do not share summaries.
 *
 * **Limits.** The loop decides about the run, and calls this module. Without a known window it compacts only after
 * a rejection.
 */
import { Effect, Option } from "effect"
import type { Prompt, Response, Tool } from "effect/ai"
import { Options as Check } from "@outlast/resilience"
import * as Compaction from "../compaction/Compaction.ts"
import type { CannotFit, ContextExhausted } from "../compaction/CompactionError.ts"
import type { Fitted } from "../compaction/Fitting.ts"
import { nothingSpent, tokensOf } from "../compaction/Fitting.ts"
import type * as Summariser from "../compaction/Summariser.ts"
import type { Spent } from "../compaction/Summariser.ts"
import { TokenCounter } from "../compaction/TokenCounter.ts"
import type { Answered } from "../conversation/Answered.ts"
import { answeredBy } from "../conversation/Answered.ts"
import * as ConversationKey from "../failover/call/ConversationKey.ts"
import type { CallFailure } from "../failure/reasons/CallFailure.ts"
import type { ContextOverflow } from "../failure/reasons/FailoverReason.ts"
import * as Kind from "../options/Kind.ts"
import type { NextModel } from "./NextModel.ts"
import * as NextModels from "./NextModel.ts"

export interface Options {
  /** Tokens of input and output together. Default: the known window of the next model. */
  readonly window?: number | undefined
  /** Selects messages that must stay, besides those marked by `Marks.pin`. Default: none. */
  readonly pinned?: ((message: Prompt.Message) => boolean) | undefined
  /** Identifiers that every summary must keep. Default: none. */
  readonly required?: ReadonlyArray<string> | undefined
  /**
   * Without a surrounding `Compaction`: the run's own model summarises what is cut, if cheaper means are not
   * enough. Default true.
   */
  readonly summarise?: boolean | undefined
}

const { is } = Check

/** Checks of the fields of {@link Options}. */
export const checks: Check.Checks<Options> = {
  window: Kind.count,
  pinned: is.fn("(message) => boolean"),
  required: Kind.names,
  summarise: is.flag
}

/** Number of compactions of a run, and the usage of their summaries. */
export interface Compactions {
  readonly times: number
  readonly summaries: Spent
}

export const none: Compactions = { times: 0, summaries: nothingSpent }

/** Number of runs by compaction service. Counting by service gives the same run names in each run of a test. */
const runs = new WeakMap<Compaction.Service, number>()

/** Opens the compaction of a run that begins with `prompt`; `undefined` if it has none. */
export const open = (
  options: Options | false | undefined,
  tools: ReadonlyArray<Tool.Any>,
  prompt: Prompt.Prompt,
  model: Summariser.Options["model"]
): Effect.Effect<Compacting | undefined> =>
  Effect.gen(function* () {
    if (options === false) return undefined
    const around = Option.getOrUndefined(yield* Effect.serviceOption(Compaction.Compaction))
    if (around === undefined && options === undefined) return undefined
    const summariser = options?.summarise === false ? undefined : { model }
    // A compaction made here prepares nothing in the background, so its scope can close at once.
    const compaction = around ?? (yield* Effect.scoped(Compaction.make({ summariser })))
    const run = (runs.get(compaction) ?? 0) + 1
    runs.set(compaction, run)
    return new Compacting(compaction, options ?? {}, tools, `${ConversationKey.of(prompt)}/${run}`)
  })

export class Compacting {
  readonly #compaction: Compaction.Service
  readonly #options: Options
  readonly #tools: ReadonlyArray<Tool.Any>
  readonly #conversation: string
  /** Target of the last answer; `undefined` before the first. */
  #answered: Option.Option<Answered> | undefined
  /** Context window of the current turn, in tokens. */
  #window: number | undefined
  /** Compactions left in this turn after a rejection. */
  #left = 0
  #taken = none

  constructor(
    compaction: Compaction.Service,
    options: Options,
    tools: ReadonlyArray<Tool.Any>,
    conversation: string
  ) {
    this.#compaction = compaction
    this.#options = options
    this.#tools = tools
    this.#conversation = conversation
  }

  /** Compactions of the run so far. */
  get taken(): Compactions {
    return this.#taken
  }

  /**
   * Compacts the prompt of a turn if it does not fit; otherwise returns the same object. `unknown` runs if the
   * window is unknown.
   */
  fit(
    prompt: Prompt.Prompt,
    unknown: (model: string | undefined) => Effect.Effect<void>
  ): Effect.Effect<Prompt.Prompt, CannotFit | ContextExhausted> {
    return Effect.gen({ self: this }, function* () {
      this.#left = this.#compaction.policy.maxReactive
      const next = yield* NextModels.of(this.#answered)
      const window = this.#options.window ?? next.window
      this.#window = window
      if (window !== undefined) {
        return this.#counted(yield* this.#compaction.fit(prompt, this.#request(next, window)))
      }
      yield* unknown(next.name)
      return prompt
    })
  }

  /**
   * Returns a smaller prompt after a provider rejected this one as too long. `undefined` if the call failed for
   * another reason, if the chain has already compacted, or if the turn has used up its compactions.
   */
  shrink(
    prompt: Prompt.Prompt,
    failure: CallFailure
  ): Effect.Effect<Prompt.Prompt | undefined, CannotFit | ContextExhausted> {
    return Effect.gen({ self: this }, function* () {
      const overflow = overflowOf(failure)
      if (overflow === undefined || this.#left === 0) return undefined
      const next = yield* NextModels.of(refusing(failure) ?? this.#answered)
      if (next.compacts) return undefined
      this.#left--
      const window = this.#options.window ?? next.window ?? (yield* this.#sizeOf(prompt, next, overflow))
      return this.#counted(yield* this.#compaction.shrink(prompt, this.#request(next, window), overflow))
    })
  }

  /** Shortens the results of a turn that are larger than the policy allows. */
  admit(messages: Prompt.Prompt): Effect.Effect<Prompt.Prompt> {
    return Effect.gen({ self: this }, function* () {
      const window = this.#window
      if (window === undefined) return messages
      const model = yield* NextModels.nameOf(this.#answered ?? Option.none())
      return yield* this.#compaction.admit(messages, { window, model })
    })
  }

  /** Records the target that answered. Learns its token count if it is for exactly this prompt. */
  answered(prompt: Prompt.Prompt, parts: ReadonlyArray<Response.AnyPart>): Effect.Effect<void> {
    return Effect.gen({ self: this }, function* () {
      const by = answeredBy(parts)
      this.#answered = by
      const inputTokens = parts.findLast((part) => part.type === "finish")?.usage.inputTokens.total
      if (inputTokens === undefined || !isOfOnePrompt(by, parts)) return
      const model = yield* NextModels.nameOf(by)
      yield* this.#compaction.learn({ prompt, tools: this.#tools, model, inputTokens })
    })
  }

  #request(
    { name, window: own, outputLimit = 0, bindsThinking }: NextModel,
    window: number
  ): Compaction.Request {
    const { pinned, required } = this.#options
    return {
      window,
      // Some models may answer as long as their window. Half of the window is kept for the conversation.
      outputLimit: Math.min(outputLimit, Math.floor(window / 2)),
      modelWindow: own !== undefined && window >= own,
      tools: this.#tools,
      model: name,
      bindsThinking,
      pinned,
      required,
      conversation: this.#conversation
    }
  }

  /**
   * Estimated window after a rejection without a known window: the largest of the sizes that the provider stated
   * and the counted tokens.
   */
  #sizeOf(
    { content }: Prompt.Prompt,
    { name }: NextModel,
    { limit = 0, requested = 0 }: ContextOverflow
  ): Effect.Effect<number> {
    return Effect.map(TokenCounter, (counter) =>
      Math.ceil(Math.max(1, limit, requested, tokensOf(content, this.#tools, counter.for(name))))
    )
  }

  #counted({ prompt, report: { tier, summaries } }: Fitted): Prompt.Prompt {
    if (tier !== "none") {
      const { times, summaries: before } = this.#taken
      this.#taken = { times: times + 1, summaries: sum(before, summaries) }
    }
    return prompt
  }
}

/** The overflow with its sizes, if a call failed because its prompt was too long. */
export const overflowOf = (failure: CallFailure): ContextOverflow | undefined =>
  failure._tag === "ProviderFailure" && failure.reason._tag === "ContextOverflow" ? failure.reason : undefined

/** The target that rejected the prompt. */
const refusing = (failure: CallFailure): Option.Option<NextModels.Asked> | undefined =>
  failure._tag === "ProviderFailure" && failure.target !== undefined
    ? Option.some({ target: failure.target.id, model: failure.target.model })
    : undefined

/** True when the reported token count is for one prompt: a single attempt, without tools run by the provider. */
const isOfOnePrompt = (by: Option.Option<Answered>, parts: ReadonlyArray<Response.AnyPart>): boolean =>
  !Option.exists(by, ({ attempts }) => attempts > 1) &&
  !parts.some((part) => part.type === "tool-call" && part.providerExecuted === true)

const sum = (a: Spent, b: Spent): Spent => ({
  calls: a.calls + b.calls,
  tokens: a.tokens + b.tokens,
  costUsd: a.costUsd === undefined ? b.costUsd : a.costUsd + (b.costUsd ?? 0)
})
