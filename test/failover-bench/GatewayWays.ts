/** The ways in which a program asks a gateway with default settings: unmodified clients of others. */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import Anthropic from "@anthropic-ai/sdk"
import { ChatOpenAI } from "@langchain/openai"
import { generateText, streamText } from "ai"
import { Effect, Redacted } from "effect"
import type { Scope } from "effect"
import OpenAI from "openai"
import { KeySource } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Gateway } from "@outlast/gateway"
import { Anthropic as Claude, OpenAi, OpenAiCompatible } from "@outlast/providers"
import { Warnings } from "@outlast/resilience"
import type { Call } from "./Situations.ts"
import type { Way } from "./Ways.ts"

export type Answer = Pick<Call, "text" | "error" | "model" | "outputTokens">
type Draft = { -readonly [Field in keyof Answer]: Answer[Field] }
type Fetch = typeof globalThis.fetch
type Ask = (fetch: Fetch, into: Draft) => Promise<void>

const content = "Why do rivers run in bends?"
const apiKey = "none"
const baseURL = "http://gateway/v1"
export const model = "route"

const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789abcdef"))]

const targets = {
  chat: (model: string, baseUrl: string) =>
    OpenAiCompatible.model({ name: "provider", model, keys, baseUrl }),
  messages: (model: string, baseUrl: string) => Claude.model(model, { keys, baseUrl }),
  responses: (model: string, baseUrl: string) => OpenAi.model(model, { keys, baseUrl })
} as const satisfies Record<string, (model: string, baseUrl: string) => ProviderModel.TargetSpec>

type Wire = keyof typeof targets

/** A gateway with default settings over the provider at `url`, until the scope ends. The targets speak these formats. */
export const opened = (
  url: string,
  [first, second]: readonly [Wire, Wire]
): Effect.Effect<Gateway.Gateway, never, Scope.Scope> => {
  const target = (wire: Wire, model: string) => targets[wire](model, `${url}/v1`)
  const chain = [target(first, "primary"), target(second, "fb-ok")] as const
  return Effect.provide(Gateway.make({ routes: { [model]: { chain } } }), Warnings.layerOff)
}

/** The targets speak the formats of `over`, by default the caller's. */
const way = (
  name: string,
  wire: Wire,
  streams: boolean,
  ask: Ask,
  over: readonly [Wire, Wire] = [wire, wire]
): Way => ({
  name: `gateway, ${wire}, ${name}`,
  streams,
  open: (url) =>
    Effect.gen(function* () {
      const { fetch } = yield* opened(url, over)
      return Effect.promise(async (): Promise<Answer> => {
        const into: Draft = { text: "", error: undefined, model: undefined, outputTokens: undefined }
        await ask(fetch, into).catch((error: unknown) => void (into.error = String(error)))
        return into
      })
    })
})

const completions: Ask = async (fetch, into) => {
  const client = new OpenAI({ apiKey, baseURL, fetch })
  const messages = [{ role: "user" as const, content }]
  const stream_options = { include_usage: true }
  for await (const chunk of await client.chat.completions.create({
    model,
    messages,
    stream: true,
    stream_options
  })) {
    into.text += chunk.choices[0]?.delta.content ?? ""
    into.model = chunk.model
    into.outputTokens = chunk.usage?.completion_tokens ?? into.outputTokens
  }
}

const wholeCompletion: Ask = async (fetch, into) => {
  const client = new OpenAI({ apiKey, baseURL, fetch })
  const answer = await client.chat.completions.create({ model, messages: [{ role: "user", content }] })
  into.text = answer.choices[0]?.message.content ?? ""
  into.model = answer.model
  into.outputTokens = answer.usage?.completion_tokens
}

const responses: Ask = async (fetch, into) => {
  const client = new OpenAI({ apiKey, baseURL, fetch })
  for await (const event of await client.responses.create({ model, input: content, stream: true })) {
    if (event.type === "response.output_text.delta") into.text += event.delta
    if (event.type === "response.failed") into.error = event.response.error?.message ?? "failed"
    if (event.type === "response.completed") {
      into.model = event.response.model
      into.outputTokens = event.response.usage?.output_tokens
    }
  }
}

const wholeResponse: Ask = async (fetch, into) => {
  const client = new OpenAI({ apiKey, baseURL, fetch })
  const answer = await client.responses.create({ model, input: content })
  into.text = answer.output_text
  into.model = answer.model
  into.outputTokens = answer.usage?.output_tokens
}

const request = { model, max_tokens: 1_000, messages: [{ role: "user" as const, content }] }

