/** Exact counts for OpenAI's models, and images and files by the rules of their vendors. */
import { assert, describe, it } from "@effect/vitest"
import { TokenCounter } from "@outlast/agent/compaction"
import { Catalogue, Tokenizers } from "@outlast/providers"
import * as Sweeps from "../../../test/sweeps.ts"
import * as Encoding from "#providers/counting/Encoding"
import { Effect } from "effect"
import { Prompt, Tool } from "effect/ai"
import { countTokens as cl100k } from "gpt-tokenizer/encoding/cl100k_base"
import { countTokens as o200k } from "gpt-tokenizer/encoding/o200k_base"
import { png, random, talks } from "./longTalks.ts"

const said = (...content: ReadonlyArray<Prompt.UserMessagePart>) =>
  Prompt.makeMessage("user", { content: [...content] })
const text = (text: string) => said(Prompt.makePart("text", { text }))
const image = (data: Prompt.FilePart["data"]) =>
  said(Prompt.makePart("file", { mediaType: "image/png", data }))

const counter = Effect.flatMap(TokenCounter.TokenCounter, Effect.succeed).pipe(
  Effect.provide(Tokenizers.layer())
)

describe("Tokenizers", () => {
  it.effect("without gpt-tokenizer fails with what to install", () =>
    Effect.gen(function* () {
      const missing = () => Promise.reject(new Error("Cannot find package 'gpt-tokenizer'"))
      const error = yield* Effect.flip(Encoding.load("o200k_base", missing))
      assert.strictEqual(error._tag, "TokenizerMissing")
      assert.include(error.message, "npm install gpt-tokenizer")
    })
  )

  const sentence = "Ελληνικά, 東京 and naïve `code(42)` make 1,234 tokens?"

  it.effect.each([
    ["gpt-4o", o200k],
    ["gpt-5.1", o200k],
    ["o3", o200k],
    ["gpt-4o-2024-08-06", o200k],
    ["openai/gpt-4.1-mini", o200k],
    ["gpt-4", cl100k],
    ["gpt-4-turbo-preview", cl100k]
  ] as const)("counts for %s by its tokenizer, and three for the message", ([model, count]) =>
    Effect.gen(function* () {
      const meter = (yield* counter).for(model)
      assert.strictEqual(meter.message(text(sentence)), count(sentence) + 3)
      const tool = Tool.make("search", { description: sentence })
      const schema = JSON.stringify(Tool.getJsonSchema(tool))
      assert.strictEqual(meter.tools([tool]), count("search") + count(sentence) + count(schema) + 3)
    })
  )

  it.effect.each(["claude-sonnet-4", "unheard-of", undefined])("estimates for %s", (model) =>
    Effect.gen(function* () {
      const meter = (yield* counter).for(model)
      assert.strictEqual(
        meter.message(text(sentence)),
        TokenCounter.estimate.for(model).message(text(sentence))
      )
    })
  )

  it.effect("loads the chosen encodings, and counts custom models", () =>
    Effect.gen(function* () {
      const own = {
        provider: "house",
        model: "house-model",
        capabilities: {},
        counting: { encoding: "cl100k_base", image: { by: "image", tokens: 7 }, page: 11 },
        source: "https://example.com"
      } as const
      const counter = yield* Tokenizers.make({
        encodings: ["cl100k_base"],
        catalogue: Catalogue.extend([own])
      })
      const meter = counter.for("house-model")
      assert.strictEqual(meter.message(text(sentence)), cl100k(sentence) + 3)
      assert.strictEqual(meter.message(image(png(5_000, 5_000))), 10)
      const pdf = Prompt.makePart("file", { mediaType: "application/pdf", data: new Uint8Array(100_000) })
      assert.strictEqual(meter.message(said(pdf)), 25)
      const estimated = TokenCounter.estimate.for("gpt-4o").message(text(sentence))
      assert.strictEqual(counter.for("gpt-4o").message(text(sentence)), estimated)
    })
  )

  it.effect("counts the names of special tokens as text", () =>
    Effect.gen(function* () {
      for (const name of Tokenizers.encodings) {
        const count = yield* Encoding.load(name)
        for (const special of ["<|endoftext|>", "<|im_start|>system", "<|fim_prefix|>"])
          assert.isAbove(count(special), 3)
      }
    })
  )

  // Token counts by the pages that `ImageRule` names.
  const images: ReadonlyArray<readonly [model: string, width: number, height: number, tokens: number]> = [
    ["claude-sonnet-4", 1_000, 1_000, 1_334],
    ["claude-sonnet-4", 200, 200, 54],
    ["claude-sonnet-4", 3_000, 2_000, 1_600],
    ["claude-sonnet-4", 4_000, 400, 329],
    ["claude-opus-4-8", 2_000, 1_500, 4_000],
    ["claude-opus-4-8", 8_000, 8_000, 4_784],
    ["gpt-4o", 1_024, 1_024, 765],
    ["gpt-4o", 2_048, 4_096, 1_105],
    ["gpt-4o", 300, 200, 255],
    ["gpt-4o-mini", 1_024, 1_024, 25_501],
    ["gpt-5", 1_024, 1_024, 630],
    ["o3", 1_024, 1_024, 675],
    ["gpt-4.1-mini", 1_024, 1_024, 1_659],
    ["gpt-4.1-mini", 4_000, 1_474, 2_489],
    ["gpt-5.4", 1_600, 1_600, 3_000],
    ["gemini-2.5-flash", 384, 384, 258],
    ["gemini-2.5-flash", 960, 540, 1_548],
    ["gemini-2.5-flash", 1_024, 1_024, 1_032],
    ["gemini-2.5-flash", 8_000, 8_000, 4_128],
    ["gemini-3-flash", 960, 540, 1_120],
    // A header may claim a line of four billion pixels.
    ["claude-sonnet-4", 4_000_000_000, 1, 3],
    ["gpt-4o", 1, 4_000_000_000, 765],
    ["gemini-2.5-flash", 4_000_000_000, 1, 3_096]
  ]
  it.effect.each(images)("an image at %s of %d × %d takes %d tokens", ([model, width, height, tokens]) =>
    Effect.gen(function* () {
      const meter = (yield* counter).for(model)
      const overhead = meter.message(text(""))
      assert.strictEqual(meter.message(image(png(width, height))) - overhead, tokens)
      const base64 = Buffer.from(png(width, height)).toString("base64")
      assert.strictEqual(meter.message(image(base64)) - overhead, tokens)
    })
  )

  it.effect("an image behind a URL counts as 1,024 × 1,024", () =>
    Effect.gen(function* () {
      const meter = (yield* counter).for("gpt-4o")
      assert.strictEqual(meter.message(image(new URL("https://example.com/a.png"))), 765 + 3)
    })
  )
})

