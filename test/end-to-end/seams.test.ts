/**
 * Answers that are cut and continued by models that repeat themselves: in memory under virtual time, and over real
 * HTTP. Both give the consumer the same text, and the same events.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted, Ref, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Failover, KeySource, RecoveryPolicy } from "@outlast/agent"
import type { FailoverEvent, ProviderModel } from "@outlast/agent"
import { Anthropic, OpenAi } from "@outlast/providers"
import { ResilienceEvents } from "@outlast/resilience"
import { FakeProvider, FaultPlan, ScriptedModel } from "@outlast/testing"

const answer =
  "The roof has been leaking since March. Seven voted for the repair, two against, and Mr Öztürk was asleep. 好的 🚀"

/** A plan whose continuations repeat the last `length` characters, after a remark. */
const repeating = (plan: FaultPlan.FaultPlan, length: number, remark: string) =>
  Effect.map(FaultPlan.start(plan), (runner): FaultPlan.Runner => ({
    next: (request) =>
      Effect.map(runner.next(request), (reply) => {
        const last = request.messages.findLast((message) => message.role !== "user")
        if (reply.type !== "speech" || last?.role !== "assistant" || last.text === "") return reply
        const said = last.text
        const again: FaultPlan.Delta = { type: "text", text: remark + said.slice(-length) }
        return { ...reply, deltas: [again, ...reply.deltas], all: [again, ...reply.all] }
      })
  }))

/** Moves to the next model at once: no waits in real time. */
const policy: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.interactive,
  rows: {
    ...RecoveryPolicy.interactive.rows,
    Network: { ...RecoveryPolicy.interactive.rows.Network, then: "move", attempts: 1 }
  }
}

const recording = () => {
  const events: Array<FailoverEvent.FailoverEvent> = []
  // Only the failover publishes here.
  const layer = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => void events.push(event as FailoverEvent.FailoverEvent))
  )
  return { events, layer }
}

/** The view of the consumer: the full text, and its number of blocks. */
const consumed = (first: ProviderModel.TargetSpec, second: ProviderModel.TargetSpec) =>
  Effect.gen(function* () {
    const { events, layer } = recording()
    const seen = yield* Ref.make("")
    const parts = yield* LanguageModel.streamText({ prompt: "x" }).pipe(
      Stream.tap((part) =>
        part.type === "text-delta"
          ? Effect.map(
              Ref.updateAndGet(seen, (text) => text + part.delta),
              // Shown text is never retracted.
              (text) => assert.isTrue(answer.startsWith(text), text)
            )
          : Effect.void
      ),
      Stream.runCollect,
      Effect.provide(Layer.provideMerge(Failover.layer([first, second], { policy }), layer))
    )
    return {
      text: yield* Ref.get(seen),
      blocks: parts.filter((part) => part.type === "text-start" || part.type === "text-end").length,
      // Circuits publish failures asynchronously.
      events: events.flatMap((event) =>
        event._tag.startsWith("Circuit")
          ? []
          : event._tag === "SeamRepaired"
            ? [`${event._tag} ${event.removed}`]
            : [event._tag]
      )
    }
  })

const words = answer.split(" ").length
const cutAt = (after: number): FaultPlan.FaultPlan => ({
  answers: [{ text: answer }],
  faults: [{ fault: { type: "cut", after } }]
})

describe("a cut answer whose continuation repeats itself", () => {
  it.effect("reads as if it had never been cut, wherever that was (BerriAI/litellm#27967, #32835)", () =>
    Effect.gen(function* () {
      for (let after = 5; after < words; after++) {
        for (const [length, remark] of [
          [0, ""],
          [24, ""],
          [60, "\n\n"],
          [30, "Sure, continuing from where I left off:\n\n"],
          [200, "好的，继续：\n"]
        ] as const) {
          const plan = yield* repeating(cutAt(after), length, remark)
          const first = yield* ScriptedModel.make({ provider: "anthropic", model: "a", plan })
          const second = yield* ScriptedModel.make({ provider: "openai", model: "b", plan })
          const fiber = yield* Effect.forkChild(consumed(first, second))
          yield* TestClock.adjust("1 minute")
          const { text, blocks } = yield* Fiber.join(fiber)
          assert.strictEqual(text, answer, `cut after ${after}, ${length} characters repeated`)
          assert.strictEqual(blocks, 2)
        }
      }
    })
  )

  it.effect("over real HTTP, with the events that it has in memory", () =>
    Effect.gen(function* () {
      const said = answer.split(" ").slice(0, 12).join(" ")
      const remark = "Sure, here is the rest:\n\n"
      const server = yield* FakeProvider.make({ plan: yield* repeating(cutAt(12), 40, remark) })
      const keys = (name: string) => [KeySource.value(name, Redacted.make(`secret-of-${name}`))]
      const real = yield* consumed(
        Anthropic.model("claude-sonnet-4-5", { baseUrl: server.baseUrl("anthropic"), keys: keys("A") }),
        OpenAi.chatModel("gpt-4.1", { baseUrl: server.baseUrl("openai"), keys: keys("B") })
      )
      assert.deepStrictEqual(real, {
        text: answer,
        blocks: 2,
        events: [
          "AttemptStarted",
          "AttemptFailed",
          "AnswerContinued",
          "AttemptStarted",
          "ModelChanged",
          `SeamRepaired ${remark.length + 40}`,
          "CallSucceeded"
        ]
      })
      assert.include(JSON.stringify((yield* server.requests)[1]?.body), said)
      const plan = yield* repeating(cutAt(12), 40, remark)
      const first = yield* ScriptedModel.make({ provider: "anthropic", model: "a", plan, endpoint: "one" })
      const second = yield* ScriptedModel.make({ provider: "openai", model: "b", plan, endpoint: "two" })
      assert.deepStrictEqual(yield* consumed(first, second), real)
    })
  )

  it.effect("runs the tool that it asks for once (crewAIInc/crewAI#5802: replays pay twice)", () =>
    Effect.gen(function* () {
      const Pay = Toolkit.make(
        Tool.make("pay", { parameters: Schema.Struct({ euros: Schema.Number }), success: Schema.String })
      )
      for (let after = 6; after < words + 3; after++) {
        const paid = yield* Ref.make(0)
        const plan = yield* repeating(
          {
            answers: [
              { text: answer, toolCalls: [{ name: "pay", params: { euros: 14_300 } }] },
              { text: "Paid." }
            ],
            faults: [{ fault: { type: "reset", after } }]
          },
          after > words ? 0 : 50,
          ""
        )
        const first = yield* ScriptedModel.make({ provider: "anthropic", model: "a", plan })
        const second = yield* ScriptedModel.make({ provider: "openai", model: "b", plan })
        const live = Pay.toLayer({
          pay: () =>
            Effect.as(
              Ref.update(paid, (n) => n + 1),
              "done"
            )
        })
        const outcome = yield* Agent.stream({ prompt: "x", toolkit: Pay }).pipe(
          Stream.runCollect,
          Effect.provide([live, Failover.layer([first, second], { policy })]),
          Effect.forkChild
        )
        yield* TestClock.adjust("1 minute")
        const text = (yield* Fiber.join(outcome))
          .flatMap((part) => (part.type === "text-delta" ? [part.delta] : []))
          .join("")
        assert.strictEqual(text, `${answer}Paid.`, `reset after ${after}`)
        assert.strictEqual(yield* Ref.get(paid), 1)
      }
    })
  )
})
