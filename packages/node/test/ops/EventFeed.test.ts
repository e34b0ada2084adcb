/** The end of the feed of events: readers end once, whatever happens behind it. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { ResilienceEvents } from "@outlast/resilience"
import * as EventFeed from "#node/ops/EventFeed"

const event = (n: number) => ({ _tag: "Happened", at: n, n })

it.effect("events behind the end reach no reader, and break none that has not read everything", () =>
  Effect.gen(function* () {
    const feed = yield* EventFeed.make(EventFeed.defaults)
    const body = yield* feed.open(undefined)
    assert.isDefined(body)
    const errors: Array<Error> = []
    body?.on("error", (error) => errors.push(error))
    yield* ResilienceEvents.publish(event(1))
    yield* feed.end
    yield* ResilienceEvents.publish(event(2))
    yield* TestClock.adjust("10 seconds")
    const text = Buffer.from(body?.read() ?? "").toString()
    assert.deepStrictEqual(errors, [])
    assert.include(text, '"n":1')
    assert.notInclude(text, '"n":2')
    assert.match(text, /event: shutdown\ndata: \{\}\n\n$/)
    assert.isUndefined(yield* feed.open(undefined))
    assert.strictEqual(yield* feed.readers, 0)
  }).pipe(Effect.scoped, Effect.provide(ResilienceEvents.layer()))
)