const messages: Ask = async (fetch, into) => {
  const client = new Anthropic({ apiKey, baseURL: "http://gateway", fetch })
  for await (const event of client.messages.stream(request)) {
    if (event.type === "message_start") into.model = event.message.model
    if (event.type === "content_block_delta" && event.delta.type === "text_delta")
      into.text += event.delta.text
    if (event.type === "message_delta") into.outputTokens = event.usage.output_tokens
  }
}

const wholeMessage: Ask = async (fetch, into) => {
  const client = new Anthropic({ apiKey, baseURL: "http://gateway", fetch })
  const answer = await client.messages.create(request)
  into.text = answer.content.map((block) => (block.type === "text" ? block.text : "")).join("")
  into.model = answer.model
  into.outputTokens = answer.usage.output_tokens
}

const vercel = (
  of: (fetch: Fetch) => Parameters<typeof streamText>[0]["model"]
): { stream: Ask; whole: Ask } => ({
  stream: async (fetch, into) => {
    for await (const part of streamText({ model: of(fetch), prompt: content, onError: () => {} })
      .fullStream) {
      if (part.type === "text-delta") into.text += part.text
      if (part.type === "error") into.error = String(part.error)
      if (part.type === "finish-step") {
        into.model = part.response.modelId
        into.outputTokens = part.usage.outputTokens
      }
    }
  },
  whole: async (fetch, into) => {
    const { response, text, usage } = await generateText({ model: of(fetch), prompt: content })
    Object.assign(into, { text, model: response.modelId, outputTokens: usage.outputTokens })
  }
})

const langchain = (fetch: Fetch) =>
  new ChatOpenAI({ model, apiKey, configuration: { baseURL, fetch }, streamUsage: true })

/** What a message of LangChain says of itself. Its types know no names of these fields. */
const said = (message: object, { model, outputTokens }: Draft): Partial<Draft> => {
  const { response_metadata: about, usage_metadata: usage } = message as {
    readonly response_metadata?: { readonly model_name?: string }
    readonly usage_metadata?: { readonly output_tokens?: number }
  }
  return { model: about?.model_name ?? model, outputTokens: usage?.output_tokens ?? outputTokens }
}

const streamed: Ask = async (fetch, into) => {
  for await (const chunk of await langchain(fetch).stream(content)) {
    into.text += chunk.text
    Object.assign(into, said(chunk, into))
  }
}

const invoked: Ask = async (fetch, into) => {
  const answer = await langchain(fetch).invoke(content)
  into.text = answer.text
  Object.assign(into, said(answer, into))
}

const ofChat = vercel((fetch) => createOpenAI({ apiKey, baseURL, fetch }).chat(model))
const ofMessages = vercel((fetch) => createAnthropic({ apiKey, baseURL, fetch })(model))
const ofResponses = vercel((fetch) => createOpenAI({ apiKey, baseURL, fetch }).responses(model))

/** The same over targets that speak other formats; for whole answers, the second speaks the caller's. */
const crossed = (name: string, wire: Wire, streams: boolean, ask: Ask): Way => {
  const [first, other] = others[wire]
  const second = streams ? other : wire
  return way(`${name} over ${first} and ${second}`, wire, streams, ask, [first, second])
}

const others = {
  chat: ["messages", "responses"],
  messages: ["responses", "chat"],
  responses: ["chat", "messages"]
} as const satisfies Record<Wire, readonly [Wire, Wire]>

export const gatewayWays: ReadonlyArray<Way> = [
  way("openai", "chat", true, completions),
  way("openai whole", "chat", false, wholeCompletion),
  way("ai", "chat", true, ofChat.stream),
  way("ai whole", "chat", false, ofChat.whole),
  way("langchain", "chat", true, streamed),
  way("langchain whole", "chat", false, invoked),
  way("anthropic", "messages", true, messages),
  way("anthropic whole", "messages", false, wholeMessage),
  way("ai", "messages", true, ofMessages.stream),
  way("ai whole", "messages", false, ofMessages.whole),
  way("openai", "responses", true, responses),
  way("openai whole", "responses", false, wholeResponse),
  way("ai", "responses", true, ofResponses.stream),
  way("ai whole", "responses", false, ofResponses.whole),
  crossed("openai", "chat", true, completions),
  crossed("openai whole", "chat", false, wholeCompletion),
  crossed("anthropic", "messages", true, messages),
  crossed("anthropic whole", "messages", false, wholeMessage),
  crossed("openai", "responses", true, responses),
  crossed("openai whole", "responses", false, wholeResponse)
]
