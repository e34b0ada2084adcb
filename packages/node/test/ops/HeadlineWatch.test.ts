/** The line in the log when the first line of the status page changes. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { ResilienceEvents } from "@outlast/resilience"
import type { Headline } from "#node/ops/Headline"
import { watch } from "#node/ops/HeadlineWatch"

const fine: Headline = { level: "good", text: "All is well.", parts: [], nextTries: {} }
const broken = (text: string, key: string): Headline => ({
  level: "bad",
  text,
  parts: [
    { key, level: "bad", needsPerson: false, text, since: null, next: null, until: null, advice: null }
  ],
  nextTries: {}
})

it.effect("another problem is published once, and so is the end of the last one", () =>
  Effect.gen(function* () {
    let now = fine
    const texts: Array<string> = []
    yield* ResilienceEvents.tap((event) =>
      Effect.sync(() => {
        if (event._tag === "HeadlineChanged" && "text" in event) texts.push(String(event.text))
      })
    )
    yield* Effect.forkScoped(watch(Effect.sync(() => now)))
    for (const next of [
      fine,
      broken("in 8 s", "a"),
      broken("in 3 s", "a"),
      broken("other", "b"),
      fine,
      fine
    ]) {
      now = next
      yield* TestClock.adjust("5 seconds")
    }
    assert.deepStrictEqual(texts, ["in 8 s", "other", "All is well."])
  }).pipe(Effect.scoped, Effect.provide(ResilienceEvents.layer()))
)
