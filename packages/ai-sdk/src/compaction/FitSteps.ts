/**
 * Keeps the conversation of one run within the window of its model, before each of its steps.
 *
 * The compacted messages replace those of the AI SDK, which carries them forward. Before the first step, the model is
 * the first that can be used; then it is the one that answered last.
 */
import type { Compaction } from "@outlast/agent"
import { Compacting } from "@outlast/agent/internal"
import { ServedTools } from "@outlast/providers/internal"
import { Warnings } from "@outlast/resilience"
import type { Instructions, ModelMessage, ToolSet } from "ai"
import { asSchema } from "ai"
import { Effect, Option } from "effect"
import type { Prompt, Tool } from "effect/ai"
import { LanguageModel, Response } from "effect/ai"
import type { Ended } from "../guard/Run.ts"
import * as ModelMessages from "./ModelMessages.ts"

export interface CompactionOptions {
  /**
   * Tokens of input and output together. Default: the known window of the model that answers next. Without a known
   * window the conversation is compacted when a provider refuses it.
   */
  readonly window?: number | undefined
}

/** Services that a run needs. */
export type Services = Compaction.Compaction | LanguageModel.LanguageModel

export class FitSteps {
  readonly #options: CompactionOptions
  readonly #tools: ToolSet
  #compacting: Compacting.Compacting | undefined
  #last: Compacting.Last
  /** The prompt of the last step and whether its usage may teach its size. */
  #prompt: Prompt.Prompt | undefined
  /** The run has said that the window is unknown. */
  #isWarned = false

  constructor(options: CompactionOptions, tools: ToolSet) {
    this.#options = options
    this.#tools = tools
  }

  /** The messages of a step. Fails with `CannotFit` or `ContextExhausted` if they cannot fit. */
  fit(
    messages: Array<ModelMessage>,
    instructions: Instructions | undefined
  ): Effect.Effect<Array<ModelMessage>, Error, Services> {
    return Effect.gen({ self: this }, function* () {
      const system = systemOf(instructions)
      const prompt = ModelMessages.toPrompt([...system, ...messages])
      const compacting = (this.#compacting ??= yield* this.#open(prompt))
      const fitted = yield* compacting.fit(prompt, this.#last, (model) => {
        if (this.#isWarned) return Effect.void
        this.#isWarned = true
        return unknownWindow(model)
      })
      this.#prompt = fitted?.prompt ?? prompt
      // System messages stay as they are, at the beginning.
      return fitted === undefined ? messages : ModelMessages.fromPrompt(fitted.prompt).slice(system.length)
    })
  }

  /** Learns from the usage of an answer. */
  answered({ usage, providerMetadata }: Ended): Effect.Effect<void, never, Services> {
    const { target, model } = providerMetadata?.["outlast"] ?? {}
    this.#last =
      typeof target === "string" && typeof model === "string" ? Option.some({ target, model }) : Option.none()
    const prompt = this.#prompt
    if (prompt === undefined || this.#compacting === undefined) return Effect.void
    const { inputTokens, outputTokens } = usage
    const finish = Response.makePart("finish", {
      reason: "stop",
      usage: new Response.Usage({
        inputTokens: {
          total: inputTokens.total,
          uncached: undefined,
          cacheRead: undefined,
          cacheWrite: undefined
        },
        outputTokens: { total: outputTokens.total, text: undefined, reasoning: undefined }
      }),
      response: undefined,
      ...(providerMetadata === undefined
        ? undefined
        : { metadata: providerMetadata as Response.ProviderMetadata })
    })
    return this.#compacting.answered(prompt, [finish])
  }

  #open(prompt: Prompt.Prompt): Effect.Effect<Compacting.Compacting, never, Services> {
    return Effect.gen({ self: this }, function* () {
      const tools = yield* Effect.promise(() => offered(this.#tools))
      const model = yield* LanguageModel.LanguageModel
      const opened = yield* Compacting.open(this.#options, tools, prompt, model)
      // Only the option `false` opens none.
      return opened ?? (yield* Effect.die("Compaction is off."))
    })
  }
}

const systemOf = (instructions: Instructions | undefined): ReadonlyArray<ModelMessage> => {
  if (instructions === undefined) return []
  if (typeof instructions === "string") return [{ role: "system", content: instructions }]
  return Array.isArray(instructions) ? instructions : [instructions]
}

/** The tools as a model sees them, for their size. */
const offered = (tools: ToolSet): Promise<ReadonlyArray<Tool.Any>> =>
  Promise.all(
    Object.entries(tools)
      .filter(([, { type }]) => type !== "provider")
      .map(async ([name, { description, inputSchema }]) =>
        ServedTools.offered({
          type: "function",
          name,
          description: typeof description === "string" ? description : "",
          inputSchema: await asSchema(inputSchema).jsonSchema
        })
      )
  )

const unknownWindow = (model: string | undefined): Effect.Effect<void> =>
  Warnings.write({
    level: "Warn",
    text: `The context window of ${model ?? "the model"} is unknown: its conversation is compacted when the provider refuses it. Set compaction: { window }.`
  })
