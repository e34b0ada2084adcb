/** Responses without an end, and small ones that become huge: every body has a limit, after decompression. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import type { ServerResponse } from "node:http"
import { gzipSync } from "node:zlib"
import { AiSdk, Anthropic, Google, OpenAi, OpenAiCompatible } from "@outlast/providers"
import type { Came, Vendor } from "./Asked.ts"
import { asked, keys, policy, reasonOf, vendors } from "./Asked.ts"
import * as RawServer from "./RawServer.ts"
import * as Replies from "./Replies.ts"
import { chat, claude } from "./RawServer.ts"

const mebi = 1024 * 1024
const everyone = Object.keys(vendors) as ReadonlyArray<Vendor> // Object.keys forgets the names

/** Some megabytes of `unit` in gzip: one member of 4 MB may follow another. */
const bomb = (unit: string, megabytes: number): Buffer => {
  const member = gzipSync(Buffer.alloc(4 * mebi, unit))
  return Buffer.concat(Array.from({ length: megabytes / 4 }, () => member))
}

const send = (response: ServerResponse, status: number, type: string, body: Buffer): void => {
  response.writeHead(status, { "content-type": type, "content-encoding": "gzip" })
  // Without an end: only the client can end it.
  response.write(body)
}

const detailOf = ({ failure }: Came): string =>
  failure?._tag === "ProviderFailure" ? failure.detail : (failure?.targets[0]?.failure.detail ?? "")

const once = { ...policy, maxAttempts: 1 }

/** One model of each client, that reads the response. */
const reading = (vendor: Vendor, response: () => Response) => {
  const common = { keys, fetch: () => Promise.resolve(response()), baseUrl: "http://localhost/v1" }
  return {
    anthropic: () => Anthropic.model("claude-x", { ...common, info: { wholeAnswers: "request" } }),
    chat: () => OpenAi.chatModel("gpt-x", { ...common, info: { wholeAnswers: "request" } }),
    responses: () => OpenAi.model("gpt-x", { ...common, info: { wholeAnswers: "request" } }),
    google: () => Google.model("gemini-x", { ...common, info: { wholeAnswers: "request" } }),
    compatible: () => OpenAiCompatible.model({ ...common, name: "local", model: "m" })
  }[vendor]
}

const blanks = new Uint8Array(mebi).fill(32)

const longError = bomb(" ", 4)
const statuses = [
  [400, "Format"],
  [401, "Auth"],
  [429, "RateLimit"],
  [500, "ServerError"]
] as const

describe("a body without an end", () => {
  for (const vendor of everyone) {
    it.live(`of a complete answer fails at its limit and is cancelled: ${vendor}`, () =>
      Effect.gen(function* () {
        let read = 0
        let isCancelled = false
        const endless = () =>
          new Response(
            new ReadableStream({
              pull: (controller) => {
                read++
                controller.enqueue(blanks)
              },
              cancel: () => void (isCancelled = true)
            }),
            { headers: { "content-type": "application/json" } }
          )
        const came = yield* asked("request", [reading(vendor, endless)], { policy: once })
        assert.strictEqual(reasonOf(came), "Format")
        assert.include(detailOf(came), `more than ${AiSdk.maxBytes.answer} bytes`)
        assert.isTrue(isCancelled)
        assert.isAtMost(read * mebi, AiSdk.maxBytes.answer + 4 * mebi)
      })
    )

    it.live(`of an error keeps the reason of its status: ${vendor}`, () =>
      Effect.gen(function* () {
        const server = yield* RawServer.start((response, _, n) =>
          send(response, statuses[n]?.[0] ?? 500, "application/json", longError)
        )
        for (const [, reason] of statuses) {
          const came = yield* asked("request", [vendors[vendor](server.url)], { policy: once })
          assert.strictEqual(reasonOf(came), reason)
          assert.include(detailOf(came), `more than ${AiSdk.maxBytes.error} bytes`)
        }
        assert.lengthOf(server.hits, statuses.length)
        yield* Effect.promise(() => Promise.all(server.hits.map(({ closed }) => closed)))
      })
    )
  }

  it.live("of an error is classified by its beginning", () =>
    Effect.gen(function* () {
      const server = yield* RawServer.start((response) => {
        const error = { code: "context_length_exceeded", message: "too long", input: "x".repeat(2 * mebi) }
        RawServer.json(response, 400, { error })
      })
      const came = yield* asked("stream", [vendors.chat(server.url)], { policy: once })
      assert.strictEqual(reasonOf(came), "ContextOverflow")
    })
  )
})

