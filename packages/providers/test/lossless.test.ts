/**
 * A call of the AI SDK reaches the client and comes back without loss. The first attempt of each call fails.
 */
import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource } from "@outlast/agent"
import { AiSdk, Anthropic, toAiSdk } from "@outlast/providers"
import type {
  JSONValue,
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart
} from "@ai-sdk/provider"
import { APICallError } from "@ai-sdk/provider"
import type { ModelMessage } from "ai"
import { dynamicTool, generateText, isStepCount, jsonSchema, streamText, tool, ToolLoopAgent } from "ai"
import type { Record } from "effect"
import { Duration, Effect, Redacted } from "effect"
import { policy } from "../../../test/services/Hasty.ts"

Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

const usage = {
  inputTokens: { total: 3, noCache: 3, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 5, text: 5, reasoning: 0 },
  raw: { billed: 8 }
}
const finish = { finishReason: { unified: "stop", raw: "end_turn" } as const, usage }

const overloaded = () =>
  new APICallError({
    message: "Overloaded",
    url: "",
    requestBodyValues: {},
    statusCode: 503,
    responseBody: ""
  })

type Content = LanguageModelV4GenerateResult["content"]

interface Client {
  readonly calls: Array<LanguageModelV4CallOptions>
  readonly model: LanguageModelV4
}

/** A client of the provider `acme` that fails with the first request, and then gives these answers. */
const client = (
  ...answers: ReadonlyArray<Partial<LanguageModelV4GenerateResult> & { readonly content: Content }>
): Client => {
  const calls: Array<LanguageModelV4CallOptions> = []
  const next = (options: LanguageModelV4CallOptions) => {
    calls.push(options)
    const answer = answers[calls.length - 2] ?? answers.at(-1)
    if (calls.length === 1 || answer === undefined) throw overloaded()
    return { ...finish, warnings: [], ...answer }
  }
  return {
    calls,
    model: {
      specificationVersion: "v4",
      provider: "acme",
      modelId: "m",
      supportedUrls: {},
      doGenerate: async (options) => next(options),
      doStream: async (options) => {
        const { content, warnings, request, response, ...end } = next(options)
        const { headers } = response ?? {}
        const parts: ReadonlyArray<LanguageModelV4StreamPart> = [
          { type: "stream-start", warnings },
          ...(options.includeRawChunks === true ? [{ type: "raw" as const, rawValue: { chunk: 1 } }] : []),
          ...content.flatMap((part, i): ReadonlyArray<LanguageModelV4StreamPart> =>
            part.type === "text" || part.type === "reasoning"
              ? [
                  { type: `${part.type}-start`, id: `${i}` },
                  { type: `${part.type}-delta`, id: `${i}`, delta: part.text },
                  { type: `${part.type}-end`, id: `${i}` }
                ]
              : [part]
          ),
          { type: "finish", ...end }
        ]
        return {
          stream: new ReadableStream({
            start: (controller) => {
              for (const part of parts) controller.enqueue(part)
              controller.close()
            }
          }),
          ...(request === undefined ? undefined : { request }),
          ...(headers === undefined ? undefined : { response: { headers } })
        }
      }
    }
  }
}

const served = ({ model }: Client, options: Partial<AiSdk.Options> = {}, used = policy) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      toAiSdk(
        Failover.layer([AiSdk.model({ provider: "acme", model: "m", create: () => model, ...options })], {
          policy: used
        })
      )
    ),
    (made) => Effect.promise(() => made.dispose())
  )

const said: Content[number] = { type: "text", text: "Hello." }
const search: Content = [
  {
    type: "tool-call",
    toolCallId: "mcp_1",
    toolName: "mcp.search",
    input: '{ "query": "rivers" }',
    providerExecuted: true,
    dynamic: true
  },
  { type: "tool-result", toolCallId: "mcp_1", toolName: "mcp.search", result: { found: 2 }, dynamic: true }
]

