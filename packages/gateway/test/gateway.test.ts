/** What a caller gets beside an answer: errors of its wire, headers, models, keep-alives. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Fiber, Logger, Result } from "effect"
import { TestClock } from "effect/testing"
import OpenAI from "openai"
import { Gateway, RoutesConfig } from "@outlast/gateway"
import type { GatewayMetrics } from "@outlast/gateway"
import { ResilienceEvents } from "@outlast/resilience"
import * as Answers from "./Answers.ts"
import type { WireName } from "./Vendor.ts"
import * as Vendor from "./Vendor.ts"

const wires = ["chat", "messages", "responses"] as const

/** A gateway over these vendors, in this order. */
const over = (wire: WireName, ...vendors: ReadonlyArray<Vendor.Vendor>) =>
  Effect.gen(function* () {
    const [first, ...rest] = vendors.map((vendor, i) => Vendor.target(wire, vendor, `model-${i}`))
    const chain = [first ?? assert.fail("no vendor"), ...rest] as const
    return yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
  })

const asked = (gateway: Gateway.Gateway, wire: WireName, more: object = {}) =>
  Effect.promise(() => Vendor.ask(gateway.fetch, wire, Vendor.request(wire, more)))

const read = (response: Response) => Effect.promise(() => response.text())

/** JSON that the test itself caused. */
const readJson = (response: Response): Effect.Effect<any> => Effect.promise(() => response.json())

const answering =
  (wire: WireName, id = "one"): Vendor.Answer =>
  (response) =>
    Vendor.stream(response, Answers.stream(wire, { id, text: ["Hello ", "world."] }).join(""))

describe.each(wires)("%s: errors", (wire) => {
  it.effect("have the form of the wire, and tell clients not to repeat", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start((response) =>
        Vendor.json(response, 503, { error: { message: "busy" } })
      )
      const gateway = yield* over(wire, vendor)
      for (const stream of [false, true]) {
        const answer = yield* asked(gateway, wire, { stream })
        const body = yield* readJson(answer)
        assert.strictEqual(answer.status, 503)
        assert.strictEqual(answer.headers.get("x-should-retry"), "false")
        assert.strictEqual(body.error.type, wire === "messages" ? "api_error" : "server_error")
        assert.strictEqual(body.type, wire === "messages" ? "error" : undefined)
        assert.include(body.error.message, "model-0")
      }
    })
  )

  it.effect("of the request are those of the vendor, word by word", () =>
    Effect.gen(function* () {
      const error = {
        error: { message: "tools.0: no such field", type: "invalid_request_error", param: "tools" }
      }
      const vendor = yield* Vendor.start((response) =>
        Vendor.json(response, 400, error, { "request-id": "req_7" })
      )
      const gateway = yield* over(wire, vendor)
      const answer = yield* asked(gateway, wire, { stream: true })
      assert.deepStrictEqual(yield* readJson(answer), error)
      assert.strictEqual(answer.status, 400)
      assert.strictEqual(answer.headers.get("request-id"), "req_7")
    })
  )

  it.effect("never show the gateway's key, nor what was asked", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start((response, { text }) =>
        Vendor.json(response, 401, { error: { message: `Incorrect API key ${Vendor.secret} for ${text}` } })
      )
      const gateway = yield* over(wire, vendor)
      const turns = [{ role: "user", content: "The patient in room seven is called Mira." }]
      const answer = yield* asked(
        gateway,
        wire,
        wire === "responses" ? { input: turns } : { messages: turns }
      )
      const body = yield* read(answer)
      assert.strictEqual(answer.status, 503)
      assert.notInclude(body, Vendor.secret)
      assert.notInclude(body, "Mira")
      assert.include(body, "KEY_model_0")
    })
  )

  it.effect("in the middle of an answer that cannot be saved are the wire's own event", () =>
    Effect.gen(function* () {
      const events = Answers.stream(wire, { id: "one", text: ["Hello ", "world."] })
      const first = yield* Vendor.start((response, { socket }) => {
        Vendor.stream(response, events.slice(0, -4).join(""), true)
        setImmediate(() => socket.destroy())
      })
      const second = yield* Vendor.start((response) =>
        Vendor.json(response, 500, { error: { message: "no" } })
      )
      const gateway = yield* over(wire, first, second)
      const body = yield* read(yield* asked(gateway, wire, { stream: true }))
      const last = body.trimEnd().split("\n\n").at(-1) ?? ""
      const value = JSON.parse(/^data: (.*)$/m.exec(last)?.[1] ?? "{}")
      assert.strictEqual((value.error ?? value.response?.error) !== undefined, true, last)
      assert.strictEqual(
        value.type,
        { chat: undefined, messages: "error", responses: "response.failed" }[wire]
      )
      assert.notInclude(body, "[DONE]")
      assert.notInclude(body, "message_stop")
      assert.notInclude(body, "response.completed")
    })
  )
})

