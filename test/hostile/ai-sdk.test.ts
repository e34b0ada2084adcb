/** Programs of the AI SDK over raw servers. Each model fails once, and the program does not notice. */
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { createMCPClient } from "@ai-sdk/mcp"
import { Failover } from "@outlast/agent"
import { toAiSdk } from "@outlast/providers"
import type { ToolSet } from "ai"
import {
  generateObject,
  generateText,
  isStepCount,
  jsonSchema,
  streamObject,
  streamText,
  tool,
  ToolLoopAgent
} from "ai"
import { Effect } from "effect"
import type { ServerResponse } from "node:http"
import type { Vendor } from "./Asked.ts"
import { policy, vendors } from "./Asked.ts"
import * as Raw from "./RawServer.ts"
import * as Replies from "./Replies.ts"

beforeAll(() => {
  // Warnings are asserted, not printed.
  Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })
})

/** The failure of the first request. */
const faults: Readonly<Record<string, (response: ServerResponse) => void>> = {
  "HTTP 503": (response) => Raw.json(response, 503, { error: { message: "Overloaded" } }),
  "a closed connection": (response) => response.destroy(),
  "a stream without an event": (response) => {
    Raw.head(response)
    response.end()
  }
}

/** A server that fails with the first request. `says` answers the others, counted from 0. */
const serving = (
  fail: (response: ServerResponse) => void,
  says: (response: ServerResponse, hit: Raw.Hit, n: number) => void
) => Raw.start((response, hit, n) => (n === 0 ? fail(response) : says(response, hit, n - 1)))

const served = (vendor: Vendor, { url }: Raw.RawServer) =>
  Effect.acquireRelease(
    Effect.sync(() => toAiSdk(Failover.layer([vendors[vendor](url)({})], { policy }))),
    (model) => Effect.promise(() => model.dispose())
  )

const city = { name: "Oslo" }
const schema = jsonSchema<typeof city>({
  type: "object",
  properties: { name: { type: "string" } },
  required: ["name"],
  additionalProperties: false
})

type Model = ReturnType<typeof toAiSdk>

/** Each returns the text of the answer, or an object as JSON. */
const ways: Readonly<Record<string, (model: Model) => Promise<string>>> = {
  generateText: async (model) => (await generateText({ model, prompt: "Which city?" })).text,
  streamText: async (model) => streamText({ model, prompt: "Which city?" }).text,
  generateObject: async (model) =>
    JSON.stringify((await generateObject({ model, prompt: "Which city?", schema })).object),
  streamObject: async (model) => {
    const result = streamObject({ model, prompt: "Which city?", schema })
    for await (const _ of result.partialObjectStream) continue
    return JSON.stringify(await result.object)
  },
  "ToolLoopAgent.generate": async (model) =>
    (await new ToolLoopAgent({ model }).generate({ prompt: "Which city?" })).text,
  "ToolLoopAgent.stream": async (model) =>
    (await new ToolLoopAgent({ model }).stream({ prompt: "Which city?" })).text
}

const vendorNames: ReadonlyArray<Vendor> = ["anthropic", "chat", "responses", "google", "compatible"]

describe("a program of the AI SDK", () => {
  for (const [way, ask] of Object.entries(ways)) {
    for (const vendor of vendorNames) {
      it.live(`${way} of ${vendor} is answered after any failure`, () =>
        Effect.gen(function* () {
          const reply = { text: JSON.stringify(city), end: Replies.ends[vendor].stop, tokens: 7 }
          for (const [what, fail] of Object.entries(faults)) {
            const server = yield* serving(fail, Replies.send[vendor](reply))
            const model = yield* served(vendor, server)
            assert.strictEqual(yield* Effect.promise(() => ask(model)), reply.text, what)
            assert.lengthOf(server.hits, 2, what)
          }
        })
      )
    }
  }

  /** One red pixel. */
  const png =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="

  for (const vendor of ["anthropic", "compatible", "google"] as const) {
    it.live(`shows ${vendor} an image, and reads its thinking`, () =>
      Effect.gen(function* () {
        const reply = { text: "A red dot.", thinking: "Red.", end: Replies.ends[vendor].stop, tokens: 7 }
        for (const streams of [false, true]) {
          for (const [what, fail] of Object.entries(faults)) {
            const server = yield* serving(fail, Replies.send[vendor](reply))
            const model = yield* served(vendor, server)
            const asked = {
              model,
              messages: [
                {
                  role: "user" as const,
                  content: [
                    { type: "text" as const, text: "What is this?" },
                    { type: "file" as const, mediaType: "image/png", data: png }
                  ]
                }
              ]
            }
            const seen = yield* Effect.promise(async () => {
              const result = streams ? streamText(asked) : await generateText(asked)
              return [await result.text, await result.reasoningText]
            })
            assert.deepStrictEqual(seen, ["A red dot.", "Red."], what)
            assert.lengthOf(server.hits, 2, what)
            for (const { body } of server.hits) assert.include(JSON.stringify(body), png)
          }
        }
      })
    )
  }
})

