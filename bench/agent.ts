/**
 * The cost of a turn: the model answers at once and its tools do nothing. The baseline is a loop written by hand, without
 * limits, time limits of tools, compaction or events.
 *
 * With `OUTLAST_BENCH_BASELINE=DIR` a second table compares the turns with those of another checkout, round by round in
 * the same process.
 */
import * as effect from "effect"
import * as ai from "effect/ai"
import type { Prompt, Response } from "effect/ai"
import { join } from "node:path"
import * as agent from "@outlast/agent"
import type { Contender, Report } from "./measure.ts"
import { measure } from "./measure.ts"

/** Limit for a turn, as a ratio to the other checkout. */
const target = 1.05
const rounds = 31
const turns = 10
const calls = 3

/** The modules of one checkout. */
interface Modules {
  readonly effect: Pick<typeof effect, "Effect" | "Layer" | "Logger" | "ManagedRuntime" | "Schema" | "Stream">
  readonly ai: Pick<typeof ai, "LanguageModel" | "Prompt" | "Tool" | "Toolkit">
  readonly agent: Pick<typeof agent, "Agent" | "Compaction" | "SafetyGuard">
}

const finish = (reason: Response.FinishReason): Response.FinishPartEncoded => ({
  type: "finish",
  reason,
  usage: {
    inputTokens: { uncached: 12, total: 12, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 20, text: 20, reasoning: 0 }
  }
})

/** Asks for tools until the conversation has enough answers. */
const answer = ({ content }: Prompt.Prompt): Array<Response.PartEncoded> => {
  const turn = content.filter(({ role }) => role === "assistant").length
  if (turn >= turns - 1) return [{ type: "text", text: "Done." }, finish("stop")]
  return [
    { type: "text", text: "I look at the next pages." },
    ...Array.from({ length: calls }, (_, i) => ({
      type: "tool-call" as const,
      id: `call-${turn}-${i}`,
      name: "look",
      params: { page: turn * calls + i }
    })),
    finish("tool-calls")
  ]
}

const contendersOf = ({ effect, ai, agent }: Modules): ReadonlyArray<Contender> => {
  const { Effect, Layer, Logger, ManagedRuntime, Schema, Stream } = effect
  const Look = ai.Toolkit.make(
    ai.Tool.make("look", { parameters: Schema.Struct({ page: Schema.Finite }), success: Schema.String })
  )
  const model = Layer.effect(
    ai.LanguageModel.LanguageModel,
    ai.LanguageModel.make({
      generateText: ({ prompt }) => Effect.succeed(answer(prompt)),
      streamText: ({ prompt }) =>
        Stream.fromIterable(
          answer(prompt).flatMap((part): ReadonlyArray<Response.StreamPartEncoded> =>
            part.type === "text"
              ? [
                  { type: "text-start", id: "0" },
                  { type: "text-delta", id: "0", delta: part.text },
                  { type: "text-end", id: "0" }
                ]
              : // The other parts of this model are the same in a stream.
                [part as Response.StreamPartEncoded]
          )
        )
    })
  )
  const tools = Look.toLayer({ look: ({ page }) => Effect.succeed(`The text of page ${page}.`) })
  const runtime = ManagedRuntime.make(
    Layer.mergeAll(model, tools, agent.Compaction.layer()).pipe(Layer.provide(Logger.layer([])))
  )
  const options = { prompt: "Read the book.", toolkit: Look, maxTurns: 50 } as const
  const byHand = Effect.gen(function* () {
    let prompt = ai.Prompt.make("Read the book.")
    while (true) {
      const response = yield* ai.LanguageModel.generateText({ prompt, toolkit: Look })
      prompt = ai.Prompt.concat(prompt, ai.Prompt.fromResponseParts(response.content))
      if (response.finishReason !== "tool-calls") return
    }
  })
  const times = (name: string, run: typeof byHand): Contender => ({
    name,
    run: async (count) => {
      for (let i = 0; i < count; i++) await runtime.runPromise(Effect.orDie(run))
    }
  })
  const without = { ...options, compaction: false } as const
  const fitting = { ...options, compaction: { window: 200_000 } } as const
  return [
    times("a loop by hand", byHand),
    times("Agent.run", Effect.asVoid(Effect.orDie(agent.Agent.run(without)))),
    times("Agent.stream", Effect.orDie(Stream.runDrain(agent.Agent.stream(without)))),
    times("Agent.run, compaction", Effect.asVoid(Effect.orDie(agent.Agent.run(fitting)))),
    times(
      "Agent.run, guard",
      Effect.asVoid(Effect.orDie(agent.Agent.run(without).pipe(agent.SafetyGuard.run())))
    )
  ]
}

export const agentLoop = async ({ say, table }: Report): Promise<void> => {
  const own = contendersOf({ effect, ai, agent })
  const [first, ...others] = own
  if (first === undefined) return
  const options = { rounds, calls: 40, unitsPerCall: turns }
  say(`A turn with ${calls} tool calls, ${rounds} rounds, Node ${process.version}`)
  table("Turn, µs per turn (ratio: to a loop by hand)", await measure([first, ...others], options))
  const dir = process.env["OUTLAST_BENCH_BASELINE"]
  if (dir !== undefined) await compareWith({ say, table }, dir, options.rounds, options.calls)
}

/** Compares the turns with those of the checkout in `dir`. */
export const compareWith = async (
  { table }: Report,
  dir: string,
  rounds: number,
  calls: number
): Promise<void> => {
  const own = contendersOf({ effect, ai, agent })
  const load = (path: string) => import(join(dir, path))
  // The other checkout has the same modules, of another version.
  const other = contendersOf({
    effect: (await load("node_modules/effect/dist/index.js")) as Modules["effect"],
    ai: (await load("node_modules/effect/dist/ai/index.js")) as Modules["ai"],
    agent: (await load("packages/agent/src/index.ts")) as Modules["agent"]
  })
  for (const [i, contender] of own.entries()) {
    const before = other[i]
    if (before === undefined) continue
    const figures = await measure(
      [
        { ...before, name: "the other checkout" },
        { ...contender, name: "this checkout" }
      ],
      { rounds, calls, unitsPerCall: turns }
    )
    table(`${contender.name}, µs per turn (ratio: to the other checkout)`, figures, target)
  }
}
