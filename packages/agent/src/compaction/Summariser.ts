/**
 * Asks a model for summaries, within its own limits of time, tokens, cost and window.
 *
 * It uses the resilience of its model. Every failure is one {@link SummaryFailed}: an error, a defect, a truncated or
 * empty answer, a lost identifier, an exceeded limit. The next tier then takes over. It repeats a call only once,
 * when identifiers are missing.
 *
 * {@link Asking} is set during its calls, so that compaction inside them does not call the summariser again. Under a
 * `SafetyGuard` its calls count like those of the agent, but do not appear in the agent's conversation.
 */
import { Cause, Context, Data, Duration, Effect, Layer, Option } from "effect"
import type { Scope } from "effect"
import { LanguageModel, Prompt } from "effect/ai"
import { Deadline } from "@outlast/resilience"
import { Options as Check } from "@outlast/resilience"
import { answeredBy } from "../conversation/Answered.ts"
import { RefusedAnswers } from "../failover/decide/AnswerEnd.ts"
import { ClientOptions } from "../failover/target/ClientOptions.ts"
import { OutputLimit } from "../failover/decide/OutputLimit.ts"
import { branchOf } from "../guard/Branch.ts"
import * as Chunks from "./Chunks.ts"
import * as Kind from "../options/Kind.ts"
import type { CompactionPolicy } from "./CompactionPolicy.ts"
import * as Identifiers from "./Identifiers.ts"
import type { Meter } from "./TokenCounter.ts"
import * as Transcribed from "./Transcribed.ts"

// -----------------------------------------------------------------------------
// Options
// -----------------------------------------------------------------------------

type Model = Context.Service.Shape<typeof LanguageModel.LanguageModel>

export interface Options<E = never, R = never> {
  /**
   * Model that summarises: the service, or a Layer such as `Failover.layer([haiku])`, which is built once, with the
   * compaction. A cheap model is enough.
   */
  readonly model: Model | Layer.Layer<LanguageModel.LanguageModel, E, R>
  /** Name of that model, for the counter. Default: the name of the conversation's model. */
  readonly name?: string | undefined
  /** Window of that model, in tokens. Default: the window of the conversation's model. */
  readonly window?: number | undefined
  /** Maximum tokens of one summary. Default 4,096; never more than a quarter of the window. */
  readonly outputLimit?: number | undefined
  /** Time limit for all calls of one compaction. Default 2 minutes. */
  readonly deadline?: Duration.Input | undefined
  /** Maximum tokens, input and output, of all calls of one compaction. Default: no limit. */
  readonly maxTokens?: number | undefined
  /**
   * Maximum cost of one compaction in US dollars. Applies where prices are known: no call starts once it is spent.
   * Default: no limit.
   */
  readonly maxCost?: number | undefined
}

export const defaults = { outputLimit: 4_096, deadline: "2 minutes" } as const

const { is } = Check

/** Checks of the options, by field. */
export const checks: Check.Checks<Options> = {
  model: is.required(Kind.languageModelOrLayer),
  name: Kind.name,
  window: Kind.count,
  outputLimit: Kind.count,
  deadline: Kind.finiteDuration(),
  maxTokens: Kind.count,
  maxCost: is.number({ min: 0 })
}

/** Options whose model is built. */
export interface Built extends Options {
  readonly model: Model
}

/** Builds the model of the options in the current scope, if it is a Layer. */
export const built = <E, R>(options: Options<E, R>): Effect.Effect<Built, E, R | Scope.Scope> => {
  const { model, ...rest } = options
  return "generateText" in model
    ? Effect.succeed({ ...rest, model })
    : Effect.map(Layer.build(model), (context) => ({
        ...rest,
        model: Context.get(context, LanguageModel.LanguageModel)
      }))
}

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

/** No summary could be made. `why` contains no text of the conversation. */
export class SummaryFailed extends Data.TaggedError("SummaryFailed")<{ readonly why: string }> {}

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** True when this fiber is inside a call of a summariser. */
export const Asking: Context.Reference<boolean> = Context.Reference<boolean>(
  "@outlast/agent/compaction/Summariser/Asking",
  { defaultValue: () => false }
)

/** Calls, tokens and cost of the summaries of one compaction. */
export interface Spent {
  readonly calls: number
  /** Input and output tokens; estimated when the model does not report them. */
  readonly tokens: number
  /** US dollars; `undefined` when no price is known. */
  readonly costUsd: number | undefined
}

export interface Task {
  /** Messages to summarise. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Identifiers that must be in the summary. */
  readonly required: ReadonlyArray<string>
  /** Maximum tokens of the summary. */
  readonly maxTokens: number
  /** `one`: in a single call. `chunks`: in as many calls as needed. */
  readonly in: "one" | "chunks"
}