describe("a request that is refused", () => {
  const refused = (wire: WireName, body: string, headers: Record<string, string> = {}) =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(answering(wire))
      const gateway = yield* over(wire, vendor)
      const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, body, headers))
      assert.lengthOf(vendor.hits, 0)
      return { status: answer.status, body: yield* readJson(answer) }
    })

  it.effect("is no JSON, has no model, another type, or an unknown model", () =>
    Effect.gen(function* () {
      const status = (body: string, headers?: Record<string, string>) =>
        Effect.map(refused("chat", body, headers), ({ status }) => status)
      assert.strictEqual(yield* status("{"), 400)
      assert.strictEqual(yield* status("[]"), 400)
      assert.strictEqual(yield* status('{"messages":[]}'), 400)
      assert.strictEqual(yield* status("{}", { "content-type": "text/plain" }), 415)
      assert.strictEqual(yield* status('{"model":"__proto__"}'), 404)
      const unknown = yield* refused("chat", '{"model":"rout"}')
      assert.strictEqual(unknown.status, 404)
      assert.include(unknown.body.error.message, 'Did you mean "route"?')
    })
  )

  it.effect("is larger than 32 MiB", () =>
    Effect.gen(function* () {
      const body = JSON.stringify({ model: "route", messages: "x".repeat(33 * 1024 * 1024) })
      assert.strictEqual((yield* refused("chat", body)).status, 413)
    })
  )

  it.effect("asks for a count of tokens that no target makes", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(answering("chat"))
      const gateway = yield* over("chat", vendor)
      const answer = yield* Effect.promise(() =>
        gateway.fetch("http://gateway/v1/messages/count_tokens", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(Vendor.request("messages"))
        })
      )
      assert.strictEqual(answer.status, 400)
      assert.include((yield* readJson(answer)).error.message, "No target of the route")
    })
  )
})

describe("headers of an answer", () => {
  it.effect(
    "name the call, the target, the attempts and why it switched, and keep the vendor's request id",
    () =>
      Effect.gen(function* () {
        const first = yield* Vendor.start((response) =>
          Vendor.json(response, 503, { error: { message: "busy" } })
        )
        const second = yield* Vendor.start((response) => {
          response.setHeader("request-id", "req_1")
          response.setHeader("anthropic-ratelimit-requests-remaining", "7")
          response.setHeader("set-cookie", "a=b")
          answering("messages")(response, assert.fail as never, 0)
        })
        const gateway = yield* over("messages", first, second)
        const answer = yield* asked(gateway, "messages", { stream: true })
        yield* read(answer)
        const { headers } = answer
        assert.match(headers.get("x-outlast-call") ?? "", /^call_[0-9a-f-]{36}$/)
        assert.strictEqual(headers.get("x-outlast-target"), "anthropic/model-1#KEY_model_1")
        assert.strictEqual(headers.get("x-outlast-attempts"), "2")
        assert.strictEqual(headers.get("x-outlast-switched"), "Overloaded")
        assert.strictEqual(headers.get("request-id"), "req_1")
        assert.strictEqual(headers.get("anthropic-ratelimit-requests-remaining"), "7")
        assert.isNull(headers.get("set-cookie"))
      })
  )
})

describe("a vendor that redirects", () => {
  it.effect("is not followed", () =>
    Effect.gen(function* () {
      const other = yield* Vendor.start(answering("chat"))
      const vendor = yield* Vendor.start((response) => {
        response.writeHead(307, { location: `${other.url}/v1/chat/completions` })
        response.end()
      })
      const gateway = yield* over("chat", vendor)
      const answer = yield* asked(gateway, "chat")
      assert.isAtLeast(answer.status, 500)
      assert.lengthOf(other.hits, 0)
    })
  )
})

