/** Runs that continue from a transcript, a suspended run or stored events, and what a cut-off run leaves for them. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Layer, Redacted, Schema, Stream } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import type { Response } from "effect/ai"
import { Agent, Failover, KeySource } from "@outlast/agent"
import type { Hooks } from "@outlast/agent/loop"
import { ScriptedModel } from "@outlast/testing"
import { finish } from "../support.ts"
import { look, looking, looks, Look, model, says, textsOf, transitions } from "./looking.ts"
import type { Event } from "./runWorld.ts"
import { assertLegal } from "./runWorld.ts"

/** Two turns of tools, then an answer; streamed. */
const streaming = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: () => Effect.succeed(says("not streamed")),
    streamText: ({ prompt }) => {
      const turn = prompt.content.filter(({ role }) => role === "assistant").length
      const parts: Array<Response.StreamPartEncoded> = [
        { type: "text-start", id: "t" },
        { type: "text-delta", id: "t", delta: `turn ${turn}` },
        { type: "text-end", id: "t" }
      ]
      return Stream.fromIterable<Response.StreamPartEncoded>(
        turn < 2
          ? [
              ...parts,
              { type: "tool-call", id: `${turn}`, name: "look", params: { page: turn } },
              finish("tool-calls")
            ]
          : [...parts, finish("stop")]
      )
    }
  })
)

const shown = <E, R>(stream: Stream.Stream<Agent.Part, E, R>) =>
  Effect.map(Stream.runCollect(stream), (parts) => ({
    texts: parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : [])),
    transitions: parts.flatMap((part) => (part.type === "transition" ? [part.transition] : [])),
    outcome: parts.flatMap((part) => (part.type === "outcome" ? [part.outcome] : [])).at(-1)
  }))

describe("Agent.replayStream", () => {
  it.effect("shows the run from where the stored events end", () =>
    Effect.gen(function* () {
      const { pages, layer } = looking()
      const stored: Array<Event> = []
      const record = (event: Event) => Effect.sync(() => void stored.push(event))
      const options = { prompt: "go", toolkit: Look }
      yield* Effect.gen(function* () {
        const whole = yield* shown(Agent.replayStream(options, { events: [], record }))
        assert.deepStrictEqual(whole.texts, ["turn 0", "turn 1", "turn 2"])
        assert.deepStrictEqual(pages, [0, 1])
        const [...events] = stored
        for (const [known, texts, left] of [
          [2, ["turn 1", "turn 2"], [0, 1]],
          [3, ["turn 1", "turn 2"], [1]],
          [4, ["turn 2"], [1]],
          [6, [], []]
        ] as const) {
          pages.length = 0
          const rest = yield* shown(Agent.replayStream(options, { events: events.slice(0, known), record }))
          assert.deepStrictEqual([rest.texts, pages], [texts, left])
          assert.strictEqual(rest.outcome?.text, "turn 2")
        }
      }).pipe(Effect.provide([layer, streaming]))
    })
  )
})

describe("Agent.resumeStream", () => {
  const Approved = Toolkit.make(
    Tool.make("look", {
      parameters: Schema.Struct({ page: Schema.Finite }),
      success: Schema.String
    }).setNeedsApproval(true)
  )

  it.effect("shows a run that continues from a conversation or from a suspended run", () =>
    Effect.gen(function* () {
      const { pages, layer } = looking()
      yield* Effect.gen(function* () {
        const options = { toolkit: Approved, approve: "suspend" } as const
        const first = yield* shown(Agent.stream({ ...options, prompt: "go" }))
        assert.deepStrictEqual([first.texts, first.outcome?.status], [["turn 0"], "suspended"])
        const waiting = first.outcome?.suspended
        if (waiting === undefined) return assert.fail("The run does not wait.")
        const second = yield* shown(Agent.resumeStream(options, waiting, [true]))
        assert.deepStrictEqual([second.texts, second.outcome?.status], [["turn 1"], "suspended"])
        const left = second.outcome?.transcript
        if (left === undefined) return assert.fail("The run has left no conversation.")
        const third = yield* shown(Agent.resumeStream({ toolkit: Approved }, left))
        assert.deepStrictEqual([third.texts, third.transitions], [["turn 2"], ["completed"]])
        assert.deepStrictEqual(pages, [0])
      }).pipe(Effect.provide([layer, streaming]))
    })
  )
})