/** The summariser of one compaction. Limits apply to all its tasks together. */
export class Summariser {
  readonly #options: Built
  readonly #policy: CompactionPolicy
  readonly #meter: Meter
  readonly #window: number
  #spent: Spent = { calls: 0, tokens: 0, costUsd: undefined }

  constructor(
    options: Built,
    policy: CompactionPolicy,
    around: { readonly window: number; readonly meter: Meter }
  ) {
    this.#options = options
    this.#policy = policy
    this.#meter = around.meter
    this.#window = options.window ?? around.window
  }

  get spent(): Spent {
    return this.#spent
  }

  /**
   * Returns the text of a summary. An interruption inside the model is a failure; an interruption from outside ends
   * everything.
   */
  summary(task: Task): Effect.Effect<string, SummaryFailed> {
    const { deadline = defaults.deadline } = this.#options
    return apart(this.#summary(task)).pipe(
      Deadline.enforce,
      Effect.provideService(Asking, true),
      Effect.catchCause((cause): Effect.Effect<never, SummaryFailed> => {
        const error = Cause.squash(cause)
        if (error instanceof SummaryFailed) return Effect.fail(error)
        if (error instanceof Deadline.DeadlineExceeded) {
          return Effect.fail(
            new SummaryFailed({
              why: `it took longer than ${Duration.format(Duration.fromInputUnsafe(deadline))}`
            })
          )
        }
        // The model's error may quote the conversation, so it is not repeated here.
        return Effect.fail(new SummaryFailed({ why: "the summariser failed" }))
      })
    )
  }

  #summary(task: Task): Effect.Effect<string, SummaryFailed> {
    const { wording, chunks: rules } = this.#policy
    return Effect.gen({ self: this }, function* () {
      const output = Math.min(
        task.maxTokens,
        this.#options.outputLimit ?? defaults.outputLimit,
        Math.floor(this.#window / 4)
      )
      const ask = (text: string) => this.#ask(text, output)
      // Leave a tenth free: tokens of a whole text are not the sum of its parts.
      const bare = this.#tokensOf(
        wording.summarise({ transcript: "", part: 99, parts: 99, required: task.required }),
        output
      )
      const room = Math.floor((this.#window - output - bare) * 0.9)
      const budget = task.in === "chunks" ? Math.min(rules.maxTokens, room) : room
      if (budget < leastBudget || output < leastOutput) return yield* this.#failed("its window is too small")

      const { messages, required } = task
      const chunks =
        task.in === "one"
          ? this.#squeezed(messages, budget)
          : Chunks.of(this.#entries(messages, Math.floor(budget / 2)), {
              budget,
              overlap: Math.floor(rules.overlap * budget),
              meter: this.#meter
            })
      if (chunks.length === 0) return yield* this.#failed("its window is too small")

      const requests = chunks.map((entries, i) => {
        const here = required.filter((id) => entries.some(({ body }) => body.includes(id)))
        const transcript = Transcribed.transcript(entries)
        return wording.summarise({ transcript, part: i + 1, parts: chunks.length, required: here })
      })
      const last = yield* this.#merged(requests, required, budget, ask)
      return yield* this.#checked(last, task, ask)
    })
  }

