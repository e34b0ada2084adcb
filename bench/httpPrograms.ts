/**
 * The processes that `http.ts` talks to: `provider`, which answers like a chat completions server, and `gateway`, an
 * Outlast program that serves the same protocol over a chain of two. Each sends its port to its parent.
 */
import { once } from "node:events"
import { createServer } from "node:http"
import type { RequestListener } from "node:http"
import type { AddressInfo } from "node:net"
import { Layer, Logger, ManagedRuntime } from "effect"
import { LanguageModel } from "effect/ai"
import { Failover } from "@outlast/agent"
import { OpenAiCompatible } from "@outlast/providers"
import { UndiciFetch } from "@outlast/providers/undici"

const answer = JSON.stringify({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1_700_000_000,
  model: "m",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "The plan is to read the files, and then to run the tests." },
      finish_reason: "stop"
    }
  ],
  usage: { prompt_tokens: 12, completion_tokens: 20, total_tokens: 32 }
})
const overloaded = JSON.stringify({ error: { message: "The server is overloaded", type: "server_error" } })

/** Paths that begin with `/dead` fail. */
const provider: RequestListener = (request, response) => {
  request.resume()
  request.on("end", () => {
    const isDead = request.url?.startsWith("/dead") === true
    const body = isDead ? overloaded : answer
    response.writeHead(isDead ? 503 : 200, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body)
    })
    response.end(body)
  })
}

/** `/healthy` has two targets that answer; the first one of `/dead` fails. */
const gateway = (url: string): RequestListener => {
  const fetch = UndiciFetch.make()
  const target = (name: string) =>
    OpenAiCompatible.model({ name, baseUrl: `${url}/${name}/v1`, model: "m", keys: ["BENCH_KEY"], fetch })
  // Portkey is started without its log, too.
  const over = (first: string) =>
    ManagedRuntime.make(Layer.provideMerge(Failover.layer([target(first), target("b")]), Logger.layer([])))
  const runtimes = { healthy: over("a"), dead: over("dead") }
  return (request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const { messages } = JSON.parse(Buffer.concat(chunks).toString())
      const runtime = request.url?.startsWith("/dead") === true ? runtimes.dead : runtimes.healthy
      runtime.runPromise(LanguageModel.generateText({ prompt: messages })).then(
        ({ text, finishReason, usage }) => {
          const message = { role: "assistant", content: text }
          const tokens = {
            prompt_tokens: usage.inputTokens.total,
            completion_tokens: usage.outputTokens.total
          }
          response.writeHead(200, { "content-type": "application/json" })
          response.end(
            JSON.stringify({
              object: "chat.completion",
              choices: [{ index: 0, message, finish_reason: finishReason }],
              usage: tokens
            })
          )
        },
        () => response.writeHead(502).end()
      )
    })
  }
}

const [, , role, url] = process.argv
const server = createServer(role === "gateway" && url !== undefined ? gateway(url) : provider)
server.keepAliveTimeout = 60_000
server.listen(0, "127.0.0.1")
await once(server, "listening")
// The type of a server that listens on a port.
process.send?.((server.address() as AddressInfo).port)
