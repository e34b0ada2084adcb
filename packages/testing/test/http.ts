/** Plain HTTP requests to a `FakeProvider`, and readers for its streams. */
import { Effect } from "effect"
import type { FakeProvider, Provider } from "#testing/FakeProvider"

/** The wire formats. `openai` is Chat Completions. */
export type Api = "anthropic" | "openai" | "responses" | "google"

export const apis: ReadonlyArray<Api> = ["anthropic", "openai", "responses", "google"]

export const providerOf: Record<Api, Provider> = {
  anthropic: "anthropic",
  openai: "openai",
  responses: "openai",
  google: "google"
}

export interface Response {
  readonly status: number
  readonly headers: Headers
  /** Parsed if it is JSON. */
  readonly body: any // tests look into bodies of all vendors
  readonly text: string
}

const bearer = { authorization: "Bearer sk-test" }
const headersOf: Record<Api, Record<string, string>> = {
  anthropic: { "x-api-key": "sk-test", "anthropic-version": "2023-06-01" },
  openai: bearer,
  responses: bearer,
  google: { "x-goog-api-key": "sk-test" }
}

const pathOf: Record<Exclude<Api, "google">, string> = {
  anthropic: "/messages",
  openai: "/chat/completions",
  responses: "/responses"
}

/** Gemini has the model and the stream in its path. Tests put them in the body for every API. */
const addressed = (api: Api, body: unknown): readonly [path: string, body: unknown] => {
  if (api !== "google") return [pathOf[api], body]
  const { model = "gemini-3-flash", stream = false, ...rest } = body as Record<string, unknown>
  const method = stream === true ? "streamGenerateContent?alt=sse" : "generateContent"
  return [`/models/${String(model)}:${method}`, rest]
}

export const open = (
  server: FakeProvider,
  api: Api,
  content: unknown,
  headers: Record<string, string | undefined> = {},
  signal?: AbortSignal
): Promise<globalThis.Response> => {
  const all = { "content-type": "application/json", ...headersOf[api], ...headers }
  const [path, body] =
    typeof content === "string" ? [addressed(api, {})[0], content] : addressed(api, content)
  return fetch(server.baseUrl(providerOf[api]) + path, {
    method: "POST",
    headers: Object.fromEntries(Object.entries(all).flatMap(([k, v]) => (v === undefined ? [] : [[k, v]]))),
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...(signal === undefined ? {} : { signal })
  })
}

export const post = (
  server: FakeProvider,
  api: Api,
  body: unknown,
  headers: Record<string, string | undefined> = {}
): Effect.Effect<Response> =>
  Effect.promise(async () => {
    const response = await open(server, api, body, headers)
    const text = await response.text()
    let json: unknown
    try {
      json = JSON.parse(text)
    } catch {}
    return { status: response.status, headers: response.headers, body: json, text }
  })

/** The end of a response: complete, or broken by the socket. `chunks` are those of the network. */
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

/** Returns the data of each complete event, without `[DONE]` and comments. */
export const events = (text: string): ReadonlyArray<any> =>
  // tests look into events of all vendors
  text
    .slice(0, text.lastIndexOf("\n\n") + 2)
    .split("\n\n")
    .flatMap((event) => event.split("\n").filter((line) => line.startsWith("data: ")))
    .map((line) => line.slice(6))
    .filter((data) => data !== "[DONE]")
    .map((data) => JSON.parse(data))

/** The smallest valid request. */
export const hello: Record<Api, Record<string, unknown>> = {
  anthropic: {
    model: "claude-sonnet-4-5",
    max_tokens: 1024,
    messages: [{ role: "user", content: "hello" }]
  },
  openai: { model: "gpt-4.1", messages: [{ role: "user", content: "hello" }] },
  responses: { model: "gpt-5", input: [{ role: "user", content: "hello" }] },
  google: { model: "gemini-3-flash", contents: [{ role: "user", parts: [{ text: "hello" }] }] }
}

/** Returns the text that one event of a stream adds. */
export const textIn = (event: any): string => {
  // tests look into events of all vendors
  if (event.type === "response.output_text.delta") return event.delta
  const parts: ReadonlyArray<any> = event.candidates?.[0]?.content?.parts ?? []
  const said = parts.map(({ text = "", thought }) => (thought === true ? "" : text)).join("")
  return event.delta?.text ?? event.choices?.[0]?.delta.content ?? said
}
