import { assert, describe, it } from "@effect/vitest"
import * as Classifier from "@outlast/agent/failure/Classifier"
import { ProviderFailure } from "@outlast/agent/failure/ProviderFailure"
import { Effect, Exit, Cause, Redacted, Stream } from "effect"
import { IdGenerator, Prompt } from "effect/ai"
import { FakeProvider, ScriptedModel } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import { events, hello, open, readAll } from "./http.ts"

// One plan, two runners: the sequence of what a caller hears must be the same.

/** What a caller heard, and how it ended: a reason of a failure, or a finish reason. */
interface Heard {
  readonly text: string
  readonly end: string
}

const plan: FaultPlan.FaultPlan = {
  faults: [
    { fault: { type: "status", status: 429, headers: { "retry-after": "7" } } },
    { when: { streaming: false }, times: 2, fault: { type: "reset" } },
    { fault: { type: "cut", after: 2 } },
    { fault: { type: "reset", after: 1 } },
    { fault: { type: "stream-error", after: 3, error: { type: "overloaded_error", message: "Overloaded" } } },
    { when: { streaming: true }, fault: { type: "reset" } },
    { fault: { type: "garbage", body: { unexpected: true } } },
    { fault: { type: "status", status: 401 } },
    { fault: { type: "status", status: 502 } },
    { fault: { type: "status", status: 503 } },
    { fault: { type: "status", status: 529 } },
    { skip: 1, fault: { type: "finish", reason: "length", after: 2 } },
    { fault: { type: "finish", reason: "content-filter" } }
  ],
  answers: [{ text: "one two three four", toolCalls: [{ name: "add", params: { a: 1 } }] }]
}

/** More than the plan has faults. */
const attempts = Array.from({ length: 16 }, (_, i) => i % 3 !== 0)

const finishes: Record<string, string> = {
  end_turn: "stop",
  max_tokens: "length",
  tool_use: "tool-calls",
  refusal: "content-filter",
  tool_calls: "tool-calls",
  content_filter: "content-filter"
}

const overHttp = (server: FakeProvider.FakeProvider, provider: FakeProvider.Provider, streaming: boolean) =>
  Effect.promise(async (): Promise<Heard> => {
    const failed = (error: unknown) => Classifier.failureOf(error).reason._tag
    try {
      const response = await open(server, provider, { ...hello[provider], stream: streaming })
      const { text, broken } = await readAll(response)
      if (broken && !streaming) return { text: "", end: "Network" }
      const unexpected = { statusCode: response.status, responseBody: text, message: "unexpected" }
      if (response.status !== 200) return { text: "", end: failed(unexpected) }
      const parts = streaming ? events(text) : [JSON.parse(text)]
      const said = parts
        .map((part) =>
          provider === "anthropic"
            ? (part.delta?.text ?? part.content?.map((block: any) => block.text ?? "").join("") ?? "")
            : (part.choices?.[0]?.delta?.content ?? part.choices?.[0]?.message?.content ?? "")
        )
        .join("")
      const error = parts.find((part) => part.error !== undefined)
      if (error !== undefined) return { text: said, end: failed(error) }
      const reasons = parts.map(
        (part) => part.delta?.stop_reason ?? part.stop_reason ?? part.choices?.[0]?.finish_reason ?? undefined
      )
      const finish = reasons.find((reason) => typeof reason === "string")
      if (finish !== undefined) return { text: said, end: finishes[finish] ?? finish }
      const recognised = streaming ? text.startsWith("event: ") || text.startsWith("data: ") : false
      return { text: said, end: recognised ? "Network" : failed(unexpected) }
    } catch (error) {
      return { text: "", end: failed(error) }
    }
  })

const inMemory = (scripted: ScriptedModel.ScriptedModel, streaming: boolean) =>
  Effect.gen(function* () {
    const model = yield* scripted.build
    const request = {
      prompt: Prompt.make("hello"),
      tools: [],
      key: Redacted.make("sk-test"),
      maxOutputTokens: undefined
    } as unknown as Parameters<typeof model.generateText>[0] // what a scripted model does not look at is left out
    let text = ""
    let end = ""
    const hear = (part: any) => {
      // parts of both kinds
      if (part.type === "text") text += part.text
      if (part.type === "text-delta") text += part.delta
      if (part.type === "finish") end = part.reason
    }
    const heard = streaming
      ? Stream.runForEach(model.streamText(request), (part) => Effect.sync(() => hear(part)))
      : Effect.map(model.generateText(request), (parts) => parts.forEach(hear))
    const exit = yield* Effect.exit(heard)
    if (Exit.isFailure(exit)) {
      const error = Cause.squash(exit.cause)
      end = error instanceof ProviderFailure ? error.reason._tag : String(error)
    }
    return { text, end }
  }).pipe(Effect.scoped, Effect.provideService(IdGenerator.IdGenerator, IdGenerator.defaultIdGenerator))

describe("both runners hear the same", () => {
  for (const provider of ["anthropic", "openai"] as const) {
    it.live(provider, () =>
      Effect.gen(function* () {
        const server = yield* FakeProvider.make({ plan })
        const scripted = yield* ScriptedModel.make({ provider, model: "m", plan })
        const http = yield* Effect.forEach(attempts, (streaming) => overHttp(server, provider, streaming))
        const memory = yield* Effect.forEach(attempts, (streaming) => inMemory(scripted, streaming))
        assert.deepStrictEqual(memory, http)
        const outcomes = (yield* server.requests).map(({ outcome }) => outcome.type)
        assert.strictEqual(outcomes.filter((type) => type === "fault").length, 14)
        assert.deepStrictEqual(memory.at(-1), { text: "one two three four", end: "tool-calls" })
      }).pipe(Effect.scoped)
    )
  }
})
