/** Options and events that cannot be meant are refused where they are given, with the field and what is allowed. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { ResilienceEvents } from "@outlast/resilience"
import { DeadLetters, DeliveryStore, EventBus, MemoryBus, Outbox, TooLarge } from "@outlast/delivery"
import { NatsBus } from "@outlast/delivery/nats"
import type { NewEvent } from "@outlast/delivery"
import * as Event from "#delivery/Event"

const body = new Uint8Array(1)

describe("an event", () => {
  const wrong: ReadonlyArray<readonly [Partial<NewEvent>, RegExp]> = [
    [{ subject: "" }, /subject must be parts separated by dots/],
    [{ subject: "a..b" }, /subject/],
    [{ subject: "a.*" }, /subject/],
    [{ subject: "a b" }, /subject/],
    [{ subject: "a\nb" }, /subject/],
    [{ id: "" }, /id must be a text of 1 to 255/],
    [{ id: "a\r\nNats-Msg-Id: b" }, /id/],
    [{ headers: { "Nats-Msg-Id": "x" } }, /headers must be names/],
    [{ headers: { "a b": "x" } }, /headers/],
    [{ headers: { A: "x\r\ny" } }, /headers\.A must be a text without control characters/],
    [{ id: "\ud800" }, /id/],
    [{ subject: "a\udc00" }, /subject/],
    [{ headers: { A: "\ud800" } }, /headers\.A/],
    [{ headers: null as never }, /headers must be an object of texts/],
    [{ headers: "text" as never }, /headers must be an object of texts/],
    [{ headers: { A: 1 as never } }, /headers\.A must be a text .* its value is not shown/],
    [{ body: "text" as never }, /body must be a Uint8Array/]
  ]
  for (const [part, says] of wrong) {
    it(`is refused for ${JSON.stringify(part)}`, () => {
      assert.throws(() => Event.make({ subject: "a", body, ...part }), says)
    })
  }
  it("that is missing is refused", () => {
    assert.throws(() => Event.make(undefined as never), /event must be an object with a subject and a body/)
  })
  it("with parts in any script is taken, and measured in bytes", () => {
    const event = Event.make({ subject: "bestellung.grün", id: "1", body, headers: { A: "ü" } })
    assert.strictEqual(Event.sizeOf(event), 1 + 1 + 16 + 1 + 2 + 4)
  })
  it("matches patterns part by part", () => {
    assert.isTrue(Event.matches("a.*.c", "a.b.c"))
    assert.isFalse(Event.matches("a.*", "a.b.c"))
    assert.isTrue(Event.matches("a.>", "a.b.c"))
    assert.isFalse(Event.matches("a.>", "a"))
    assert.isFalse(Event.matches("a.b", "a.b.c"))
  })
})

describe("options", () => {
  const outbox = (options: Outbox.OutboxOptions) =>
    Effect.runPromise(
      Effect.scoped(
        Layer.build(
          Outbox.layer(options).pipe(
            Layer.provide(MemoryBus.layer()),
            Layer.provide(DeliveryStore.layerMemory())
          )
        )
      )
    ).then(
      () => "fine",
      (error: unknown) => String(error)
    )
  const wrong: ReadonlyArray<readonly [object, RegExp]> = [
    [{ mod: "x" }, /"mod" is not an option/],
    [{ mode: "fast" }, /mode must be "brokerFirst" or "alwaysStore"/],
    [{ publisher: "replay" }, /publisher must be/],
    [{ cap: { events: 0 } }, /cap\.events must be/],
    [{ whenFull: "wait" }, /whenFull/],
    [{ lease: "1 second" }, /lease must be at least twice sweepEvery/],
    [{ drainBatch: 0 }, /drainBatch/],
    [{ circuit: { trip: { consecutive: { failures: 0 } } } }, /failures/]
  ]
  for (const [options, says] of wrong) {
    it(`are refused: ${JSON.stringify(options)}`, async () => {
      assert.match(await outbox(options), says)
    })
  }
  it("of NATS and of a store are refused", () => {
    assert.throws(() => NatsBus.layer({} as never), /servers is missing/)
    assert.throws(() => NatsBus.layer({ servers: "a", timeout: 5 }), /timeout/)
    // The client would connect to a server on this machine.
    assert.throws(() => NatsBus.layer({ servers: [] }), /servers must be at least one address/)
  })
})

describe("the subject of a consumer", () => {
  const read = (subject: string) =>
    Effect.runPromiseExit(
      Effect.provide(
        Stream.runHead(Stream.interruptWhen(EventBus.subscribe({ subject, durable: "d" }), Effect.yieldNow)),
        DeadLetters.layer.pipe(
          Layer.provide(DeliveryStore.layerMemory()),
          Layer.provideMerge(MemoryBus.layer()),
          Layer.provide(ResilienceEvents.layer())
        )
      )
    )
  for (const subject of ["a..b", "a.", ".a", "a b", "a*.b", "a.>.b", ""]) {
    it(`is refused: "${subject}"`, async () => {
      assert.match(String(await read(subject)), /subject must be parts separated by dots/)
    })
  }
  for (const subject of ["a.b", "*.b", "a.*", "a.>", ">", "*"]) {
    it(`is accepted: "${subject}"`, async () => {
      assert.notMatch(String(await read(subject)), /must be/)
    })
  }
})

it("errors say what happened and what to do", () => {
  const error = new TooLarge({ subject: "a", bytes: 10, limit: 5 })
  assert.strictEqual(
    error.message,
    "The event for `a` has 10 bytes, and 5 are allowed. It was not stored. Store the content elsewhere and publish a reference to it."
  )
})
