/**
 * A cut tool call never runs, whatever finish reason the provider reports. A reported cut is repeated or continued.
 * With any other reason the invalid arguments are reported.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, Stream } from "effect"
import { AiError, LanguageModel, Tool, Toolkit } from "effect/ai"
import { Agent, Failover } from "@outlast/agent"
import { OutputLimit } from "@outlast/agent/failover"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import { inTime, policy } from "../support.ts"

const Pay = Tool.make("pay", {
  parameters: Schema.Struct({ to: Schema.String, amount: Schema.Finite }),
  success: Schema.String
})
const Kit = Toolkit.make(Pay)

const payments = () => {
  const made: Array<number> = []
  const handlers = Kit.toLayer({ pay: ({ amount }) => Effect.sync(() => `paid ${made.push(amount)}`) })
  return { made, handlers }
}

const call = { name: "pay", params: { to: "somebody with a long name", amount: 100 } }

/** The first answer ends inside the arguments of its call, with `reason`. */
const model = (reason: FaultPlan.FinishReason) =>
  ScriptedModel.make({
    provider: "anthropic",
    model: "m",
    plan: {
      // An answer that is repeated within the call keeps its place in the plan.
      answers: [
        { toolCalls: [call] },
        ...(reason === "length" ? [] : [{ toolCalls: [call] }]),
        { text: "Done." }
      ],
      faults: [{ fault: { type: "finish", reason, after: 2 } }]
    }
  })

type Program = Effect.Effect<void, unknown, LanguageModel.LanguageModel | Tool.HandlersFor<typeof Kit.tools>>

const programs: Readonly<Record<string, Program>> = {
  generateText: Effect.asVoid(LanguageModel.generateText({ prompt: "Pay.", toolkit: Kit })),
  streamText: Stream.runDrain(LanguageModel.streamText({ prompt: "Pay.", toolkit: Kit })),
  "Agent.run": Effect.asVoid(Agent.run({ prompt: "Pay.", toolkit: Kit })),
  "Agent.stream": Stream.runDrain(Agent.stream({ prompt: "Pay.", toolkit: Kit }))
}

describe("a cut tool call", () => {
  for (const [name, program] of Object.entries(programs)) {
    // vllm#58228 and hermes-agent PR #7693: "tool_calls" reported for a length cut.
    for (const reason of ["stop", "tool-calls", "length"] as const) {
      const resolves = name === "generateText" || name === "streamText"
      const title =
        resolves && reason !== "length"
          ? "fails with the invalid parameters and runs nothing"
          : "is repeated and runs once"
      it.effect(`${name}: ${title} after the finish reason ${reason}`, () =>
        Effect.gen(function* () {
          const { made, handlers } = payments()
          const target = yield* model(reason)
          const exit = yield* Effect.result(
            inTime(
              program.pipe(
                Effect.provide([handlers, Failover.layer([target], { policy })]),
                Effect.provideService(OutputLimit.OutputLimit, 1_000)
              )
            )
          )
          if (resolves && reason !== "length") {
            assert(exit._tag === "Failure" && AiError.isAiError(exit.failure))
            assert.strictEqual(exit.failure.reason._tag, "ToolParameterValidationError")
            assert.strictEqual((yield* target.requests).length, 1)
            assert.deepStrictEqual(made, [])
          } else {
            assert.strictEqual(exit._tag, "Success")
            assert.deepStrictEqual(made, [100])
          }
        })
      )
    }
  }
})
