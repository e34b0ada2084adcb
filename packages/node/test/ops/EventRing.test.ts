/** The ring of events against a model that keeps everything. */
import { assert, describe, it } from "vitest"
import * as fc from "fast-check"
import { EventRing } from "#node/ops/EventRing"
import * as Sweeps from "../../../../test/sweeps.ts"

const maxEvents = 16
const maxBytes = 200

interface Model {
  readonly pushed: Array<string>
  /** Position and what was read, by reader. */
  readonly readers: Array<{ at: number; read: string; isLost: boolean }>
}

type Ring = EventRing<string>

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString()

class Push implements fc.Command<Model, Ring> {
  readonly event: string
  constructor(event: string) {
    this.event = event
  }
  check = () => true
  run(model: Model, ring: Ring): void {
    ring.push(this.event)
    model.pushed.push(this.event)
    assert.isAtMost(ring.next - ring.oldest, maxEvents)
  }
  toString = () => `push(${this.event.length})`
}

class Join implements fc.Command<Model, Ring> {
  check = () => true
  run(model: Model, ring: Ring): void {
    model.readers.push({ at: ring.next, read: "", isLost: false })
  }
  toString = () => "join"
}

class Read implements fc.Command<Model, Ring> {
  readonly reader: number
  readonly limit: number
  constructor(reader: number, limit: number) {
    this.reader = reader
    this.limit = limit
  }
  check = (model: Readonly<Model>) => model.readers.length > 0
  run(model: Model, ring: Ring): void {
    const reader = model.readers[this.reader % model.readers.length]
    if (reader === undefined || reader.isLost) return
    const chunk = ring.read(reader.at, this.limit)
    if (chunk === undefined) {
      assert.isBelow(reader.at, ring.oldest, "only a reader whose position has left the ring is lost")
      reader.isLost = true
      return
    }
    const expected = model.pushed.slice(reader.at - 1, chunk.next - 1).join("")
    assert.strictEqual(text(chunk.bytes), expected, "whole events, in order, each once")
    const longest = Math.max(0, ...model.pushed.map((event) => event.length))
    assert.isAtMost(chunk.bytes.length, Math.max(this.limit, longest))
    if (reader.at < ring.next) assert.isAbove(chunk.next, reader.at, "a read goes on")
    reader.at = chunk.next
  }
  toString = () => `read(${this.reader}, ${this.limit})`
}

class Trim implements fc.Command<Model, Ring> {
  check = () => true
  run(_: Model, ring: Ring): void {
    ring.trim()
    assert.isAtMost(ring.bytes, maxBytes)
  }
  toString = () => "trim"
}

describe("EventRing", () => {
  it("gives each reader every event once and in order, or tells it that it is too late", () => {
    const commands = [
      fc.string({ minLength: 1, maxLength: 40, unit: "grapheme-ascii" }).map((event) => new Push(event)),
      fc.constant(new Join()),
      fc.tuple(fc.nat(5), fc.integer({ min: 1, max: 120 })).map(([reader, limit]) => new Read(reader, limit)),
      fc.constant(new Trim())
    ]
    fc.assert(
      fc.property(fc.commands(commands, { maxCommands: 120 }), (commands) => {
        const model: Model = { pushed: [], readers: [] }
        const encodedOnce = new Set<number>()
        const ring: Ring = new EventRing({
          maxEvents,
          maxBytes,
          encode: (event, position) => {
            assert.isFalse(encodedOnce.has(position), "no event is encoded twice")
            encodedOnce.add(position)
            assert.isAbove(model.readers.length, 0, "nothing is encoded without a reader")
            return Buffer.from(event)
          }
        })
        fc.modelRun(() => ({ model, real: ring }), commands)
      }),
      { numRuns: Sweeps.runs(500) }
    )
  })

  it("drops the oldest beyond its bytes, and tells a reader that has not read them", () => {
    const ring: Ring = new EventRing({ maxEvents, maxBytes, encode: (event) => Buffer.from(event) })
    for (let n = 0; n < 10; n++) ring.push("x".repeat(40))
    assert.strictEqual(ring.read(1, 1_000)?.bytes.length, 400)
    ring.trim()
    assert.deepStrictEqual([ring.oldest, ring.bytes], [6, 200])
    assert.isUndefined(ring.read(5, 1_000))
    assert.strictEqual(ring.read(6, 1_000)?.bytes.length, 200)
  })

  it("gives readers at the same position the same bytes", () => {
    const ring: Ring = new EventRing({ maxEvents, maxBytes, encode: (event) => Buffer.from(event) })
    ring.push("a")
    ring.push("b")
    assert.strictEqual(ring.read(1, 100)?.bytes, ring.read(1, 100)?.bytes)
    ring.push("c")
    assert.strictEqual(text(ring.read(1, 100)?.bytes ?? new Uint8Array()), "abc")
  })

  it("refuses a position of the future", () => {
    const ring: Ring = new EventRing({ maxEvents, maxBytes, encode: (event) => Buffer.from(event) })
    ring.push("a")
    assert.isUndefined(ring.read(3, 100))
    assert.isTrue(ring.holds(2))
  })
})
