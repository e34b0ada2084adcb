/** Fixtures for compaction in a run: a tool with large results, models that call it, and records of their requests. */
import { Effect, Schema, Stream } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import type { AiError, Response } from "effect/ai"
import { Agent, Failover } from "@outlast/agent"
import type { AgentEvent, ModelInfo, Outcome, ProviderModel } from "@outlast/agent"
import { ContextWindows, TokenCounter } from "@outlast/agent/compaction"
import type { CompactionEvent } from "@outlast/agent/compaction"
import { ResilienceEvents } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import { lorem, turn, user } from "../compaction/support.ts"
import { policy, text, thinking } from "../support.ts"

const Look = Tool.make("look", {
  description: "Looks at a page.",
  parameters: Schema.Struct({ page: Schema.Finite }),
  success: Schema.String
})
export const Kit = Toolkit.make(Look)

/** Results of this number of tokens, each with a different text. */
export const looking = (tokens: number) => {
  let n = 0
  return Kit.toLayer({ look: () => Effect.sync(() => `Page ${++n}. ${lorem(tokens)}`) })
}

const meter = TokenCounter.estimate.for(undefined)

/** Estimated tokens of a request with {@link Kit}. */
export const tokensOf = ({ content }: Prompt.Prompt): number =>
  content.reduce((sum, message) => sum + meter.message(message), meter.tools([Look]))

const idsOf = (message: Prompt.Message, type: "tool-call" | "tool-result"): ReadonlyArray<string> =>
  message.role === "assistant" || message.role === "tool"
    ? message.content.flatMap((part) => (part.type === type && "id" in part ? [part.id] : []))
    : []

/** Calls without their result in the next message, and results without their call in the previous one. */
export const brokenPairs = ({ content }: Prompt.Prompt): ReadonlyArray<string> =>
  content.flatMap((message, i) => {
    const [before, after] = [content[i - 1], content[i + 1]]
    const results = after?.role === "tool" ? idsOf(after, "tool-result") : []
    const calls = before?.role === "assistant" ? idsOf(before, "tool-call") : []
    return [
      ...idsOf(message, "tool-call").filter((id) => !results.includes(id)),
      ...(message.role === "tool" ? idsOf(message, "tool-result").filter((id) => !calls.includes(id)) : [])
    ]
  })

/** `Agent.run`, and `Agent.stream` read to its end. */
export const ways = {
  run: (options: Agent.Options<typeof Kit.tools>) => Agent.run(options),
  stream: (options: Agent.Options<typeof Kit.tools>) =>
    Effect.flatMap(Stream.runCollect(Agent.stream(options)), (parts) => {
      const last = parts.at(-1)
      return last?.type === "outcome" ? Effect.succeed(last.outcome) : Effect.die("no outcome")
    })
} satisfies Record<
  string,
  (options: Agent.Options<typeof Kit.tools>) => Effect.Effect<Outcome.Outcome, unknown, unknown>
>

export const recording = () => {
  const events: Array<AgentEvent.AgentEvent | CompactionEvent.CompactionEvent> = []
  const layer = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => {
      // Other events have other tags, which the tests ignore.
      events.push(event as AgentEvent.AgentEvent | CompactionEvent.CompactionEvent)
    })
  )
  const of = <Tag extends (typeof events)[number]["_tag"]>(tag: Tag) =>
    events.filter(
      (event): event is Extract<(typeof events)[number], { readonly _tag: Tag }> => event._tag === tag
    )
  const transitions = () => of("AgentTransition").map(({ transition }) => transition)
  return { events, layer, of, transitions }
}

/** A memory of rejections that ends with the test. */
export const windows = (known: Readonly<Record<string, number>> = {}) =>
  ContextWindows.layer((model) => known[model])

type Said = ReadonlyArray<Response.PartEncoded>

/** A text in the form of a stream. */
const streamed = (part: Response.PartEncoded): ReadonlyArray<Response.StreamPartEncoded> =>
  part.type === "text"
    ? text.block(part.text)
    : part.type === "reasoning"
      ? thinking.block(part.text, "s")
      : [part]

/** A model that is not Outlast's. `answer` returns the answer to the n-th prompt, from 0. */
export const plain = (answer: (prompt: Prompt.Prompt, n: number) => Effect.Effect<Said, AiError.AiError>) => {
  const asked: Array<Prompt.Prompt> = []
  const said = (prompt: Prompt.Prompt) => Effect.suspend(() => answer(prompt, asked.push(prompt) - 1))
  return Effect.map(
    LanguageModel.make({
      generateText: ({ prompt }) => Effect.map(said(prompt), (parts) => [...parts]),
      streamText: ({ prompt }) =>
        Stream.unwrap(Effect.map(said(prompt), (parts) => Stream.fromIterable(parts.flatMap(streamed))))
    }),
    (model) => ({ asked, model })
  )
}

export const goal = "GOAL-17: find the page about rivers."

/** About 2,400 tokens in 20 turns. Most of them may be cut. */
export const long = Prompt.fromMessages([
  user(goal),
  ...Array.from({ length: 20 }, (_, i) => turn(`call_${i}`, lorem(70))).flat(),
  user("Go on.")
])

/** One call of the tool, then the end. */
export const oneTurn: FaultPlan.FaultPlan["answers"] = ({ messages }) =>
  messages.at(-1)?.role === "tool"
    ? { text: "done", usage: { input: 0 } }
    : { toolCalls: [{ name: "look", params: { page: 1 } }], usage: { input: 0 } }

export const named = (model: string, info: ModelInfo.ModelInfo = {}) =>
  ScriptedModel.make({ provider: "anthropic", model, info, plan: { answers: oneTurn } })

export const sizes = (model: ScriptedModel.ScriptedModel) =>
  Effect.map(model.requests, (requests) => requests.map(({ prompt }) => tokensOf(prompt)))

export const chain = (model: ProviderModel.TargetSpec) => Failover.layer([model], { policy })
