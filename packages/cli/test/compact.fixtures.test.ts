/** The transcripts of `test/fixtures/transcripts`, and one of a million tokens, compacted to several windows. */
import { readFile } from "node:fs/promises"
import { Effect, Redacted, Schema } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import { Failover, KeySource } from "@outlast/agent"
import { Anthropic, Catalogue, Google, OpenAi } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"
import { assert, describe, it } from "vitest"
import type { Fixture } from "../../../test/fixtures/transcripts/generate.ts"
import { fileOf, fixtures } from "../../../test/fixtures/transcripts/generate.ts"
import * as Sweeps from "../../../test/sweeps.ts"
import type { Json } from "./transcripts.ts"
import { assertValid, compact, headers, isGoal, listOf, pathOf, read, tokensOf } from "./transcripts.ts"

const bodyOf = async (name: string): Promise<Json> => JSON.parse(await readFile(fileOf(name), "utf8"))

const bindsThinking = ({ model }: Fixture): boolean =>
  Catalogue.find(model)?.capabilities.bindsThinking === true

/** Windows as shares of the conversation's tokens. */
const shares = Sweeps.full([0.9, 0.5, 0.25, 0.15], [0.5, 0.15])

describe("the transcripts", () => {
  it("match the output of the generator, are long, and cover every format", async () => {
    const names = Object.keys(fixtures)
    assert.isAtLeast(names.length, 10)
    assert.sameMembers(
      [...new Set(Object.values(fixtures).map(({ format }) => format))],
      ["anthropic-messages", "openai-chat", "gemini", "effect-ai"]
    )
    for (const [name, { make }] of Object.entries(fixtures)) {
      const body = await bodyOf(name)
      assert.deepStrictEqual(body, JSON.parse(JSON.stringify(make())), name)
      assert.isAtLeast(listOf(body).length, 200, name)
    }
  })
})

describe.each(Object.entries(fixtures))("%s", (name, fixture) => {
  const binds = bindsThinking(fixture)

  it("is recognised in its format, and written back unchanged", async () => {
    const body = await bodyOf(name)
    const transcript = read(body)
    assert.strictEqual(transcript.format, fixture.format)
    assert.deepStrictEqual(transcript.write(transcript.prompt), body)
    const { report } = await compact(body, 10 * tokensOf(transcript))
    assert.deepInclude(report, { tier: "none", dropped: [] })
  })

  it.each(shares)("fits into a window of %d of its tokens", async (share) => {
    const body = await bodyOf(name)
    const window = Math.floor(share * tokensOf(read(body)))
    const compacted = await compact(body, window, { bindsThinking: binds })
    assertValid(body, compacted, { bindsThinking: binds })
  })

  it("fits again after it has grown, and recognises the earlier summary", async () => {
    const body = await bodyOf(name)
    const window = Math.floor(0.2 * tokensOf(read(body)))
    const once = await compact(body, window, { bindsThinking: binds })
    assert.strictEqual(once.report.tier, "plain")
    const list = once.before.list
    // Repeats the conversation from the second user message on.
    const second = listOf(body).findIndex((message, i) => i > 0 && isGoal(message))
    const grown = renamed({
      ...once.body,
      [list]: [...listOf(once.body), ...listOf(body).slice(second)]
    })
    const twice = await compact(grown, window, { bindsThinking: binds })
    assertValid(grown, twice, { bindsThinking: binds })
    assert.include(JSON.stringify(twice.body), "Before that:")
  })
})

/** Renames the ids of calls, which are unique in a conversation. */
const renamed = (body: Json): Json => {
  const seen = new Map<string, number>()
  const fresh = (id: string, calls: boolean): string => {
    const n = (seen.get(id) ?? 0) + (calls ? 1 : 0)
    seen.set(id, n)
    return n <= 1 ? id : `${id}_${n}`
  }
  return JSON.parse(JSON.stringify(body), function (this: Json, field: string, value: unknown) {
    if (typeof value !== "string") return value
    const isCall = this["type"] === "tool_use" || this["type"] === "tool-call" || this["type"] === "function"
    if (field === "id" && isCall) return fresh(value, true)
    return field === "tool_use_id" || field === "tool_call_id" || (field === "id" && "result" in this)
      ? fresh(value, false)
      : value
  })
}