describe("other paths", () => {
  it.effect("list the models as the vendor of the caller does, and say what is served", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(answering("chat"))
      const gateway = yield* over("chat", vendor)
      const get = (path: string, headers: Record<string, string> = {}) =>
        Effect.promise(() => gateway.fetch(`http://gateway${path}`, { headers }))
      const openai = yield* readJson(yield* get("/v1/models"))
      assert.deepStrictEqual(openai.data, [{ id: "route", object: "model", created: 0, owned_by: "outlast" }])
      const anthropic = yield* readJson(yield* get("/v1/models", { "anthropic-version": "2023-06-01" }))
      assert.strictEqual(anthropic.data[0].id, "route")
      assert.isFalse(anthropic.has_more)
      assert.strictEqual((yield* get("/")).status, 204)
      assert.strictEqual((yield* get("/v1/unknown")).status, 404)
      assert.strictEqual((yield* get("/v1/chat/completions")).status, 405)
    })
  )

  it.effect("embeddings and counts of tokens pass through, and ask no other model", () =>
    Effect.gen(function* () {
      const vectors = {
        object: "list",
        data: [{ object: "embedding", index: 0, embedding: [0.1] }],
        model: "e"
      }
      const failing = yield* Vendor.start((response) =>
        Vendor.json(response, 503, { error: { message: "busy" } })
      )
      const vendor = yield* Vendor.start((response, { url }) =>
        Vendor.json(response, 200, url.endsWith("count_tokens") ? { input_tokens: 12 } : vectors)
      )
      const ask = (gateway: Gateway.Gateway, path: string, body: object) =>
        Effect.promise(() =>
          gateway.fetch(`http://gateway/v1${path}`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ model: "route", ...body })
          })
        )
      const chat = yield* over("chat", vendor)
      assert.deepStrictEqual(yield* readJson(yield* ask(chat, "/embeddings", { input: "x" })), vectors)
      const messages = yield* over("messages", vendor)
      const counted = yield* ask(messages, "/messages/count_tokens", { messages: [] })
      assert.deepStrictEqual(yield* readJson(counted), { input_tokens: 12 })
      const mixed = yield* over("chat", failing, vendor)
      const before = vendor.hits.length
      assert.strictEqual((yield* ask(mixed, "/embeddings", { input: "x" })).status, 503)
      assert.lengthOf(vendor.hits, before)
    })
  )
})

describe("n > 1", () => {
  it.effect("passes through, and a cut is an error", () =>
    Effect.gen(function* () {
      const chunk = (index: number, delta: object, finish_reason: string | null = null) =>
        Vendor.events("chat", [JSON.stringify({ id: "a", choices: [{ index, delta, finish_reason }] })])
      const all = [
        chunk(0, { content: "one" }),
        chunk(1, { content: "uno" }),
        chunk(0, {}, "stop"),
        chunk(1, {}, "stop"),
        "data: [DONE]\n\n"
      ]
      const whole = yield* Vendor.start((response) => Vendor.stream(response, all.join("")))
      const gateway = yield* over("chat", whole)
      assert.strictEqual(yield* read(yield* asked(gateway, "chat", { n: 2, stream: true })), all.join(""))
      const cut = yield* Vendor.start((response, { socket }) => {
        Vendor.stream(response, all.slice(0, 3).join(""), true)
        setImmediate(() => socket.destroy())
      })
      const other = yield* Vendor.start(answering("chat"))
      const body = yield* read(yield* asked(yield* over("chat", cut, other), "chat", { n: 2, stream: true }))
      assert.include(body, '"error"')
      assert.lengthOf(other.hits, 0)
    })
  )
})

describe("a length that the caller set", () => {
  for (const stream of [false, true]) {
    it.effect(`is not continued, ${stream ? "streamed" : "whole"}`, () =>
      Effect.gen(function* () {
        const text = stream
          ? Vendor.events("chat", [
              '{"id":"a","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}',
              '{"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}',
              "[DONE]"
            ])
          : '{"id":"a","choices":[{"index":0,"message":{"role":"assistant","content":"Hel"},"finish_reason":"length"}]}'
        const vendor = yield* Vendor.start((response) =>
          stream ? Vendor.stream(response, text) : Vendor.json(response, 200, text)
        )
        const gateway = yield* over("chat", vendor, vendor)
        const answer = yield* asked(gateway, "chat", { max_tokens: 1, stream })
        assert.strictEqual(yield* read(answer), text)
        assert.lengthOf(vendor.hits, 1)
      })
    )
  }
})