describe("a call", () => {
  const settings = {
    temperature: 0.5,
    topP: 0.4,
    topK: 5,
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    stopSequences: ["x"],
    seed: 7,
    reasoning: "high" as const
  }
  const providerOptions = { acme: { mode: "fast" }, other: { a: 1 } }
  const inputSchema = jsonSchema<{ q: string }>({ type: "object", properties: { q: { type: "string" } } })
  const tools = {
    find: tool({ inputSchema, providerOptions: { acme: { cache: true } }, execute: async ({ q }) => q })
  }

  for (const kind of ["whole", "streamed"] as const) {
    it.live(`reaches the client with all its settings, ${kind}`, () =>
      Effect.gen(function* () {
        const made = client({ content: [said] })
        const model = yield* served(made, {
          settings: { temperature: 0 },
          headers: { "x-team": "target", "x-target": "1" },
          providerOptions: { acme: { mode: "slow", region: "eu" } }
        })
        const call = {
          model,
          prompt: "When?",
          tools,
          toolChoice: "none",
          headers: { "x-team": "call" },
          providerOptions,
          ...settings
        } as const
        yield* Effect.promise(async () =>
          kind === "whole"
            ? generateText(call)
            : streamText({ ...call, includeRawChunks: true }).consumeStream()
        )
        const sent = made.calls[1]
        assert.deepInclude(sent, settings)
        assert.deepInclude(sent?.headers, { "x-team": "call", "x-target": "1" })
        assert.deepStrictEqual(sent?.providerOptions, {
          acme: { mode: "fast", region: "eu" },
          other: { a: 1 }
        })
        assert.deepInclude(sent?.tools?.[0], { name: "find", providerOptions: { acme: { cache: true } } })
        assert.deepStrictEqual(sent?.toolChoice, { type: "none" })
        assert.strictEqual(sent?.includeRawChunks === true, kind === "streamed")
      })
    )
  }

  it.live("tells the client why it was aborted", () =>
    Effect.gen(function* () {
      const made = client({ content: [said] })
      const model = yield* served(made)
      const controller = new AbortController()
      yield* Effect.promise(() => generateText({ model, prompt: "When?", abortSignal: controller.signal }))
      controller.abort(new DOMException("too late", "TimeoutError"))
      assert.propertyVal(made.calls[1]?.abortSignal?.reason, "name", "TimeoutError")
    })
  )
})

describe("an answer", () => {
  const content: Content = [
    { type: "custom", kind: "acme.compaction", providerMetadata: { acme: { id: "c" } } },
    { type: "reasoning", text: "Hm." },
    said,
    { type: "source", sourceType: "url", id: "s", url: "not a url" },
    {
      type: "file",
      mediaType: "image/png",
      data: { type: "url", url: new URL("https://files.example/a.png") }
    }
  ]
  const whole = {
    content,
    warnings: [{ type: "other" as const, message: "slow today" }],
    request: { body: "request" },
    response: {
      id: "r",
      modelId: "m-1",
      timestamp: new Date(0),
      headers: { "x-request-id": "7" },
      body: { raw: true }
    }
  }

  it.live("comes back complete, with warnings, headers, bodies, and the raw reason and usage", () =>
    Effect.gen(function* () {
      const model = yield* served(client(whole))
      const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "When?" }] }]
      const result = yield* Effect.promise(async () => model.doGenerate({ prompt }))
      assert.deepStrictEqual(
        result.content.map(({ type }) => type),
        content.map(({ type }) => type)
      )
      assert.deepStrictEqual(result.content[0], content[0])
      assert.deepInclude(result.content[3], { url: "not a url" })
      assert.deepInclude(result.content[4], {
        data: { type: "url", url: new URL("https://files.example/a.png") }
      })
      assert.deepStrictEqual(result.warnings, whole.warnings)
      assert.deepStrictEqual(result.request, whole.request)
      assert.deepStrictEqual(result.response, whole.response)
      assert.deepStrictEqual(result.finishReason, { unified: "stop", raw: "end_turn" })
      assert.deepStrictEqual(result.usage, usage)
    })
  )

  it.live("is streamed with the same facts", () =>
    Effect.gen(function* () {
      const model = yield* served(client(whole))
      const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "When?" }] }]
      const { parts, request, response } = yield* Effect.promise(async () => {
        const { stream, ...rest } = await model.doStream({ prompt, includeRawChunks: true })
        const parts: Array<LanguageModelV4StreamPart> = []
        for await (const part of stream) parts.push(part)
        return { parts, ...rest }
      })
      assert.deepStrictEqual(parts[0], { type: "stream-start", warnings: whole.warnings })
      assert.deepStrictEqual(parts[1], { type: "raw", rawValue: { chunk: 1 } })
      const types = new Set(parts.map(({ type }) => type))
      for (const { type } of content)
        assert.isTrue(types.has(type as never) || types.has(`${type}-start` as never))
      const end = parts.at(-1)
      assert.deepInclude(end, { type: "finish", usage, finishReason: { unified: "stop", raw: "end_turn" } })
      assert.deepStrictEqual(request, whole.request)
      assert.deepStrictEqual(response, { headers: whole.response.headers })
    })
  )
})

