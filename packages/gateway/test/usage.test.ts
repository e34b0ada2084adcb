/** The usage of streams of Chat Completions: asked of the vendor, and shown only to callers that ask for it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { OpenAiCompatible } from "@outlast/providers"
import { Gateway } from "@outlast/gateway"
import * as Splice from "#gateway/json/Splice"
import * as Answers from "./Answers.ts"
import * as Vendor from "./Vendor.ts"

const price = { input: 1_000_000, output: 1_000_000 }

/** The events of an answer, as a vendor writes them that was not asked for usage. */
const plain = (text: ReadonlyArray<string>): ReadonlyArray<string> =>
  Answers.stream("chat", { id: "one", text }).filter((event) => !event.includes('"usage"'))

/** The same answer of a vendor that was asked: a field in each chunk, and a chunk of its own. */
const withUsage = (text: ReadonlyArray<string>): ReadonlyArray<string> => {
  const chunk = `data: {"id":"one","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12},"obfuscation":"x"}\n\n`
  const events = plain(text).map((event) =>
    event.startsWith("data: {")
      ? event.replace(/\}\n\n$/, ',"usage":null,"obfuscation":"a,\\"usage\\":null"}\n\n')
      : event
  )
  return [...events.slice(0, -1), chunk, events.at(-1) ?? ""]
}

/** What such a caller sees. */
const hidden = (events: ReadonlyArray<string>): string =>
  events
    .filter((event) => !event.includes('"choices":[]'))
    .map((event) => event.replace(',"usage":null,"obf', ',"obf'))
    .join("")

const asking: Vendor.Answer = (response, { body }) => {
  const text = ["Hello ", "world."]
  const events = body.stream_options?.include_usage === true ? withUsage(text) : plain(text)
  Vendor.stream(response, events.join(""))
}

const refusing: Vendor.Answer = (response, hit, n) =>
  hit.body.stream_options === undefined
    ? asking(response, hit, n)
    : Vendor.json(response, 422, {
        detail: [
          { type: "extra_forbidden", loc: ["body", "stream_options"], msg: "Extra inputs are not permitted" }
        ]
      })

const compatible = ({ url }: Vendor.Vendor, streamUsage?: boolean) =>
  OpenAiCompatible.model({ name: "v", model: "m", baseUrl: `${url}/v1`, streamUsage, info: { price } })

const over = (...chain: readonly [ReturnType<typeof compatible>, ...Array<ReturnType<typeof compatible>>]) =>
  Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })

const ask = (gateway: Gateway.Gateway, more: object = {}) =>
  Effect.promise(async () => {
    const response = await Vendor.ask(
      gateway.fetch,
      "chat",
      Vendor.request("chat", { stream: true, ...more })
    )
    return await response.text()
  })

describe("the usage of a stream", () => {
  it.effect("is asked for, counted, and hidden from a caller that did not ask", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(asking)
      const gateway = yield* over(compatible(vendor))
      for (const more of [{}, { stream_options: { include_usage: false, include_obfuscation: true } }]) {
        const body = yield* ask(gateway, more)
        assert.strictEqual(body, `${hidden(withUsage(["Hello ", "world."]))}: x-outlast-cost: 12.000000\n\n`)
      }
      assert.deepStrictEqual(
        vendor.hits.map(({ body }) => body.stream_options),
        [{ include_usage: true }, { include_usage: true, include_obfuscation: true }]
      )
    })
  )

  it.effect("is shown as it came to a caller that asked", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(asking)
      const body = yield* ask(yield* over(compatible(vendor)), Vendor.streaming("chat"))
      assert.strictEqual(body, `${withUsage(["Hello ", "world."]).join("")}: x-outlast-cost: 12.000000\n\n`)
    })
  )

  it.effect("is not asked of a target that is known to refuse it, nor for a whole answer", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(asking)
      const gateway = yield* over(compatible(vendor, false))
      assert.strictEqual(yield* ask(gateway), plain(["Hello ", "world."]).join(""))
      yield* ask(yield* over(compatible(vendor)), { stream: false })
      assert.deepStrictEqual(
        vendor.hits.map(({ body }) => "stream_options" in body),
        [false, false]
      )
    })
  )

  it.effect("is asked once of a target that refuses it: the request then goes as it came", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(refusing)
      const gateway = yield* over(compatible(vendor))
      for (let i = 0; i < 2; i++) {
        assert.strictEqual(yield* ask(gateway), plain(["Hello ", "world."]).join(""))
      }
      assert.deepStrictEqual(
        vendor.hits.map(({ body }) => "stream_options" in body),
        [true, false, false]
      )
      // The wish of the caller itself is not taken back.
      assert.include(yield* ask(gateway, Vendor.streaming("chat")), "extra_forbidden")
    })
  )

  it.effect("of both attempts is hidden where the second one continues a cut answer", () =>
    Effect.gen(function* () {
      const first = yield* Vendor.start((response, { socket }) => {
        Vendor.stream(response, withUsage(["Hello ", "world."]).slice(0, 2).join(""), true)
        setImmediate(() => socket.destroy())
      })
      const second = yield* Vendor.start((response) =>
        Vendor.stream(response, withUsage(["world."]).join(""))
      )
      const body = yield* ask(yield* over(compatible(first), compatible(second)))
      assert.include(body, "world.")
      assert.notInclude(body, '"usage":')
      assert.match(body, /\[DONE\]\n\n: x-outlast-cost: /)
    })
  )
})

describe("a field that is taken out of a JSON text", () => {
  const rows = [
    ['{"a":1,"u":null,"b":2}', '{"a":1,"b":2}'],
    ['{"u":null,"b":2}', '{"b":2}'],
    ['{ "u" : {"x":[1,"}"]} , "b":2}', '{ "b":2}'],
    ['{"a":1 , "u":null }', '{"a":1  }'],
    ['{"u":null}', "{}"],
    ['{"a":"\\"u\\":null","u":null}', '{"a":"\\"u\\":null"}'],
    ['{"a":{"u":1},"u":2}', '{"a":{"u":1}}']
  ] as const
  it.each(rows)("%s becomes %s", (text, expected) => {
    assert.strictEqual(Splice.without(text, "u"), expected)
  })
})