describe("an answer that the provider refused", () => {
  it.effect("is delivered as it is", () =>
    Effect.gen(function* () {
      const text =
        '{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"I"}],"stop_reason":"refusal","usage":{"input_tokens":1,"output_tokens":1}}'
      const vendor = yield* Vendor.start((response) => Vendor.json(response, 200, text))
      const answer = yield* asked(yield* over("messages", vendor), "messages")
      assert.strictEqual(yield* read(answer), text)
    })
  )
})

describe("keep-alives", () => {
  it.effect.each(wires)("%s: come after five seconds without content, and the answer behind them", (wire) =>
    Effect.gen(function* () {
      const go = Promise.withResolvers<void>()
      const hit = Promise.withResolvers<void>()
      const vendor = yield* Vendor.start((response, own, n) => {
        hit.resolve()
        void go.promise.then(() => answering(wire)(response, own, n))
      })
      const gateway = yield* over(wire, vendor)
      const fiber = yield* Effect.forkChild(asked(gateway, wire, Vendor.streaming(wire)), {
        startImmediately: true
      })
      yield* Effect.promise(() => hit.promise)
      yield* TestClock.adjust("5 seconds")
      const answer = yield* Fiber.join(fiber)
      go.resolve()
      const body = yield* read(answer)
      assert.isTrue(body.startsWith(wire === "messages" ? "event: ping\n" : ": keep-alive\n"), body)
      assert.include(body, Answers.stream(wire, { id: "one", text: ["Hello ", "world."] }).join(""))
    })
  )

  it.effect("are followed by the target, which was not known when the headers went", () =>
    Effect.gen(function* () {
      const go = Promise.withResolvers<void>()
      const hit = Promise.withResolvers<void>()
      const vendor = yield* Vendor.start((response, own, n) => {
        hit.resolve()
        void go.promise.then(() => answering("chat")(response, own, n))
      })
      const ended = Promise.withResolvers<GatewayMetrics.GatewayAnswered>()
      yield* ResilienceEvents.tap((event) =>
        Effect.sync(() => {
          // Only the gateway publishes this tag.
          if (event._tag === "GatewayAnswered") ended.resolve(event as GatewayMetrics.GatewayAnswered)
        })
      )
      const gateway = yield* over("chat", vendor)
      const fiber = yield* Effect.forkChild(asked(gateway, "chat", { stream: true }), {
        startImmediately: true
      })
      yield* Effect.promise(() => hit.promise)
      yield* TestClock.adjust("9 seconds")
      const answer = yield* Fiber.join(fiber)
      assert.isNull(answer.headers.get("x-outlast-target"))
      go.resolve()
      assert.match(yield* read(answer), /\n\n: x-outlast-target: openai\/model-0#KEY_model_0\n/)
      const { begun, elapsed } = yield* Effect.promise(() => ended.promise)
      // A keep-alive is no beginning of an answer.
      assert.deepStrictEqual([begun, elapsed], [9_000, 9_000])
    }).pipe(Effect.provide(ResilienceEvents.layer()))
  )
})

describe("routes of a file", () => {
  const file = {
    routes: {
      smart: { aliases: ["gpt-4o"], targets: [{ provider: "openai", model: "gpt-5.1", keys: ["A_KEY"] }] },
      local: { targets: [{ provider: "compatible", model: "m", baseUrl: "http://127.0.0.1:1/v1" }] }
    }
  }

  it("have their names and aliases, and keep what is written as before", () => {
    const routes = Result.getOrThrow(RoutesConfig.decode(file))
    assert.deepStrictEqual(Object.keys(routes), ["smart", "gpt-4o", "local"])
    assert.strictEqual(routes["smart"], routes["gpt-4o"])
    const { smart } = file.routes
    const changed = { routes: { smart, local: { targets: [{ provider: "anthropic", model: "claude" }] } } }
    const next = Result.getOrThrow(RoutesConfig.reload(changed, { input: file, routes }))
    assert.strictEqual(next["gpt-4o"], routes["smart"])
    assert.notStrictEqual(next["local"], routes["local"])
  })

  it("name targets of each vendor", () => {
    const targets = ["openai", "anthropic", "google"].map((provider) => ({ provider, model: "m" }))
    const { all } = Result.getOrThrow(RoutesConfig.decode({ routes: { all: { targets } } }))
    assert.deepStrictEqual(
      all?.chain.map(({ endpoint, provider }) => [provider, new URL(endpoint).hostname]),
      [
        ["openai", "api.openai.com"],
        ["anthropic", "api.anthropic.com"],
        ["google", "generativelanguage.googleapis.com"]
      ]
    )
  })

  it("report every problem with its path", () => {
    const wrong = {
      routes: {
        a: { targets: [{ provider: "openai", model: "m", keys: ["sk-ant-REDACTED"] }] },
        b: { aliases: ["c"], targets: [{ provider: "compatible", model: "m" }] },
        c: { targets: [{ provider: "openai", model: "m" }] }
      }
    }
    const { problems } = Result.match(RoutesConfig.decode(wrong), {
      onFailure: (error) => error,
      onSuccess: () => assert.fail("decoded")
    })
    assert.deepStrictEqual(
      problems.map(({ path }) => path),
      ["routes.a.targets[0]", "routes.b.targets[0]"]
    )
    assert.notInclude(JSON.stringify(problems), "abcdefghij")
    const unknown = RoutesConfig.decode({ routes: { a: { target: [] } } })
    assert.isTrue(Result.isFailure(unknown))
  })

  it.effect("replace others without ending a running answer", () =>
    Effect.gen(function* () {
      const go = Promise.withResolvers<void>()
      const events = Answers.stream("chat", { id: "one", text: ["Hello ", "world."] })
      const vendor = yield* Vendor.start((response) => {
        Vendor.stream(response, events.slice(0, 2).join(""), true)
        void go.promise.then(() => response.end(events.slice(2).join("")))
      })
      const gateway = yield* over("chat", vendor)
      const answer = yield* asked(gateway, "chat", Vendor.streaming("chat"))
      yield* gateway.replace({ other: { chain: [Vendor.target("chat", vendor)] } })
      assert.strictEqual((yield* asked(gateway, "chat")).status, 404)
      go.resolve()
      assert.strictEqual(yield* read(answer), events.join(""))
    })
  )
})

describe("a chain", () => {
  it.effect("keeps its cooldowns for requests that only some of its targets can answer", () =>
    Effect.gen(function* () {
      const vendors = yield* Effect.forEach(["chat", "gemini"] as const, (format) =>
        Effect.map(
          Vendor.start((response) =>
            Vendor.json(response, 429, { error: { message: "slow down" } }, { "retry-after": "600" })
          ),
          (vendor) => ({ vendor, target: Vendor.target(format, vendor) })
        )
      )
      const [first, ...rest] = vendors.map(({ target }) => target)
      const chain = [first ?? assert.fail("no target"), ...rest] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      for (const more of [{}, { n: 2 }]) {
        const answer = yield* asked(gateway, "chat", more)
        assert.strictEqual(answer.status, 429)
        yield* read(answer)
      }
      assert.deepStrictEqual(
        vendors.map(({ vendor }) => vendor.hits.length),
        [1, 1]
      )
      assert.lengthOf(yield* gateway.chains, 1)
    })
  )

  it.effect("that cannot be built does not end the one that has replaced it", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(answering("chat"))
      const target = Vendor.target("chat", vendor)
      const begun = Promise.withResolvers<void>()
      const go = Promise.withResolvers<void>()
      const build = Effect.promise(() => {
        begun.resolve()
        return go.promise
      }).pipe(Effect.andThen(Effect.die(new Error("no"))))
      const gateway = yield* Gateway.make({ routes: { route: { chain: [{ ...target, build }] } } })
      const early = Vendor.ask(gateway.fetch, "chat", Vendor.request("chat"))
      yield* Effect.promise(() => begun.promise)
      yield* gateway.replace({ route: { chain: [target] } })
      assert.strictEqual((yield* asked(gateway, "chat", { stream: true })).status, 200)
      go.resolve()
      assert.strictEqual((yield* Effect.promise(() => early)).status, 502)
      assert.lengthOf(yield* gateway.chains, 1)
    })
  )
})

