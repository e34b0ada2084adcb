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
import { tokensOf } from "../compaction/Fitting.ts"
import type * as Summariser from "../compaction/Summariser.ts"
import type { Memory } from "../compaction/Memory.ts"
import { TokenCounter } from "../compaction/TokenCounter.ts"
import type { Answered } from "../conversation/Answered.ts"
import { answeredBy } from "../conversation/Answered.ts"
import * as ConversationKey from "../failover/call/ConversationKey.ts"
import type { CallFailure } from "../failure/reasons/CallFailure.ts"
import * as Kind from "../options/Kind.ts"
import type { Overflow } from "./AgentFailed.ts"
import { overflowOf } from "./AgentFailed.ts"
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

/** The target that answered last: `undefined` before the first answer, `none` for a model that is not Outlast's. */
export type Last = Option.Option<NextModels.Asked> | undefined

export class Compacting {
  readonly #compaction: Compaction.Service
  readonly #options: Options
  readonly #tools: ReadonlyArray<Tool.Any>
  readonly #conversation: string
  /** Context window of the current turn, in tokens. */
  #window: number | undefined

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

  /** Compactions of a turn after a rejection, at most. */
  get maxReactive(): number {
    return this.#compaction.policy.maxReactive
  }

  /** Restores what another process remembered of this run. */
  restore(memory: Memory | undefined): Effect.Effect<void> {
    return memory === undefined ? Effect.void : this.#compaction.restore(this.#conversation, memory)
  }

  /** What is remembered of this run with the model that answered last. */
  remembered(last: Last): Effect.Effect<Memory> {
    return Effect.flatMap(NextModels.nameOf(last ?? Option.none()), (model) =>
      this.#compaction.remembered(this.#conversation, model)
    )
  }

  /**
   * Compacts the prompt of a turn if it does not fit. `undefined`: it fits, or the window is unknown; then `unknown`
   * runs.
   */
  fit(
    prompt: Prompt.Prompt,
    last: Last,
    unknown: (model: string | undefined) => Effect.Effect<void>
  ): Effect.Effect<Fitted | undefined, CannotFit | ContextExhausted> {
    return Effect.gen({ self: this }, function* () {
      const next = yield* NextModels.of(last)
      const window = this.#options.window ?? next.window
      this.#window = window
      if (window !== undefined) {
        const fitted = yield* this.#compaction.fit(prompt, this.#request(next, window))
        return fitted.report.tier === "none" ? undefined : fitted
      }
      yield* unknown(next.name)
      return undefined
    })
  }

  /** True when the chain of the target that rejected a prompt compacts by itself. */
  leavesToChain(failure: CallFailure, last: Last): Effect.Effect<boolean> {
    return Effect.map(NextModels.of(refusing(failure) ?? last), ({ compacts }) => compacts)
  }

  /** Returns a smaller prompt after a provider rejected this one as too long. */
  shrink(
    prompt: Prompt.Prompt,
    failure: CallFailure,
    last: Last
  ): Effect.Effect<Fitted | undefined, CannotFit | ContextExhausted> {
    return Effect.gen({ self: this }, function* () {
      const overflow = overflowOf(failure)
      if (overflow === undefined) return undefined
      const next = yield* NextModels.of(refusing(failure) ?? last)
      const window = this.#options.window ?? next.window ?? (yield* this.#sizeOf(prompt, next, overflow))
      return yield* this.#compaction.shrink(prompt, this.#request(next, window), overflow)
    })
  }

  /** Shortens the results of a turn that are larger than the policy allows. */
  admit(messages: Prompt.Prompt, last: Last): Effect.Effect<Prompt.Prompt> {
    return Effect.gen({ self: this }, function* () {
      const window = this.#window
      if (window === undefined) return messages
      const model = yield* NextModels.nameOf(last ?? Option.none())
      return yield* this.#compaction.admit(messages, { window, model })
    })
  }

  /** Learns the token count of an answer if it is for exactly this prompt. */
  answered(prompt: Prompt.Prompt, parts: ReadonlyArray<Response.AnyPart>): Effect.Effect<void> {
    return Effect.gen({ self: this }, function* () {
      const by = answeredBy(parts)
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
    { limit = 0, requested = 0 }: Overflow
  ): Effect.Effect<number> {
    return Effect.map(TokenCounter, (counter) =>
      Math.ceil(Math.max(1, limit, requested, tokensOf(content, this.#tools, counter.for(name))))
    )
  }
}

/** The target that rejected the prompt. */
const refusing = (failure: CallFailure): Option.Option<NextModels.Asked> | undefined =>
  failure._tag === "ProviderFailure" && failure.target !== undefined
    ? Option.some({ target: failure.target.id, model: failure.target.model })
    : undefined

/** True when the reported token count is for one prompt: a single attempt, without tools run by the provider. */
const isOfOnePrompt = (by: Option.Option<Answered>, parts: ReadonlyArray<Response.AnyPart>): boolean =>
  !Option.exists(by, ({ attempts }) => attempts > 1) &&
  !parts.some((part) => part.type === "tool-call" && part.providerExecuted === true)
