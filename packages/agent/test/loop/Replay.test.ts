/** Runs from stored events: same decisions, nothing published twice, no finished tool run again. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import type { Response } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"
import { finish } from "../support.ts"
import type { Event } from "./runWorld.ts"
import { assertLegal, bytes, fold, stored } from "./runWorld.ts"

const Look = Toolkit.make(
  Tool.make("look", { parameters: Schema.Struct({ page: Schema.Finite }), success: Schema.String })
)

const turns = 3

/** Answers by the number of answers in the conversation, so that a run may go on anywhere. */
const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: ({ prompt }) => {
      const turn = prompt.content.filter(({ role }) => role === "assistant").length
      const looks = [0, 1, 2].map((page): Response.PartEncoded => ({
        type: "tool-call",
        id: `${turn}-${page}`,
        name: "look",
        params: { page: 10 * turn + page }
      }))
      return Effect.succeed(
        turn === turns ? [{ type: "text", text: "done" }, finish()] : [...looks, finish("tool-calls")]
      )
    },
    streamText: () => Stream.empty
  })
)

/** Tools that end after the given number of milliseconds, by page. */
const looking = (delays: ReadonlyArray<number>, ran: Array<number>) =>
  Look.toLayer({
    look: ({ page }) =>
      Effect.sync(() => ran.push(page)).pipe(
        Effect.andThen(Effect.sleep(delays[page % 10] ?? 0)),
        Effect.as(`page ${page}`)
      )
  })

const replayed = (events: ReadonlyArray<Event>, delays: ReadonlyArray<number>) =>
  Effect.gen(function* () {
    const ran: Array<number> = []
    const recorded: Array<Event> = []
    const seen: Array<string> = []
    const order: Array<string> = []
    const layer = ResilienceEvents.layerHandler((event) =>
      Effect.sync(() => {
        if (event._tag === "AgentTransition" && "turn" in event && "transition" in event)
          order.push(`tell ${seen.push(`${String(event.turn)} ${String(event.transition)}`)}`)
      })
    )
    const fiber = yield* Agent.replay(
      {
        prompt: "go",
        toolkit: Look,
        hooks: { afterTool: () => Effect.succeed("continue"), beforeStop: () => Effect.succeed("continue") },
        loops: "strict"
      },
      { events, record: (event) => Effect.sync(() => void order.push(`store ${recorded.push(event)}`)) }
    ).pipe(Effect.provide([looking(delays, ran), model, layer]), Effect.forkChild)
    yield* TestClock.adjust("1 minute")
    return { outcome: yield* Fiber.join(fiber), ran, recorded, seen, order }
  })

const orders = [
  [1, 2, 3],
  [3, 2, 1],
  [2, 3, 1],
  [2, 1, 3]
]

describe("Agent.replay", () => {
  it.effect("comes to the same state, byte for byte, in whatever order parallel tools end", () =>
    Effect.gen(function* () {
      const states = new Set<string>()
      for (const delays of orders) {
        const { recorded } = yield* replayed([], delays)
        states.add(bytes(fold(recorded).state))
      }
      assert.strictEqual(states.size, 1)
    })
  )

  it.effect("goes on from any prefix: each transition is published once, no finished tool runs again", () =>
    Effect.gen(function* () {
      const whole = yield* replayed([], [1, 2, 3])
      const events = whole.recorded.map(stored)
      // What ends a run is stored before it is published.
      assert.deepStrictEqual(whole.order.slice(-2), [`store ${whole.recorded.length}`, "tell 4"])
      assert.deepStrictEqual(whole.seen, ["1 next_turn", "2 next_turn", "3 next_turn", "4 completed"])
      for (let n = 0; n <= events.length; n++) {
        const prefix = events.slice(0, n)
        const rest = yield* replayed(prefix, orders[n % orders.length] ?? [])
        const before = fold(prefix).transitions
        assert.deepStrictEqual(
          [...before, ...rest.seen.map((line) => line.slice(2))],
          whole.seen.map((line) => line.slice(2))
        )
        assert.strictEqual(
          bytes(fold([...prefix, ...rest.recorded]).state),
          bytes(fold(whole.recorded).state)
        )
        const finished = 3 * prefix.filter(({ _tag }) => _tag === "ToolsFinished").length
        assert.strictEqual(rest.ran.length, 3 * turns - finished)
        assertLegal(rest.outcome.transcript.prompt)
        assert.deepStrictEqual([rest.outcome.text, rest.outcome.toolCalls], ["done", 9])
      }
    })
  )
})
