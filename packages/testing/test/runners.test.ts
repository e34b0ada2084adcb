import { assert, describe, it } from "@effect/vitest"
import { Classifier, ProviderFailure } from "@outlast/agent"
import { Effect, Exit, Cause, Redacted, Stream } from "effect"
import { IdGenerator, Prompt } from "effect/ai"
import { FakeProvider, ScriptedModel } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import type { Api } from "./http.ts"
import { apis, events, hello, open, providerOf, readAll, textIn } from "./http.ts"

// Both runners must give a caller the same sequence of outcomes for one plan.

/** The outcome of a call: its text, and a failure reason or a finish reason. */
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

/** More attempts than the plan has faults. */
const attempts = Array.from({ length: 16 }, (_, i) => i % 3 !== 0)

const finishes: Record<string, string> = {
  end_turn: "stop",
  max_tokens: "length",
  tool_use: "tool-calls",
  refusal: "content-filter",
  tool_calls: "tool-calls",
  content_filter: "content-filter",
  max_output_tokens: "length",
  MAX_TOKENS: "length",
  SAFETY: "content-filter",
  // In this plan only an answer with a call ends without an explicit reason, so these mean "tool-calls".
  STOP: "tool-calls",
  completed: "tool-calls"
}

/** Returns the text of one event, or of an answer without streaming. */
const saidIn = (part: any, streaming: boolean): string =>
  streaming
    ? textIn(part)
    : ((part.content ?? part.output?.flatMap(({ content = [] }: any) => content))
        ?.map((block: any) => block.text ?? "")
        .join("") ??
      part.choices?.[0]?.message?.content ??
      textIn(part))

const reasonIn = (part: any): unknown => {
  const response = part.response ?? part
  return (
    part.delta?.stop_reason ??
    part.stop_reason ??
    part.choices?.[0]?.finish_reason ??
    part.candidates?.[0]?.finishReason ??
    response.incomplete_details?.reason ??
    (response.status === "completed" && response.object === "response" ? "completed" : undefined)
  )
}

const overHttp = (server: FakeProvider.FakeProvider, api: Api, streaming: boolean) =>
  Effect.promise(async (): Promise<Heard> => {
    const failed = (error: unknown) => Classifier.failureOf(error).reason._tag
    try {
      const response = await open(server, api, { ...hello[api], stream: streaming })
      const { text, broken } = await readAll(response)
      if (broken && !streaming) return { text: "", end: "Network" }
      const unexpected = { statusCode: response.status, responseBody: text, message: "unexpected" }
      if (response.status !== 200) return { text: "", end: failed(unexpected) }
      const parts = streaming ? events(text) : [JSON.parse(text)]
      const said = parts.map((part) => saidIn(part, streaming)).join("")
      const errors = parts.flatMap(({ error, response }) => error ?? response?.error ?? [])
      if (errors.length > 0) return { text: said, end: failed({ error: errors[0] }) }
      const finish = parts.map(reasonIn).find((reason) => typeof reason === "string")
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
    } as unknown as Parameters<typeof model.generateText>[0] // fields that a scripted model ignores are left out
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
      end = error instanceof ProviderFailure.ProviderFailure ? error.reason._tag : String(error)
    }
    return { text, end }
  }).pipe(Effect.scoped, Effect.provideService(IdGenerator.IdGenerator, IdGenerator.defaultIdGenerator))

describe("both runners give the same outcomes", () => {
  for (const api of apis) {
    it.live(api, () =>
      Effect.gen(function* () {
        const provider = providerOf[api]
        const server = yield* FakeProvider.make({ plan })
        const scripted = yield* ScriptedModel.make({ provider, model: "m", plan })
        const http = yield* Effect.forEach(attempts, (streaming) => overHttp(server, api, streaming))
        const memory = yield* Effect.forEach(attempts, (streaming) => inMemory(scripted, streaming))
        assert.deepStrictEqual(memory, http)
        const outcomes = (yield* server.requests).map(({ outcome }) => outcome.type)
        assert.strictEqual(outcomes.filter((type) => type === "fault").length, 14)
        assert.deepStrictEqual(memory.at(-1), { text: "one two three four", end: "tool-calls" })
      }).pipe(Effect.scoped)
    )
  }
})
