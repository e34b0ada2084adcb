/** Programs and faults of the scenarios. */
import { Effect, Ref, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { Agent } from "@outlast/agent"
import type { FaultPlan } from "@outlast/testing"

/** Asks for a complete answer. */
export const say = Effect.map(LanguageModel.generateText({ prompt: "hello" }), ({ text }) => text)

/** Asks for a stream. The result is the text that the consumer read, and the number of blocks. */
export const stream = Effect.suspend(() => {
  let text = ""
  let blocks = 0
  return LanguageModel.streamText({ prompt: "hello" }).pipe(
    Stream.runForEach((part) =>
      Effect.sync(() => {
        if (part.type === "text-start") blocks++
        if (part.type === "text-delta") text += part.delta
      })
    ),
    Effect.map(() => (blocks === 1 ? text : `${text} in ${blocks} blocks`))
  )
})

const Payment = Toolkit.make(
  Tool.make("pay", {
    parameters: Schema.Struct({ euros: Schema.Number, to: Schema.String }),
    success: Schema.String
  })
)

/** The answers of an agent that pays a bill: the tool call, then a text. */
export const payment = [
  {
    text: "I pay the bill now.",
    toolCalls: [{ name: "pay", params: { euros: 14_300, to: "the roofers of Kreuzberg" } }]
  },
  { text: "The bill is paid." }
] satisfies FaultPlan.FaultPlan["answers"]

/** Deltas of the text before the call; its arguments are several more. */
export const inArguments = 7

/** The result: the last text, and the amount of each run of the tool. */
const paying = (
  run: (
    toolkit: typeof Payment
  ) => Effect.Effect<
    string,
    unknown,
    LanguageModel.LanguageModel | Tool.HandlersFor<Toolkit.Tools<typeof Payment>>
  >
) =>
  Effect.gen(function* () {
    const paid = yield* Ref.make<ReadonlyArray<string>>([])
    const handlers = Payment.toLayer({
      pay: ({ euros, to }) =>
        Ref.update(paid, (all) => [...all, `${euros} to ${to}`]).pipe(
          Effect.andThen(Effect.sleep(1_000)),
          Effect.as("done")
        )
    })
    const text = yield* Effect.provide(run(Payment), handlers)
    return { text, paid: yield* Ref.get(paid) }
  })

export const paidOnce = { text: "The bill is paid.", paid: ["14300 to the roofers of Kreuzberg"] }

/** An agent that pays a bill, with complete answers. */
export const agent = paying((toolkit) =>
  Effect.map(Agent.run({ prompt: "Pay the bill.", toolkit }), ({ text }) => text)
)

/** The same with streams. */
export const streamingAgent = paying((toolkit) =>
  Agent.stream({ prompt: "Pay the bill.", toolkit }).pipe(
    Stream.runFold(
      () => "",
      (text, part) => (part.type === "outcome" ? part.outcome.text : text)
    )
  )
)

/** An HTTP error; without a body it has the provider's own for that status. */
export const status = (
  code: number,
  headers: Readonly<Record<string, string>> = {},
  body?: Schema.Json
): FaultPlan.Fault => ({ type: "status", status: code, headers, ...(body === undefined ? {} : { body }) })

/** Overload in each provider's own form, as a status or inside a stream. */
export const overloaded = (after = 0): FaultPlan.Fault => ({
  type: "stream-error",
  after,
  error: { type: "overloaded_error", message: "Overloaded" }
})
