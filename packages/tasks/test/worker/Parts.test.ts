import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import type { Agent } from "@outlast/agent"
import { Parts } from "#tasks/worker/Parts"

const delta = (text: string): Agent.Part => ({ type: "text-delta", id: "t", delta: text }) as Agent.Part // Without metadata.

describe("Parts", () => {
  it.effect("a question that is asked again first takes back what the cut one has shown", () =>
    Effect.gen(function* () {
      const parts = new Parts()
      const reader = yield* Effect.forkChild(Stream.runCollect(Stream.take(parts.of("a"), 4)), {
        startImmediately: true
      })
      yield* Effect.yieldNow
      assert.isTrue(parts.isWatched("a"))
      const cut = parts.answering("a", Effect.andThen(parts.emit("a", delta("hello")), Effect.never))
      const first = yield* Effect.forkChild(cut, { startImmediately: true })
      yield* Effect.yieldNow
      yield* Fiber.interrupt(first)
      yield* parts.answering("a", parts.emit("a", delta("good day")))
      // This one begins behind a whole answer.
      yield* parts.answering("a", parts.emit("a", delta("and more")))
      const seen = yield* Fiber.join(reader)
      assert.deepStrictEqual(
        seen.map((part) => (part.type === "text-delta" ? part.delta : part)),
        ["hello", { type: "rewind", characters: 5 }, "good day", "and more"]
      )
      assert.isFalse(parts.isWatched("a"))
    })
  )
})
