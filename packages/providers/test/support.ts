/**
 * Helpers for the tests of this package: attempts at a target, conversations with it, small servers.
 */
import type { ProviderFailure, ProviderModel } from "@outlast/agent"
import type { Scope } from "effect"
import { Effect, Redacted, Stream } from "effect"
import type { Response } from "effect/ai"
import { IdGenerator, LanguageModel, Prompt } from "effect/ai"
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"

const key = Redacted.make("sk-test-0123456789abcdef")

const target = { id: "p/m#KEY", provider: "p", model: "m", endpoint: "", key: "KEY" }

/** A request as the owner of a call would make it. */
export const request = (
  prompt: Prompt.RawInput,
  options: Partial<ProviderModel.ProviderRequest> = {}
): Effect.Effect<ProviderModel.ProviderRequest> =>
  Effect.map(Effect.makeSpan("test"), (span) => ({
    target,
    prompt: Prompt.make(prompt),
    tools: [],
    responseFormat: { type: "text" },
    toolChoice: "auto",
    span,
    previousResponseId: undefined,
    incrementalPrompt: undefined,
    key,
    maxOutputTokens: 1_000,
    ...options
  }))

/** One attempt without a stream. */
export const generate = (
  spec: ProviderModel.TargetSpec,
  prompt: Prompt.RawInput = "hello",
  options: Partial<ProviderModel.ProviderRequest> = {}
): Effect.Effect<Array<Response.PartEncoded>, ProviderFailure.ProviderFailure> =>
  Effect.gen(function* () {
    const model = yield* spec.build
    return yield* model.generateText(yield* request(prompt, options))
  }).pipe(Effect.scoped, Effect.provideService(IdGenerator.IdGenerator, IdGenerator.defaultIdGenerator))

/** One attempt with a stream, as far as it came. */
export const collect = (
  spec: ProviderModel.TargetSpec,
  prompt: Prompt.RawInput = "hello",
  options: Partial<ProviderModel.ProviderRequest> = {}
): Effect.Effect<{
  readonly parts: Array<Response.StreamPartEncoded>
  readonly failure: ProviderFailure.ProviderFailure | undefined
}> =>
  Effect.gen(function* () {
    const model = yield* spec.build
    const parts: Array<Response.StreamPartEncoded> = []
    const failure = yield* model.streamText(yield* request(prompt, options)).pipe(
      Stream.runForEachArray((array) => Effect.sync(() => parts.push(...array))),
      Effect.as(undefined),
      Effect.catch((failure) => Effect.succeed(failure))
    )
    return { parts, failure }
  }).pipe(Effect.scoped, Effect.provideService(IdGenerator.IdGenerator, IdGenerator.defaultIdGenerator))

/** The target as a language model; its failures are defects here. */
export const languageModel = (
  spec: ProviderModel.TargetSpec,
  options: Partial<ProviderModel.ProviderRequest> = {}
) =>
  Effect.flatMap(Effect.scoped(spec.build), (model) => {
    const fields = { target, key, maxOutputTokens: 1_000, ...options }
    return LanguageModel.make({
      generateText: (call) => Effect.orDie(model.generateText({ ...call, ...fields })),
      streamText: (call) => Stream.orDie(model.streamText({ ...call, ...fields }))
    })
  })

export const text = (parts: ReadonlyArray<Response.StreamPartEncoded>): string =>
  parts.map((part) => (part.type === "text-delta" ? part.delta : "")).join("")

export interface Hit {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  /** Names and values in turn, as received. */
  readonly rawHeaders: ReadonlyArray<string>
  // The body of a request is what the test says it is.
  readonly body: any
}

export interface Server {
  readonly url: string
  readonly hits: ReadonlyArray<Hit>
}

/** A server that answers the n-th request, from 0, by `answer`. */
export const serve = (
  answer: (response: ServerResponse, hit: Hit, n: number) => void
): Effect.Effect<Server, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<Server & { readonly close: () => void }>((resume) => {
      const hits: Array<Hit> = []
      const server = createServer((incoming: IncomingMessage, response: ServerResponse) => {
        let body = ""
        incoming.on("data", (chunk) => (body += chunk))
        incoming.on("end", () => {
          const { url = "", headers, rawHeaders } = incoming
          const { method = "" } = incoming
          const hit = { method, url, headers, rawHeaders, body: body === "" ? undefined : JSON.parse(body) }
          hits.push(hit)
          answer(response, hit, hits.length - 1)
        })
      })
      const close = () => {
        server.close()
        server.closeAllConnections()
      }
      server.listen(0, "127.0.0.1", () => {
        // A server that listens on a port has an address of this kind.
        const { port } = server.address() as AddressInfo
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, hits, close }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

export const json = (response: ServerResponse, body: unknown, status = 200): void => {
  response.writeHead(status, { "content-type": "application/json" })
  response.end(JSON.stringify(body))
}

/** Server-sent events; each with its type as name, as far as it has one. */
export const sse = (response: ServerResponse, events: ReadonlyArray<object | string>, end = true): void => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  for (const event of events) {
    const name = typeof event === "object" && "type" in event ? `event: ${String(event.type)}\n` : ""
    response.write(`${name}data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`)
  }
  if (end) response.end()
}
