/** What the programs of the scenarios do, and the faults that they meet. */
import { Effect, Ref, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { Agent } from "@outlast/agent"
import type { FaultPlan } from "@outlast/testing"

/** Asks for a whole answer. */
export const say = Effect.map(LanguageModel.generateText({ prompt: "hello" }), ({ text }) => text)

/** Asks for a stream; the answer is what the consumer has read, in how many blocks. */
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

/** What an agent asks for that pays a bill, and what it says then. */
export const payment = [
  {
    text: "I pay the bill now.",
    toolCalls: [{ name: "pay", params: { euros: 14_300, to: "the roofers of Kreuzberg" } }]
  },
  { text: "The bill is paid." }
] satisfies FaultPlan.FaultPlan["answers"]

/** Deltas of the text before the call; its arguments are several more. */
export const inArguments = 7

/** What came of it: what was said last, and what was paid, each time that the tool ran. */
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

/** An agent that pays a bill, with whole answers. */
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

/** Too busy: in each provider's own way, as a status or inside of a stream. */
export const overloaded = (after = 0): FaultPlan.Fault => ({
  type: "stream-error",
  after,
  error: { type: "overloaded_error", message: "Overloaded" }
})
