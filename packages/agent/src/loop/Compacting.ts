/**
 * Compaction inside of one run: before each ask, after a refusal, for results as they come, and what is learned from
 * the answers.
 *
 * It finds out which window counts (`NextModel`), and knows the run as one conversation of its own, so that runs which
 * begin alike, such as sub-agents, do not take each other for the same.
 *
 * **What it does not do.** It decides nothing about the run: the loop asks it, and says what comes of it. Without a
 * window that anybody knows it only acts when a provider has refused.
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
  /** Tokens of input and output together. Default: as is known of the model that is going to answer. */
  readonly window?: number | undefined
  /** Messages that must stay, beside those that `Marks.pin` has marked. Default: none. */
  readonly pinned?: ((message: Prompt.Message) => boolean) | undefined
  /** Identifiers that no summary may lose. Default: none. */
  readonly required?: ReadonlyArray<string> | undefined
  /**
   * Without a `Compaction` around the run: its own model summarises what is cut, if the means that need no model are
   * not enough. Default true.
   */
  readonly summarise?: boolean | undefined
}

const { is } = Check

/** The checks of its fields. */
export const checks: Check.Checks<Options> = {
  window: Kind.count,
  pinned: is.fn("(message) => boolean"),
  required: Kind.names,
  summarise: is.flag
}

/** What a run has taken to fit. */
export interface Compactions {
  readonly times: number
  readonly summaries: Spent
}

export const none: Compactions = { times: 0, summaries: nothingSpent }

/** Runs so far, by the service that compacts them: their names are the same in each run of a test. */
const runs = new WeakMap<Compaction.Service, number>()

/** The compaction of a run that begins with `prompt`; `undefined`: it has none. */
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
    // It prepares nothing in the background that a scope would have to end.
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
  /** Who answered the last turn; `undefined` before the first. */
  #answered: Option.Option<Answered> | undefined
  /** The window that counts in this turn. */
  #window: number | undefined
  /** Compactions that this turn may still have because a provider has refused. */
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

  /** What it has taken so far. */
  get taken(): Compactions {
    return this.#taken
  }

  /** The prompt of a turn, made to fit: the same object where it does. `unknown` hears that nobody knows the window. */
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
   * A smaller prompt after a call has failed because this one was too long; `undefined`: it failed for another reason,
   * the layer below has compacted already, or it has been done often enough in this turn.
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

  /** What came of a turn, with no result larger than the policy allows. */
  admit(messages: Prompt.Prompt): Effect.Effect<Prompt.Prompt> {
    return Effect.gen({ self: this }, function* () {
      const window = this.#window
      if (window === undefined) return messages
      const model = yield* NextModels.nameOf(this.#answered ?? Option.none())
      return yield* this.#compaction.admit(messages, { window, model })
    })
  }

  /** Takes note of who answered, and of what was counted where that was this prompt and nothing else. */
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

  #request({ name, outputLimit = 0, bindsThinking }: NextModel, window: number): Compaction.Request {
    const { pinned, required } = this.#options
    return {
      window,
      // Some models may answer as long as their window: half of it is left to the conversation.
      outputLimit: Math.min(outputLimit, Math.floor(window / 2)),
      tools: this.#tools,
      model: name,
      bindsThinking,
      pinned,
      required,
      conversation: this.#conversation
    }
  }

  /** Of a prompt that was too large, where nobody knows for what: as the provider says, or as it is counted. */
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

/** What the provider said of the sizes, if a call failed because its prompt was too long. */
export const overflowOf = (failure: CallFailure): ContextOverflow | undefined =>
  failure._tag === "ProviderFailure" && failure.reason._tag === "ContextOverflow" ? failure.reason : undefined

/** The target that has refused. */
const refusing = (failure: CallFailure): Option.Option<NextModels.Asked> | undefined =>
  failure._tag === "ProviderFailure" && failure.target !== undefined
    ? Option.some({ target: failure.target.id, model: failure.target.model })
    : undefined

/** Other attempts may have had more or less to read, and tools that the provider ran have added to it. */
const isOfOnePrompt = (by: Option.Option<Answered>, parts: ReadonlyArray<Response.AnyPart>): boolean =>
  !Option.exists(by, ({ attempts }) => attempts > 1) &&
  !parts.some((part) => part.type === "tool-call" && part.providerExecuted === true)

const sum = (a: Spent, b: Spent): Spent => ({
  calls: a.calls + b.calls,
  tokens: a.tokens + b.tokens,
  costUsd: a.costUsd === undefined ? b.costUsd : a.costUsd + (b.costUsd ?? 0)
})
