/** `outlast gateway` for its operators: the port of the page, and the shutdown with streams in flight. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Activity } from "@outlast/agent"
import { receiver } from "../../../test/end-to-end/OtlpReceiver.ts"
import * as Sections from "#cli/gateway/Sections"
import { event, folder, started, vendor } from "./gateways.ts"
import type { Answer } from "./gateways.ts"
import { outlast } from "./run.ts"

const key = { OPENAI_API_KEY: "sk-test-0123456789abcdef" }
const token = "operator-token-0123456789"

const saying: Answer = (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  response.end(`${event({ role: "assistant", content: "Hello." })}${event({}, "stop")}data: [DONE]\n\n`)
}

const refusing: Answer = (response) => {
  response.writeHead(401, { "content-type": "application/json" })
  response.end(JSON.stringify({ error: { message: "wrong key", code: "invalid_api_key" } }))
}

const ask = (url: string, model: string, init: RequestInit = {}) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "a secret prompt" }] }),
      ...init
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  })

const get = (url: string, headers: Record<string, string> = {}) =>
  Effect.promise(async () => {
    const response = await fetch(url, { headers })
    return { status: response.status, text: await response.text() }
  })

/** JSON that the test itself caused. */
const stateOf = (page: string): Effect.Effect<any> =>
  Effect.map(get(`${page}/api/state`), ({ text }) => JSON.parse(text))

/** A route of one target, whose vendor and key have its name. */
const routeTo = (name: string, url: string) =>
  `[[routes.${name}.targets]]\nprovider = "compatible"\nname = "${name}"\nmodel = "m"\nbaseUrl = "${url}"\nkeys = ["${name}_KEY"]\n`

const keys = { broken_KEY: "sk-broken-0123456789", smart_KEY: "sk-smart-0123456789" }