/** A tool call, or a text if the request has a result. */
const calling =
  (name: string, args: string) =>
  (response: ServerResponse, hit: Raw.Hit): void => {
    const isAnswered = hit.body.messages.some(({ role }: { role: string }) => role === "tool")
    if (isAnswered) {
      return Replies.send.compatible({ text: "Rain.", end: "stop", tokens: 1 })(response, hit)
    }
    const call = { id: "call_1", type: "function", function: { name, arguments: args } }
    if (hit.body.stream === true) {
      return Raw.events(response, [
        Raw.chat.call(0, call.id, name, args),
        Raw.chat.finish("tool_calls"),
        Raw.chat.usage(5, 7),
        Raw.chat.done
      ])
    }
    const message = { role: "assistant", content: null, tool_calls: [call] }
    const choices = [{ index: 0, message, finish_reason: "tool_calls" }]
    Raw.json(response, 200, { id: "c", object: "chat.completion", created: 1, model: "m", choices })
  }

/** A tool loop, complete and streamed. */
const loops: Readonly<
  Record<string, (options: { model: Model; tools: ToolSet; repair?: string }) => Promise<string>>
> = {
  generateText: async ({ repair, ...options }) =>
    (
      await generateText({
        ...options,
        prompt: "The weather?",
        stopWhen: isStepCount(3),
        ...repairing(repair)
      })
    ).text,
  streamText: async ({ repair, ...options }) =>
    streamText({ ...options, prompt: "The weather?", stopWhen: isStepCount(3), ...repairing(repair) }).text,
  ToolLoopAgent: async ({ repair, ...options }) =>
    (
      await new ToolLoopAgent({ ...options, stopWhen: isStepCount(3), ...repairing(repair) }).generate({
        prompt: "The weather?"
      })
    ).text
}

/** Repairs a call with these arguments. */
const repairing = (input: string | undefined) =>
  input === undefined
    ? {}
    : {
        repairToolCall: async ({ toolCall }: { readonly toolCall: object }) =>
          Object.assign({}, toolCall, { input }) as never
      }

describe("a loop of tools of the AI SDK", () => {
  for (const [way, loop] of Object.entries(loops)) {
    it.live(`${way} runs a repaired call once, after any failure`, () =>
      Effect.gen(function* () {
        for (const [what, fail] of Object.entries(faults)) {
          const ran: Array<string> = []
          const weather = tool({
            inputSchema: jsonSchema<{ city: string }>({
              type: "object",
              properties: { city: { type: "string" } }
            }),
            execute: async ({ city }) => `Rain, the ${ran.push(city)}. time.`
          })
          const server = yield* serving(fail, calling("weather", '{"city": ,'))
          const model = yield* served("compatible", server)
          const text = yield* Effect.promise(() =>
            loop({ model, tools: { weather }, repair: '{"city":"Oslo"}' })
          )
          assert.strictEqual(text, "Rain.", what)
          assert.deepStrictEqual(ran, ["Oslo"], what)
          assert.lengthOf(server.hits, 3, what)
        }
      })
    )

    it.live(`${way} runs a tool of an MCP server once, after any failure`, () =>
      Effect.gen(function* () {
        for (const [what, fail] of Object.entries(faults)) {
          const mcp = yield* Raw.start(asMcpServer)
          const client = yield* Effect.acquireRelease(
            Effect.promise(() => createMCPClient({ transport: { type: "http", url: `${mcp.url}/mcp` } })),
            (client) => Effect.promise(() => client.close())
          )
          const tools = yield* Effect.promise(() => client.tools())
          const server = yield* serving(fail, calling("forecast", '{"city":"Oslo"}'))
          const model = yield* served("compatible", server)
          assert.strictEqual(yield* Effect.promise(() => loop({ model, tools })), "Rain.", what)
          const calls = mcp.hits.filter(({ body }) => body?.method === "tools/call")
          assert.deepStrictEqual(
            calls.map(({ body }) => body.params.arguments),
            [{ city: "Oslo" }],
            what
          )
          assert.include(JSON.stringify(server.hits.at(-1)?.body), "Rain in Oslo")
        }
      })
    )
  }
})

/** An MCP server over HTTP with one tool. */
const asMcpServer = (response: ServerResponse, { method, body }: Raw.Hit): void => {
  if (method !== "POST" || body.id === undefined) {
    response.writeHead(method === "POST" ? 202 : 405)
    response.end()
    return
  }
  const results: Readonly<Record<string, unknown>> = {
    initialize: {
      protocolVersion: "2025-06-18",
      capabilities: { tools: {} },
      serverInfo: { name: "weather", version: "1" }
    },
    "tools/list": {
      tools: [
        {
          name: "forecast",
          description: "The weather in a city",
          inputSchema: { type: "object", properties: { city: { type: "string" } } }
        }
      ]
    },
    "tools/call": { content: [{ type: "text", text: "Rain in Oslo" }] }
  }
  const result = results[body.method]
  const said = result === undefined ? { error: { code: -32_601, message: "Method not found" } } : { result }
  Raw.json(response, 200, { jsonrpc: "2.0", id: body.id, ...said })
}
