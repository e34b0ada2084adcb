/** Runs that wait for an approval, are cancelled, or continue from what an earlier run has left. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { inspect } from "node:util"
import { Agent, SafetyGuard } from "@outlast/agent"
import { ContinueDialogue, Suspended } from "@outlast/agent/loop"
import { ResilienceEvents } from "@outlast/resilience"
import { finish } from "../support.ts"
import { looking, looks, Look, model, says, textsOf, transitions } from "./looking.ts"
import { assertLegal } from "./runWorld.ts"

const Pay = Toolkit.make(
  Tool.make("pay", {
    parameters: Schema.Struct({ amount: Schema.Finite }),
    success: Schema.String
  }).setNeedsApproval(({ amount }) => amount > 10)
)

describe('approve: "suspend"', () => {
  const paying = () => {
    const paid: Array<number> = []
    const layer = Pay.toLayer({ pay: ({ amount }) => Effect.sync(() => (paid.push(amount), "paid")) })
    const asked = model((turn) =>
      turn === 0
        ? [
            ...[5, 50, 60].map((amount, i) => ({
              type: "tool-call" as const,
              id: `${i}`,
              name: "pay",
              params: { amount }
            })),
            finish("tool-calls")
          ]
        : says("done")
    )
    return { paid, layer: Layer.merge(layer, asked.layer) }
  }
  const options = { toolkit: Pay, approve: "suspend" } as const

  it.effect("ends with the calls that wait, and runs none of the turn before the decisions", () =>
    Effect.gen(function* () {
      const { paid, layer } = paying()
      const { seen, layer: events } = transitions()
      const program = Effect.gen(function* () {
        const waiting = yield* Agent.run({ ...options, prompt: "a private task" })
        assert.strictEqual(waiting.status, "suspended")
        assert.deepStrictEqual(waiting.suspended?.pending, [
          { id: "1", tool: "pay", params: { amount: 50 } },
          { id: "2", tool: "pay", params: { amount: 60 } }
        ])
        assert.deepStrictEqual(paid, [])
        assertLegal(waiting.transcript.prompt)
        // It waits in a store, and another process continues it.
        const codec = Schema.toCodecJson(Suspended.Suspended)
        const stored = JSON.stringify(Schema.encodeUnknownSync(codec)(waiting.suspended))
        const printed = [
          inspect(waiting.suspended),
          JSON.stringify(waiting.suspended),
          String(waiting.suspended)
        ]
        assert.notInclude(printed.join(), "private")
        const read = Schema.decodeUnknownSync(codec)(JSON.parse(stored))
        return yield* Agent.resume(options, read, [true, false])
      })
      const outcome = yield* program.pipe(Effect.provide([layer, events]))
      assert.deepStrictEqual(paid, [5, 50])
      assert.deepStrictEqual([outcome.status, outcome.turns, outcome.toolCalls], ["completed", 2, 3])
      assert.include(textsOf(outcome.transcript.prompt)[3], "not approved")
      assertLegal(outcome.transcript.prompt)
      assert.deepStrictEqual(seen, ["next_turn", "completed"])
    })
  )

  it.effect("rejects the calls without a decision", () =>
    Effect.gen(function* () {
      const { paid, layer } = paying()
      yield* Effect.gen(function* () {
        const { suspended } = yield* Agent.run({ ...options, prompt: "go" })
        assert.isDefined(suspended)
        if (suspended !== undefined) yield* Agent.resume(options, suspended)
      }).pipe(Effect.provide(layer))
      assert.deepStrictEqual(paid, [5])
    })
  )
})

describe("cancel", () => {
  it.effect("while the model streams keeps the text that was shown, and drops its calls", () =>
    Effect.gen(function* () {
      const cancelled = yield* Deferred.make<void>()
      const { seen, layer: events } = transitions()
      const streaming = Layer.effect(
        LanguageModel.LanguageModel,
        LanguageModel.make({
          generateText: () => Effect.never,
          streamText: () =>
            Stream.concat(
              Stream.fromIterable([
                { type: "text-start", id: "0" } as const,
                { type: "text-delta", id: "0", delta: "so far" } as const
              ]),
              Stream.never
            )
        })
      )
      const parts: Array<Agent.Part> = []
      const fiber = yield* Agent.stream({ prompt: "go", cancel: Deferred.await(cancelled) }).pipe(
        Stream.runForEach((part) =>
          Effect.suspend(() => {
            parts.push(part)
            return part.type === "text-delta" ? Deferred.succeed(cancelled, undefined) : Effect.void
          })
        ),
        Effect.provide([streaming, events]),
        Effect.forkChild
      )
      yield* Fiber.join(fiber)
      const last = parts.at(-1)
      assert.strictEqual(last?.type, "outcome")
      if (last?.type !== "outcome") return
      assert.strictEqual(last.outcome.status, "cancelled")
      assert.deepStrictEqual(textsOf(last.outcome.transcript.prompt), ["go", "so far"])
      assert.deepStrictEqual(seen, ["aborted_streaming"])
    })
  )

  it.effect("while tools run interrupts them, keeps the results so far, and says what is not known", () =>
    Effect.gen(function* () {
      const cancelled = yield* Deferred.make<void>()
      const { seen, layer: events } = transitions(Deferred.succeed(cancelled, undefined))
      let interrupted = 0
      const tools = Look.toLayer({
        look: ({ page }) =>
          page === 1
            ? Effect.succeed("first")
            : Effect.onInterrupt(Effect.never, () => Effect.sync(() => interrupted++))
      })
      const asked = model(() => looks(2, 1))
      // Cancelled as soon as the first result has come.
      const outcome = yield* Agent.run({
        prompt: "go",
        toolkit: Look,
        cancel: Deferred.await(cancelled)
      }).pipe(Effect.provide([tools, asked.layer, events]))
      assert.deepStrictEqual([outcome.status, interrupted], ["cancelled", 1])
      assertLegal(outcome.transcript.prompt)
      const texts = textsOf(outcome.transcript.prompt)
      assert.include(texts[1], "whether it had an effect is not known")
      assert.include(texts[2], "first")
      assert.deepStrictEqual(seen, ["aborted_tools"])
    })
  )

  it.effect("between two turns ends the run without another question to the model", () =>
    Effect.gen(function* () {
      const cancelled = yield* Deferred.make<void>()
      const { layer } = looking()
      const asked = model((turn) => (turn === 0 ? looks(1) : says("done")))
      const events = ResilienceEvents.layerHandler((event) =>
        event._tag === "AgentTransition"
          ? Effect.andThen(Deferred.succeed(cancelled, undefined), Effect.yieldNow)
          : Effect.void
      )
      const outcome = yield* Agent.run({
        prompt: "go",
        toolkit: Look,
        cancel: Deferred.await(cancelled)
      }).pipe(Effect.provide([layer, asked.layer, events]))
      assert.deepStrictEqual([outcome.status, asked.prompts.length], ["cancelled", 1])
    })
  )

  it.effect("begins once, whatever the number of turns, and ends with the run", () =>
    Effect.gen(function* () {
      let [begun, ended] = [0, 0]
      const cancel = Effect.sync(() => begun++).pipe(
        Effect.andThen(Effect.never),
        Effect.onInterrupt(() => Effect.sync(() => ended++))
      )
      const { layer } = looking()
      const asked = model((turn) => (turn < 3 ? looks(turn) : says("done")))
      const outcome = yield* Agent.run({ prompt: "go", toolkit: Look, cancel }).pipe(
        Effect.provide([layer, asked.layer])
      )
      yield* Effect.yieldNow
      assert.deepStrictEqual([outcome.status, begun, ended], ["completed", 1, 1])
    })
  )

  it.effect("leaves a conversation from which the run continues", () =>
    Effect.gen(function* () {
      const { pages, layer } = looking()
      const asked = model((turn) => (turn < 3 ? looks(turn) : says("done")))
      yield* Effect.gen(function* () {
        const first = yield* Agent.run({ prompt: "go", toolkit: Look, maxTurns: 2 })
        assert.strictEqual(first.status, "turn_limit")
        const second = yield* Agent.resume({ toolkit: Look }, first.transcript)
        assert.deepStrictEqual([second.status, second.turns], ["completed", 2])
      }).pipe(Effect.provide([layer, asked.layer]))
      assert.deepStrictEqual(pages, [0, 1, 2])
    })
  )
})

describe("ContinueDialogue", () => {
  const long = () => model((turn) => (turn < 7 ? looks(turn) : says("done")))

  it.effect("asks at each limit, continues, and gives the usage of all parts", () =>
    Effect.gen(function* () {
      const { pages, layer } = looking()
      const questions: Array<string> = []
      const outcome = yield* ContinueDialogue.run(
        { prompt: "go", toolkit: Look, maxTurns: 3 },
        { ask: ({ text }) => Effect.sync(() => questions.push(text) > 0) }
      ).pipe(Effect.provide([layer, long().layer]))
      assert.deepStrictEqual([outcome.status, outcome.turns, outcome.toolCalls], ["completed", 8, 7])
      assert.deepStrictEqual(pages, [0, 1, 2, 3, 4, 5, 6])
      assert.deepStrictEqual(questions, [
        "The run has used all its turns (3). So far: 3 turns, 3 tool calls. Continue?",
        "The run has used all its turns (6). So far: 6 turns, 6 tool calls. Continue?"
      ])
      assert.strictEqual(outcome.models[0]?.share, 1)
      assert.strictEqual(outcome.usage.outputTokens, 8)
    })
  )

  it.effect("ends with the limit after a no, and after its last question", () =>
    Effect.gen(function* () {
      const { layer } = looking()
      const run = (questions: number, yes: boolean) =>
        ContinueDialogue.run(
          { prompt: "go", toolkit: Look, maxTurns: 1 },
          { ask: () => Effect.succeed(yes), questions }
        ).pipe(Effect.provide([layer, long().layer]))
      assert.deepInclude(yield* run(5, false), { status: "turn_limit", turns: 1 })
      assert.deepInclude(yield* run(2, true), { status: "turn_limit", turns: 3 })
    })
  )

  it.effect("extends the guard of the host, and fails with its stop after a no", () =>
    Effect.gen(function* () {
      const { pages, layer } = looking()
      const run = (answers: ReadonlyArray<boolean>) =>
        Effect.gen(function* () {
          const host = yield* SafetyGuard.make({ toolCalls: 3 })
          return yield* ContinueDialogue.guarded(
            { prompt: "go", toolkit: Look },
            { host, extend: { toolCalls: 2 } },
            { ask: ({ number }) => Effect.succeed(answers[number - 1] ?? false) }
          )
        }).pipe(Effect.provide([layer, long().layer]))
      const outcome = yield* run([true, true])
      assert.strictEqual(outcome.status, "completed")
      // The two calls that tripped the guard did not run.
      assert.deepStrictEqual(pages, [0, 1, 2, 4, 5])
      const stop = yield* Effect.flip(run([true, false]))
      assert.strictEqual(stop._tag, "SafetyStop")
    })
  )
})
