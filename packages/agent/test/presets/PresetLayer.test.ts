/** Parts that all presets have: a layer with compaction, alerts and lines. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { LanguageModel, Prompt } from "effect/ai"
import { TestClock } from "effect/testing"
import { Presets } from "@outlast/agent"
import { Compaction } from "@outlast/agent/compaction"
import type { CompactionEvent } from "@outlast/agent/compaction"
import { ResilienceEvents } from "@outlast/resilience"
import { ScriptedModel } from "@outlast/testing"
import { failureOf, status } from "../support.ts"
import { always, ask, model } from "./scenario.ts"

const long = Prompt.make(
  Array.from({ length: 21 }, (_, n) => ({
    role: n % 2 === 0 ? ("user" as const) : ("assistant" as const),
    content: `${n} ${"x".repeat(800)}`
  }))
)

const compactions = () => {
  const events: Array<CompactionEvent.ContextCompacted> = []
  const layer = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => {
      // Its tag says that it is one.
      if (event._tag === "ContextCompacted") events.push(event as unknown as CompactionEvent.ContextCompacted)
    })
  )
  return { events, layer }
}

describe("the layer of a preset", () => {
  it.effect("compacts a refused conversation for the window of the model that refused it", () =>
    Effect.gen(function* () {
      const { events, layer } = compactions()
      const target = yield* ScriptedModel.make({
        provider: "anthropic",
        // A name of its own: windows that other tests of this process learn are kept by the model's name.
        model: "window-of-6000",
        plan: { answers: () => ({ text: "hello" }), faults: [{ fault: status(413) }] },
        info: { contextWindow: 6_000 }
      })
      yield* LanguageModel.generateText({ prompt: long }).pipe(
        Effect.provide(Presets.codebuddy.layer([target])),
        Effect.provide(layer)
      )
      assert.deepStrictEqual(
        events.map(({ window, reactive }) => [window, reactive]),
        [[6_000, true]]
      )
    })
  )

  it.effect("has the compaction of the preset for the program, too", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m", [])
      const policy = yield* Effect.map(Compaction.Compaction, ({ policy }) => policy).pipe(
        Effect.provide(Presets.s11.layer([target]))
      )
      assert.deepStrictEqual(policy, Presets.s11.compaction)
    })
  )

  for (const name of ["codebuddy", "decision037"] as const) {
    it.effect(`of ${name} raises an alert at ten failures in five minutes, and not at nine`, () =>
      Effect.gen(function* () {
        const raised: Array<unknown> = []
        const target = yield* model("anthropic", "m", [always(status(401))])
        const onAlert = ({ _tag, at }: { readonly _tag: string; readonly at: number }) =>
          Effect.sync(() => void raised.push(`${_tag} at ${at}`))
        const fail = (times: number) => Effect.repeat(failureOf(ask), { times: times - 1 })
        yield* Effect.gen(function* () {
          yield* fail(9)
          // The first failures are too old now.
          yield* TestClock.adjust("5 minutes")
          yield* fail(9)
          yield* TestClock.adjust("299 seconds")
          assert.deepStrictEqual(raised, [])
          yield* fail(1)
          yield* TestClock.adjust("1 second")
        }).pipe(Effect.provide(Presets[name].layer([target], { onAlert })))
        assert.deepStrictEqual(raised, ["AlertRaised at 599000", "AlertCleared at 600000"])
      })
    )
  }

  it.effect("writes a line for a call at its own target, not for another call there", () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const log = Logger.layer([Logger.make(({ message }) => lines.push(String(message)))])
      const target = yield* model("anthropic", "m", [{ fault: status(429) }, { skip: 1, fault: status(529) }])
      yield* Effect.gen(function* () {
        for (let n = 0; n < 2; n++) {
          yield* Effect.forkChild(ask)
          yield* TestClock.adjust("1 minute")
        }
      }).pipe(Effect.provide(Presets.s11.layer([target])), Effect.provide(log))
      assert.match(lines[0] ?? "", /^\[429 rate limit\] retry 1\/10/)
      assert.match(lines[1] ?? "", /^\[529 overloaded\] retry 1\/10/)
      assert.lengthOf(lines, 2)
    })
  )
})