// -----------------------------------------------------------------------------
// Refusals by the providers
// -----------------------------------------------------------------------------

/** Sends a body to the strict fake of its provider, which refuses what the provider would refuse. */
const send = (fixture: Fixture, body: Json, window: number): Promise<{ status: number; text: string }> =>
  Effect.gen(function* () {
    const { format, model } = fixture
    const server = yield* FakeProvider.make({
      plan: { answers: () => ({ text: "I go on." }) },
      windows: { [model]: window }
    })
    const url = `${server.url}${pathOf(format, model)}`
    return yield* Effect.promise(async () => {
      const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })
      return { status: response.status, text: await response.text() }
    })
  }).pipe(Effect.scoped, Effect.runPromise)

describe.each(Object.entries(fixtures).filter(([, { format }]) => format !== "effect-ai"))(
  "the provider's strict fake, with %s",
  (name, fixture) => {
    it("is accepted unchanged", async () => {
      const answer = await send(fixture, await bodyOf(name), 1_000_000)
      assert.strictEqual(answer.status, 200, answer.text)
    })

    it.each(shares)("is accepted after compaction to a window of %d of its tokens", async (share) => {
      const body = await bodyOf(name)
      const window = Math.floor(share * tokensOf(read(body)))
      const compacted = await compact(body, window, { bindsThinking: bindsThinking(fixture) })
      const answer = await send(fixture, compacted.body, window)
      assert.strictEqual(answer.status, 200, answer.text)
    })
  }
)

// -----------------------------------------------------------------------------
// effect/ai prompts, at each of the providers
// -----------------------------------------------------------------------------

const keys = [KeySource.value("KEY", Redacted.make("sk-0123456789abcdef"))]

const targets = {
  "claude-sonnet-4-5": (server: FakeProvider.FakeProvider) =>
    Anthropic.model("claude-sonnet-4-5", { keys, baseUrl: server.baseUrl("anthropic") }),
  "gpt-4o": (server: FakeProvider.FakeProvider) =>
    OpenAi.chatModel("gpt-4o", { keys, baseUrl: server.baseUrl("openai") }),
  "gemini-3-flash": (server: FakeProvider.FakeProvider) =>
    Google.model("gemini-3-flash", { keys, baseUrl: server.baseUrl("google") })
} as const

describe.each(Object.entries(fixtures).filter(([, { format }]) => format === "effect-ai"))("%s", (name) => {
  it.each(Object.entries(targets))("is a prompt that %s accepts after any compaction", (_, target) =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: () => ({ text: "I go on." }) } })
      const body = yield* Effect.promise(() => bodyOf(name))
      const window = tokensOf(read(body))
      const model = Failover.layer([target(server)])
      for (const share of shares) {
        const compacted = yield* Effect.promise(() => compact(body, Math.floor(share * window)))
        yield* LanguageModel.generateText({
          prompt: yield* Schema.decodeUnknownEffect(Prompt.Prompt)(compacted.body),
          // A history with calls requires tools.
          toolkit: Toolkit.make(Tool.make("read_file"), Tool.make("lookup_order")),
          disableToolCallResolution: true
        }).pipe(Effect.provide(model))
      }
      const requests = yield* server.requests
      assert.deepStrictEqual(
        requests.map(({ outcome }) => outcome.type),
        shares.map(() => "answer")
      )
    }).pipe(Effect.scoped, Effect.runPromise)
  )
})

describe("a conversation of a million tokens", { timeout: 120_000 }, () => {
  const some = Sweeps.full(
    ["anthropic-repository", "openai-repository", "gemini-operations", "effect-support"],
    ["anthropic-repository"]
  )
  const long = Object.entries(fixtures).filter(([name]) => some.includes(name))
  it.each(long)("fits into 200,000: %s", async (_, fixture) => {
    const body = JSON.parse(JSON.stringify(fixture.make(28)))
    assert.isAtLeast(tokensOf(read(body)), 1_000_000)
    const compacted = await compact(body, 200_000, { outputLimit: 8_000 })
    assertValid(body, compacted)
    if (fixture.format === "effect-ai") return
    const answer = await send(fixture, compacted.body, 200_000)
    assert.strictEqual(answer.status, 200, answer.text)
  })
})