describe("a run that continues", () => {
  // A program without types may pass anything.
  const untyped = (value: unknown) => value as never

  it("names what is wrong with the thing that it is to continue from", () => {
    const initial = { prompt: "go" }
    for (const from of [null, undefined, "text", Prompt.empty, { transcript: 1 }]) {
      assert.throws(
        () => Agent.resume({}, untyped(from)),
        "Agent.resume: from must be a transcript or a suspended run, such as outcome.transcript"
      )
    }
    assert.throws(() => Agent.replay(initial, untyped(undefined)), "Agent.replay: history must be a history")
    assert.throws(() => Agent.replay(initial, untyped({ event: [] })), '"event" is not an option')
    assert.throws(() => Agent.replay(initial, untyped({ events: [] })), "Agent.replay: record is missing")
    assert.throws(() => Agent.replayStream(initial, untyped({})), "Agent.replay: events is missing")
  })
})

describe("the conversation of a run that is cut off before its tools ran", () => {
  const cancelledAt = (point: keyof Hooks.Hooks) =>
    Effect.gen(function* () {
      const reached = yield* Deferred.make<void>()
      const { pages, layer } = looking()
      const asked = model((turn) => (turn === 0 ? looks(1, 2) : says("done")))
      const { seen, layer: events } = transitions()
      const hook = () => Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
      const outcome = yield* Agent.run({
        prompt: "go",
        toolkit: Look,
        hooks: { [point]: hook },
        cancel: Deferred.await(reached)
      }).pipe(Effect.provide([layer, asked.layer, events]))
      assertLegal(outcome.transcript.prompt)
      return { outcome, pages, seen, texts: textsOf(outcome.transcript.prompt) }
    })

  it.effect("says that a call was not run, when the run is cancelled while a hook decides", () =>
    Effect.gen(function* () {
      const { outcome, pages, seen, texts } = yield* cancelledAt("beforeTool")
      assert.deepStrictEqual([outcome.status, pages, seen], ["cancelled", [], ["aborted_tools"]])
      for (const text of texts.slice(1)) assert.include(text, "cancelled before this call was run")
      assert.strictEqual(texts.length, 3)
    })
  )

  it.effect("keeps the results, when the run is cancelled while a hook sees them", () =>
    Effect.gen(function* () {
      const { outcome, pages, texts } = yield* cancelledAt("afterTool")
      assert.deepStrictEqual([outcome.status, pages], ["cancelled", [1, 2]])
      assert.deepStrictEqual(texts.slice(1), ['"the text of page 1"', '"the text of page 2"'])
    })
  )

  it.effect("keeps the answer, when the run is cancelled while a hook decides about the end", () =>
    Effect.gen(function* () {
      const { outcome, texts } = yield* cancelledAt("beforeStop")
      assert.deepStrictEqual([outcome.status, texts.at(-1)], ["cancelled", "done"])
    })
  )
})

it.effect(
  "a hook that blocks without a text gives the model one, because providers reject empty messages",
  () =>
    Effect.gen(function* () {
      const asked = model((turn) => (turn === 0 ? [look("a", 1), finish("tool-calls")] : says("done")))
      let ends = 0
      const outcome = yield* Agent.run({
        prompt: "go",
        toolkit: Look,
        hooks: {
          beforeTool: () => Effect.succeed({ block: "" }),
          beforeStop: () => Effect.sync(() => (ends++ === 0 ? { block: " " } : "continue"))
        }
      }).pipe(Effect.provide([looking().layer, asked.layer]))
      const texts = textsOf(outcome.transcript.prompt)
      assert.include(texts[1], "Blocked by a hook.")
      assert.deepStrictEqual(texts.slice(2), ["done", "Blocked by a hook.", "done"])
    })
)

it.effect('maxTurns: "by keys" is min(max(24 + 8·N, 32), 160) for the keys of the first model', () =>
  Effect.gen(function* () {
    const turnsOf = (keys: number) =>
      Effect.gen(function* () {
        const target = yield* ScriptedModel.make({
          provider: "anthropic",
          model: "m",
          keys: Array.from({ length: keys }, (_, i) => KeySource.value(`key-${i}`, Redacted.make(`${i}`))),
          plan: {
            answers: Array.from({ length: 200 }, (_, page) => ({
              toolCalls: [{ name: "look", params: { page } }]
            }))
          }
        })
        const outcome = yield* Agent.run({ prompt: "go", toolkit: Look, maxTurns: "by keys" }).pipe(
          Effect.provide([looking().layer, Failover.layer([target])])
        )
        assert.strictEqual(outcome.status, "turn_limit")
        return outcome.turns
      })
    assert.deepStrictEqual([yield* turnsOf(1), yield* turnsOf(3)], [32, 48])
    // A model without a chain counts as one key.
    const asked = model((turn) => looks(turn))
    const alone = yield* Agent.run({ prompt: "go", toolkit: Look, maxTurns: "by keys" }).pipe(
      Effect.provide([looking().layer, asked.layer])
    )
    assert.strictEqual(alone.turns, 32)
  })
)
