/**
 * Servers and tools around an agent: a route handler of Next.js with `useChat`, MCP tools, spans.
 */
import { createMCPClient } from "@ai-sdk/mcp"
import type { OtelTracer } from "@outlast/ai-sdk"
import { outlast, SafetyStop } from "@outlast/ai-sdk"
import { assert, describe, it } from "@effect/vitest"
import type { UIMessage } from "ai"
import {
  convertToModelMessages,
  createUIMessageStreamResponse,
  DefaultChatTransport,
  generateText,
  readUIMessageStream,
  streamText,
  toUIMessageStream
} from "ai"
import { AsyncLocalStorage } from "node:async_hooks"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { rawServer } from "./rawServer.ts"
import { asking, caught, played, search } from "./support.ts"

const asked = (text: string): UIMessage => ({ id: "1", role: "user", parts: [{ type: "text", text }] })

/** The last state of the message that a chat shows. */
const shown = async (stream: Parameters<typeof readUIMessageStream>[0]["stream"]) => {
  let last: UIMessage | undefined
  const errors: Array<unknown> = []
  for await (const message of readUIMessageStream({ stream, onError: (error) => void errors.push(error) })) {
    last = message
  }
  return { parts: last?.parts ?? [], errors }
}

describe("a route handler with useChat", () => {
  const handler =
    (agent: ReturnType<typeof outlast>, ran: Array<string> = []) =>
    async (request: Request): Promise<Response> => {
      // The body of a request is what the transport writes.
      const { messages } = (await request.json()) as { readonly messages: Array<UIMessage> }
      const result = streamText({
        ...agent.with({ tools: { search: search(ran) } }),
        messages: await convertToModelMessages(messages),
        abortSignal: request.signal
      })
      return createUIMessageStreamResponse({
        stream: toUIMessageStream({
          stream: result.stream,
          onError: (error) => (error instanceof SafetyStop ? error.message : "The answer failed.")
        })
      })
    }

  const transportTo = (post: (request: Request) => Promise<Response>) =>
    new DefaultChatTransport({
      api: "http://localhost/api/chat",
      fetch: (url, init) => post(new Request(url, init))
    })

  const send = (transport: DefaultChatTransport<UIMessage>, signal?: AbortSignal) =>
    transport.sendMessages({
      chatId: "chat",
      trigger: "submit-message",
      messageId: undefined,
      messages: [asked("Find it.")],
      abortSignal: signal
    })

  it("shows tool calls and the text", async () => {
    await using provider = await played({ answers: asking(2) })
    await using agent = outlast({ models: [provider.model], log: false })
    const { parts, errors } = await shown(await send(transportTo(handler(agent))))
    assert.deepStrictEqual(errors, [])
    assert.deepStrictEqual(
      // The server also sends blocks that no client knows.
      parts.map(({ type }) => type).filter((type) => type !== "custom"),
      ["step-start", "tool-search", "step-start", "tool-search", "step-start", "text"]
    )
  })

  it("shows a stop as an error, after the parts before it", async () => {
    await using provider = await played({ answers: asking(25) })
    await using agent = outlast({
      models: [provider.model],
      guard: { toolCalls: 2, loops: false },
      log: false
    })
    const ran: Array<string> = []
    const { parts, errors } = await shown(await send(transportTo(handler(agent, ran))))
    assert.lengthOf(ran, 2)
    assert.lengthOf(errors, 1)
    assert.include(String(errors[0]), "reached maximum of 2 tool invocations")
    assert.lengthOf(
      parts.filter((part) => "state" in part && part.state === "output-available"),
      2
    )
  })

  it("aborts the request to the provider when the client disconnects", async () => {
    // A server that never ends its answer.
    const closed = Promise.withResolvers<void>()
    const server = createServer((request, response) => {
      response.on("close", () => closed.resolve())
      request.resume()
      response.writeHead(200, { "content-type": "text/event-stream" })
      response.write(
        `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta: { role: "assistant", content: "Well, " }, finish_reason: null }] })}\n\n`
      )
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const { port } = server.address() as AddressInfo
    const { createOpenAI } = await import("@ai-sdk/openai")
    const model = createOpenAI({ apiKey: "any", baseURL: `http://127.0.0.1:${port}/v1` }).chat("gpt-4.1")
    await using agent = outlast({ models: [model], log: false })
    const controller = new AbortController()
    const stream = await send(transportTo(handler(agent)), controller.signal)
    const types: Array<string> = []
    const reading = (async () => {
      for await (const chunk of stream) {
        types.push(chunk.type)
        if (chunk.type === "text-delta") controller.abort()
      }
    })()
    await closed.promise
    await reading.catch(() => {})
    assert.include(types, "text-delta")
    assert.notInclude(types, "finish")
    server.closeAllConnections()
    server.close()
  })
})

describe("MCP tools", () => {
  it("are guarded like others, by the hints of their server", async () => {
    const called: Array<unknown> = []
    const client = await createMCPClient({ transport: mcpServer(called) })
    await using provider = await rawServer("anthropic", {
      answer: (n) => (n < 25 ? [{ name: "lookup", input: { city: "Oslo" } }] : "Done.")
    })
    await using agent = outlast({ models: [provider.model], log: false })
    const tools = await client.tools()
    const error = await caught(generateText({ ...agent.with({ tools }), prompt: "Look it up." }))
    assert.instanceOf(error, SafetyStop)
    assert.strictEqual(error.reason, "tool_loop")
    assert.lengthOf(called, 5)
    await client.close()
  })
})

type Transport = Exclude<Parameters<typeof createMCPClient>[0]["transport"], { readonly type: string }>

/** A server in the client's process, with one tool. */
const mcpServer = (called: Array<unknown>): Transport => {
  const transport: Transport = {
    start: async () => {},
    close: async () => {},
    send: async (message) => {
      if (!("method" in message) || !("id" in message) || message.id === undefined) return
      const { id, method } = message
      const reply = (result: { readonly [field: string]: unknown }) =>
        transport.onmessage?.({ jsonrpc: "2.0", id, result })
      if (method === "initialize") {
        return reply({
          protocolVersion: "2025-06-18",
          capabilities: { tools: {} },
          serverInfo: { name: "cities", version: "1.0.0" }
        })
      }
      if (method === "tools/list") {
        return reply({
          tools: [
            {
              name: "lookup",
              inputSchema: { type: "object", properties: { city: { type: "string" } } },
              annotations: { readOnlyHint: true }
            }
          ]
        })
      }
      if (method === "tools/call") {
        called.push(message)
        return reply({ content: [{ type: "text", text: "A city." }] })
      }
    }
  }
  return transport
}

describe("spans", () => {
  it("of calls and attempts are children of the span that is active", async () => {
    const active = new AsyncLocalStorage<string>()
    const spans: Array<{
      readonly name: string
      readonly parent: string | undefined
      readonly failed: boolean
    }> = []
    const tracer: OtelTracer = {
      startSpan: (name) => {
        const parent = active.getStore()
        let failed = false
        return {
          setAttribute: () => {},
          addEvent: () => {},
          setStatus: ({ code }) => void (failed = code === 2),
          end: () => void spans.push({ name, parent, failed })
        }
      }
    }
    await using dead = await played(
      { answers: [{ text: "Hi." }], faults: [{ fault: { type: "status", status: 401 } }] },
      "openai"
    )
    await using provider = await played({ answers: [{ text: "Hello." }] })
    await using agent = outlast({ models: [dead.model, provider.model], tracer, log: false })
    await Promise.all(
      ["a", "b"].map((name) => active.run(name, () => generateText({ ...agent.with(), prompt: "Hi" })))
    )
    for (const name of ["a", "b"]) {
      const own = spans.filter(({ parent }) => parent === name)
      assert.isAtLeast(own.length, 2)
    }
    assert.isTrue(spans.some(({ failed }) => failed))
    assert.isTrue(spans.every(({ parent }) => parent !== undefined))
  })
})
