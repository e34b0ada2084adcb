/** An agent of three turns for tests: it looks, it pays, and it says what it did. */
import { Effect, Layer, Option, Schema, Stream } from "effect"
import { AiError, LanguageModel, Tool, Toolkit } from "effect/ai"
import type { Prompt, Response } from "effect/ai"
import { Journal, Task } from "@outlast/tasks"

export const Look = Journal.effects("none")(
  Tool.make("look", { parameters: Schema.Struct({ page: Schema.Finite }), success: Schema.String })
)

export const Pay = Journal.effects("once")(
  Tool.make("pay", { parameters: Schema.Struct({ cents: Schema.Finite }), success: Schema.String })
)

export const Shop = Toolkit.make(Look, Pay)

export const Order = Schema.Struct({ item: Schema.String })

export const Buy = Task.make("buy", { version: 1, params: Order, toolkit: Shop })

export const buying = Buy.toLayer(({ item }) => ({ prompt: `Buy ${item}.` }))

/** With a long time limit of its tools. */
export const patient = Buy.toLayer(({ item }) => ({ prompt: `Buy ${item}.`, toolTimeout: "1 hour" }))

/** What has happened in the world outside. */
export interface World {
  readonly looked: Array<number>
  /** Idempotency keys of the payments that began. */
  readonly paid: Array<string>
  /** Number of questions to the model. */
  asked: number
  /** Statements of the store before each answer of the model and each tool, where they are counted. */
  readonly acts: Array<number>
}

export const world = (): World => ({ looked: [], paid: [], asked: 0, acts: [] })

const usage = {
  inputTokens: { uncached: undefined, total: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: undefined, reasoning: undefined }
}

export const finish = (reason: Response.FinishReason = "stop"): Response.PartEncoded => ({
  type: "finish",
  reason,
  usage,
  response: undefined
})

const call = (id: string, name: string, params: unknown): Response.PartEncoded => ({
  type: "tool-call",
  id,
  name,
  params
})

/** The turn that is asked for, from 1. */
export const turnOf = ({ content }: Prompt.Prompt): number =>
  1 + content.filter(({ role }) => role === "assistant").length

export const answer = (turn: number): ReadonlyArray<Response.PartEncoded> =>
  turn === 1
    ? [call("look-1", "look", { page: 1 }), finish("tool-calls")]
    : turn === 2
      ? [call("pay-1", "pay", { cents: 100 }), finish("tool-calls")]
      : [{ type: "text", text: "bought" }, finish()]

/** The parts of a stream for a part of a whole answer. */
const streamed = (part: Response.PartEncoded): ReadonlyArray<Response.StreamPartEncoded> => {
  if (part.type === "text") {
    return [
      { type: "text-start", id: "t" },
      { type: "text-delta", id: "t", delta: part.text },
      { type: "text-end", id: "t" }
    ]
  }
  return part.type === "tool-call" || part.type === "finish" ? [part] : []
}

/** A model that answers by the number of answers in the conversation, or fails. */
export const model = (
  own: World,
  fails: (turn: number, asked: number) => AiError.AiErrorReason | undefined = () => undefined,
  answers = answer,
  alive: Effect.Effect<void> = Effect.void
): Layer.Layer<LanguageModel.LanguageModel> => {
  const generate = (prompt: Prompt.Prompt) =>
    Effect.flatMap(alive, () => {
      own.asked++
      const turn = turnOf(prompt)
      const reason = fails(turn, own.asked)
      return reason === undefined
        ? Effect.succeed([...answers(turn)])
        : Effect.fail(AiError.make({ module: "Test", method: "generateText", reason }))
    })
  return Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: ({ prompt }) => generate(prompt),
      streamText: ({ prompt }) =>
        Stream.unwrap(Effect.map(generate(prompt), (parts) => Stream.fromIterable(parts.flatMap(streamed))))
    })
  )
}

export const network = new AiError.NetworkError({
  reason: "TransportError",
  method: "POST",
  url: "https://api.example.com",
  description: "ECONNRESET"
})

export const handlers = (own: World, before: Effect.Effect<void> = Effect.void) =>
  Shop.toLayer({
    look: ({ page }) =>
      Effect.map(before, () => {
        own.looked.push(page)
        return `page ${page}`
      }),
    pay: () =>
      Effect.gen(function* () {
        yield* before
        const effect = yield* Journal.current
        own.paid.push(Option.getOrThrow(effect).key)
        return "paid"
      })
  })

/** The same agent, with a shop that can be asked whether a payment has happened. */
export const reconciling = (own: World) => {
  const asking = Journal.reconcile(Pay, ({ key }) =>
    Effect.sync(() => (own.paid.includes(key) ? { _tag: "Happened", result: "paid" } : { _tag: "DidNot" }))
  )
  const Asking = Task.make("buy", { version: 1, params: Order, toolkit: Toolkit.make(Look, asking) })
  return Asking.toLayer(({ item }) => ({ prompt: `Buy ${item}.` }))
}
