/** What a program is told when the path of a base URL is wrong: the server answers HTTP 404. */
import { assert, it } from "@effect/vitest"
import { Failover } from "@outlast/agent"
import { OpenAi, OpenAiCompatible } from "@outlast/providers"
import { Warnings } from "@outlast/resilience"
import { Effect } from "effect"
import { LanguageModel } from "effect/ai"
import * as Support from "./support.ts"

const told = (path: string, body: unknown) =>
  Effect.gen(function* () {
    const server = yield* Support.serve((response) => Support.json(response, body, 404))
    const target = OpenAiCompatible.model({ name: "local", baseUrl: `${server.url}${path}`, model: "m" })
    const error = yield* LanguageModel.generateText({ prompt: "hello" }).pipe(
      Effect.provide([Failover.layer([target]), Warnings.layerOff]),
      Effect.flip
    )
    return { message: error.message, base: `${server.url}${path}` }
  })

it.live("without /v1, the message says to check the base URL first", () =>
  Effect.gen(function* () {
    for (const path of ["", "/gateway", "/v1-old"]) {
      const { message, base } = yield* told(path, { detail: "Not Found" })
      assert.include(
        message,
        `Check the base URL ${base}, whose path may lack /v1. If it is right, check the name m`
      )
    }
  })
)

it.live("with a version in the path, the message says to check the model first", () =>
  Effect.gen(function* () {
    for (const path of ["/v1", "/api/v3", "/v1beta/openai"]) {
      const { message } = yield* told(path, { detail: "Not Found" })
      assert.match(message, /Check the name m and .* If both are right, check the path of the base URL\./)
    }
  })
)

it.live("an error that names the model says nothing of the base URL", () =>
  Effect.gen(function* () {
    const { message } = yield* told("", { error: { message: "model 'm' not found" } })
    assert.include(message, "Check the name m and whether")
    assert.notInclude(message, "base URL")
  })
)

it.live("a server that calls the URL invalid has nothing at the path", () =>
  Effect.gen(function* () {
    const error = (message: string, code: string | null) => ({
      error: { message, type: "invalid_request_error", code }
    })
    // OpenAI's and Groq's.
    for (const body of [
      error("Invalid URL (POST /chat/completions)", null),
      error("Unknown request URL: POST /chat/completions.", "unknown_url")
    ]) {
      const { message, base } = yield* told("", body)
      assert.include(message, "the provider has nothing at the path of the request (HTTP 404)")
      assert.include(message, `Check the path of ${base}, which may lack /v1.`)
    }
    const { message, base } = yield* told("/v1", error("Invalid URL (POST /v1/v1/chat/completions)", null))
    assert.include(message, `Check the path of ${base}.`)
  })
)

it("the default of OpenAi has a version", () => {
  assert.match(OpenAi.defaults.baseUrl, /\/v1$/)
})