  /** Summarises the chunks and returns the request that merges them into the last summary. */
  #merged(
    requests: ReadonlyArray<string>,
    required: ReadonlyArray<string>,
    budget: number,
    ask: (text: string) => Effect.Effect<string, SummaryFailed>
  ): Effect.Effect<string, SummaryFailed> {
    const [only, ...others] = requests
    if (only !== undefined && others.length === 0) return Effect.succeed(only)
    return Effect.gen({ self: this }, function* () {
      const texts = yield* Effect.forEach(requests, ask, { concurrency: this.#policy.chunks.concurrency })
      const groups = Chunks.groups(texts, budget, (text) =>
        Transcribed.tokensOf(Transcribed.summaries([text]), this.#meter)
      )
      if (groups.length === texts.length)
        return yield* this.#failed("its summaries do not fit together into its window")
      const merges = groups.map((group) =>
        this.#policy.wording.merge({
          summaries: Transcribed.summaries(group),
          required: required.filter((id) => group.some((text) => text.includes(id)))
        })
      )
      return yield* this.#merged(merges, required, budget, ask)
    })
  }

  /** Checks that the summary has all required identifiers. Asks a second time when some are missing. */
  #checked(
    request: string,
    { messages, required }: Task,
    ask: (text: string) => Effect.Effect<string, SummaryFailed>
  ): Effect.Effect<string, SummaryFailed> {
    return Effect.gen({ self: this }, function* () {
      const first = yield* ask(request)
      const lost = Identifiers.missing(required, first)
      if (lost.length === 0) return first
      const reminder = this.#policy.wording.missing(Identifiers.inContext(lost, messages))
      const second = yield* ask(`${request}\n\n${reminder}`)
      const still = Identifiers.missing(required, second)
      return still.length === 0 ? second : yield* this.#failed(`it lost ${still.length} required identifiers`)
    })
  }

  /** Makes one call, if the limits allow it. */
  #ask(text: string, output: number): Effect.Effect<string, SummaryFailed> {
    return Effect.gen({ self: this }, function* () {
      const { model, maxTokens = Infinity, maxCost = Infinity } = this.#options
      const input = this.#tokensOf(text, output)
      if (input + output > this.#window)
        return yield* this.#failed("its request does not fit into its window")
      if (this.#spent.tokens + input + output > maxTokens)
        return yield* this.#failed("its token limit is reached")
      if ((this.#spent.costUsd ?? 0) >= maxCost) return yield* this.#failed("its cost limit is reached")
      // Reserve first and correct afterwards, so that concurrent calls do not share the same room.
      this.#add({ calls: 1, tokens: input + output, costUsd: undefined })
      const response = yield* model
        .generateText({ prompt: this.#prompt(text, output) })
        .pipe(
          Effect.provideService(OutputLimit, { start: output, max: output }),
          Effect.provideService(ClientOptions, undefined),
          Effect.provideService(RefusedAnswers, "fail")
        )
      const { inputTokens, outputTokens } = response.usage
      const tokens = (inputTokens.total ?? input) + (outputTokens.total ?? output)
      const costUsd = Option.getOrUndefined(answeredBy(response.content))?.costUsd
      this.#add({ calls: 0, tokens: tokens - input - output, costUsd })
      if (response.finishReason !== "stop" && response.finishReason !== "unknown") {
        return yield* this.#failed(`its answer ended with "${response.finishReason}"`)
      }
      const said = Transcribed.summary(response.text)
      return said === "" ? yield* this.#failed("its answer is empty") : said
    }).pipe(
      // The model's error may quote the conversation, so it is not repeated here.
      Effect.catchTag("AiError", () => this.#failed("the summariser failed"))
    )
  }

  #add({ calls, tokens, costUsd }: Spent): void {
    const before = this.#spent
    this.#spent = {
      calls: before.calls + calls,
      tokens: before.tokens + tokens,
      costUsd: costUsd === undefined ? before.costUsd : (before.costUsd ?? 0) + costUsd
    }
  }

  #prompt(text: string, output: number): Prompt.Prompt {
    const instructions = this.#policy.wording.instructions({ maxTokens: output })
    return Prompt.fromMessages([
      Prompt.makeMessage("system", { content: instructions }),
      Transcribed.said(text)
    ])
  }

  #tokensOf(text: string, output: number): number {
    return this.#prompt(text, output).content.reduce((sum, message) => sum + this.#meter.message(message), 0)
  }

  #entries(messages: ReadonlyArray<Prompt.Message>, perEntry: number): ReadonlyArray<Transcribed.Entry> {
    return Transcribed.entries(messages, {
      meter: this.#meter,
      perEntry,
      window: this.#window,
      policy: this.#policy
    })
  }

  /** Puts all messages into one chunk and shortens each as far as necessary. Empty when there are too many. */
  #squeezed(
    messages: ReadonlyArray<Prompt.Message>,
    budget: number
  ): ReadonlyArray<ReadonlyArray<Transcribed.Entry>> {
    for (let perEntry = Math.floor(budget / 2); perEntry >= leastEntry; perEntry = Math.floor(perEntry / 2)) {
      const entries = this.#entries(messages, perEntry)
      if (entries.reduce((sum, { tokens }) => sum + tokens, 0) <= budget) return [entries]
    }
    return []
  }

  #failed(why: string): SummaryFailed {
    return new SummaryFailed({ why })
  }
}

/**
 * Keeps the summary under the guards of the agent, but outside its conversation: the prompt is not the agent's
 * transcript.
 */
const apart = <A, E>(summary: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.withFiber((fiber) => {
    const branch = branchOf(fiber)
    if (branch === undefined) return summary
    return Effect.suspend(() => {
      const own = branch.tool(fiber)
      return Effect.onExit(Effect.provideContext(summary, own.context), () => Effect.sync(() => own.end()))
    })
  })

/** Minimum tokens of a chunk, of a message in it, and of a summary. Below them a call is not worth it. */
const leastBudget = 256
const leastEntry = 24
const leastOutput = 64
