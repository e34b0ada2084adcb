/** The end of the feed of events: readers end once, whatever happens behind it. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { ResilienceEvents } from "@outlast/resilience"
import type { Readable } from "node:stream"
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

/** What a reader has got so far. */
const textOf = (body: Readable | undefined) => Buffer.from(body?.read() ?? "").toString()

it.effect("an event of 16,384 characters is sent whole, a longer one with its tag and time only", () =>
  Effect.gen(function* () {
    const feed = yield* EventFeed.make(EventFeed.defaults)
    const body = yield* feed.open(undefined)
    const sized = (length: number) => {
      const base = { _tag: "Large", at: 7, text: "" }
      return { ...base, text: "x".repeat(length - JSON.stringify(base).length) }
    }
    const longest = sized(16_384)
    yield* ResilienceEvents.publish(longest)
    yield* ResilienceEvents.publish(sized(16_385))
    yield* ResilienceEvents.publish(event(2))
    yield* TestClock.adjust("1 second")
    const data = [...textOf(body).matchAll(/^event: (?:Large|Happened)\ndata: (.*)$/gm)].map(
      ([, json]): unknown => JSON.parse(json ?? "")
    )
    assert.deepStrictEqual(data, [longest, { _tag: "Large", at: 7, omitted: "too long" }, event(2)])
  }).pipe(Effect.scoped, Effect.provide(ResilienceEvents.layer()))
)

it.effect("an event that is not JSON, or whose tag breaks lines, does not break the stream", () =>
  Effect.gen(function* () {
    const feed = yield* EventFeed.make(EventFeed.defaults)
    const body = yield* feed.open(undefined)
    yield* ResilienceEvents.publish({ _tag: "Big", at: 1, size: 1n } as ResilienceEvents.ResilienceEvent)
    yield* ResilienceEvents.publish({ _tag: "Two\nevent: Forged", at: 2 })
    yield* TestClock.adjust("1 second")
    const frames = textOf(body).split("\n\n").slice(1, -1)
    assert.deepStrictEqual(
      frames.map((frame) => frame.split("\n").slice(1)),
      [
        ["event: Big", 'data: {"_tag":"Big","at":1,"omitted":"not JSON"}'],
        ["event: Two_event__Forged", 'data: {"_tag":"Two\\nevent: Forged","at":2}']
      ]
    )
  }).pipe(Effect.scoped, Effect.provide(ResilienceEvents.layer()))
)

it.effect("a reader too many is refused, and one that leaves makes room", () =>
  Effect.gen(function* () {
    const feed = yield* EventFeed.make({ ...EventFeed.defaults, maxReaders: 2 })
    const first = yield* feed.open(undefined)
    yield* feed.open(undefined)
    assert.isUndefined(yield* feed.open(undefined))
    assert.strictEqual(yield* feed.readers, 2)
    const closed = Effect.callback<void>((resume) => void first?.once("close", () => resume(Effect.void)))
    first?.destroy()
    yield* closed
    assert.strictEqual(yield* feed.readers, 1)
    assert.isDefined(yield* feed.open(undefined))
  }).pipe(Effect.scoped, Effect.provide(ResilienceEvents.layer()))
)

it.effect("a quiet reader gets a comment, and a busy one its events at most every 100 ms", () =>
  Effect.gen(function* () {
    const feed = yield* EventFeed.make(EventFeed.defaults)
    const body = yield* feed.open(undefined)
    yield* TestClock.adjust("1 second")
    textOf(body)
    yield* TestClock.adjust("5100 millis")
    assert.strictEqual(textOf(body), ": ping\n\n")
    yield* TestClock.adjust("100 millis")
    yield* ResilienceEvents.publish(event(1))
    yield* TestClock.adjust(0)
    assert.include(textOf(body), '"n":1')
    for (const n of [2, 3, 4]) {
      yield* ResilienceEvents.publish(event(n))
      yield* TestClock.adjust("30 millis")
      assert.strictEqual(textOf(body), "")
    }
    yield* TestClock.adjust("10 millis")
    assert.strictEqual([...textOf(body).matchAll(/"n":/g)].length, 3)
  }).pipe(Effect.scoped, Effect.provide(ResilienceEvents.layer()))
)

it.effect(
  "a reader with more than one write before it gets all of them, and one that goes on misses none",
  () =>
    Effect.gen(function* () {
      const feed = yield* EventFeed.make(EventFeed.defaults)
      const first = yield* feed.open(undefined)
      for (let n = 0; n < 60; n++) {
        yield* ResilienceEvents.publish({
          ...event(n),
          text: "x".repeat(10_000)
        } as ResilienceEvents.ResilienceEvent)
      }
      const numbers: Array<number> = []
      let id = ""
      for (let round = 0; round < 10 && numbers.length < 60; round++) {
        yield* TestClock.adjust("100 millis")
        for (const [, at = "", n] of textOf(first).matchAll(/^id: (\S+)\nevent: Happened\n.*?"n":(\d+)/gm)) {
          numbers.push(Number(n))
          id = at
        }
      }
      assert.deepStrictEqual(
        numbers,
        Array.from({ length: 60 }, (_, n) => n)
      )
      yield* ResilienceEvents.publish(event(60))
      const second = yield* feed.open(id)
      yield* TestClock.adjust("1 second")
      const text = textOf(second)
      assert.include(text, "event: hello")
      assert.include(text, '"n":60')
      assert.notInclude(text, '"n":59')
      const ofAnotherProcess = id.replace(/^./, (first) => (first === "0" ? "1" : "0"))
      assert.include(textOf(yield* feed.open(ofAnotherProcess)), "event: reset")
    }).pipe(Effect.scoped, Effect.provide(ResilienceEvents.layer()))
)
