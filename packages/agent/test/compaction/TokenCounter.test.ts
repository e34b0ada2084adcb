/** Counting of every part of a request, once per message. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Prompt, Tool } from "effect/ai"
import { InvalidOption } from "@outlast/resilience"
import { Compaction } from "@outlast/agent"
import { TokenCounter } from "@outlast/agent/compaction"
import { assistant, lorem, system, tokensOf, turn, user } from "./support.ts"

const meter = TokenCounter.estimate.for("any")

describe("the estimate", () => {
  it("counts texts by their script", () => {
    assert.strictEqual(meter.message(user("a".repeat(400))), 104)
    assert.strictEqual(meter.message(system("a".repeat(400))), 104)
    assert.strictEqual(meter.message(user("東京".repeat(100))), 204)
    assert.strictEqual(meter.message(user("é".repeat(100))), 54)
  })

  it("counts thinking, calls, results, and the model output that replaces a result", () => {
    const [call, result] = turn("id", { found: "a".repeat(288) })
    assert.isAtLeast(meter.message(call!), 8)
    assert.strictEqual(meter.message(result!), 108)
    const reasoning = Prompt.makeMessage("assistant", {
      content: [Prompt.makePart("reasoning", { text: "a".repeat(40) })]
    })
    assert.strictEqual(meter.message(reasoning), 14)
    const image = Prompt.makePart("file", { mediaType: "image/png", data: "AQ==" })
    const shown = Prompt.makeMessage("tool", {
      content: [
        Prompt.makePart("tool-result", {
          id: "a",
          name: "see",
          result: "a".repeat(4_000),
          modelOutput: [Prompt.makePart("text", { text: "abcd" }), image],
          isFailure: false,
          providerExecuted: false
        })
      ]
    })
    assert.strictEqual(meter.message(shown), 1_609)
  })

  it("counts values that JSON cannot express as empty", () => {
    const cycle: Record<string, unknown> = {}
    cycle["self"] = cycle
    for (const result of [1n, cycle, undefined]) assert.isAtLeast(meter.message(turn("id", result)[1]!), 1)
  })

  it("counts files by rule", () => {
    const file = (mediaType: string, data: string | Uint8Array | URL) =>
      TokenCounter.fileTokens(Prompt.makePart("file", { mediaType, data }))
    assert.deepStrictEqual(
      [
        file("image/png", new Uint8Array(5_000_000)),
        file("application/pdf", new Uint8Array(120_000)),
        file("text/plain", "a".repeat(400)),
        file("video/mp4", new Uint8Array(1_000_000)),
        file("video/mp4", new Uint8Array(10)),
        file("application/pdf", new URL("https://example.com/a.pdf"))
      ],
      [1_600, 6_000, 75, 10_000, 1_000, 1_600]
    )
  })

  it("counts the schemas of tools", () => {
    const small = Tool.make("search")
    const large = Tool.make("search", {
      description: lorem(100),
      parameters: Schema.Struct({ query: Schema.String, page: Schema.Finite })
    })
    assert.isAbove(meter.tools([large]), meter.tools([small]) + 100)
    assert.strictEqual(meter.tools([small, small]), 2 * meter.tools([small]))
  })
})

describe("a custom counter", () => {
  it.effect("counts each message once over several turns", () =>
    Effect.gen(function* () {
      const counted: Array<string> = []
      const text = (text: string) => {
        counted.push(text)
        return text.length
      }
      const counter = TokenCounter.make({ text, json: text, file: () => 7, overhead: 1 })
      const compaction = yield* Compaction.make()
      const fit = (prompt: Prompt.Prompt) =>
        compaction
          .fit(prompt, { window: 1_000 })
          .pipe(Effect.provideService(TokenCounter.TokenCounter, counter))
      const history = [user("one"), assistant("three")]
      assert.strictEqual((yield* fit(Prompt.fromMessages(history))).report.tokensBefore, 10)
      yield* fit(Prompt.fromMessages([...history, user("four")]))
      assert.deepStrictEqual(counted, ["one", "three", "four"])
      const file = Prompt.makeMessage("user", {
        content: [Prompt.makePart("file", { mediaType: "a/b", data: "" })]
      })
      assert.strictEqual(counter.for(undefined).message(file), 8)
    })
  )

  it.effect("may depend on the model and give a more exact count than the sum", () =>
    Effect.gen(function* () {
      const asked: Array<string | undefined> = []
      const counter: TokenCounter.Service = {
        for: (model) => {
          asked.push(model)
          return {
            ...meter,
            exact: (messages) => Effect.succeed(tokensOf(Prompt.fromMessages(messages)) * 2)
          }
        }
      }
      const compaction = yield* Compaction.make()
      const prompt = Prompt.fromMessages([
        user("Go."),
        ...turn("a", lorem(500)),
        ...Array.from({ length: 4 }, () => user(lorem(60)))
      ])
      const { report } = yield* compaction
        .fit(prompt, { window: 1_000, model: "m" })
        .pipe(Effect.provideService(TokenCounter.TokenCounter, counter))
      assert.deepStrictEqual(asked, ["m"])
      // The sum was 80 % of the window, the exact count is 160 %. Compaction reaches 60 % of the exact count.
      assert.isAtLeast(report.tokensBefore, 1_600)
      assert.isAtMost(report.tokensAfter, 600)
      assert.strictEqual(report.limit, 900)
    })
  )

  it("rejects a negative overhead", () => {
    assert.throws(() => TokenCounter.make({ overhead: -1 }), InvalidOption)
  })
})