describe("a tool that the provider runs", () => {
  const results = (parts: ReadonlyArray<{ readonly type: string }>) =>
    parts.filter(({ type }) => type === "tool-call" || type === "tool-result")

  const expected = [
    {
      type: "tool-call",
      toolName: "mcp.search",
      input: { query: "rivers" },
      providerExecuted: true,
      dynamic: true
    },
    {
      type: "tool-result",
      toolName: "mcp.search",
      output: { found: 2 },
      providerExecuted: true,
      dynamic: true
    }
  ]

  for (const declared of [false, true]) {
    const tools: Record<string, ReturnType<typeof dynamicTool>> = declared
      ? {
          "mcp.search": dynamicTool({
            inputSchema: jsonSchema({ type: "object" }),
            execute: async () => "never"
          })
        }
      : {}
    const name = declared ? "declared" : "not declared"
    it.live(`passes through with its result, ${name}, whole and streamed`, () =>
      Effect.gen(function* () {
        for (const streams of [false, true]) {
          const model = yield* served(client({ content: [...search, said] }))
          const content = yield* Effect.promise(async () => {
            const call = { model, prompt: "When?", tools }
            return streams ? streamText(call).content : (await generateText(call)).content
          })
          const calls = results(content)
          assert.lengthOf(calls, 2)
          expected.forEach((part, i) => assert.deepInclude(calls[i], part))
        }
      })
    )
  }

  it.live("stays the provider's in the next step, and in a history without Outlast's metadata", () =>
    Effect.gen(function* () {
      const made = client({ content: [...search, said] })
      const model = yield* served(made)
      const first = yield* Effect.promise(() => generateText({ model, prompt: "When?" }))
      const messages: Array<ModelMessage> = [{ role: "user", content: "When?" }, ...first.response.messages]
      const plain = JSON.parse(
        JSON.stringify(messages, (field, value: JSONValue) => (field === "outlast" ? undefined : value))
      )
      for (const history of [messages, plain]) {
        yield* Effect.promise(() =>
          generateText({ model, messages: [...history, { role: "user", content: "And then?" }] })
        )
        const assistant = made.calls.at(-1)?.prompt.find(({ role }) => role === "assistant")
        assert.deepStrictEqual(
          typeof assistant?.content === "string" ? [] : assistant?.content.map(({ type }) => type),
          ["tool-call", "tool-result", "text"]
        )
      }
    })
  )

  it.live("stays Anthropic's in a history without metadata", () =>
    Effect.gen(function* () {
      const history: Array<ModelMessage> = [
        { role: "user", content: "When?" },
        {
          role: "assistant",
          content: [
            {
              type: "tool-call",
              toolCallId: "srvtoolu_1",
              toolName: "web_search",
              input: { query: "rivers" },
              providerExecuted: true
            },
            {
              type: "tool-result",
              toolCallId: "srvtoolu_1",
              toolName: "web_search",
              output: { type: "json", value: [] }
            },
            { type: "text", text: "Soon." }
          ]
        },
        { role: "user", content: "When exactly?" }
      ]
      const bodies: Array<string> = []
      const fetch = async (_: unknown, init?: RequestInit) => {
        bodies.push(String(init?.body))
        return new Response("{}", { status: 400 })
      }
      const target = Anthropic.model("claude-sonnet-4-5", {
        keys: [KeySource.value("A", Redacted.make("sk-0123456789abcdef"))],
        fetch
      })
      const model = yield* Effect.acquireRelease(
        Effect.sync(() => toAiSdk(Failover.layer([target], { policy }))),
        (made) => Effect.promise(() => made.dispose())
      )
      yield* Effect.promise(() => generateText({ model, messages: history }).catch(() => {}))
      assert.include(bodies[0], '"type":"server_tool_use"')
      assert.include(bodies[0], '"type":"web_search_tool_result"')
    })
  )
})