describe("a text", () => {
  it.effect("is counted exactly up to 262,144 characters of prose, code and JSON", () =>
    Effect.gen(function* () {
      const count = yield* Encoding.load("o200k_base")
      for (const { turns, name } of talks) {
        for (const { before } of turns) {
          for (const message of before) {
            if (message.role !== "user") continue
            for (const part of message.content) {
              if (part.type === "text") assert.strictEqual(count(part.text), o200k(part.text), name)
            }
          }
        }
      }
      const long = "The answer to the question of the day is 42, they said. "
        .repeat(4_681)
        .slice(0, Encoding.maxText)
      assert.strictEqual(count(long), o200k(long))
    })
  )

  const numbers = random(7)
  const of = (length: number, next: () => string) => Array.from({ length }, next).join("")
  const letter = () => String.fromCharCode(97 + numbers.below(26))
  // Long runs, short enough to compare with the tokenizer itself.
  const without: ReadonlyArray<readonly [string, string]> = [
    ["one letter", "a".repeat(4_000)],
    ["one sign", "=".repeat(4_000)],
    ["one word", "中".repeat(4_000)],
    ["random letters", of(4_000, letter)],
    ["white space", " ".repeat(4_000)],
    ["accents", "e\u0301".repeat(2_000)],
    ["accents of signs", "!\u0301".repeat(1_000)],
    ["hearts", "\u2764\ufe0f".repeat(1_000)],
    ["slashes and line feeds", "/\n".repeat(1_000)]
  ]
  it.effect.each(without)(
    "of one run, %s, is counted in pieces, with at most one extra token each",
    ([, text]) =>
      Effect.gen(function* () {
        for (const [name, exact] of [
          ["o200k_base", o200k],
          ["cl100k_base", cl100k]
        ] as const) {
          const count = yield* Encoding.load(name)
          assert.isAtLeast(count(text), exact(text))
          assert.isAtMost(count(text), exact(text) + Math.ceil(text.length / Encoding.maxRun))
        }
      })
  )

  it.effect.each(Sweeps.everyNth(2, without))(
    "of 300,000 characters of %s is counted in proportion by samples",
    ([, text]) =>
      Effect.gen(function* () {
        assert.isBelow(Encoding.maxText, 300_000)
        for (const name of Encoding.names) {
          const count = yield* Encoding.load(name)
          const times = 300_000 / text.length
          assert.approximately(count(text.repeat(times)) / (times * count(text)), 1, 0.05)
        }
      })
  )

  it.effect("longer than that is estimated by samples, within 2 %", () =>
    Effect.gen(function* () {
      const count = yield* Encoding.load("o200k_base")
      const words = () =>
        numbers.of(["alpha ", '{ "id": 42 }, ', "незачем ", "東京。", "\n", "const x = 1; "])
      const text = of(150_000, words)
      assert.isAbove(text.length, 2 * Encoding.maxText)
      assert.approximately(count(text) / o200k(text), 1, 0.02)
    })
  )
})