describe("x-outlast-switched", () => {
  it.effect("names what the gateway itself found wrong with an answer", () =>
    Effect.gen(function* () {
      const [begin = ""] = Answers.stream("chat", { id: "one", text: ["Hello"] })
      const empty = yield* Vendor.start((response) => Vendor.stream(response, begin))
      const well = yield* Vendor.start(answering("chat"))
      const gateway = yield* over("chat", empty, well)
      const { headers } = yield* asked(gateway, "chat", { stream: true })
      assert.strictEqual(headers.get("x-outlast-target"), "openai/model-1#KEY_model_1")
      assert.strictEqual(headers.get("x-outlast-switched"), "Network")
    })
  )
})

describe("a call that was continued", () => {
  const cutThenWell = (wire: WireName, info: object = {}) =>
    Effect.gen(function* () {
      const events = Answers.stream(wire, { id: "one", text: ["Hello ", "world."] })
      const first = yield* Vendor.start((response, { body, socket }) => {
        if (body.previous_response_id !== undefined) return Vendor.json(response, 500, {})
        Vendor.stream(response, events.slice(0, 5).join(""), true)
        return void setImmediate(() => socket.destroy())
      })
      const second = yield* Vendor.start((response, hit) => {
        const text = "Hello world.".slice(Answers.partialOf(hit).length)
        Vendor.stream(response, Answers.stream(wire, { id: "two", text: [text] }).join(""))
      })
      const chain = [Vendor.target(wire, first, "a"), Vendor.target(wire, second, "b", info)] as const
      return yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
    })

  it.effect("says at its end what was not known when the headers went", () =>
    Effect.gen(function* () {
      const gateway = yield* cutThenWell("messages", { price: { input: 1_000_000, output: 1_000_000 } })
      const answer = yield* asked(gateway, "messages", { stream: true })
      assert.strictEqual(answer.headers.get("x-outlast-target"), "anthropic/a#KEY_a")
      const body = yield* read(answer)
      assert.match(
        body,
        /\n\n: x-outlast-cost: 12\.000000\n: x-outlast-attempts: 2\n: x-outlast-target: anthropic\/b#KEY_b\n/
      )
      assert.match(body, /: x-outlast-switched: Network\n\n$/)
    })
  )

  it.effect("has an id that no vendor knows: it is refused as the previous response", () =>
    Effect.gen(function* () {
      const gateway = yield* cutThenWell("responses")
      assert.include(
        yield* read(yield* asked(gateway, "responses", { stream: true })),
        '"text":"Hello world."'
      )
      const refused = yield* asked(gateway, "responses", { previous_response_id: "one" })
      assert.strictEqual(refused.status, 400)
      assert.include((yield* readJson(refused)).error.message, "no vendor knows its id")
    })
  )
})

