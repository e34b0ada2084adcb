/** Redirects of raw servers: keys and prompts stay at their own origin. */
import { assert, describe, it } from "@effect/vitest"
import type { ProviderFailure, ProviderModel } from "@outlast/agent"
import { AiSdk, Anthropic, Google, OpenAi, OpenAiCompatible } from "@outlast/providers"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { Cause, Effect, Redacted } from "effect"
import { inspect } from "node:util"
import * as Fetch from "#providers/aisdk/Fetch"
import * as Support from "./support.ts"

const secret = ["sk-ant-", "planted-0123456789abcdef"].join("")
const prompt = "the planted question about the rocket"
const gateway = "gateway-planted-header"

interface Vendor {
  readonly name: string
  readonly target: (url: string, options?: { readonly fetch?: typeof fetch }) => ProviderModel.TargetSpec
}
const headers = { "x-gateway-key": gateway }
const vendors: ReadonlyArray<Vendor> = [
  {
    name: "Anthropic",
    target: (url, options) =>
      Anthropic.model("claude-sonnet-4-5", { baseUrl: `${url}/v1`, headers, ...options })
  },
  {
    name: "OpenAI Responses",
    target: (url, options) => OpenAi.model("gpt-5", { baseUrl: `${url}/v1`, headers, ...options })
  },
  {
    name: "OpenAI Chat",
    target: (url, options) => OpenAi.chatModel("gpt-4o", { baseUrl: `${url}/v1`, headers, ...options })
  },
  {
    name: "Google",
    target: (url, options) => Google.model("gemini-2.5-pro", { baseUrl: `${url}/v1`, headers, ...options })
  },
  {
    name: "an OpenAI-compatible server",
    target: (url, options) =>
      OpenAiCompatible.model({ name: "local", model: "m", baseUrl: `${url}/v1`, headers, ...options })
  },
  {
    name: "a client of one's own with AiSdk.fetch",
    target: (url) =>
      AiSdk.model({
        provider: "own",
        model: "m",
        headers,
        create: (key = "") =>
          createOpenAICompatible({ name: "own", baseURL: `${url}/v1`, apiKey: key, fetch: AiSdk.fetch })("m")
      })
  }
]

const statuses = [301, 302, 303, 307, 308]

/** The failures of a call and of a stream. */
const failuresOf = (spec: ProviderModel.TargetSpec) =>
  Effect.gen(function* () {
    const options = { key: Redacted.make(secret) }
    const called = yield* Effect.flip(Support.generate(spec, prompt, options))
    const { failure, parts } = yield* Support.collect(spec, prompt, options)
    assert.deepStrictEqual(parts, [])
    return [called, failure ?? assert.fail("The stream did not fail.")] as const
  })

const assertClean = (failure: ProviderFailure.ProviderFailure) => {
  const all = [
    inspect(failure, { depth: 20, showHidden: true }),
    String(failure),
    JSON.stringify(failure),
    Cause.pretty(Cause.fail(failure))
  ].join("\n")
  for (const planted of [secret, "planted", "path-of-it", "query-of-it", "user-of-it"]) {
    assert.notInclude(all, planted)
  }
}

describe.each(vendors)("a redirect of $name", ({ target, name }) => {
  it.effect("to another origin is not followed, and nothing is sent there", () =>
    Effect.gen(function* () {
      const elsewhere = yield* Support.serve((response) => Support.json(response, {}))
      for (const status of statuses) {
        const to = elsewhere.url.replace("://", "://user-of-it:secret@")
        const location = `${to}/path-of-it/${encodeURIComponent(secret)}?query-of-it=${secret}#${secret}`
        const server = yield* Support.serve((response) => response.writeHead(status, { location }).end())
        for (const failure of yield* failuresOf(target(server.url))) {
          assert.strictEqual(failure.reason._tag, "PermanentNetwork")
          assert.include(
            failure.message,
            `redirects to another origin (${elsewhere.url}), where nothing was sent`
          )
          assert.include(failure.message, "make it the base URL")
          assertClean(failure)
        }
        assert.lengthOf(server.hits, 2)
      }
      assert.lengthOf(elsewhere.hits, 0)
    })
  )

  it.effect("within its origin is followed with method, key and body", () =>
    Effect.gen(function* () {
      for (const status of [307, 308]) {
        const server = yield* Support.serve((response, hit) =>
          hit.url.startsWith("/moved")
            ? Support.json(response, { error: { message: "overloaded" } }, 529)
            : response.writeHead(status, { location: `/moved${hit.url}` }).end()
        )
        for (const failure of yield* failuresOf(target(server.url))) {
          assert.strictEqual(failure.evidence.status, 529)
        }
        assert.lengthOf(server.hits, 4)
        const [first, second] = server.hits
        assert.strictEqual(second?.method, "POST")
        assert.strictEqual(second?.url, `/moved${first?.url}`)
        assert.deepStrictEqual(second?.body, first?.body)
        assert.include(JSON.stringify(second?.headers), secret)
      }
    })
  )

  it.effect("that would make a POST a GET is refused", () =>
    Effect.gen(function* () {
      for (const status of [301, 302, 303]) {
        const server = yield* Support.serve((response) =>
          response.writeHead(status, { location: "/login" }).end()
        )
        for (const failure of yield* failuresOf(target(server.url))) {
          assert.strictEqual(failure.reason._tag, "PermanentNetwork")
          assert.include(failure.message, `cannot be followed (HTTP ${status} to a POST)`)
        }
        assert.lengthOf(server.hits, 2)
      }
    })
  )

  it.effect("without an end fails", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response, { url }) =>
        response.writeHead(307, { location: url }).end()
      )
      const [failure] = yield* failuresOf(target(server.url))
      assert.strictEqual(failure.reason._tag, "PermanentNetwork")
      assert.include(failure.message, `more than ${Fetch.maxRedirects}`)
      assert.lengthOf(server.hits, 2 * (Fetch.maxRedirects + 1))
    })
  )

  it.effect("to another origin is not followed through a custom fetch", () =>
    Effect.gen(function* () {
      const elsewhere = yield* Support.serve((response) => Support.json(response, {}))
      const server = yield* Support.serve((response) =>
        response.writeHead(307, { location: `${elsewhere.url}/v1` }).end()
      )
      let sent = 0
      const own: typeof fetch = (input, init) => {
        sent++
        return fetch(input, init)
      }
      for (const failure of yield* failuresOf(target(server.url, { fetch: own }))) {
        assert.strictEqual(failure.reason._tag, "PermanentNetwork")
      }
      assert.strictEqual(sent, name.includes("AiSdk") ? 0 : 2)
      assert.lengthOf(elsewhere.hits, 0)
    })
  )
})