describe("a history", () => {
  it.live("reaches the client unchanged", () =>
    Effect.gen(function* () {
      const made = client({ content: [said] })
      const model = yield* served(made)
      const prompt: LanguageModelV4CallOptions["prompt"] = [
        { role: "system", content: "Be brief." },
        {
          role: "user",
          content: [
            { type: "text", text: "Look." },
            { type: "file", mediaType: "image/png", data: { type: "reference", reference: { acme: "f" } } }
          ]
        },
        {
          role: "assistant",
          content: [
            { type: "custom", kind: "acme.compaction", providerOptions: { acme: { id: "c" } } },
            { type: "tool-call", toolCallId: "a", toolName: "drop", input: {} },
            { type: "tool-call", toolCallId: "p", toolName: "mcp.drop", input: {}, providerExecuted: true }
          ]
        },
        {
          role: "tool",
          content: [
            {
              type: "tool-result",
              toolCallId: "a",
              toolName: "drop",
              output: { type: "execution-denied", reason: "no" }
            },
            { type: "tool-approval-response", approvalId: "q", approved: false, reason: "never" }
          ]
        }
      ]
      yield* Effect.promise(async () => model.doGenerate({ prompt }))
      assert.deepStrictEqual(made.calls[1]?.prompt, prompt)
    })
  )
})

describe("an agent", () => {
  it.live("runs its tools once, and repairs a call, over a provider that fails first", () =>
    Effect.gen(function* () {
      const ran: Array<string> = []
      const made = client(
        { content: [{ type: "tool-call", toolCallId: "a", toolName: "finde", input: '{ "q": "Nile" }' }] },
        { content: [said] }
      )
      const agent = new ToolLoopAgent({
        model: yield* served(made),
        tools: {
          find: tool({
            inputSchema: jsonSchema<{ q: string }>({ type: "object", properties: { q: { type: "string" } } }),
            execute: async ({ q }) => ran.push(q)
          })
        },
        repairToolCall: async ({ toolCall }) => ({ ...toolCall, toolName: "find" }),
        stopWhen: isStepCount(3)
      })
      const result = yield* Effect.promise(() => agent.generate({ prompt: "Which river?" }))
      assert.strictEqual(result.text, "Hello.")
      assert.deepStrictEqual(ran, ["Nile"])
      assert.lengthOf(made.calls, 3)
    })
  )
})

describe("an unknown failure", () => {
  it.live("quotes the message of the target", () =>
    Effect.gen(function* () {
      const made = client()
      const model = yield* served({
        ...made,
        model: { ...made.model, doGenerate: async () => Promise.reject(new Error("flux capacitor is empty")) }
      })
      const error = yield* Effect.promise(() =>
        generateText({ model, prompt: "When?" }).then(
          () => undefined,
          (error: unknown) => error
        )
      )
      assert.include(String(error), 'The provider said: "flux capacitor is empty"')
    })
  )
})

describe("a part that effect/ai lacks", () => {
  it.live("is sent with well-formed text", () =>
    Effect.gen(function* () {
      const made = client({ content: [said] })
      const model = yield* served(made)
      const note = "half \ud83d"
      yield* Effect.promise(async () =>
        model.doGenerate({
          prompt: [
            { role: "user", content: [{ type: "text", text: "Go on." }] },
            {
              role: "assistant",
              content: [{ type: "custom", kind: "acme.compaction", providerOptions: { acme: { note } } }]
            }
          ]
        })
      )
      const sent = made.calls.at(-1)?.prompt.find(({ role }) => role === "assistant")
      assert.deepStrictEqual(sent?.content, [
        {
          type: "custom",
          kind: "acme.compaction",
          providerOptions: { acme: { note: note.toWellFormed() } }
        }
      ])
    })
  )
})

