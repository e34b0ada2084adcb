/** The transcript of a stopped run: every call with its result. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schema, Stream } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import { Agent, SafetyGuard, StopReason } from "@outlast/agent"
import { isLegal, Kit, model, over, seconds, stopOf, tools } from "./support.ts"

/** Arguments and result of each call, in order. */
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

describe("calls with the same id", () => {
  it.effect("have their own results when handlers are called without an id", () =>
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

  it.effect("have the refusal as the result where a program calls the handler itself", () =>
    Effect.gen(function* () {
      const { layer } = tools()
      const permit = ({ arguments: given }: { readonly arguments: unknown }) =>
        Effect.succeed(JSON.stringify(given).includes('"a"') ? { refuse: "no" } : ("allow" as const))
      const stop = yield* Effect.gen(function* () {
        const kit = yield* SafetyGuard.toolkit(Kit)
        for (const q of ["a", "b", "c"]) {
          yield* Effect.flatMap(kit.handle("look_up", { q }), Stream.runDrain)
        }
      }).pipe(SafetyGuard.run({ toolCalls: 1, loops: false, permit }), stopOf, Effect.provide(layer))
      const [refused, ran] = pairs(stop)
      assert.deepStrictEqual(ran, ['{"q":"b"}', "done b, number 1"])
      assert.strictEqual(refused?.[0], '{"q":"a"}')
      assert.include(JSON.stringify(refused?.[1]), "execution-denied")
    })
  )

  it.effect("have their failure as the result, and not the progress before it", () =>
    Effect.gen(function* () {
      const Count = Toolkit.make(Tool.make("count", { success: Schema.String, failure: Schema.String }))
      const layer = Count.toLayer({
        count: (_, { preliminary }) => Effect.andThen(preliminary("half"), Effect.fail("broken"))
      })
      const stop = yield* Effect.gen(function* () {
        const kit = yield* SafetyGuard.toolkit(Count)
        const call = Effect.flatMap(kit.handle("count", {}), Stream.runDrain)
        yield* Effect.exit(call)
        yield* call
      }).pipe(SafetyGuard.run({ toolCalls: 1 }), stopOf, Effect.provide(layer))
      assert.deepStrictEqual(pairs(stop), [["{}", "broken"]])
    })
  )

  const twice = ["a", "b", "c"].map((q) => ({ id: "one", name: "look_up", params: { q } }))
  const { notRun } = StopReason.texts

  it.effect("have their own results when the model repeats an id, and the unexecuted one is marked", () =>
    Effect.gen(function* () {
      // The first call waits, so that the second one is admitted before it.
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

  it.effect("have their own results in a stream that runs its tools", () =>
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

  it.effect("are not confused when one is refused and the other runs", () =>
    Effect.gen(function* () {
      const { layer } = tools({ look_up: () => Effect.never })
      const permit = ({ arguments: given }: { readonly arguments: unknown }) =>
        Effect.succeed(JSON.stringify(given).includes('"a"') ? { refuse: "no" } : ("allow" as const))
      const fiber = yield* LanguageModel.streamText({
        prompt: "x",
        toolkit: Kit,
        concurrency: "unbounded"
      }).pipe(
        SafetyGuard.runStream({ time: "1 minute", loops: false, permit }),
        Stream.runDrain,
        stopOf,
        Effect.provide([layer, over(yield* model({ answers: [{ toolCalls: twice.slice(0, 2) }] }))]),
        Effect.forkChild
      )
      yield* seconds(70)
      const [[, refused] = [], [, running] = []] = pairs(yield* Fiber.join(fiber))
      assert.include(JSON.stringify(refused), "execution-denied")
      assert.strictEqual(running, StopReason.texts.interrupted)
    })
  )
})

describe("an approved call from the prompt", () => {
  const Danger = Toolkit.make(
    Tool.make("danger", {
      parameters: Schema.Struct({ q: Schema.String }),
      success: Schema.String,
      needsApproval: true
    })
  )
  const params = { q: "z" }
  const asked = Prompt.makePart("tool-call", { id: "c1", name: "danger", params, providerExecuted: false })
  const prompt = Prompt.fromMessages([
    Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "go" })] }),
    Prompt.makeMessage("assistant", {
      content: [asked, Prompt.makePart("tool-approval-request", { approvalId: "ok", toolCallId: "c1" })]
    }),
    Prompt.makeMessage("tool", {
      content: [Prompt.makePart("tool-approval-response", { approvalId: "ok", approved: true })]
    })
  ])

  it.effect("has its result once it has run", () =>
    Effect.gen(function* () {
      const fiber = yield* LanguageModel.generateText({ prompt, toolkit: Danger }).pipe(
        Effect.andThen(Effect.never),
        SafetyGuard.run({ time: "1 minute" }),
        stopOf,
        Effect.provide([
          Danger.toLayer({ danger: () => Effect.succeed("deleted") }),
          over(yield* model({ answers: () => ({ text: "ok" }) }))
        ]),
        Effect.forkChild
      )
      yield* seconds(70)
      assert.deepStrictEqual(pairs(yield* Fiber.join(fiber)), [['{"q":"z"}', "deleted"]])
    })
  )
})
