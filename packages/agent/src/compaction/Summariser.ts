/**
 * Asks a model for summaries, within bounds of its own: time, tokens, money, and its own window.
 *
 * It goes through whatever resilience its model has. Every way in which it can fail, an error, a defect, a cut or empty
 * answer, a lost identifier, a bound that is reached, is one {@link SummaryFailed}: the next tier takes over, and nothing
 * is lost. It repeats a call only once, when identifiers were missing.
 *
 * While it asks, {@link Asking} is set: compaction inside of its calls does not ask it again. Under a `SafetyGuard` its
 * calls count like those of the agent, and are not in the agent's conversation.
 */
import { Cause, Context, Data, Duration, Effect, Option } from "effect"
import { Prompt } from "effect/ai"
import type { LanguageModel } from "effect/ai"
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

export interface Options {
  /** Who summarises: a cheap model will do. */
  readonly model: Context.Service.Shape<typeof LanguageModel.LanguageModel>
  /** Its name, for the counter. Default: that of the conversation's model. */
  readonly name?: string | undefined
  /** Its window in tokens. Default: that of the conversation's model. */
  readonly window?: number | undefined
  /** Tokens of one summary. Default 4,096, and never more than a quarter of its window. */
  readonly outputLimit?: number | undefined
  /** For all calls of one compaction. Default 2 minutes. */
  readonly deadline?: Duration.Input | undefined
  /** Tokens, in and out, of all calls of one compaction. Default: no limit. */
  readonly maxTokens?: number | undefined
  /** US dollars of one compaction, where prices are known: no call is made once they are spent. Default: no limit. */
  readonly maxCost?: number | undefined
}

export const defaults = { outputLimit: 4_096, deadline: "2 minutes" } as const

const { is } = Check

/** The checks of its fields. */
export const checks: Check.Checks<Options> = {
  model: is.required(Kind.languageModel),
  name: Kind.name,
  window: Kind.count,
  outputLimit: Kind.count,
  deadline: Kind.finiteDuration(),
  maxTokens: Kind.count,
  maxCost: is.number({ min: 0 })
}

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

/** There is no summary. `why` has nothing of the conversation. */
export class SummaryFailed extends Data.TaggedError("SummaryFailed")<{ readonly why: string }> {}

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** Whether this fiber is inside a call of a summariser. */
export const Asking: Context.Reference<boolean> = Context.Reference<boolean>(
  "@outlast/agent/compaction/Summariser/Asking",
  { defaultValue: () => false }
)

/** What one compaction has spent on summaries. */
export interface Spent {
  readonly calls: number
  /** In and out; estimated where the model does not say. */
  readonly tokens: number
  /** US dollars; `undefined` where no price is known. */
  readonly costUsd: number | undefined
}

export interface Task {
  /** What goes. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Identifiers that must be in the summary. */
  readonly required: ReadonlyArray<string>
  /** Tokens that the summary may have. */
  readonly maxTokens: number
  /** At once, in one call, or in as many as it takes. */
  readonly in: "one" | "chunks"
}

/** The summariser of one compaction: bounds hold for all its tasks together. */
export class Summariser {
  readonly #options: Options
  readonly #policy: CompactionPolicy
  readonly #meter: Meter
  readonly #window: number
  #spent: Spent = { calls: 0, tokens: 0, costUsd: undefined }

  constructor(
    options: Options,
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

  /** The text of a summary. A model that interrupts itself has failed; an interruption from outside ends all. */
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
        // What a model says in its error is not ours to repeat.
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
      // A tenth is left free: a tokenizer does not count a whole as the sum of its parts.
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

  /** The request of the last summary, after the summaries that it needs are there. */
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

  /** The summary with all that is required in it: asked for a second time, if not. */
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

  /** One call, if the bounds leave room for it. */
  #ask(text: string, output: number): Effect.Effect<string, SummaryFailed> {
    return Effect.gen({ self: this }, function* () {
      const { model, maxTokens = Infinity, maxCost = Infinity } = this.#options
      const input = this.#tokensOf(text, output)
      if (input + output > this.#window)
        return yield* this.#failed("its request does not fit into its window")
      if (this.#spent.tokens + input + output > maxTokens) return yield* this.#failed("its tokens are spent")
      if ((this.#spent.costUsd ?? 0) >= maxCost) return yield* this.#failed("its money is spent")
      // Counted before, corrected behind: calls at the same time must not all think that there is room.
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
      // What the model fails with is its own.
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

  /** All messages in one chunk, each as short as it takes; none, if there are too many. */
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

/** Under the guards of the agent, but in no conversation of its: the summariser's prompt is not the agent's transcript. */
const apart = <A, E>(summary: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.withFiber((fiber) => {
    const branch = branchOf(fiber)
    if (branch === undefined) return summary
    return Effect.suspend(() => {
      const own = branch.tool(fiber)
      return Effect.onExit(Effect.provideContext(summary, own.context), () => Effect.sync(() => own.end()))
    })
  })

/** Tokens below which a chunk, a message in it or a summary is not worth a call. */
const leastBudget = 256
const leastEntry = 24
const leastOutput = 64
