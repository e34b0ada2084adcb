/**
 * Time limits of Node's `fetch`, which cut an answer after five minutes whatever the policy allows.
 *
 * The dispatcher of the test has short limits. A request outside of any call shows when they have passed.
 */
import { createOpenAI } from "@ai-sdk/openai"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import type { ServerResponse } from "node:http"
import { AiSdk, OpenAi } from "@outlast/providers"
import { UndiciFetch } from "@outlast/providers/undici"
import * as Undici from "undici"
import type { Vendor, Way } from "./Asked.ts"
import { asked, keys, vendors, ways } from "./Asked.ts"
import * as RawServer from "./RawServer.ts"
import * as Replies from "./Replies.ts"

const short = { headersTimeout: 50, bodyTimeout: 50 }

/** Lets Node's `fetch` send by a dispatcher with short limits. */
const shortLimits = Effect.acquireRelease(
  Effect.sync(() => {
    const before = Undici.getGlobalDispatcher()
    Undici.setGlobalDispatcher(new Undici.Agent({ ...short, allowH2: false }))
    return before
  }),
  (before) => Effect.sync(() => Undici.setGlobalDispatcher(before))
)

type Target = (typeof vendors)[Vendor]
const everyone = Object.keys(vendors) as ReadonlyArray<Vendor> // Object.keys forgets the names

const targets: ReadonlyArray<{ readonly name: string; readonly vendor: Vendor; readonly target: Target }> = [
  ...everyone.map((vendor) => ({ name: vendor, vendor, target: vendors[vendor] })),
  {
    name: "a fetch of the program over the global one",
    vendor: "chat",
    target: (url) => (info) =>
      OpenAi.chatModel("gpt-x", {
        keys,
        info,
        baseUrl: `${url}/v1`,
        fetch: (...request) => fetch(...request)
      })
  },
  {
    name: "a custom client with the global fetch",
    vendor: "chat",
    target: (url) => (info) =>
      AiSdk.model({
        provider: "custom",
        model: "m",
        keys,
        info,
        create: (apiKey) => createOpenAI({ apiKey: apiKey ?? "", baseURL: `${url}/v1` }).chat("m")
      })
  },
  {
    name: "UndiciFetch",
    vendor: "chat",
    target: (url) => (info) => {
      const fetch = UndiciFetch.make({ dispatcher: new Undici.Agent({ ...short, allowH2: false }) })
      return OpenAi.chatModel("gpt-x", { keys, info, baseUrl: `${url}/v1`, fetch })
    }
  }
]

const calls = targets.flatMap((each) => ways.map((way) => ({ ...each, way })))

/** The code of the limit that ends a request outside of any call. */
const limitOf = (request: () => Promise<unknown>) =>
  Effect.flip(
    Effect.tryPromise({
      try: request,
      catch: (error) => (error as { readonly cause: { code: string } }).cause.code
    })
  )

/** The answer of each call, in two halves: `headers` and `body` end when the limits of the platform have passed. */
const answers = Effect.gen(function* () {
  yield* shortLimits
  const open: Array<{ readonly response: ServerResponse; readonly reply: Replies.Written }> = []
  const all = Deferred.makeUnsafe<void>()
  const server = yield* RawServer.start((response, hit) => {
    if (hit.url === "/silent") return
    if (hit.url === "/stalled") return void response.write("{")
    const vendor = everyone.find((name) => paths[name].test(hit.url)) ?? "chat"
    const reply = { text: "The Nile.", end: Replies.ends[vendor].stop, tokens: 4 }
    open.push({ response, reply: Replies.written(Replies.send[vendor](reply), Replies.isStream(hit)) })
    if (open.length === calls.length) Deferred.doneUnsafe(all, Effect.void)
  })
  const passing = yield* Effect.forkScoped(
    Effect.gen(function* () {
      yield* Deferred.await(all)
      const first = yield* limitOf(() => fetch(`${server.url}/silent`))
      for (const { response, reply } of open) {
        response.writeHead(200, { "content-type": reply.type })
        response.write(reply.body.slice(0, reply.body.length / 2))
      }
      const second = yield* limitOf(async () => (await fetch(`${server.url}/stalled`)).text())
      for (const { response, reply } of open) response.end(reply.body.slice(reply.body.length / 2))
      return [first, second]
    })
  )
  const came = yield* Effect.forEach(calls, ({ way, target }) => asked(way, [target(server.url)]), {
    concurrency: "unbounded"
  })
  return { came, requests: open.length, passed: yield* Fiber.join(passing) }
})

const paths: { readonly [V in Vendor]: RegExp } = {
  anthropic: /\/messages/,
  responses: /\/responses/,
  chat: /\/chat\/completions/,
  compatible: /\/chat\/completions/,
  google: /generateContent/i
}

describe("the limits of the platform", () => {
  it.live("cut no answer that the policy still waits for, and every call sends one request", () =>
    Effect.gen(function* () {
      const { came, requests, passed } = yield* answers
      const seen = (name: string, way: Way, text: string, failures: ReadonlyArray<string>) =>
        `${name}, ${way}: ${text} ${failures.join()}`
      assert.deepStrictEqual(
        came.map(({ text, failures }, i) =>
          seen(calls[i]?.name ?? "", calls[i]?.way ?? "stream", text, failures)
        ),
        calls.map(({ name, way }) => seen(name, way, "The Nile.", []))
      )
      assert.strictEqual(requests, calls.length)
      assert.deepStrictEqual(passed, ["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"])
    })
  )
})
