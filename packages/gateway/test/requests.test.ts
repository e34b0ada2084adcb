/**
 * Requests arrive at the vendor as the caller wrote them: only the model, the key and a lowered limit change. The recorded
 * ones are not part of the repository; without them, only those written here are sent.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Gateway } from "@outlast/gateway"
import type { WireName } from "./Vendor.ts"
import * as Vendor from "./Vendor.ts"

const folder = join(import.meta.dirname, "../../../../shared/captures/requests")
const files = existsSync(folder)
  ? readdirSync(folder).filter((file) => /^(?:chat|messages)--/.test(file))
  : []

/** What arrives for this request, at a route for its model. */
const sent = (wire: WireName, text: string, headers: Record<string, string> = {}) =>
  Effect.gen(function* () {
    const vendor = yield* Vendor.start((response) =>
      Vendor.json(response, 400, { error: { message: "no", type: "invalid_request_error" } })
    )
    const { model }: { readonly model: string } = JSON.parse(text)
    const gateway = yield* Gateway.make({ routes: { [model]: { chain: [Vendor.target(wire, vendor)] } } })
    const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, text, headers))
    const [hit] = vendor.hits
    if (hit === undefined) return assert.fail(yield* Effect.promise(() => answer.text()))
    return hit
  })

describe.skipIf(files.length === 0)("recorded requests", () => {
  for (const file of files) {
    const wire: WireName = file.startsWith("chat") ? "chat" : "messages"
    const recorded = JSON.parse(readFileSync(join(folder, file), "utf8"))
    // Some lack the model, which stood in the path.
    const body = { model: "recorded", ...recorded }
    it.effect(`${file} arrives with every field but the model and the wish for usage unchanged`, () =>
      Effect.gen(function* () {
        const hit = yield* sent(wire, JSON.stringify(body))
        const usage =
          wire === "chat" && body.stream === true
            ? { stream_options: { ...body.stream_options, include_usage: true } }
            : {}
        assert.deepStrictEqual(hit.body, { ...body, ...usage, model: "vendor-model" })
      })
    )
  }
})

describe("a request", () => {
  it.effect.each(["1e400", "1.5", "0", '"5"'])("with the output limit %s is left to the vendor", (limit) =>
    Effect.gen(function* () {
      const { text } = yield* sent("chat", `{"model":"m","max_tokens":${limit},"messages":[]}`)
      assert.strictEqual(text, `{"model":"vendor-model","max_tokens":${limit},"messages":[]}`)
    })
  )

  const text =
    '{ "temperature": 1.0, "seed": 12345678901234567890, "model" : "smart \\"one\\"",\n "unknown": {"a": [1e3, "}\\\\"]}, "messages": [{"role": "user", "content": "\\u00e9 {model}"}], "z": null }'

  it.effect("keeps numbers, order, white space and unknown fields", () =>
    Effect.gen(function* () {
      const { text: arrived } = yield* sent("chat", text)
      assert.strictEqual(arrived, text.replace('"smart \\"one\\""', '"vendor-model"'))
    })
  )

  it.effect("has the gateway's key, the vendor's headers and nothing else of the caller", () =>
    Effect.gen(function* () {
      const { headers } = yield* sent(
        "messages",
        JSON.stringify({ ...Vendor.request("messages"), model: "m" }),
        {
          "x-api-key": "callers-own-key",
          authorization: "Bearer callers-own-key",
          cookie: "session=1",
          "anthropic-beta": "context-management-2025-06-27",
          "accept-encoding": "br, zstd",
          "x-forwarded-for": "10.0.0.1",
          "idempotency-key": "one",
          "x-stainless-lang": "js"
        }
      )
      assert.strictEqual(headers["x-api-key"], Vendor.secret)
      assert.strictEqual(headers["anthropic-beta"], "context-management-2025-06-27")
      assert.strictEqual(headers["anthropic-version"], "2023-06-01")
      assert.notInclude(JSON.stringify(headers), "callers-own-key")
      for (const name of [
        "authorization",
        "cookie",
        "accept-encoding",
        // Each attempt is another request, and a continuation has another body.
        "idempotency-key",
        "x-forwarded-for",
        "x-stainless-lang"
      ]) {
        assert.isUndefined(headers[name], name)
      }
    })
  )

  it.effect("keeps the version of the API that the caller names", () =>
    Effect.gen(function* () {
      const body = JSON.stringify({ ...Vendor.request("messages"), model: "m" })
      const { headers } = yield* sent("messages", body, { "anthropic-version": "2026-10-21" })
      assert.strictEqual(headers["anthropic-version"], "2026-10-21")
    })
  )

  it.effect("has a lower limit where the vendor has named its own", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start((response, { body }) =>
        body.max_tokens > 64_000
          ? Vendor.json(response, 400, {
              type: "error",
              error: {
                type: "invalid_request_error",
                message:
                  "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for vendor-model"
              }
            })
          : Vendor.json(response, 200, {
              id: "msg_1",
              type: "message",
              role: "assistant",
              content: [{ type: "text", text: "ok" }],
              stop_reason: "end_turn",
              usage: { input_tokens: 1, output_tokens: 1 }
            })
      )
      const gateway = yield* Gateway.make({
        routes: { route: { chain: [Vendor.target("messages", vendor)] } }
      })
      const asked = Vendor.request("messages", { max_tokens: 128_000, metadata: { user_id: "u" } })
      const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, "messages", asked))
      assert.strictEqual(answer.status, 200)
      assert.deepStrictEqual(
        vendor.hits.map(({ body }) => [body.max_tokens, body.metadata.user_id]),
        [
          [128_000, "u"],
          [64_000, "u"]
        ]
      )
      assert.strictEqual(answer.headers.get("x-outlast-attempts"), "2")
    })
  )

  for (const [wire, content] of [
    ["messages", { type: "thinking", thinking: "half a", signature: "outlast_cut" }],
    ["responses", { type: "reasoning", summary: [], encrypted_content: "outlast_cut" }]
  ] as const) {
    it.effect(`${wire}: is sent without thinking that an answer of the gateway was cut in`, () =>
      Effect.gen(function* () {
        const text = { type: "text", text: "So." }
        const turns =
          wire === "messages"
            ? {
                max_tokens: 9,
                messages: [
                  { role: "assistant", content: [content, text] },
                  { role: "user", content: "On" }
                ]
              }
            : { input: [content, { role: "assistant", content: "So." }, { role: "user", content: "On" }] }
        const { body } = yield* sent(wire, JSON.stringify({ model: "m", ...turns }))
        assert.deepStrictEqual(
          body.messages ?? body.input,
          wire === "messages"
            ? [
                { role: "assistant", content: [text] },
                { role: "user", content: "On" }
              ]
            : [
                { role: "assistant", content: "So." },
                { role: "user", content: "On" }
              ]
        )
      })
    )
  }
})
