/**
 * Images that a provider refuses are replaced with a note, and the call continues.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Prompt } from "effect/ai"
import { LanguageModel } from "effect/ai"
import { Failover, FailoverReason } from "@outlast/agent"
import type { Chain, Played } from "../support.ts"
import { answer, failure, failureOf, inTime, played, policy, recording, serverError } from "../support.ts"

const refused = failure(new FailoverReason.Format({ side: "request", media: true }))
const refuses = Effect.fail(refused)

const image = (name: string): Prompt.FilePartEncoded => ({
  type: "file",
  mediaType: "image/png",
  fileName: `${name}.png`,
  data: new TextEncoder().encode(name)
})
const user = (...content: ReadonlyArray<string | Prompt.FilePartEncoded>): Prompt.UserMessageEncoded => ({
  role: "user",
  content: content.map((part) => (typeof part === "string" ? { type: "text", text: part } : part))
})
const assistant = (text: string): Prompt.MessageEncoded => ({
  role: "assistant",
  content: [{ type: "text", text }]
})
const ask = (...prompt: ReadonlyArray<Prompt.MessageEncoded>) => LanguageModel.generateText({ prompt })

/** Returns the content of each request to a target: names of images, and the texts beside them. */
const sent = ({ requests }: Played) =>
  requests.map(({ request }) =>
    request.prompt.content.flatMap((message) =>
      message.role !== "user"
        ? []
        : message.content.map((part) => (part.type === "file" ? (part.fileName ?? "") : part.text))
    )
  )
const note = (name: string) => `[A file that you cannot read: ${name}.png, image/png]`

const over = (chain: Chain) => Effect.provide(Failover.layer(chain, { policy }))

describe("an image that the provider refuses", () => {
  it.effect("is replaced by a note, and the same target answers (anthropics/claude-code#25592)", () =>
    Effect.gen(function* () {
      const target = played({ answers: [refuses, answer("hello")] })
      const { text } = yield* inTime(ask(user("What is this?", image("a"))).pipe(over([target])))
      assert.strictEqual(text, "hello")
      assert.deepStrictEqual(sent(target), [
        ["What is this?", "a.png"],
        ["What is this?", note("a")]
      ])
    })
  )

  it.effect("stays a note in later calls, which are not refused again", () =>
    Effect.gen(function* () {
      const target = played({ answers: [refuses, answer("one"), answer("two")] })
      yield* inTime(
        Effect.gen(function* () {
          yield* ask(user("x", image("a")))
          yield* ask(user("x", image("a")), assistant("one"), user("y", image("b")))
        }).pipe(over([target]))
      )
      assert.deepStrictEqual(sent(target).at(-1), ["x", note("a"), "y", "b.png"])
      assert.strictEqual(target.requests.length, 3)
    })
  )

  it.effect("leaves other images of conversations that begin alike, also after two refusals", () =>
    Effect.gen(function* () {
      const target = played({ answers: [refuses, answer("1"), refuses, answer("2"), answer("3")] })
      const read = (name: string) =>
        ask(user("Extract the fields.", { ...image(name), fileName: "scan.png" }))
      yield* inTime(Effect.all([read("corrupt"), read("cut"), read("good")]).pipe(over([target])))
      assert.deepStrictEqual(sent(target).at(-1), ["Extract the fields.", "scan.png"])
    })
  )

  it.effect("is sent again when the memory is full and newer ones were refused", () =>
    Effect.gen(function* () {
      const target = played({ answers: [refuses, answer("1"), answer("2")] })
      const images = Array.from({ length: 1_001 }, (_, i) => image(`${i}`))
      const both = [image("0"), image("1000")]
      yield* inTime(Effect.all([ask(user(...images)), ask(user(...both))]).pipe(over([target])))
      assert.deepStrictEqual(sent(target).at(-1), ["0.png", note("1000")])
    })
  )

  it.effect("is searched after the last answer first, because earlier ones were accepted", () =>
    Effect.gen(function* () {
      const target = played({ answers: [refuses, answer("hello")] })
      yield* inTime(ask(user("x", image("a")), assistant("one"), user("y", image("b"))).pipe(over([target])))
      assert.deepStrictEqual(sent(target).at(-1), ["x", "a.png", "y", note("b")])
    })
  )

  it.effect("may be any of the conversation when none is new", () =>
    Effect.gen(function* () {
      const target = played({ answers: [refuses, answer("hello")] })
      yield* inTime(ask(user("x", image("a")), assistant("one"), user("y")).pipe(over([target])))
      assert.deepStrictEqual(sent(target).at(-1), ["x", note("a"), "y"])
    })
  )

  it.effect("is sent to other models as it is", () =>
    Effect.gen(function* () {
      const first = played({ answers: [refuses, refuses] })
      const second = { ...played({ model: "m2", answers: [answer("hello")] }), provider: "other" }
      const { text } = yield* inTime(ask(user("x", image("a"))).pipe(over([first, second])))
      assert.strictEqual(text, "hello")
      assert.deepStrictEqual(sent(second), [["x", "a.png"]])
      assert.strictEqual(first.requests.length, 2)
    })
  )

  it.effect("is reported by an event", () =>
    Effect.gen(function* () {
      const target = played({ answers: [refuses, answer("hello")] })
      const { layer, of } = recording()
      yield* inTime(ask(user("x", image("a"), image("b"))).pipe(over([target]), Effect.provide(layer)))
      assert.deepStrictEqual(
        of("MediaDropped").map(({ dropped }) => dropped),
        [2]
      )
    })
  )

  it.effect("is reported once by each later call, too, however many attempts it makes", () =>
    Effect.gen(function* () {
      const target = played({
        answers: [refuses, answer("1"), Effect.fail(serverError), answer("2"), answer("3"), answer("4")]
      })
      const { layer, of } = recording()
      const asked = ask(user("x", image("a")), assistant("1"), user("y", image("b"), image("a")))
      yield* inTime(
        Effect.all([ask(user("x", image("a"))), asked, asked, ask(user("x"))]).pipe(
          over([target]),
          Effect.provide(layer)
        )
      )
      assert.deepStrictEqual(
        of("MediaDropped").map(({ call, dropped }) => [call, dropped]),
        [
          [1, 1],
          [2, 2],
          [3, 2]
        ]
      )
    })
  )

  it.effect("ends the call when the request has no image", () =>
    Effect.gen(function* () {
      const target = played({ answers: [refuses, answer("no")] })
      const failed = yield* inTime(failureOf(ask(user("x"))).pipe(over([target])))
      assert.deepInclude(failed, { _tag: "ProviderFailure", reason: refused.reason })
      assert.strictEqual(target.requests.length, 1)
    })
  )

  it.effect("is replaced in the result of a tool too", () =>
    Effect.gen(function* () {
      const target = played({ answers: [refuses, answer("hello")] })
      const prompt: ReadonlyArray<Prompt.MessageEncoded> = [
        user("x"),
        { role: "assistant", content: [{ type: "tool-call", id: "c1", name: "shot", params: {} }] },
        {
          role: "tool",
          content: [
            {
              type: "tool-result",
              id: "c1",
              name: "shot",
              isFailure: false,
              result: "ok",
              modelOutput: [image("a")]
            }
          ]
        }
      ]
      yield* inTime(ask(...prompt).pipe(over([target])))
      assert.include(JSON.stringify(target.requests[1]?.request.prompt), note("a"))
      assert.notInclude(JSON.stringify(target.requests[0]?.request.prompt), note("a"))
    })
  )
})