describe("tool arguments that flow", () => {
  /** The last piece of the arguments, as JSON. */
  const last = '":1}"'

  it.effect.each(wires)(
    "%s: are shown before the answer is complete, and a cut in them is an error",
    (wire) =>
      Effect.gen(function* () {
        const events = Answers.stream(wire, { id: "one", text: [], call: ['{"a"', ":1}"] })
        const until = events.findIndex((event) => event.includes(last)) + 1
        const opened = Promise.withResolvers<Vendor.Hit>()
        const vendor = yield* Vendor.start((response, hit) => {
          Vendor.stream(response, events.slice(0, until).join(""), true)
          opened.resolve(hit)
        })
        const other = yield* Vendor.start(answering(wire))
        const chain = [Vendor.target(wire, vendor, "a"), Vendor.target(wire, other, "b")] as const
        const gateway = yield* Gateway.make({
          routes: { route: { chain, policy: Vendor.impatient, toolArguments: "flow" } }
        })
        const answer = yield* asked(gateway, wire, { stream: true })
        const reader = answer.body?.getReader() ?? assert.fail("no body")
        const decoder = new TextDecoder()
        let text = ""
        while (!text.includes(last)) {
          const { value } = yield* Effect.promise(() => reader.read())
          text += decoder.decode(value)
        }
        const { socket } = yield* Effect.promise(() => opened.promise)
        socket.destroy()
        for (;;) {
          const { done, value } = yield* Effect.promise(() => reader.read())
          if (done) break
          text += decoder.decode(value)
        }
        assert.include(text, '"error"')
        assert.lengthOf(other.hits, 0)
      })
  )

  it.effect.each(wires)("%s: pass as they are when the answer is complete", (wire) =>
    Effect.gen(function* () {
      const events = Answers.stream(wire, { id: "one", text: ["Hm. "], call: ['{"a"', ":1}"] }).join("")
      const vendor = yield* Vendor.start((response) => Vendor.stream(response, events))
      const chain = [Vendor.target(wire, vendor)] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, toolArguments: "flow" } } })
      assert.strictEqual(yield* read(yield* asked(gateway, wire, Vendor.streaming(wire))), events)
    })
  )
})