describe("the page", () => {
  it.live("shows the targets of all routes, the calls, and which route cannot answer", () =>
    Effect.gen(function* () {
      const file = join(yield* folder, "routes.toml")
      const [bad, good] = [yield* vendor(refusing), yield* vendor(saying)]
      writeFileSync(file, `${routeTo("broken", bad)}\n${routeTo("smart", good)}`)
      const { page, url } = yield* started(["--config", file], {
        ...keys,
        OUTLAST_OPS_TOKEN: token
      })
      assert.deepStrictEqual((yield* stateOf(page)).sections.targets, [])
      const events = yield* Effect.promise(() => fetch(`${page}/events`))
      yield* ask(url, "smart")
      yield* ask(url, "broken")
      const told = yield* Effect.promise(async () => {
        let text = ""
        for await (const chunk of events.body?.pipeThrough(new TextDecoderStream()) ?? []) {
          text += String(chunk)
          if (text.includes('"route":"broken"')) break
        }
        return text
      })
      for (const tag of ["AttemptStarted", "CallSucceeded", "AttemptFailed", "GatewayAnswered"]) {
        assert.include(told, `"_tag":"${tag}"`)
      }
      // A state is shared for a quarter of a second by all who ask.
      const { headline, sections } = yield* Effect.repeat(stateOf(page), {
        until: ({ sections }) => sections.activity.recent.length === 2
      })
      assert.deepStrictEqual(
        sections.targets.map(({ id }: Activity.ChainTarget) => id),
        ["smart/m#smart_KEY", "broken/m#broken_KEY"]
      )
      assert.include(headline.text, "Route broken (chat) has not answered since its last failure")
      assert.strictEqual(sections.activity.recent[0].outcome, "failed")
      assert.strictEqual(sections.activity.recent[1].steps[0].state, "answered")
      const metrics = (yield* get(`${page}/metrics`)).text
      assert.include(
        metrics,
        'outlast_gateway_requests_total{outcome="answered",route="smart",wire="chat"} 1'
      )
      assert.include(metrics, 'outlast_calls_total{outcome="answered"} 1')
      assert.strictEqual((yield* get(`${page}/ready`)).status, 200)
      const doctor = yield* Effect.promise(() => outlast(["doctor", "--url", page]))
      assert.include(doctor.stdout, "outlast gateway: ")
      assert.include(doctor.stdout, "Route broken (chat) has not answered since its last failure")
      assert.strictEqual(doctor.exitCode, 1)
      const shown = JSON.stringify(yield* stateOf(page)) + metrics + doctor.all + told
      for (const secret of ["a secret prompt", token, ...Object.values(keys)])
        assert.notInclude(shown, secret)
    })
  )

  it.live("brings a target back in every chain, with the token alone", () =>
    Effect.gen(function* () {
      const file = join(yield* folder, "routes.toml")
      const other = `${routeTo("broken", yield* vendor(saying))}`
      // A key that is refused is out where the route has another target.
      writeFileSync(file, routeTo("broken", yield* vendor(refusing)) + other.replaceAll('"broken', '"smart'))
      const { page, url } = yield* started(["--config", file], { ...keys, OUTLAST_OPS_TOKEN: token })
      yield* ask(url, "broken")
      const lift = (headers: Record<string, string>, body: object) =>
        Effect.promise(async () => {
          const response = await fetch(`${page}/api/actions/lift`, {
            method: "POST",
            headers: { "content-type": "application/json", ...headers },
            body: JSON.stringify(body)
          })
          return { status: response.status, text: await response.text() }
        })
      const bearer = { authorization: `Bearer ${token}` }
      assert.strictEqual((yield* stateOf(page)).sections.targets[0].state, "cooling")
      assert.strictEqual((yield* lift({}, { key: "broken_KEY" })).status, 401)
      assert.strictEqual((yield* lift(bearer, { key: "NO_KEY" })).status, 409)
      const done = yield* lift(bearer, { key: "broken_KEY" })
      assert.strictEqual(done.text, '{"result":{"cooldowns":1,"circuits":[]}}')
      yield* Effect.repeat(stateOf(page), {
        until: ({ sections }) => sections.targets[0].state === "ready"
      })
    })
  )

  it.live("opens ports of their own for probes and metrics", () =>
    Effect.gen(function* () {
      const { output } = yield* started(["--probes-port", "0", "--metrics-port", "0"], key)
      const at = (name: string) =>
        new RegExp(`^${name} +(\\S+)$`, "m").exec(output())?.[1] ?? assert.fail(output())
      assert.strictEqual((yield* get(at("probes"))).status, 200)
      assert.include((yield* get(at("metrics"))).text, "outlast_build_info")
    })
  )

  it.live("is refused beyond loopback without a token, and on a port that is taken", () =>
    Effect.gen(function* () {
      const open = yield* Effect.promise(() =>
        outlast(["gateway", "--port", "0", "--ops-host", "0.0.0.0"], { env: key })
      )
      assert.include(open.stderr, "--ops-host 0.0.0.0 is not a loopback address: set OUTLAST_OPS_TOKEN")
      const { page } = yield* started([], key)
      const port = new URL(page).port
      const taken = yield* Effect.promise(() =>
        outlast(["gateway", "--port", "0", "--ops-port", port], { env: key })
      )
      assert.include(taken.stderr, `Cannot listen on 127.0.0.1:${port} for page`)
      assert.include(taken.stderr, "(--ops-port)")
      assert.strictEqual(taken.exitCode, 1)
    })
  )
})

describe("spans", () => {
  it.live(
    "go to the collector that the environment names, under the caller's own, without prompts and keys",
    () =>
      Effect.gen(function* () {
        const collector = yield* receiver
        const file = join(yield* folder, "routes.toml")
        writeFileSync(file, routeTo("smart", yield* vendor(saying)))
        const gateway = yield* started(["--config", file], {
          ...keys,
          OTEL_EXPORTER_OTLP_ENDPOINT: collector.url
        })
        const traceId = "0af7651916cd43dd8448eb211c80319c"
        yield* ask(gateway.url, "smart", {
          headers: { "content-type": "application/json", traceparent: `00-${traceId}-b7ad6b7169203331-01` }
        })
        yield* Effect.repeat(Effect.sleep("20 millis"), {
          until: () => collector.received.some(({ path }) => path === "/v1/traces")
        })
        const text = collector.received.map(({ body }) => body.toString()).join("\n")
        for (const part of ["outlast-gateway", "gateway chat", "chat m", traceId]) assert.include(text, part)
        for (const secret of ["a secret prompt", keys.smart_KEY]) assert.notInclude(text, secret)
      })
  )
})

