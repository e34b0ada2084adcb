import { assert, describe, it } from "@effect/vitest"
import { ContextWindows } from "@outlast/agent/compaction"
import { Anthropic, Catalogue } from "@outlast/providers"
import { Effect } from "effect"

describe("Catalogue", () => {
  const windows: ReadonlyArray<readonly [string, number]> = [
    ["claude-sonnet-4", 200_000],
    ["claude-opus-4", 200_000],
    // The model in the documentation's examples.
    ["gpt-5.1", 400_000],
    ["gpt-4o", 128_000],
    ["gpt-4", 8_192],
    ["gemini-1.5-pro", 2_097_152],
    ["deepseek-chat", 65_536],
    ["qwen-plus", 131_072]
  ]
  it.each(windows)("knows the window of %s", (model, window) => {
    assert.strictEqual(Catalogue.find(model)?.contextWindow, window)
  })

  const names: ReadonlyArray<readonly [string, string | undefined]> = [
    ["claude-sonnet-4-5-20250929", "claude-sonnet-4-5"],
    ["claude-sonnet-4-20250514", "claude-sonnet-4"],
    ["claude-sonnet-4-0", "claude-sonnet-4"],
    ["claude-sonnet-4@20250514", "claude-sonnet-4"],
    ["us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"],
    ["anthropic/claude-sonnet-4-5", "claude-sonnet-4-5"],
    ["gpt-4o-2024-08-06", "gpt-4o"],
    ["gpt-4o-mini-2024-07-18", "gpt-4o-mini"],
    ["gpt-4.1", "gpt-4.1"],
    ["gemini-1.5-pro-002", "gemini-1.5-pro"],
    ["models/gemini-3.1-pro-preview", "gemini-3.1-pro"],
    ["gpt-4o-2024-05-13", "gpt-4o-2024-05-13"],
    ["gpt-4-0613", "gpt-4"],
    ["gpt-4.1-2025-04-14", "gpt-4.1"],
    ["gpt-4-turbo-preview", "gpt-4-turbo"],
    ["gemini-2.5-flash-lite-preview-09-2025", "gemini-2.5-flash-lite"],
    ["models/gemini-2.0-flash-001", "gemini-2.0-flash"],
    // Separate models whose names begin like another's.
    ["gpt-4-1106-preview", undefined],
    ["gpt-4-32k", undefined],
    ["gemini-2.5-flash-preview-tts", undefined],
    ["gemini-2.0-flash-preview-image-generation", undefined],
    ["deepseek-coder", undefined],
    // A separate model without an entry.
    ["claude-sonnet-4-9", undefined],
    ["gpt-4o-audio", undefined],
    ["gpt-45", undefined],
    ["unheard-of", undefined]
  ]
  it.each(names)("finds %s", (model, found) => {
    assert.strictEqual(Catalogue.find(model)?.model, found)
  })

  it("names a vendor page for every entry, and lists no model twice", () => {
    for (const entry of Catalogue.entries) assert.match(entry.source, /^https:\/\//)
    const models = Catalogue.entries.map(({ provider, model }) => `${provider}/${model}`)
    assert.lengthOf(new Set(models), models.length)
  })

  it("has plausible prices only", () => {
    for (const { price } of Catalogue.entries) {
      if (price === undefined) continue
      assert.isAbove(price.input, 0)
      assert.isAbove(price.output, price.input)
      assert.isAtMost(price.cacheRead ?? 0, price.input)
    }
  })

  it("has no price for a model at another provider", () => {
    assert.isDefined(Catalogue.infoOf("anthropic", "claude-sonnet-4-5").price)
    const elsewhere = Catalogue.infoOf("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0")
    assert.isUndefined(elsewhere.price)
    assert.strictEqual(elsewhere.contextWindow, 200_000)
    assert.deepStrictEqual(Catalogue.infoOf("anthropic", "unheard-of"), {})
  })

  it("is extended by entries that replace existing ones", () => {
    const own = {
      provider: "openai",
      model: "gpt-4o",
      contextWindow: 1,
      capabilities: {},
      source: "https://example.com"
    }
    const extended = Catalogue.extend([own])
    assert.lengthOf(extended, Catalogue.entries.length)
    assert.strictEqual(Catalogue.find("gpt-4o", extended)?.contextWindow, 1)
    assert.strictEqual(Catalogue.find("gpt-4o")?.contextWindow, 128_000)
  })

  it.effect("gives windows, unless they are given by name or learned", () =>
    Effect.gen(function* () {
      const windows = yield* ContextWindows.ContextWindows
      const of = (...models: ReadonlyArray<string>) => Effect.forEach(models, windows.of)
      assert.deepStrictEqual(
        yield* of("claude-sonnet-4-20250514", "gpt-4o", "house-model", "house-model-2", "unheard-of"),
        [200_000, 64_000, 32_768, undefined, undefined]
      )
      yield* windows.learn("house-model", 16_384)
      yield* windows.learn("gpt-4o", 128_000)
      assert.deepStrictEqual(yield* of("house-model", "gpt-4o"), [16_384, 64_000])
    }).pipe(Effect.provide(Catalogue.layerWindows({ windows: { "house-model": 32_768, "gpt-4o": 64_000 } })))
  )

  it.effect("gives the windows of a custom catalogue", () =>
    Effect.gen(function* () {
      const windows = yield* ContextWindows.ContextWindows
      assert.deepStrictEqual(yield* Effect.forEach(["gpt-4o", "claude-sonnet-4"], windows.of), [1, 200_000])
    }).pipe(
      Effect.provide(
        Catalogue.layerWindows({
          catalogue: Catalogue.extend([
            {
              provider: "openai",
              model: "gpt-4o",
              contextWindow: 1,
              capabilities: {},
              source: "https://example.com"
            }
          ])
        })
      )
    )
  )

  it.effect("describes the model of a target, unless info replaces it", () =>
    Effect.gen(function* () {
      const known = yield* Anthropic.model("claude-sonnet-4-5").build
      assert.strictEqual(known.info.contextWindow, 200_000)
      const told = yield* Anthropic.model("claude-sonnet-4-5", { info: { contextWindow: 1_000_000 } }).build
      assert.strictEqual(told.info.contextWindow, 1_000_000)
      assert.strictEqual(told.info.maxOutputTokens, 64_000)
    }).pipe(Effect.scoped)
  )
})
