/** Shared test support of compaction: scripted summarisers, and recorded events. */
import { Effect, Stream } from "effect"
import { AiError, LanguageModel, Prompt } from "effect/ai"
import type { Response } from "effect/ai"
import { ResilienceEvents } from "@outlast/resilience"
import { TokenCounter } from "@outlast/agent/compaction"
import type { CompactionEvent, Summariser } from "@outlast/agent/compaction"

export const user = (said: string): Prompt.UserMessage =>
  Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: said })] })
export const assistant = (said: string): Prompt.AssistantMessage =>
  Prompt.makeMessage("assistant", { content: [Prompt.makePart("text", { text: said })] })
export const thinking = (said: string): Prompt.AssistantMessage =>
  Prompt.makeMessage("assistant", {
    content: [
      Prompt.makePart("reasoning", { text: "hm", options: { messages: { signature: "s" } } }),
      Prompt.makePart("text", { text: said })
    ]
  })
export const system = (content: string): Prompt.SystemMessage => Prompt.makeMessage("system", { content })

/** A turn of one call and its result. */
export const turn = (
  id: string,
  result: unknown,
  params: unknown = { q: id },
  options: Prompt.ProviderOptions = {}
): ReadonlyArray<Prompt.Message> => [
  Prompt.makeMessage("assistant", {
    content: [Prompt.makePart("tool-call", { id, name: "search", params, providerExecuted: false, options })]
  }),
  Prompt.makeMessage("tool", {
    content: [
      Prompt.makePart("tool-result", {
        id,
        name: "search",
        result,
        isFailure: false,
        providerExecuted: false
      })
    ]
  })
]

export const textOf = (message: Prompt.Message | undefined): string =>
  message === undefined ? "" : message.role === "system" ? message.content : JSON.stringify(message.content)

export const tokensOf = (prompt: Prompt.Prompt): number => {
  const meter = TokenCounter.estimate.for(undefined)
  return prompt.content.reduce((sum, message) => sum + meter.message(message), 0)
}

export const lorem = (tokens: number): string => "word ".repeat(Math.ceil((tokens * 4) / 5))

/** A model with scripted replies, and the prompts it received. */
export interface Scripted {
  readonly asked: ReadonlyArray<Prompt.Prompt>
  readonly options: Summariser.Built
}

export type Reply = (
  request: string,
  n: number
) => string | Effect.Effect<ReadonlyArray<Response.PartEncoded>, AiError.AiError>

export const finish = (
  reason: Response.FinishReason = "stop",
  input?: number,
  output?: number
): Response.FinishPartEncoded => ({
  type: "finish",
  reason,
  usage: {
    inputTokens: { uncached: input, total: input, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: output, text: output, reasoning: undefined }
  }
})

export const scripted = (
  reply: Reply,
  options: Omit<Summariser.Options, "model"> = {}
): Effect.Effect<Scripted> => {
  const asked: Array<Prompt.Prompt> = []
  return Effect.map(
    LanguageModel.make({
      generateText: ({ prompt }) => {
        const n = asked.push(prompt)
        const request = prompt.content.at(-1)
        const said = reply(
          request?.role === "user" && request.content[0]?.type === "text" ? request.content[0].text : "",
          n
        )
        return typeof said === "string"
          ? Effect.succeed([{ type: "text", text: said }, finish()])
          : Effect.map(said, (parts) => [...parts])
      },
      streamText: () => Stream.empty
    }),
    (model) => ({ asked, options: { ...options, model } })
  )
}

export const broken = AiError.make({
  module: "Test",
  method: "generateText",
  reason: new AiError.InternalProviderError({ description: "down", metadata: {} })
})

/** A summariser with a constant short reply. */
export const terse = (options: Omit<Summariser.Options, "model"> = {}) => scripted(() => "SUMMARY", options)

export const recording = () => {
  const events: Array<CompactionEvent.CompactionEvent> = []
  const layer = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => {
      // Only compaction publishes events in these tests.
      events.push(event as CompactionEvent.CompactionEvent)
    })
  )
  return { events, layer, tags: () => events.map(({ _tag }) => _tag) }
}

/** A goal, turns with large results, and an end. */
export const working = (turns: number, tokens = 100) =>
  Prompt.fromMessages([
    system("Be kind."),
    user("Build it."),
    ...Array.from({ length: turns }, (_, i) => turn(`call_${i}`, lorem(tokens))).flat(),
    assistant("Done so far."),
    user("Go on.")
  ])
/** A goal and a long dialogue. */
export const talking = (messages: number, tokens = 100) =>
  Prompt.fromMessages([
    user("Build it."),
    ...Array.from({ length: messages }, (_, i) =>
      i % 2 === 0 ? assistant(`Answer ${i}. ${lorem(tokens)}`) : user(`Question ${i}. ${lorem(tokens)}`)
    ),
    assistant("Done so far."),
    user("Go on.")
  ])
/** Default window of the tests, in tokens. */
export const window = 2_000