describe("SIGTERM with a stream in flight", () => {
  /** A vendor that begins an answer, and ends it when it is told. */
  const holding = Effect.gen(function* () {
    const held: Array<() => void> = []
    const url = yield* vendor((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" })
      response.write(event({ role: "assistant", content: "Hello " }))
      held.push(() => response.end(`${event({ content: "world." })}${event({}, "stop")}data: [DONE]\n\n`))
    })
    const file = join(yield* folder, "routes.toml")
    writeFileSync(file, routeTo("smart", url))
    const gateway = yield* started(["--config", file], keys)
    /** The stream, once it has begun. */
    const stream = yield* Effect.promise(() =>
      fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "smart", stream: true, messages: [{ role: "user", content: "Hi" }] })
      })
    )
    return { ...gateway, stream, end: () => held.forEach((end) => end()) }
  })
  const text = ({ stream }: { readonly stream: Response }) => Effect.promise(() => stream.text())

  it.live("is not ready first, then refuses new calls, and lets the stream end", () =>
    Effect.gen(function* () {
      const gateway = yield* holding
      const { child, end, exit, page, url } = gateway
      child.kill("SIGTERM")
      yield* Effect.repeat(get(`${page}/ready`), { until: ({ status }) => status === 503 })
      // Load balancers still send requests.
      const models = () => get(`${url}/v1/models`)
      assert.strictEqual((yield* models()).status, 200)
      yield* Effect.repeat(Effect.andThen(Effect.sleep("50 millis"), models()), {
        until: ({ status }) => status !== 200
      })
      const refused = yield* ask(url, "smart")
      assert.strictEqual(refused.status, 503)
      assert.strictEqual(refused.headers.get("retry-after"), "1")
      end()
      const whole = yield* text(gateway)
      assert.include(whole, "world.")
      assert.include(whole, "[DONE]")
      assert.strictEqual(yield* exit, 0)
    })
  )

  it.live("ends the stream with an error at a second signal", () =>
    Effect.gen(function* () {
      const gateway = yield* holding
      const { child, exit, page } = gateway
      child.kill("SIGTERM")
      yield* Effect.repeat(get(`${page}/ready`), { until: ({ status }) => status === 503 })
      // Another signal: a repetition within 300 ms is one wish.
      child.kill("SIGINT")
      const cut = yield* text(gateway)
      assert.include(cut, "Hello ")
      assert.match(cut, /data: \{"error":\{"message":"The gateway is shutting down[^\n]*\n\n$/)
      assert.strictEqual(yield* exit, 130)
    })
  )
})

describe("the sections", () => {
  const target = (id: string, more: Partial<Activity.ChainTarget> = {}): Activity.ChainTarget => ({
    id,
    provider: "p",
    model: id,
    key: "KEY",
    state: "ready",
    reason: null,
    message: null,
    advice: null,
    needsPerson: false,
    health: null,
    until: null,
    nextTry: 0,
    lastSuccessAt: null,
    cooldowns: [],
    circuits: [],
    ...more
  })
  const cooling = { state: "cooling", reason: "RateLimit", until: 9_000 } as const

  it("have one line for a target of several routes: that in which it is out longest", () => {
    const chains = [
      { route: "a", wire: "chat", targets: [target("m", { lastSuccessAt: 5 })] },
      { route: "b", wire: "chat", targets: [target("m", cooling), target("n")] }
    ]
    assert.deepStrictEqual(
      Sections.targets(chains).map(({ id, lastSuccessAt, state }) => [id, state, lastSuccessAt]),
      [
        ["m", "cooling", 5],
        ["n", "ready", null]
      ]
    )
    assert.deepStrictEqual(
      Sections.routes([...chains, { route: "c", wire: "chat", targets: [target("m", cooling)] }]),
      [
        { route: "a", wire: "chat", ready: ["m"], until: null },
        { route: "b", wire: "chat", ready: ["n"], until: null },
        { route: "c", wire: "chat", ready: [], until: 9_000 }
      ]
    )
  })

  it("leave out a model that no vendor has where no route is configured, and are bounded", () => {
    const unknown = target("x", { state: "cooling", reason: "ModelNotFound" })
    assert.deepStrictEqual(Sections.targets([{ route: undefined, wire: "chat", targets: [unknown] }]), [])
    assert.lengthOf(Sections.targets([{ route: "a", wire: "chat", targets: [unknown] }]), 1)
    assert.deepStrictEqual(Sections.routes([{ route: undefined, wire: "chat", targets: [unknown] }]), [])
    const many = Array.from({ length: 300 }, (_, i) => target(`m${i}`, i === 299 ? cooling : {}))
    const listed = Sections.targets([{ route: "a", wire: "chat", targets: many }])
    assert.lengthOf(listed, Sections.maxTargets)
    assert.strictEqual(listed[0]?.id, "m299")
  })
})
