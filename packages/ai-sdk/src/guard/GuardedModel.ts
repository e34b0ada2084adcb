/**
 * A model of the AI SDK under the guard of a run: each call is admitted and counted.
 *
 * A stopped run ends here, where nothing that the program sets can skip it: the call throws {@link SafetyStop}, or
 * answers with its message (`onStop: "finish"`).
 */
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
  LanguageModelV4Usage
} from "@ai-sdk/provider"
import type { Context } from "effect"
import type { Ended, Run } from "./Run.ts"

/** A model. Outlast's own takes a context beside the options, through which waits are reported. */
export interface Askable extends Omit<LanguageModelV4, "doGenerate" | "doStream"> {
  readonly doGenerate: (
    options: LanguageModelV4CallOptions,
    context?: Context.Context<never>
  ) => PromiseLike<LanguageModelV4GenerateResult>
  readonly doStream: (
    options: LanguageModelV4CallOptions,
    context?: Context.Context<never>
  ) => PromiseLike<LanguageModelV4StreamResult>
}

/** The models inside the guarded ones. A `prepareStep` may return the model that it was given. */
const bare = new WeakMap<object, Askable>()

/** `runOf` finds the run of a call. */
export const guarded = (given: Askable, runOf: () => Run): LanguageModelV4 => {
  const model = bare.get(given) ?? given
  const made: LanguageModelV4 = {
    specificationVersion: model.specificationVersion,
    provider: model.provider,
    modelId: model.modelId,
    get supportedUrls() {
      return model.supportedUrls
    },
    doGenerate: async (options) => {
      const run = runOf()
      if (!run.guard.ask()) return stoppedAnswer(run)
      const { context, end } = run.guard.asking()
      try {
        const result = await model.doGenerate(told(options, run), context)
        ended(run, result)
        return result.content.every((part) => goesOn(run, part)) ? result : stoppedAnswer(run)
      } finally {
        end()
      }
    },
    doStream: async (options) => {
      const run = runOf()
      if (!run.guard.ask()) return { stream: streamOf(stoppedParts(run)) }
      const { context, end } = run.guard.asking()
      try {
        const { stream, ...result } = await model.doStream(told(options, run), context)
        return { ...result, stream: watched(stream, run, end) }
      } catch (error) {
        end()
        throw error
      }
    }
  }
  bare.set(made, model)
  return made
}

/** Counts an answer at its end. */
const ended = ({ guard, fitting }: Run, end: Ended): void => {
  const { inputTokens, outputTokens } = end.usage
  const cost = end.providerMetadata?.["outlast"]?.["costUsd"]
  guard.spent((inputTokens.total ?? 0) + (outputTokens.total ?? 0), typeof cost === "number" ? cost : 0)
  fitting?.answered(end)
}

/** Passes the parts on until the run is stopped. */
const watched = (
  stream: ReadableStream<LanguageModelV4StreamPart>,
  run: Run,
  end: () => void
): ReadableStream<LanguageModelV4StreamPart> => {
  const reader = stream.getReader()
  /** Ends of the blocks that have begun. */
  const open = new Map<string, LanguageModelV4StreamPart>()
  return new ReadableStream<LanguageModelV4StreamPart>({
    async pull(controller) {
      try {
        const { done, value: part } = await reader.read()
        if (done) {
          end()
          return controller.close()
        }
        if (part.type === "text-start" || part.type === "reasoning-start") {
          open.set(part.id, { type: part.type === "text-start" ? "text-end" : "reasoning-end", id: part.id })
        } else if (part.type === "text-end" || part.type === "reasoning-end") open.delete(part.id)
        else if (part.type === "finish") ended(run, part)
        if (goesOn(run, part)) return controller.enqueue(part)
        end()
        for (const last of [...open.values(), ...stoppedParts(run)]) controller.enqueue(last)
        controller.close()
        await reader.cancel()
      } catch (error) {
        end()
        controller.error(error)
      }
    },
    cancel: (reason) => {
      end()
      return reader.cancel(reason)
    }
  })
}

const streamOf = (
  parts: ReadonlyArray<LanguageModelV4StreamPart>
): ReadableStream<LanguageModelV4StreamPart> =>
  new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part)
      controller.close()
    }
  })

/** Counts a part of an answer. False when the run is stopped. */
const goesOn = (run: Run, part: LanguageModelV4Content | LanguageModelV4StreamPart): boolean => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return run.guard.said(part.text)
    case "text-delta":
    case "reasoning-delta":
      return run.guard.said(part.delta)
    case "tool-call":
      return part.providerExecuted !== true || run.guard.ranByProvider(part.toolName)
    default:
      return true
  }
}

/** The call, with what its model has to be told. The conversation of the program does not keep it. */
const told = (options: LanguageModelV4CallOptions, { guard }: Run): LanguageModelV4CallOptions => {
  const nudges = guard.takeNudges()
  if (nudges.length === 0) return options
  const content = nudges.map((text) => ({ type: "text" as const, text }))
  return { ...options, prompt: [...options.prompt, { role: "user", content }] }
}

// -----------------------------------------------------------------------------
// The end of a stopped run
// -----------------------------------------------------------------------------

const finishReason = { unified: "stop", raw: "outlast-stop" } as const

const usage: LanguageModelV4Usage = {
  inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 0, text: 0, reasoning: 0 }
}

const stoppedAnswer = (run: Run): LanguageModelV4GenerateResult => {
  const { stopped } = run
  if (run.onStop !== "finish") throw stopped
  return { content: [{ type: "text", text: textOf(run) }], finishReason, usage, warnings: [] }
}

const stoppedParts = (run: Run): ReadonlyArray<LanguageModelV4StreamPart> => {
  const id = "outlast-stop"
  return run.onStop === "finish"
    ? [
        { type: "text-start", id },
        { type: "text-delta", id, delta: textOf(run) },
        { type: "text-end", id },
        { type: "finish", finishReason, usage }
      ]
    : [
        { type: "error", error: run.stopped },
        { type: "finish", finishReason: { unified: "error", raw: finishReason.raw }, usage }
      ]
}

const textOf = ({ stopped }: Run): string => stopped?.message ?? ""
