/** What a vendor stores under a key: previous responses go to the key that made them, and the rest is refused. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { KeySource } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Gateway } from "@outlast/gateway"
import { OpenAi } from "@outlast/providers"
import { AnswerIds, maxIds } from "#gateway/answer/AnswerIds"
import * as Answers from "./Answers.ts"
import * as Vendor from "./Vendor.ts"

/** A model with these keys. */
const target = (
  { url }: Vendor.Vendor,
  names: ReadonlyArray<string>,
  model = "m"
): ProviderModel.TargetSpec =>
  OpenAi.model(model, {
    baseUrl: `${url}/v1`,
    keys: names.map((name) => KeySource.value(name, Redacted.make(`sk-${name}-0123456789abcdef`)))
  })

const keyOf = ({ headers }: Vendor.Hit) => /sk-(\w+)-/.exec(headers.authorization ?? "")?.[1]

/** Answers with a new id each time. The first key is over its limit for the first request. */
const answering: Vendor.Answer = (response, hit, n) => {
  if (n === 0)
    return Vendor.json(response, 429, { error: { message: "slow down" } }, { "retry-after": "600" })
  const id = `resp_${keyOf(hit)}_${n}`
  if (hit.body.stream === true)
    return Vendor.stream(response, Answers.stream("responses", { id, text: ["Hello."] }).join(""))
  return Vendor.json(response, 200, {
    id,
    object: "response",
    status: "completed",
    output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello." }] }]
  })
}

const ask = (gateway: Gateway.Gateway, more: object) =>
  Effect.promise(async () => {
    const response = await Vendor.ask(gateway.fetch, "responses", Vendor.request("responses", more))
    return { status: response.status, text: await response.text() }
  })

describe("previous_response_id", () => {
  for (const stream of [false, true]) {
    it.effect(
      `${stream ? "of a stream" : "of a whole answer"} goes to the key that answered, and to no other`,
      () =>
        Effect.gen(function* () {
          const vendor = yield* Vendor.start(answering)
          const route = { chain: [target(vendor, ["A", "B"])] as const, policy: Vendor.impatient }
          const gateway = yield* Gateway.make({ routes: { route } })
          const first = yield* ask(gateway, { stream })
          const id = /"id":"(resp_B_1)"/.exec(first.text)?.[1] ?? assert.fail(first.text)
          // Key A is asked again in a new chain, but for this id.
          yield* gateway.replace({ route: { ...route }, other: { ...route, chain: [target(vendor, ["C"])] } })
          yield* ask(gateway, { previous_response_id: id })
          yield* ask(gateway, { previous_response_id: "resp_of_long_ago" })
          assert.deepStrictEqual(vendor.hits.map(keyOf), ["A", "B", "B", "A"])
          const gone = yield* ask(gateway, { model: "other", previous_response_id: id })
          assert.strictEqual(gone.status, 400)
          assert.include(gone.text, "previous_response_not_found")
          assert.include(gone.text, "openai with the key B, which this route does not have")
          assert.lengthOf(vendor.hits, 4)
        })
    )
  }

  it.effect("may be asked of another model with the same key", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start((response, hit, n) =>
        n === 1 ? Vendor.json(response, 503, { error: { message: "busy" } }) : answering(response, hit, n + 1)
      )
      const gateway = yield* Gateway.make({
        routes: {
          route: {
            chain: [target(vendor, ["A"]), target(vendor, ["B"]), target(vendor, ["A"], "small")],
            policy: Vendor.impatient
          }
        }
      })
      yield* ask(gateway, {})
      yield* ask(gateway, { previous_response_id: "resp_A_1" })
      assert.deepStrictEqual(
        vendor.hits.map((hit) => `${keyOf(hit)} ${hit.body.model}`),
        ["A m", "A m", "A small"]
      )
    })
  )

  it("remembers the last 10,000 answers", () => {
    const ids = new AnswerIds()
    for (let i = 0; i <= maxIds; i++) ids.add(`resp_${i}`, "shared")
    assert.isUndefined(ids.makerOf("resp_0"))
    assert.strictEqual(ids.makerOf("resp_1"), "shared")
  })
})

describe("what a vendor stores", () => {
  it.effect("is not served, and the refusal says why", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(answering)
      const gateway = yield* Gateway.make({ routes: { route: { chain: [target(vendor, ["A"])] } } })
      const background = yield* ask(gateway, { background: true })
      assert.strictEqual(background.status, 400)
      assert.include(background.text, "Ask without background.")
      for (const [method, path, why] of [
        ["GET", "/v1/responses/resp_1", "The gateway keeps no responses."],
        ["POST", "/v1/responses/resp_1/cancel", "The gateway keeps no responses."],
        ["GET", "/v1/files", "What is stored at a vendor belongs to one key"],
        ["POST", "/v1/messages/batches", "What is stored at a vendor belongs to one key"],
        ["GET", "/v1/elsewhere", "Nothing is served at this path."]
      ] as const) {
        const response = yield* Effect.promise(() => gateway.fetch(`http://gateway${path}`, { method }))
        assert.strictEqual(response.status, 404, path)
        assert.include(yield* Effect.promise(() => response.text()), why)
      }
      assert.lengthOf(vendor.hits, 0)
    })
  )
})
