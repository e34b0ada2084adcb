/**
 * Web servers that answer a chat with a run, and end it when the client leaves.
 */
import { serve } from "@hono/node-server"
import { assert, describe, it } from "@effect/vitest"
import type { UIMessage } from "ai"
import {
  convertToModelMessages,
  createUIMessageStreamResponse,
  DefaultChatTransport,
  jsonSchema,
  pipeUIMessageStreamToResponse,
  streamText,
  tool,
  toUIMessageStream
} from "ai"
import express from "express"
import { Hono } from "hono"
import type { AddressInfo } from "node:net"
import type { Server } from "node:http"
import { asking, world } from "./support.ts"

const tools = {
  weather: tool({
    inputSchema: jsonSchema<{ city: string }>({ type: "object", properties: { city: { type: "string" } } }),
    execute: async () => "rain"
  })
}

type World = Awaited<ReturnType<typeof world>>

const answer = async ({ agent }: World, messages: Array<UIMessage>, abortSignal: AbortSignal) =>
  toUIMessageStream({
    stream: streamText({
      ...agent.with({ tools }),
      messages: await convertToModelMessages(messages),
      abortSignal,
      onError: () => {}
    }).stream,
    onError: (error) => (error as Error).message
  })

const servers: Readonly<Record<string, (world: World) => Promise<Server>>> = {
  Hono: async (world) => {
    const app = new Hono()
    app.post("/api/chat", async (context) => {
      const { messages } = await context.req.json<{ messages: Array<UIMessage> }>()
      return createUIMessageStreamResponse({ stream: await answer(world, messages, context.req.raw.signal) })
    })
    return new Promise((resolve) => {
      // Without options for another protocol it is a server of node:http.
      const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, () =>
        resolve(server as Server)
      )
    })
  },
  Express: async (world) => {
    const app = express()
    app.use(express.json())
    // oxlint-disable-next-line oxc/no-async-endpoint-handlers -- Express 5 handles rejected promises.
    app.post("/api/chat", async (request, response) => {
      const controller = new AbortController()
      response.on("close", () => controller.abort())
      const stream = await answer(world, request.body.messages, controller.signal)
      await pipeUIMessageStreamToResponse({ response, stream })
    })
    return new Promise((resolve) => {
      const server = app.listen(0, "127.0.0.1", () => resolve(server))
    })
  }
}

for (const [name, start] of Object.entries(servers)) {
  describe(name, () => {
    const ask = async (world: World) => {
      const server = await start(world)
      // A server that listens on a port has an address of this kind.
      const { port } = server.address() as AddressInfo
      const stream = await new DefaultChatTransport({
        api: `http://127.0.0.1:${port}/api/chat`
      }).sendMessages({
        chatId: "chat",
        trigger: "submit-message",
        messageId: undefined,
        messages: [{ id: "1", role: "user", parts: [{ type: "text", text: "How is Oslo?" }] }],
        abortSignal: undefined
      })
      const chunks = await Array.fromAsync(stream)
      server.close()
      return chunks
    }

    it("streams a run to useChat", async () => {
      await using it = await world(asking(1))
      const chunks = await ask(it)
      const text = chunks.flatMap((chunk) => (chunk.type === "text-delta" ? [chunk.delta] : [])).join("")
      assert.strictEqual(text, "It rains.")
      assert.strictEqual(chunks.at(-1)?.type, "finish")
    })

    it("streams a stop as an error", async () => {
      await using it = await world(asking(9), { toolCalls: 2, loops: false })
      const chunks = await ask(it)
      const errors = chunks.flatMap((chunk) => (chunk.type === "error" ? [chunk.errorText] : []))
      assert.lengthOf(errors, 1)
      assert.include(errors[0], "reached maximum of 2 tool invocations")
    })
  })
}