describe("an abandoned attempt whose client answers nevertheless", () => {
  it.live("adds nothing to the answer of the next attempt", () =>
    Effect.gen(function* () {
      const made = client({ content: [said] })
      const late = Promise.withResolvers<LanguageModelV4GenerateResult>()
      const stale = { type: "other", message: "stale" } as const
      let requests = 0
      const doGenerate = async (): Promise<LanguageModelV4GenerateResult> => {
        if (++requests === 1) return late.promise
        late.resolve({ ...finish, content: [said], warnings: [stale] })
        // The late answer is read before this one.
        await late.promise
        await new Promise((resolve) => setImmediate(resolve))
        return { ...finish, content: [said], warnings: [] }
      }
      const limits = { ...policy.limits, total: Duration.millis(50) }
      const model = yield* served(
        { ...made, model: { ...made.model, doGenerate } },
        {},
        { ...policy, limits }
      )
      const { warnings } = yield* Effect.promise(async () => model.doGenerate({ prompt: [] }))
      assert.deepStrictEqual([requests, warnings], [2, []])
    })
  )
})

describe("a stream whose first token is late", () => {
  const hedge = {
    after: Duration.millis(5),
    afterLook: Duration.millis(5),
    atMost: 1,
    reserve: 3
  }
  const limits = { ...policy.limits, firstToken: Duration.seconds(30), total: Duration.seconds(30) }

  /** A client that opens its stream after `before`, and says its name after `opened`. */
  const named = (name: string, asked: () => void, before: Promise<void>, opened: Promise<void>) =>
    AiSdk.model({
      provider: name,
      model: name,
      create: (): LanguageModelV4 => ({
        specificationVersion: "v4",
        provider: name,
        modelId: name,
        supportedUrls: {},
        doGenerate: async () => Promise.reject(overloaded()),
        doStream: async () => {
          asked()
          await before
          const parts: ReadonlyArray<LanguageModelV4StreamPart> = [
            { type: "text-start", id: "1" },
            { type: "text-delta", id: "1", delta: name },
            { type: "text-end", id: "1" },
            { type: "finish", ...finish }
          ]
          const stream = new ReadableStream<LanguageModelV4StreamPart>({
            async start(controller) {
              controller.enqueue({ type: "stream-start", warnings: [{ type: "other", message: name }] })
              await opened
              for (const part of parts) controller.enqueue(part)
            }
          })
          return { stream, request: { body: name }, response: { headers: { name } } }
        }
      })
    })

  const never = new Promise<void>(() => {})
  const now = Promise.resolve()

  for (const winner of ["late", "hedge"]) {
    it.live(`has the warnings, headers and request of the attempt that answers (${winner})`, () =>
      Effect.gen(function* () {
        const hedged = Promise.withResolvers<void>()
        const read = Promise.withResolvers<void>()
        // The other attempt has opened its stream before this one says something.
        const other = read.promise.then(() => new Promise<void>((resolve) => setImmediate(resolve)))
        const late = named(
          "late",
          () => void hedged.promise.then(read.resolve),
          winner === "late" ? now : hedged.promise,
          winner === "late" ? other : never
        )
        const second = named("hedge", hedged.resolve, now, winner === "hedge" ? other : never)
        const model = yield* Effect.acquireRelease(
          Effect.sync(() =>
            toAiSdk(Failover.layer([late, second], { policy: { ...policy, limits, hedge } }))
          ),
          (made) => Effect.promise(() => made.dispose())
        )
        const { stream, ...facts } = yield* Effect.promise(async () => model.doStream({ prompt: [] }))
        const parts: Array<LanguageModelV4StreamPart> = []
        yield* Effect.promise(async () => {
          for await (const part of stream) parts.push(part)
        })
        assert.deepStrictEqual(facts, { request: { body: winner }, response: { headers: { name: winner } } })
        assert.deepStrictEqual(
          parts
            .filter(({ type }) => type === "stream-start" || type === "text-delta")
            .map((part) =>
              part.type === "stream-start" ? part.warnings : part.type === "text-delta" ? part.delta : ""
            ),
          [[{ type: "other", message: winner }], winner]
        )
      })
    )
  }
})