describe("headers of a request", () => {
  const failing = Effect.gen(function* () {
    const vendor = yield* Vendor.start((response) =>
      Vendor.json(response, 503, { error: { message: "busy" } })
    )
    return { vendor, gateway: yield* over("chat", vendor, vendor, vendor) }
  })
  const ask = (gateway: Gateway.Gateway, headers: Record<string, string>) =>
    Effect.promise(() => Vendor.ask(gateway.fetch, "chat", Vendor.request("chat"), headers))

  it.effect("end a call whose waits would take longer", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start((response) =>
        Vendor.json(response, 503, { error: { message: "busy" } })
      )
      const gateway = yield* Gateway.make({ routes: { route: { chain: [Vendor.target("chat", vendor)] } } })
      // Nobody moves the clock: without the header it would wait.
      const answer = yield* ask(gateway, { "x-outlast-timeout": "0.5" })
      assert.strictEqual(answer.status, 503)
      assert.lengthOf(vendor.hits, 1)
    })
  )

  it.effect("end a call that has cost enough", () =>
    Effect.gen(function* () {
      // An answer that announces calls and has none has failed, and costs money.
      const vendor = yield* Vendor.start((response) =>
        Vendor.json(response, 200, {
          choices: [{ index: 0, message: { role: "assistant", content: null }, finish_reason: "tool_calls" }],
          usage: { prompt_tokens: 10, completion_tokens: 5 }
        })
      )
      const price = { input: 100_000, output: 100_000 }
      const [a, b] = ["a", "b"].map((model) => Vendor.target("chat", vendor, model, { price }))
      const chain = [a ?? assert.fail(), b ?? assert.fail()] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      yield* ask(gateway, { "x-outlast-max-cost": "5" })
      assert.lengthOf(vendor.hits, 2)
      yield* ask(gateway, { "x-outlast-max-cost": "1.5" })
      assert.lengthOf(vendor.hits, 3)
    })
  )

  it.effect("that mean nothing are refused", () =>
    Effect.gen(function* () {
      const { gateway, vendor } = yield* failing
      for (const headers of [
        { "x-outlast-timeout": "soon" },
        { "x-outlast-timeout": "0" },
        { "x-outlast-max-cost": "-1" },
        { "x-outlast-priority": "first" }
      ]) {
        const answer = yield* ask(gateway, headers as unknown as Record<string, string>)
        assert.strictEqual(answer.status, 400, JSON.stringify(headers))
      }
      assert.lengthOf(vendor.hits, 0)
    })
  )
})

describe("the connection to a vendor", () => {
  it.effect("serves the next call, too, where the body ends behind its last event", () =>
    Effect.gen(function* () {
      const open: Array<() => void> = []
      const vendor = yield* Vendor.start((response) => {
        Vendor.stream(response, Answers.stream("chat", { id: "one", text: ["Hello."] }).join(""), true)
        open.push(() => response.end())
      })
      const gateway = yield* over("chat", vendor)
      for (let i = 0; i < 3; i++) {
        assert.include(yield* read(yield* asked(gateway, "chat", { stream: true })), "[DONE]")
        open[i]?.()
        // The end of the body travels over a socket.
        for (let turn = 0; turn < 20; turn++) yield* Effect.promise(() => new Promise(setImmediate))
      }
      assert.strictEqual(new Set(vendor.hits.map(({ socket }) => socket)).size, 1)
    })
  )
})