describe("a small response that becomes huge", () => {
  const cases: ReadonlyArray<
    readonly [name: string, type: string, body: () => Buffer, way: "request" | "stream"]
  > = [
    ["a complete answer", "application/json", () => bomb(" ", 68), "request"],
    ["comments", "text/event-stream", () => bomb(`: ${"keep-alive ".repeat(93)}\n`, 36), "stream"]
  ]
  for (const [name, type, body, way] of cases) {
    it.live(`moves the call to the next target, and its connection is closed: ${name}`, () =>
      Effect.gen(function* () {
        const packed = body()
        const first = yield* RawServer.start((response) => send(response, 200, type, packed))
        const second = yield* RawServer.start(
          Replies.send.anthropic({ text: "second", end: "end_turn", tokens: 1 })
        )
        const before = process.memoryUsage().rss
        const came = yield* asked(way, [vendors.compatible(first.url), vendors.anthropic(second.url)])
        assert.strictEqual(came.text, "second")
        assert.isNotEmpty(came.failures)
        assert.isTrue(came.failures.every((reason) => reason === "Format"))
        assert.isBelow(process.memoryUsage().rss - before, 300 * mebi)
        yield* Effect.promise(() => Promise.all(first.hits.map(({ closed }) => closed)))
      })
    )
  }
})

describe("keep-alives without an end", () => {
  const comment = ": keep-alive\n\n"
  const alive: { readonly [V in Vendor]: string } = {
    anthropic: RawServer.event({ type: "ping" }) + comment,
    chat: RawServer.event(chat.text("")) + comment,
    compatible: RawServer.event(chat.delta({ role: "assistant", content: "" })) + comment,
    responses: RawServer.event({
      type: "response.in_progress",
      response: { id: "r", created_at: 1, model: "m" }
    }),
    google: RawServer.event({ candidates: [{ content: { role: "model", parts: [] }, index: 0 }] }) + comment
  }
  const piece = {
    type: "response.output_text.delta",
    item_id: "msg_1",
    output_index: 0,
    content_index: 0,
    delta: "The "
  }
  const begun: { readonly [V in Vendor]: ReadonlyArray<object> } = {
    anthropic: [claude.start, claude.block(0), claude.text(0, "The ")],
    chat: [chat.text("The ")],
    compatible: [chat.text("The ")],
    responses: [
      { type: "response.created", response: { id: "r", created_at: 1, model: "m", service_tier: null } },
      {
        type: "response.output_item.added",
        output_index: 0,
        item: { type: "message", id: "msg_1", status: "in_progress", role: "assistant", content: [] }
      },
      piece
    ],
    google: [{ candidates: [{ content: { role: "model", parts: [{ text: "The " }] }, index: 0 }] }]
  }
  // A busy machine needs a while to connect.
  const limit = Duration.millis(600)
  const limits = { ...policy.limits, firstToken: limit, idle: limit }
  const rules = { ...once, limits, midStream: "fail" } as const

  for (const vendor of everyone) {
    for (const way of ["stream", "folded"] as const) {
      it.live(`are no progress: the limits end the attempt, ${vendor}, ${way}`, () =>
        Effect.forEach(
          [[], begun[vendor]],
          Effect.fnUntraced(function* (first) {
            const server = yield* RawServer.start((response) => {
              RawServer.events(response, first, true)
              const more = (): void => {
                if (!response.destroyed) response.write(alive[vendor], () => setTimeout(more, 2))
              }
              more()
            })
            const target = vendors[vendor](server.url)
            const came = yield* asked(way, [() => target({ wholeAnswers: "stream" })], { policy: rules })
            assert.strictEqual(reasonOf(came), "Timeout")
            assert.strictEqual(came.text, way === "stream" && first.length > 0 ? "The " : "")
            yield* Effect.promise(() => server.hits[0]?.closed ?? Promise.reject(new Error("no request")))
          }),
          { concurrency: "unbounded", discard: true }
        )
      )
    }
  }
})
