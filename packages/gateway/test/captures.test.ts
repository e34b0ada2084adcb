/**
 * Recorded answers of vendors pass unchanged through a route with one target. The recordings are not part of the
 * repository: without them, only that they are absent is said.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Gateway } from "@outlast/gateway"
import * as Answers from "./Answers.ts"
import { files, isError, leftOut, linesOf, parse, textOf, turnsOf, wireOf } from "./Captures.ts"
import type { WireName } from "./Vendor.ts"
import * as Vendor from "./Vendor.ts"

/** A ping may come before the end of a block that is held. */
const withoutPings = (text: string): string => text.replaceAll(/event: ping\ndata: [^\n]*\n\n/g, "")

/** The text of an answer, as its events say it. */
const textIn = (wire: WireName, body: string): string =>
  Array.from(body.matchAll(/^data: (\{.*)$/gm), ([, data = ""]) => parse(data))
    .map((value) => {
      if (wire === "chat") {
        const content = value.choices?.[0]?.delta?.content
        return typeof content === "string" ? content : ""
      }
      if (wire === "messages") return value.delta?.type === "text_delta" ? value.delta.text : ""
      return value.type === "response.output_text.delta" ? value.delta : ""
    })
    .join("")

/** Places of a stream of so many events at which it is cut. */
const placesOf = (events: number): ReadonlyArray<number> =>
  [
    ...new Set([1, 2, 3, 5, 8, Math.floor(events / 3), Math.floor(events / 2), events - 4, events - 2])
  ].filter((n) => n > 0 && n < events)

describe.skipIf(files.length === 0)("recorded streams that are cut", () => {
  for (const file of files.filter((file) => file.endsWith("chunks.txt") && !leftOut.has(file))) {
    const lines = linesOf(file)
    const wire = lines.map((line) => wireOf(parse(line))).find((wire) => wire !== undefined)
    if (wire === undefined) continue
    const [turn = []] = turnsOf(wire, lines)
    const sent = turn.map((line) => Vendor.events(wire, [line]))
    const text = textIn(wire, sent.join(""))
    if (text === "") continue
    it.effect(`${file} ends as a whole text, or with an error`, () =>
      Effect.gen(function* () {
        for (const place of placesOf(sent.length)) {
          const first = yield* Vendor.start((response, { socket }) => {
            Vendor.stream(response, sent.slice(0, place).join(""), true)
            setImmediate(() => socket.destroy())
          })
          const second = yield* Vendor.start((response, hit) => {
            const partial = Answers.partialOf(hit)
            const rest = text.startsWith(partial) ? text.slice(partial.length) : "?"
            Vendor.stream(response, Answers.stream(wire, { id: "second", text: [rest] }).join(""))
          })
          const chain = [Vendor.target(wire, first, "a"), Vendor.target(wire, second, "b")] as const
          const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
          const asked = Vendor.request(wire, { stream: true })
          const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, asked))
          const body = yield* Effect.promise(() => answer.text())
          const isError =
            answer.status !== 200 || /"type":"error"|"response\.failed"|^data: \{"error"/m.test(body)
          if (!isError) assert.strictEqual(textIn(wire, body), text, `cut after ${place}`)
          else assert.notMatch(body, /\[DONE\]|message_stop|response\.completed/)
          if (wire !== "messages") continue
          // Blocks do not interleave, and each ends once.
          const blocks = Array.from(
            body.matchAll(/"type":"content_block_(start|stop)","index":(\d+)/g),
            ([, edge, index]) => `${edge} ${index}`
          )
          const count = Math.ceil(blocks.length / 2)
          const expected = Array.from({ length: count }, (_, i) => [`start ${i}`, `stop ${i}`]).flat()
          assert.deepStrictEqual(
            blocks,
            isError ? expected.slice(0, blocks.length) : expected,
            `cut after ${place}`
          )
        }
      })
    )
  }
})

describe.skipIf(files.length === 0)("recorded answers", () => {
  for (const file of files) {
    const text = textOf(file)
    if (file.endsWith(".json")) {
      const value = parse(text)
      const wire = wireOf(value)
      if (wire === undefined || isError(value)) continue
      it.effect(`${file} comes back as it is`, () =>
        Effect.gen(function* () {
          const vendor = yield* Vendor.start((response) => Vendor.json(response, 200, text))
          const gateway = yield* Gateway.make({ routes: { route: { chain: [Vendor.target(wire, vendor)] } } })
          const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, Vendor.request(wire)))
          const body = yield* Effect.promise(() => answer.text())
          assert.strictEqual(body, text)
          assert.strictEqual(answer.status, 200)
        })
      )
    } else {
      const lines = linesOf(file)
      const values = lines.map(parse)
      const wire = values.map(wireOf).find((wire) => wire !== undefined)
      if (wire === undefined || leftOut.has(file)) continue
      turnsOf(wire, lines).forEach((turn, i) => {
        it.effect(`${file}, answer ${i + 1}, comes back event by event`, () =>
          Effect.gen(function* () {
            const sent = Vendor.events(wire, turn)
            const vendor = yield* Vendor.start((response) => Vendor.stream(response, sent))
            const gateway = yield* Gateway.make({
              routes: { route: { chain: [Vendor.target(wire, vendor)] } }
            })
            const asked = Vendor.request(wire, Vendor.streaming(wire))
            const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, asked))
            const body = yield* Effect.promise(() => answer.text())
            assert.strictEqual(withoutPings(body), withoutPings(sent))
          })
        )
      })
    }
  }
})
