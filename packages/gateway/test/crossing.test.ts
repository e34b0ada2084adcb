/**
 * A stream that is cut at any event goes on at a target of another format, and the vendors' own clients read one whole
 * answer: one id, one start, one end.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Gateway } from "@outlast/gateway"
import type { Answer } from "./Answers.ts"
import * as Answers from "./Answers.ts"
import { readers } from "./Clients.ts"
import type { Format, WireName } from "./Vendor.ts"
import * as Vendor from "./Vendor.ts"

const text = ["Rivers bend ", "because water ", "erodes the outer ", "bank of each loop."]
const all = text.join("")

const shapes: Readonly<Record<string, Omit<Answer, "id">>> = {
  "thinking and a text": { text, thinking: "I see." },
  "a text and a call": { text, call: ['{"a"', ":1}"] },
  "a call": { text: [], call: ['{"a"', ":1}"] }
}

/** The rest of the answer, behind what the request says has been said. */
const rest = (answer: Omit<Answer, "id">, partial: string): Answer => {
  const left = answer.text.join("").slice(partial.length)
  return { ...answer, id: "second", text: left === "" ? [] : [left.slice(0, 8), left.slice(8)] }
}

const wires = ["chat", "messages", "responses"] as const
const formats: ReadonlyArray<Format> = [...wires, "gemini"]

/** Pairs of formats of which at least one is not the caller's. */
const pairsFor = (wire: WireName): ReadonlyArray<readonly [Format, Format]> =>
  formats
    .flatMap((first) => formats.map((second) => [first, second] as const))
    .filter(([first, second]) => first !== wire || second !== wire)

for (const wire of wires) {
  describe(`${wire}: a cut stream goes on over another format`, () => {
    for (const [first, second] of pairsFor(wire)) {
      for (const [name, shape] of Object.entries(shapes)) {
        it.effect(`from ${first} to ${second}: ${name}, cut at each event`, () =>
          Effect.gen(function* () {
            const events = Answers.stream(first, { id: "first", ...shape })
            for (let n = 0; n < events.length; n++) {
              const partials: Array<string> = []
              const one = yield* Vendor.start((response, { socket }) => {
                Vendor.stream(response, events.slice(0, n).join(""), true)
                setImmediate(() => socket.destroy())
              })
              const two = yield* Vendor.start((response, hit) => {
                const partial = Answers.partialOf(hit)
                partials.push(partial)
                Vendor.stream(response, Answers.stream(second, rest(shape, partial)).join(""))
              })
              const chain = [Vendor.target(first, one, "a"), Vendor.target(second, two, "b")] as const
              const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
              const read = yield* Effect.promise(() => readers[wire](gateway.fetch))
              const at = `cut after ${n} of ${events.length}`
              assert.isTrue(
                partials.every((partial) => all.startsWith(partial)),
                at
              )
              assert.strictEqual(read.text, shape.text.join(""), at)
              assert.strictEqual(read.call, shape.call?.join(""), at)
              // An answer keeps the id that it began with: that of its vendor, or one of the caller's format.
              const ofFirst = first === wire ? /^first$/ : ids[wire]
              const ofSecond = second === wire ? /^second$/ : ids[wire]
              const isShown = partials.some((partial) => partial !== "")
              assert.isTrue(ofFirst.test(read.id) || (!isShown && ofSecond.test(read.id)), `${read.id} ${at}`)
              assert.strictEqual(read.end, ends[wire][shape.call === undefined ? "stop" : "call"], at)
            }
          })
        )
      }
    }
  })
}

describe("an answer of three formats", () => {
  const orders: ReadonlyArray<readonly [Format, Format, Format]> = [
    ["messages", "responses", "gemini"],
    ["gemini", "chat", "messages"],
    ["responses", "messages", "chat"]
  ]

  for (const wire of wires) {
    it.effect.each(orders)(`${wire}: begins at %s, goes on at %s, and ends at %s`, (order) =>
      Effect.gen(function* () {
        const vendors = yield* Effect.forEach(order, (format, i) =>
          Vendor.start((response, hit) => {
            const left = rest({ text }, Answers.partialOf(hit))
            const [one = "", ...others] = left.text.join("").match(/.{1,20}/g) ?? []
            const events = Answers.stream(format, {
              id: `from-${i}`,
              text: i === 2 ? [one, ...others] : [one]
            })
            // Without the end of the text, which a client of Gemini has with its last piece.
            const count = i === 2 ? events.length : events.findIndex((event) => event.includes(one)) + 1
            Vendor.stream(response, events.slice(0, count).join(""), i < 2)
            if (i < 2) setImmediate(() => hit.socket.destroy())
          })
        )
        const [a, b, c] = order.map((format, i) =>
          Vendor.target(format, vendors[i] ?? assert.fail("no vendor"), `model-${i}`)
        )
        if (a === undefined || b === undefined || c === undefined) return assert.fail("no target")
        const gateway = yield* Gateway.make({
          routes: { route: { chain: [a, b, c], policy: Vendor.impatient } }
        })
        const read = yield* Effect.promise(() => readers[wire](gateway.fetch))
        assert.strictEqual(read.text, all)
        assert.strictEqual(read.end, ends[wire].stop)
        assert.deepStrictEqual(
          vendors.flatMap(({ hits }) => hits.map(Answers.partialOf)),
          ["", all.slice(0, 20), all.slice(0, 40)]
        )
        assert.deepStrictEqual(
          vendors.map(({ hits }) => hits.length),
          [1, 1, 1]
        )
      })
    )
  }
})

describe("a caller that leaves", () => {
  it.effect.each(formats)("ends the request to a target that speaks %s", (format) =>
    Effect.gen(function* () {
      for (const wire of wires.filter((wire) => wire !== format)) {
        for (const stream of [true, false]) {
          const hit = Promise.withResolvers<Vendor.Hit>()
          const vendor = yield* Vendor.start((response, each) => {
            const events = Answers.stream(format, { id: "one", text })
            // Two events of a text, and no end. Nothing for a whole answer.
            if (stream) Vendor.stream(response, events.slice(0, -2).join(""), true)
            hit.resolve(each)
          })
          const chain = [Vendor.target(format, vendor)] as const
          const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
          const left = new AbortController()
          const path = { chat: "chat/completions", messages: "messages", responses: "responses" }[wire]
          const asked = gateway.fetch(`http://gateway/v1/${path}`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify(Vendor.request(wire, { stream })),
            signal: left.signal
          })
          const { closed } = yield* Effect.promise(() => hit.promise)
          if (stream) yield* Effect.promise(async () => void (await asked).body?.getReader().read())
          left.abort()
          if (!stream)
            assert.isTrue(
              yield* Effect.promise(() =>
                asked.then(
                  () => false,
                  () => true
                )
              )
            )
          yield* Effect.promise(() => closed)
        }
      }
    })
  )
})

const ids = { chat: /^chatcmpl-\w{32}$/, messages: /^msg_\w{32}$/, responses: /^resp_\w{32}$/ } as const

const ends = {
  chat: { stop: "stop", call: "tool_calls" },
  messages: { stop: "end_turn", call: "tool_use" },
  responses: { stop: "completed", call: "completed" }
} as const
