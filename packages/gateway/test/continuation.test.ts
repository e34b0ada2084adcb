/**
 * A stream that is cut at any event goes on at the second target, and the vendors' own clients read one whole answer.
 */
import Anthropic from "@anthropic-ai/sdk"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Gateway } from "@outlast/gateway"
import type { Answer } from "./Answers.ts"
import * as Answers from "./Answers.ts"
import { readers } from "./Clients.ts"
import * as Vendor from "./Vendor.ts"

const text = ["Rivers bend ", "because water ", "erodes the outer ", "bank of each loop ", "over many years."]
const all = text.join("")

/** The rest of the answer, behind what the request says has been said. */
const rest = (answer: Answer, partial: string): Answer => {
  const left = answer.text.join("").slice(partial.length)
  return {
    ...answer,
    id: "second",
    text: left === "" ? [] : [left.slice(0, 8), left.slice(8)].filter((piece) => piece !== "")
  }
}

const shapes: Readonly<Record<string, Omit<Answer, "id">>> = {
  "a text": { text },
  "thinking and a text": { text, thinking: "I see." },
  "a text and a call": { text, call: ['{"a"', ":1}"] },
  "a call": { text: [], call: ['{"a"', ":1}"] }
}

for (const wire of ["chat", "messages", "responses"] as const) {
  describe(`${wire}: a cut stream goes on`, () => {
    for (const [name, shape] of Object.entries(shapes)) {
      const answer: Answer = { id: "first", ...shape }
      const events = Answers.stream(wire, answer)
      for (let n = 0; n < events.length; n++) {
        it.effect(`${name}, cut after ${n} of ${events.length} events`, () =>
          Effect.gen(function* () {
            const partials: Array<string> = []
            const first = yield* Vendor.start((response, { socket }) => {
              Vendor.stream(response, events.slice(0, n).join(""), true)
              setImmediate(() => socket.destroy())
            })
            const second = yield* Vendor.start((response, hit) => {
              const partial = Answers.partialOf(hit)
              partials.push(partial)
              assert.isTrue(all.startsWith(partial), partial)
              Vendor.stream(response, Answers.stream(wire, rest(answer, partial)).join(""))
            })
            const gateway = yield* Gateway.make({
              routes: {
                route: {
                  chain: [Vendor.target(wire, first, "a"), Vendor.target(wire, second, "b")],
                  policy: Vendor.impatient
                }
              }
            })
            const read = yield* Effect.promise(() => readers[wire](gateway.fetch))
            assert.strictEqual(read.text, answer.text.join(""))
            assert.strictEqual(read.call, answer.call?.join(""))
            assert.include(["first", "second"], read.id)
            if (partials.some((partial) => partial !== "")) assert.strictEqual(read.id, "first")
          })
        )
      }
    }
  })
}

describe("what is never continued", () => {
  it.effect("messages: an answer after a tool that the provider ran ends with the wire's error", () =>
    Effect.gen(function* () {
      const events = [
        {
          type: "message_start",
          message: { id: "m", type: "message", role: "assistant", content: [], usage: { input_tokens: 1 } }
        },
        {
          type: "content_block_start",
          index: 0,
          content_block: { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} }
        },
        {
          type: "content_block_delta",
          index: 0,
          delta: { type: "input_json_delta", partial_json: '{"query":"rivers"}' }
        },
        { type: "content_block_stop", index: 0 },
        {
          type: "content_block_start",
          index: 1,
          content_block: { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] }
        },
        { type: "content_block_stop", index: 1 },
        { type: "content_block_start", index: 2, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 2, delta: { type: "text_delta", text: "Rivers " } }
      ].map((event) => Vendor.events("messages", [JSON.stringify(event)]))
      const first = yield* Vendor.start((response, { socket }) => {
        Vendor.stream(response, events.join(""), true)
        setImmediate(() => socket.destroy())
      })
      const second = yield* Vendor.start((response) => Vendor.json(response, 500, {}))
      const chain = [Vendor.target("messages", first, "a"), Vendor.target("messages", second, "b")] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      const asked = Vendor.request("messages", { stream: true })
      const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, "messages", asked))
      const body = yield* Effect.promise(() => answer.text())
      assert.isTrue(body.startsWith(events.join("")), body)
      assert.match(body.slice(events.join("").length), /event: error\ndata: \{"type":"error","error":/)
      assert.lengthOf(second.hits, 0)
    })
  )
})

describe("the usage of a continued answer", () => {
  it.effect.each([
    ["messages", 10],
    // It was cut before it told any.
    ["chat", 5]
  ] as const)("messages: has the input of the attempts after one over %s, too", ([format, tokens]) =>
    Effect.gen(function* () {
      const events = Answers.stream(format, { id: "first", text })
      const first = yield* Vendor.start((response, { socket }) => {
        Vendor.stream(response, events.slice(0, 5).join(""), true)
        setImmediate(() => socket.destroy())
      })
      const second = yield* Vendor.start((response, hit) =>
        Vendor.stream(
          response,
          Answers.stream("messages", rest({ id: "second", text }, Answers.partialOf(hit))).join("")
        )
      )
      const chain = [Vendor.target(format, first, "a"), Vendor.target("messages", second, "b")] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      const client = new Anthropic({ apiKey: "none", baseURL: "http://gateway", fetch: gateway.fetch })
      const { content, usage } = yield* Effect.promise(() =>
        client.messages
          .stream({ model: "route", max_tokens: 1000, messages: [{ role: "user", content: "Hello" }] })
          .finalMessage()
      )
      assert.deepStrictEqual(
        content.map((block) => (block.type === "text" ? block.text : block.type)),
        [all]
      )
      assert.strictEqual(usage.input_tokens, tokens)
    })
  )

  it.effect.each(["messages", "responses", "chat"] as const)("%s: is what is known of all attempts", (wire) =>
    Effect.gen(function* () {
      const events = Answers.stream(wire, { id: "first", text })
      const first = yield* Vendor.start((response, { socket }) => {
        Vendor.stream(response, events.slice(0, 6).join(""), true)
        setImmediate(() => socket.destroy())
      })
      const second = yield* Vendor.start((response, hit) =>
        Vendor.stream(
          response,
          Answers.stream(wire, { ...rest({ id: "second", text }, Answers.partialOf(hit)), tokens: 30 }).join(
            ""
          )
        )
      )
      const chain = [Vendor.target(wire, first, "a"), Vendor.target(wire, second, "b")] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      const read = yield* Effect.promise(() => readers[wire](gateway.fetch))
      // Only Anthropic says at the start what an answer has taken.
      assert.strictEqual(read.outputTokens, wire === "messages" ? 31 : 30)
      assert.strictEqual(read.text, all)
    })
  )
})