describe("keys in the environment", () => {
  const env = ConfigProvider.fromEnv({
    env: {
      OPENAI_API_KEY: "sk-first-0123456789",
      OPENAI_API_KEY_3: "sk-third-0123456789",
      ANTHROPIC_API_KEY: "sk-ant-0123456789"
    }
  })

  it.effect("serve a model that the catalogue knows at its vendor, whatever the format", () =>
    Effect.gen(function* () {
      const sent: Array<string> = []
      const gateway = yield* Gateway.make({
        fetch: async (url, init) => {
          const key = new Headers(init?.headers).get("x-api-key") ?? ""
          sent.push(`${String(url)} ${key}`)
          return Response.json({
            type: "message",
            content: [{ type: "text", text: "Hi." }],
            stop_reason: "end_turn",
            usage: { input_tokens: 1, output_tokens: 1 }
          })
        }
      })
      const answer = yield* asked(gateway, "chat", { model: "claude-sonnet-4-5" })
      assert.strictEqual((yield* readJson(answer)).choices[0].message.content, "Hi.")
      assert.deepStrictEqual(sent, ["https://api.anthropic.com/v1/messages sk-ant-0123456789"])
    }).pipe(Effect.provideService(ConfigProvider.ConfigProvider, env))
  )

  it.effect("are enough: each format is asked at its vendor, with the next key where one is refused", () =>
    Effect.gen(function* () {
      const sent: Array<string> = []
      const gateway = yield* Gateway.make({
        fetch: async (url, init) => {
          const headers = new Headers(init?.headers)
          const key = headers.get("authorization") ?? headers.get("x-api-key") ?? ""
          sent.push(`${String(url)} ${key} ${JSON.parse(String(init?.body)).model}`)
          if (key.includes("first"))
            return Response.json({ error: { message: "bad key", code: "invalid_api_key" } }, { status: 401 })
          const message = { role: "assistant", content: "Hi." }
          return String(url).endsWith("/messages")
            ? Response.json({
                type: "message",
                content: [{ type: "text", text: "Hi." }],
                stop_reason: "end_turn"
              })
            : Response.json({ choices: [{ index: 0, message, finish_reason: "stop" }] })
        }
      })
      for (const wire of ["chat", "messages"] as const) {
        assert.strictEqual((yield* asked(gateway, wire, { model: "some-model" })).status, 200)
      }
      assert.deepStrictEqual(sent, [
        "https://api.openai.com/v1/chat/completions Bearer sk-first-0123456789 some-model",
        "https://api.openai.com/v1/chat/completions Bearer sk-third-0123456789 some-model",
        "https://api.anthropic.com/v1/messages sk-ant-0123456789 some-model"
      ])
      const models = yield* readJson(yield* Effect.promise(() => gateway.fetch("http://gateway/v1/models")))
      const ids: ReadonlyArray<string> = models.data.map(({ id }: { id: string }) => id)
      assert.includeMembers([...ids], ["gpt-5.1", "claude-sonnet-4-5"])
      assert.isFalse(ids.some((id) => id.startsWith("gemini")))
    }).pipe(Effect.provideService(ConfigProvider.ConfigProvider, env))
  )
})

describe("Gateway.create", () => {
  it.effect("serves programs without Effect until it is disposed of", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(answering("chat"))
      const gateway = Gateway.create({ routes: { route: { chain: [Vendor.target("chat", vendor)] } } })
      const client = new OpenAI({ apiKey: "none", baseURL: "http://gateway/v1", fetch: gateway.fetch })
      const text = yield* Effect.promise(async () => {
        const stream = client.chat.completions.stream({
          model: "route",
          messages: [{ role: "user", content: "Hi" }]
        })
        return (await stream.finalChatCompletion()).choices[0]?.message.content
      })
      assert.strictEqual(text, "Hello world.")
      yield* Effect.promise(() => gateway.dispose())
      const late = yield* asked(gateway, "chat")
      assert.strictEqual(late.status, 503)
      assert.include(yield* read(late), "shutting_down")
      assert.lengthOf(vendor.hits, 1)
    })
  )

  it.effect("ends running answers with an error when it is disposed of", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start((response) =>
        Vendor.stream(response, Answers.stream("chat", { id: "one", text: ["Hello "] })[1] ?? "", true)
      )
      const gateway = Gateway.create({ routes: { route: { chain: [Vendor.target("chat", vendor)] } } })
      const answer = yield* asked(gateway, "chat", { stream: true })
      yield* Effect.promise(() => gateway.dispose())
      assert.match(yield* read(answer), /Hello [^]*data: \{"error":\{"message":"The gateway is shutting down/)
      assert.strictEqual(yield* Effect.promise(() => vendor.hits[0]?.closed ?? Promise.reject()), undefined)
    })
  )

  it.effect("does not take a chain for each format for chains that are built again and again", () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const logger = Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])
      const vendor = yield* Vendor.start((response) => Vendor.json(response, 200, {}))
      const gateway = yield* Effect.provide(over("chat", vendor), logger)
      for (const wire of wires) yield* Effect.flatMap(asked(gateway, wire), read)
      assert.notInclude(lines.join("\n"), "was built")
    })
  )

  it("rejects options that it does not know", () => {
    assert.throws(() => Gateway.create({ routes: {} }), /routes must be routes by name/)
    assert.throws(() => Gateway.create({ route: {} } as object), /is not an option/)
  })
})
