/** What operators see of the calls of a gateway: keys by name, spans, events, metrics; and which call goes first. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Metric, Option, Tracer } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { TestClock } from "effect/testing"
import { Gateway, GatewayMetrics } from "@outlast/gateway"
import { ResilienceEvents } from "@outlast/resilience"
import * as Answers from "./Answers.ts"
import type { WireName } from "./Vendor.ts"
import * as Vendor from "./Vendor.ts"

const busy: Vendor.Answer = (response) => Vendor.json(response, 503, { error: { message: "busy" } })

const answering =
  (wire: WireName): Vendor.Answer =>
  (response) =>
    Vendor.stream(response, Answers.stream(wire, { id: "one", text: ["Hello ", "world."] }).join(""))

const asked = (gateway: Gateway.Gateway, headers: Record<string, string> = {}, more: object = {}) =>
  Effect.promise(async () => {
    const response = await Vendor.ask(
      gateway.fetch,
      "chat",
      Vendor.request("chat", { stream: true, ...more }),
      headers
    )
    return { response, text: await response.text() }
  })

describe("the key that answered", () => {
  it.effect("is named by its variable, and never shown", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start((response, hit, n) =>
        n === 0 ? busy(response, hit, n) : answering("chat")(response, hit, n)
      )
      const chain = [Vendor.target("chat", vendor, "a"), Vendor.target("chat", vendor, "b")] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      const { response, text } = yield* asked(gateway)
      assert.strictEqual(response.headers.get("x-outlast-target"), "openai/b#KEY_b")
      assert.notInclude(JSON.stringify([...response.headers]) + text, Vendor.secret)
    })
  )
})

describe("a span of the caller", () => {
  it.effect("is the parent of the call, and the call of its attempts", () => {
    const spans: Array<Tracer.NativeSpan> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      }
    })
    return Effect.gen(function* () {
      const first = yield* Vendor.start(busy)
      const second = yield* Vendor.start(answering("chat"))
      const chain = [Vendor.target("chat", first, "a"), Vendor.target("chat", second, "b")] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      const traceId = "0af7651916cd43dd8448eb211c80319c"
      yield* asked(gateway, { traceparent: `00-${traceId}-b7ad6b7169203331-01` })
      const call = spans.find(({ name }) => name === "gateway chat") ?? assert.fail("no span of the call")
      assert.strictEqual(Option.getOrThrow(call.parent).spanId, "b7ad6b7169203331")
      const attempts = spans.filter(({ name }) => name.startsWith("chat "))
      assert.deepStrictEqual(
        attempts.map(({ name, parent, traceId }) => [name, Option.getOrThrow(parent).spanId, traceId]),
        [
          ["chat a", call.spanId, traceId],
          ["chat b", call.spanId, traceId]
        ]
      )
    }).pipe(Effect.provideService(Tracer.Tracer, tracer))
  })
})

describe("x-outlast-priority", () => {
  it.effect("lets an interactive call go before one in the background that waits for the same limit", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start((response, hit, n) => {
        // One request every two seconds.
        response.setHeader("x-ratelimit-limit-requests", "2")
        response.setHeader("x-ratelimit-remaining-requests", "0")
        response.setHeader("x-ratelimit-reset-requests", "4s")
        answering("chat")(response, hit, n)
      })
      let waiting = 0
      yield* ResilienceEvents.tap(({ _tag }) =>
        Effect.sync(() => {
          if (_tag === "CallWaiting") waiting++
        })
      )
      const gateway = yield* Gateway.make({
        routes: { route: { chain: [Vendor.target("chat", vendor)], policy: Vendor.impatient } }
      })
      yield* asked(gateway)
      const others = ["background", "interactive"].map((priority, i) => {
        const answered = Vendor.ask(
          gateway.fetch,
          "chat",
          Vendor.request("chat", { stream: true, user: priority }),
          { "x-outlast-priority": priority }
        ).then((response) => response.text())
        return { answered, isWaiting: () => waiting > i }
      })
      const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
      yield* Effect.repeat(turn, { until: () => others.every(({ isWaiting }) => isWaiting()) })
      yield* TestClock.adjust("2 seconds")
      yield* Effect.repeat(turn, { until: () => vendor.hits.length === 2 })
      yield* TestClock.adjust("2 seconds")
      yield* Effect.promise(() => Promise.all(others.map(({ answered }) => answered)))
      assert.deepStrictEqual(
        vendor.hits.map(({ body }) => body.user),
        [undefined, "interactive", "background"]
      )
    }).pipe(Effect.provide(ResilienceEvents.layer()))
  )
})

describe("the metrics of a gateway", () => {
  const telemetry = Layer.suspend(() =>
    GatewayMetrics.layer().pipe(
      Layer.provideMerge(ResilienceEvents.layer()),
      Layer.provideMerge(Layer.succeed(Metric.MetricRegistry, new Map()))
    )
  )
  const lines = Effect.map(PrometheusMetrics.format(), (text) =>
    text.split("\n").filter((line) => line.startsWith("outlast_gateway"))
  )

  it.effect("count requests, switches, times and cost by route and format", () =>
    Effect.gen(function* () {
      const down = yield* Vendor.start(busy)
      const up = yield* Vendor.start(answering("messages"))
      const price = { input: 100_000, output: 100_000 }
      const smart = {
        chain: [Vendor.target("messages", down, "a"), Vendor.target("messages", up, "b", { price })] as const,
        policy: Vendor.impatient
      }
      const out = { chain: [Vendor.target("messages", down, "c")] as const, policy: Vendor.impatient }
      const gateway = yield* Gateway.make({ routes: { smart, alias: smart, out } })
      const ask = (model: string, more: object = {}) =>
        Effect.promise(async () => {
          const body = Vendor.request("messages", { model, stream: true, ...more })
          await (await Vendor.ask(gateway.fetch, "messages", body)).text()
        })
      yield* ask("smart")
      yield* ask("alias")
      yield* ask("out")
      yield* ask("a-text-of-the-caller")
      const found = yield* lines
      for (const line of [
        'outlast_gateway_requests_total{route="smart",wire="messages",outcome="answered"} 2',
        'outlast_gateway_requests_total{route="out",wire="messages",outcome="failed"} 1',
        'outlast_gateway_requests_total{route="other",wire="messages",outcome="refused"} 1',
        'outlast_gateway_switches_total{route="smart",wire="messages"} 2',
        'outlast_gateway_begin_seconds_count{route="smart",wire="messages"} 2',
        'outlast_gateway_request_seconds_count{route="smart",wire="messages"} 2',
        'outlast_gateway_cost_usd_total{route="smart",wire="messages"} 2.4'
      ]) {
        assert.include(found, line)
      }
      assert.notInclude(found.join("\n"), "a-text-of-the-caller")
    }).pipe(Effect.provide(telemetry))
  )

  it.effect("have no name of a model where no route is configured", () =>
    Effect.gen(function* () {
      const gateway = yield* Gateway.make({
        fetch: async () =>
          Response.json({
            choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }]
          })
      })
      yield* asked(gateway, {}, { model: "any-model", stream: false })
      const found = yield* lines
      assert.include(found, 'outlast_gateway_requests_total{route="other",wire="chat",outcome="answered"} 1')
      assert.notInclude(found.join("\n"), "any-model")
    }).pipe(
      Effect.provide(telemetry),
      Effect.provideService(
        ConfigProvider.ConfigProvider,
        ConfigProvider.fromEnv({ env: { OPENAI_API_KEY: Vendor.secret } })
      )
    )
  )

  it.effect("tell a caller that left from a failure, and a cut answer from a whole one", () =>
    Effect.gen(function* () {
      const hit = Promise.withResolvers<Vendor.Hit>()
      const silent = yield* Vendor.start((_, got) => hit.resolve(got))
      const cut = yield* Vendor.start((response, { socket }) => {
        Vendor.stream(response, Answers.stream("chat", { id: "x", text: ["Hello "] })[1] ?? "", true)
        setImmediate(() => socket.destroy())
      })
      const route = (vendor: Vendor.Vendor) =>
        ({ chain: [Vendor.target("chat", vendor)], policy: Vendor.impatient }) as const
      const gateway = yield* Gateway.make({ routes: { silent: route(silent), cut: route(cut) } })
      const left = new AbortController()
      const answer = gateway.fetch("http://gateway/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(Vendor.request("chat", { model: "silent" })),
        signal: left.signal
      })
      const { closed } = yield* Effect.promise(() => hit.promise)
      left.abort()
      yield* Effect.promise(() => Promise.allSettled([answer, closed]))
      yield* asked(gateway, {}, { model: "cut", n: 2 })
      const found = yield* lines
      for (const line of [
        'outlast_gateway_requests_total{route="silent",wire="chat",outcome="abandoned"} 1',
        'outlast_gateway_requests_total{route="cut",wire="chat",outcome="failed"} 1'
      ]) {
        assert.include(found, line)
      }
    }).pipe(Effect.provide(telemetry))
  )
})
