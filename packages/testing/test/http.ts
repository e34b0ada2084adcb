/** Plain HTTP against a `FakeProvider`: requests, and what a stream says. */
import { Effect } from "effect"
import type { FakeProvider, Provider } from "@outlast/testing/FakeProvider"

export interface Response {
  readonly status: number
  readonly headers: Headers
  /** Parsed where it is JSON. */
  readonly body: any // tests look into bodies of both vendors
  readonly text: string
}

const headersOf: Record<Provider, Record<string, string>> = {
  anthropic: { "x-api-key": "sk-test", "anthropic-version": "2023-06-01" },
  openai: { authorization: "Bearer sk-test" }
}

const pathOf: Record<Provider, string> = { anthropic: "/messages", openai: "/chat/completions" }

export const open = (
  server: FakeProvider,
  provider: Provider,
  body: unknown,
  headers: Record<string, string | undefined> = {},
  signal?: AbortSignal
): Promise<globalThis.Response> => {
  const all = { "content-type": "application/json", ...headersOf[provider], ...headers }
  return fetch(server.baseUrl(provider) + pathOf[provider], {
    method: "POST",
    headers: Object.fromEntries(Object.entries(all).flatMap(([k, v]) => (v === undefined ? [] : [[k, v]]))),
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...(signal === undefined ? {} : { signal })
  })
}

export const post = (
  server: FakeProvider,
  provider: Provider,
  body: unknown,
  headers: Record<string, string | undefined> = {}
): Effect.Effect<Response> =>
  Effect.promise(async () => {
    const response = await open(server, provider, body, headers)
    const text = await response.text()
    let json: unknown
    try {
      json = JSON.parse(text)
    } catch {}
    return { status: response.status, headers: response.headers, body: json, text }
  })

/** How a response ended: complete, or broken by the socket. `chunks` are as the network gave them. */
export interface Read {
  readonly text: string
  readonly broken: boolean
  readonly chunks: ReadonlyArray<Uint8Array>
}

export const readAll = async (response: globalThis.Response): Promise<Read> => {
  const chunks: Array<Uint8Array> = []
  let broken = false
  try {
    for await (const chunk of response.body!) chunks.push(chunk)
  } catch {
    broken = true
  }
  return { text: Buffer.concat(chunks).toString("utf8"), broken, chunks }
}

/** The data of each complete event; `[DONE]` and comments are left out. */
export const events = (text: string): ReadonlyArray<any> =>
  // tests look into events of both vendors
  text
    .slice(0, text.lastIndexOf("\n\n") + 2)
    .split("\n\n")
    .flatMap((event) => event.split("\n").filter((line) => line.startsWith("data: ")))
    .map((line) => line.slice(6))
    .filter((data) => data !== "[DONE]")
    .map((data) => JSON.parse(data))

/** The smallest request that is right. */
export const hello: Record<Provider, Record<string, unknown>> = {
  anthropic: {
    model: "claude-sonnet-4-5",
    max_tokens: 1024,
    messages: [{ role: "user", content: "hello" }]
  },
  openai: { model: "gpt-4.1", messages: [{ role: "user", content: "hello" }] }
}
