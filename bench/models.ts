/**
 * The models and calls that `failover.ts` measures. A model answers one turn of the event loop after it was asked, as a
 * network does at best. Nothing crosses a socket.
 */
import { Cause, Effect, Layer, Logger, ManagedRuntime, Redacted, Schema, Stream } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import type { Response } from "effect/ai"
import { Failover, KeySource } from "@outlast/agent"
import type { Chain, ProviderModel } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"

export interface Hooks {
  readonly generateText: () => Effect.Effect<Array<Response.PartEncoded>>
  readonly streamText: () => Stream.Stream<Response.StreamPartEncoded>
}

export const turn = Effect.callback<void>((resume) => {
  const handle = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(handle))
})

const finish: Response.FinishPartEncoded = {
  type: "finish",
  reason: "stop",
  usage: {
    inputTokens: { uncached: 12, total: 12, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 200, text: 200, reasoning: 0 }
  }
}

type StreamPart = Response.StreamPartEncoded

/** The parts of a streamed answer with `words` deltas. */
export const partsOf = (words: number): ReadonlyArray<StreamPart> => [
  { type: "text-start", id: "1" },
  ...Array.from({ length: words }, (): StreamPart => ({ type: "text-delta", id: "1", delta: "word " })),
  { type: "text-end", id: "1" },
  finish
]

const isFilled = <A>(array: ReadonlyArray<A>): array is readonly [A, ...Array<A>] => array.length > 0

/** Streams `parts`, `size` at a time, each array one turn of the event loop after it was asked for. */
export const streamOf = (parts: ReadonlyArray<StreamPart>, size: number): Stream.Stream<StreamPart> =>
  Stream.fromPull(
    Effect.sync(() => {
      let from = 0
      return Effect.flatMap(turn, () => {
        const array = parts.slice(from, (from += size))
        return isFilled(array) ? Effect.succeed(array) : Cause.done()
      })
    })
  )

const answer = (): Array<Response.PartEncoded> => [
  { type: "text", text: "An answer of a few words." },
  finish
]

const streamed = partsOf(200)
export const partsPerStream = streamed.length

/** A model that answers later, and streams `size` parts at a time. */
export const later = (size = 1): Hooks => ({
  generateText: () => Effect.map(turn, answer),
  streamText: () => streamOf(streamed, size)
})

/** A model whose answer is there already: the easiest path. */
export const atOnce: Hooks = { ...later(), generateText: () => Effect.succeed(answer()) }

export const specOf = (
  hooks: Pick<ProviderModel.ProviderModel, "generateText" | "streamText">,
  model: string,
  keys: ReadonlyArray<string> = []
): ProviderModel.TargetSpec => ({
  provider: "bench",
  model,
  endpoint: "",
  keys: keys.map((name) => KeySource.value(name, Redacted.make("secret"))),
  build: Effect.succeed({ info: {}, ...hooks })
})

export type Model = Layer.Layer<LanguageModel.LanguageModel, Chain.ChainError>

export const rawOf = (hooks: Hooks): Model =>
  Layer.effect(LanguageModel.LanguageModel, LanguageModel.make(hooks))

/** A runtime without loggers: each table builds its chains anew, and the third build would be reported. */
export const runtimeOf = <E>(model: Layer.Layer<LanguageModel.LanguageModel, E>) =>
  ManagedRuntime.make(Layer.provideMerge(model, Logger.layer([])))

let heard = 0
const listening = Layer.effectDiscard(ResilienceEvents.tap(() => Effect.sync(() => void heard++)))

/** The same model raw, over chains, with events, and raw once more as the control. */
export const contendersOf = (hooks: Hooks): ReadonlyArray<readonly [string, Model]> => {
  const single: Model = Failover.layer([specOf(hooks, "a")])
  const three: Model = Failover.layer([specOf(hooks, "a"), specOf(hooks, "b"), specOf(hooks, "c")])
  return [
    ["raw LanguageModel", rawOf(hooks)],
    ["Failover, 1 target", single],
    ["Failover, 3 targets", three],
    ["Failover, events", Layer.provideMerge(single, ResilienceEvents.layer())],
    [
      "Failover, events and a listener",
      Layer.provideMerge(single, Layer.provideMerge(listening, ResilienceEvents.layer()))
    ],
    ["raw again (noise)", rawOf(hooks)]
  ]
}

/** The calls of a program, each to the model of the runtime. */
export type Call = Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>

const prompt = "What is the plan?"

export const text = LanguageModel.generateText({ prompt })
export const stream = LanguageModel.streamText({ prompt })

const tools = Toolkit.make(
  ...["read_file", "write_file", "list_files", "search", "run"].map((name) =>
    Tool.make(name, {
      description: "Works on the files of the project.",
      parameters: Schema.Struct({ path: Schema.String, line: Schema.Finite }),
      success: Schema.String
    })
  )
)

/** A call that offers five tools, none of which the model calls. */
export const withTools: Call = LanguageModel.generateText({
  prompt,
  toolkit: tools,
  disableToolCallResolution: true
})

/** A message of a conversation with a model of the chain: four make a round. */
const message = (i: number): Prompt.Message => {
  const options = { outlast: { target: "bench/a", provider: "bench", model: "a" } }
  switch (i % 4) {
    case 0:
      return Prompt.makeMessage("user", {
        content: [Prompt.makePart("text", { text: `Step ${i}: look at the next file please.` })]
      })
    case 1: {
      const params = { path: `src/${i}.ts` }
      const call = { id: `call_${i}`, name: "read_file", params, providerExecuted: false, options }
      return Prompt.makeMessage("assistant", {
        content: [Prompt.makePart("text", { text: "Reading.", options }), Prompt.makePart("tool-call", call)]
      })
    }
    case 2: {
      const result = "x".repeat(500)
      const part = {
        id: `call_${i - 1}`,
        name: "read_file",
        result,
        isFailure: false,
        providerExecuted: false
      }
      return Prompt.makeMessage("tool", { content: [Prompt.makePart("tool-result", part)] })
    }
    default:
      return Prompt.makeMessage("assistant", {
        content: [Prompt.makePart("text", { text: "Fine.", options })]
      })
  }
}

/** A conversation that goes on: each call sends the messages of the one before, and one more. */
export const conversation = (length: number): Call => {
  const begun: ReadonlyArray<Prompt.Message> = Array.from({ length }, (_, i) => message(i))
  let messages = begun
  return Effect.suspend(() => {
    // Goes back before it grows much, so that all rounds are alike.
    if (messages.length > length + 100) messages = begun
    messages = [...messages, message(messages.length)]
    return LanguageModel.generateText({ prompt: Prompt.fromMessages(messages) })
  })
}
