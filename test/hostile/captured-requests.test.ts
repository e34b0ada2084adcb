/**
 * Captured requests of other programs, moved to each wire format: strict servers accept all of them.
 *
 * The captures stand beside the repository, and the test is skipped without them.
 */
import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Anthropic, Google, OpenAi } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"
import { Effect, Redacted, Schema } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import type { Prompt } from "effect/ai"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { policy } from "../services/Hasty.ts"
import { promptOf } from "./captured.ts"

const folder = new URL("../../../shared/captures/requests/", import.meta.url)
const isThere = existsSync(folder)
if (!isThere) console.log("skipped: captured requests (../shared/captures/requests is not there)")

/** Requests that are left out, with the reason. */
const leftOut: Readonly<Record<string, string>> = {
  "gemini--cassettes-test-google-test-google-model-empty-user-prompt-0-483a.json":
    "Its only message is empty: the refusal is what it records."
}

/** A test of requests: plain answers are quicker than streams. */
const info = { wholeAnswers: "request" } as const
const keys = [KeySource.value("KEY", Redacted.make("sk-0123456789abcdef"))]

const targets: Readonly<Record<string, (server: FakeProvider.FakeProvider) => ProviderModel.TargetSpec>> = {
  "Anthropic Messages": (server) =>
    Anthropic.model("claude-sonnet-4-5", { keys, info, baseUrl: server.baseUrl("anthropic") }),
  "OpenAI Chat Completions": (server) =>
    OpenAi.chatModel("gpt-4.1", { keys, info, baseUrl: server.baseUrl("openai") }),
  "OpenAI Responses": (server) => OpenAi.model("gpt-5.1", { keys, info, baseUrl: server.baseUrl("openai") }),
  Gemini: (server) => Google.model("gemini-3-pro-preview", { keys, info, baseUrl: server.baseUrl("google") })
}

/** A conversation with calls needs some tool: Anthropic's server insists. */
const Kit = Toolkit.make(Tool.make("look", { success: Schema.String }))
const KitLive = Kit.toLayer({ look: () => Effect.succeed("nothing") })

/** What decides about a conversation: everything but the words of its texts. */
const shapeOf = (prompt: Prompt.Prompt): string =>
  JSON.stringify(prompt, (key, value: unknown) =>
    typeof value !== "string" || !["text", "content", "result", "data"].includes(key)
      ? value
      : value.trim() === ""
        ? "blank"
        : "words"
  )

const all = isThere
  ? readdirSync(folder)
      .filter((name) => !(name in leftOut))
      .map((name) => [name, promptOf(name, JSON.parse(readFileSync(new URL(name, folder), "utf8")))] as const)
  : []

/** One request of each shape: most of the others ask one short question. */
const captures = [...new Map(all.map((capture) => [shapeOf(capture[1]), capture])).values()]

describe.skipIf(!isThere)("captured requests", () => {
  for (const [wire, target] of Object.entries(targets)) {
    it.live(
      `are accepted by a strict server of ${wire}`,
      () =>
        Effect.gen(function* () {
          const server = yield* FakeProvider.make({ plan: { answers: () => ({ text: "ok" }) } })
          const refused = yield* Effect.forEach(captures, ([name, prompt]) =>
            Effect.match(LanguageModel.generateText({ prompt, toolkit: Kit }), {
              onSuccess: ({ text }) => (text === "ok" ? [] : [`${name}: ${text}`]),
              onFailure: ({ message }) => [`${name}: ${message.slice(0, 300)}`]
            })
          ).pipe(Effect.provide([Failover.layer([target(server)], { policy }), KitLive]))
          assert.deepStrictEqual(refused.flat(), [])
          assert.isAbove(all.length, 200)
        }),
      60_000
    )
  }
})
