/** What is left of a run that was stopped: every call with what became of it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import type { Prompt } from "effect/ai"
import { Agent, SafetyGuard, StopReason } from "@outlast/agent"
import { isLegal, Kit, model, over, stopOf, tools } from "./support.ts"

/** The arguments of each call and its result, in their order. */
const pairs = ({ transcript }: SafetyGuard.SafetyStop) => {
  assert.isTrue(isLegal(transcript.prompt))
  const calls: Array<Prompt.ToolCallPart> = []
  const results: Array<Prompt.ToolResultPart> = []
  for (const { role, content } of transcript.prompt.content) {
    if (role === "assistant") for (const part of content) if (part.type === "tool-call") calls.push(part)
    if (role === "tool") for (const part of content) if (part.type === "tool-result") results.push(part)
  }
  const ids = calls.map(({ id }) => id)
  assert.strictEqual(new Set(ids).size, ids.length)
  assert.notInclude(ids, "")
  assert.deepStrictEqual(
    results.map(({ id }) => id),
    ids
  )
  return calls.map(({ params }, i) => [JSON.stringify(params), results[i]?.result])
}

describe("calls that have the same id", () => {
  it.effect("because handlers are called without one, have their own results", () =>
    Effect.gen(function* () {
      const { layer } = tools()
      const stop = yield* Effect.gen(function* () {
        const kit = yield* SafetyGuard.toolkit(Kit)
        for (const q of ["a", "b", "c", "d"]) {
          yield* Effect.flatMap(kit.handle("look_up", { q }), Stream.runDrain)
        }
      }).pipe(SafetyGuard.run({ toolCalls: 3, loops: false }), stopOf, Effect.provide(layer))
      assert.deepStrictEqual(pairs(stop), [
        ['{"q":"a"}', "done a, number 1"],
        ['{"q":"b"}', "done b, number 2"],
        ['{"q":"c"}', "done c, number 3"]
      ])
    })
  )

  const twice = ["a", "b", "c"].map((q) => ({ id: "one", name: "look_up", params: { q } }))
  const { notRun } = StopReason.texts

  it.effect("because the model gave it twice, have them, and which did not run is known", () =>
    Effect.gen(function* () {
      // The first waits, so that the second is asked for before it.
      const permit = ({ arguments: given }: { readonly arguments: unknown }) =>
        Effect.as(JSON.stringify(given).includes('"a"') ? Effect.yieldNow : Effect.void, "allow" as const)
      const { layer } = tools()
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ toolCalls: 2, loops: false, permit }),
        stopOf,
        Effect.provide([layer, over(yield* model({ answers: [{ toolCalls: twice }] }))])
      )
      assert.deepStrictEqual(pairs(stop), [
        ['{"q":"a"}', notRun],
        ['{"q":"b"}', "done b, number 1"],
        ['{"q":"c"}', "done c, number 2"]
      ])
    })
  )

  it.effect("and so have those of a stream that ran them itself", () =>
    Effect.gen(function* () {
      const { layer } = tools()
      const stop = yield* LanguageModel.streamText({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.runStream({ toolCalls: 2, loops: false }),
        Stream.runDrain,
        stopOf,
        Effect.provide([layer, over(yield* model({ answers: [{ toolCalls: twice }] }))])
      )
      assert.deepStrictEqual(pairs(stop), [
        ['{"q":"a"}', "done a, number 1"],
        ['{"q":"b"}', "done b, number 2"],
        ['{"q":"c"}', notRun]
      ])
    })
  )
})
