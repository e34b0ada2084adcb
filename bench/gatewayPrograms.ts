/**
 * The processes that `gateway.ts` talks to: `vendor`, which answers like a chat completions server; two proxies in as few
 * lines as Node allows, over `fetch` and over `http.request`; and `outlast`, the gateway. Each sends its port to its parent.
 */
import { once } from "node:events"
import { Agent, createServer, request as ask } from "node:http"
import type { RequestListener } from "node:http"
import type { AddressInfo } from "node:net"
import { Effect } from "effect"
import { Gateway, Server } from "@outlast/gateway"
import { OpenAiCompatible } from "@outlast/providers"
import type { Model } from "./gatewayAnswers.ts"
import { models, whole } from "./gatewayAnswers.ts"

/** Milliseconds from one write to the next: 200 tokens a second. */
const pace = 5

const names = Object.keys(models) as ReadonlyArray<Model> // the names of an object of this module

const modelOf = (text: string): Model => names.find((name) => text.includes(`"model":"${name}"`)) ?? "m"

const vendor: RequestListener = (request, response) => {
  let text = ""
  request.setEncoding("utf8")
  request.on("data", (chunk: string) => (text += chunk))
  request.on("end", () => {
    if (!text.includes('"stream":true')) {
      response.writeHead(200, { "content-type": "application/json", "content-length": whole.length })
      return response.end(whole)
    }
    const { events, together } = models[modelOf(text)]
    response.writeHead(200, { "content-type": "text/event-stream" })
    // The role and the first word come together.
    let n = Math.max(2, together)
    response.write(events.slice(0, n).join(""))
    const timer = setInterval(() => {
      if (n < events.length) return void response.write(events.slice(n, (n += together)).join(""))
      clearInterval(timer)
      if (events.at(-1)?.includes("[DONE]") === true) response.end()
    }, pace)
    response.on("close", () => clearInterval(timer))
  })
}

const bodyOf = async (request: AsyncIterable<Buffer>): Promise<string> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

const path = "/v1/chat/completions"
const headers = { "content-type": "application/json", authorization: "Bearer secret" }

const overFetch =
  (vendor: string): RequestListener =>
  async (request, response) => {
    const gone = new AbortController()
    response.on("close", () => gone.abort())
    const body = await bodyOf(request)
    const answer = await fetch(vendor + path, { method: "POST", headers, body, signal: gone.signal })
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" })
    try {
      for await (const chunk of answer.body ?? []) response.write(chunk)
      response.end()
    } catch {
      response.destroy()
    }
  }

const overHttp = (vendor: string): RequestListener => {
  const agent = new Agent({ keepAlive: true })
  return async (request, response) => {
    const body = await bodyOf(request)
    const length = { "content-length": Buffer.byteLength(body) }
    const sent = ask(
      vendor + path,
      { agent, method: "POST", headers: { ...headers, ...length } },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, { "content-type": answer.headers["content-type"] })
        answer.pipe(response)
      }
    )
    sent.on("error", () => response.destroy())
    response.on("close", () => sent.destroy())
    sent.end(body)
  }
}

const listening = async (listener: RequestListener): Promise<number> => {
  const server = createServer(listener)
  server.keepAliveTimeout = 60_000
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  // The type of a server that listens on a port.
  return (server.address() as AddressInfo).port
}

/** Two targets a route, as a gateway has them. */
const outlast = (vendor: string) =>
  Effect.gen(function* () {
    const target = (name: string, model: string) =>
      OpenAiCompatible.model({ name, baseUrl: `${vendor}/v1`, model, keys: ["BENCH_KEY"] })
    const routes = Object.fromEntries(
      names.map((model) => [model, { chain: [target("a", model), target("b", model)] as const }])
    )
    const gateway = yield* Gateway.make({ routes })
    const { url } = yield* Server.listen(gateway)
    process.send?.(Number(new URL(url).port))
    return yield* Effect.never
  })

const [, , role, url = ""] = process.argv
if (role === "outlast") await Effect.runPromise(Effect.scoped(outlast(url)))
else
  process.send?.(
    await listening(role === "vendor" ? vendor : role === "fetch" ? overFetch(url) : overHttp(url))
  )