describe("an address that", () => {
  const [anthropic] = vendors
  const locations: ReadonlyArray<readonly [what: string, location: string, shown: string]> = [
    ["has the key in its host", `http://${secret}.example/`, "[redacted]"],
    ["has a header in its host", `http://${gateway}.example/`, "[redacted]"],
    ["is the same host at another port", "http://127.0.0.1:1/", "http://127.0.0.1:1"],
    ["is no http", `javascript:${secret}`, "no http address"],
    ["is data", `data:text/plain,${secret}`, "no http address"],
    ["is no URL", "http://[planted", "no http address"]
  ]
  for (const [what, location, shown] of locations) {
    it.effect(`${what} is refused without quoting the request`, () =>
      Effect.gen(function* () {
        const server = yield* Support.serve((response) => response.writeHead(307, { location }).end())
        const spec = anthropic?.target(server.url) ?? assert.fail()
        for (const failure of yield* failuresOf(spec)) {
          assert.strictEqual(failure.reason._tag, "PermanentNetwork")
          assert.include(failure.message, shown)
          assertClean(failure)
        }
      })
    )
  }

  it.effect("has credentials at the same origin is followed without them", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response, { url }) =>
        url === "/there"
          ? Support.json(response, {}, 529)
          : response
              .writeHead(307, { location: `${server.url.replace("://", `://${secret}:b@`)}/there` })
              .end()
      )
      const spec = anthropic?.target(server.url) ?? assert.fail()
      for (const failure of yield* failuresOf(spec)) assert.strictEqual(failure.evidence.status, 529)
    })
  )
})

describe("the fetch", () => {
  const redirecting = (to: string, status = 307) =>
    Support.serve((response, { url }) =>
      url === "/end"
        ? Support.json(response, { ok: true })
        : response.writeHead(status, { location: to }).end()
    )
  const failed = (promise: () => Promise<unknown>) =>
    Effect.promise(() =>
      promise().then(
        () => assert.fail(),
        (error) => error
      )
    )

  it.effect("follows a GET within its origin at every status, and keeps its headers", () =>
    Effect.gen(function* () {
      for (const status of statuses) {
        const server = yield* redirecting("end", status)
        const init = { headers: { "x-mine": "1" } }
        const response = yield* Effect.promise(() => AiSdk.fetch(`${server.url}/start`, init))
        assert.strictEqual(response.status, 200)
        const request = new Request(`${server.url}/start`, init)
        yield* Effect.promise(() => AiSdk.fetch(request))
        assert.deepStrictEqual(
          server.hits.map(({ url, headers }) => [url, headers["x-mine"]]),
          [
            ["/start", "1"],
            ["/end", "1"],
            ["/start", "1"],
            ["/end", "1"]
          ]
        )
      }
    })
  )

  it.effect("refuses to repeat a body that is a stream", () =>
    Effect.gen(function* () {
      const server = yield* redirecting("/end")
      const init: RequestInit = {
        method: "POST",
        body: ReadableStream.from([new Uint8Array()]),
        duplex: "half"
      }
      const error = yield* failed(() => AiSdk.fetch(`${server.url}/start`, init))
      assert.include(String(error), "the body is a stream")
      const request = new Request(`${server.url}/start`, { method: "POST", body: "{}" })
      assert.include(String(yield* failed(() => AiSdk.fetch(request))), "the body is a stream")
    })
  )

  it.effect("leaves redirects to a caller that handles them", () =>
    Effect.gen(function* () {
      const server = yield* redirecting("http://127.0.0.1:1/")
      const init: RequestInit = { redirect: "manual" }
      const response = yield* Effect.promise(() => AiSdk.fetch(`${server.url}/start`, init))
      assert.strictEqual(response.status, 307)
    })
  )

  it.effect("returns a redirect without an address unchanged", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => response.writeHead(307).end())
      const response = yield* Effect.promise(() => AiSdk.fetch(server.url))
      assert.strictEqual(response.status, 307)
    })
  )

  it.effect("rejects the response of a fetch that followed a redirect itself", () =>
    Effect.gen(function* () {
      const elsewhere = yield* Support.serve((response) => Support.json(response, {}))
      const server = yield* redirecting(`${elsewhere.url}/`)
      const deaf = Fetch.make((input, init) => fetch(input, { ...init, redirect: "follow" }))
      assert.include(String(yield* failed(() => deaf(`${server.url}/start`))), "redirects to another origin")
    })
  )
})
