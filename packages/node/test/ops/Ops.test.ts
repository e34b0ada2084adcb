/** The endpoints, over real sockets. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted, Schema, Stream } from "effect"
import { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import { ResilienceEvents } from "@outlast/resilience"
import { parse } from "../support/strictPrometheus.ts"

const token = "operator-token-0123456789"
const free = { port: 0 } as const

const running = <A, E>(
  use: Effect.Effect<A, E, Ops.Ops | Host.Host>,
  options: Ops.Options = {}
): Effect.Effect<A, E | Ops.ListenFailed> =>
  use.pipe(
    Effect.provide(
      Ops.layer({ probes: free, metrics: free, page: free, ...options }).pipe(
        Layer.provideMerge(Host.layer({ wait: 0 })),
        Layer.provideMerge(ResilienceEvents.layer())
      )
    )
  )

interface Asked extends Omit<RequestInit, "signal"> {
  readonly listener?: "probes" | "metrics" | "page"
}

const ask = (path: string, { listener = "page", ...init }: Asked = {}) =>
  Effect.gen(function* () {
    const ops = yield* Ops.Ops
    const response = yield* Effect.promise((signal) =>
      fetch(`http://127.0.0.1:${ops[listener]}${path}`, { ...init, signal })
    )
    return {
      status: response.status,
      headers: response.headers,
      text: yield* Effect.promise(() => response.text())
    }
  })

const bearer = { authorization: `Bearer ${token}` }

/** The frames of `/events` from now on. */
const frames = (headers: Record<string, string> = {}) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const ops = yield* Ops.Ops
      const controller = new AbortController()
      yield* Effect.addFinalizer(() => Effect.sync(() => controller.abort()))
      const response = yield* Effect.promise(() =>
        fetch(`http://127.0.0.1:${ops.page}/events`, { headers, signal: controller.signal })
      )
      assert.strictEqual(response.status, 200)
      let rest = ""
      const chunks: AsyncIterable<string> =
        response.body?.pipeThrough(new TextDecoderStream()) ?? assert.fail("a body")
      return Stream.fromAsyncIterable(chunks, String).pipe(
        Stream.flatMap((chunk) => {
          const parts = (rest + chunk).split("\n\n")
          rest = parts.pop() ?? ""
          return Stream.fromIterable(parts)
        }),
        Stream.map((frame) => ({
          id: /^id: (.*)$/m.exec(frame)?.[1] ?? "",
          event: /^event: (.*)$/m.exec(frame)?.[1],
          data: /^data: (.*)$/m.exec(frame)?.[1] ?? ""
        }))
      )
    })
  )

const publish = (...tags: ReadonlyArray<string>) =>
  Effect.forEach(tags, (_tag) => ResilienceEvents.publishNow<ResilienceEvents.ResilienceEvent>({ _tag }), {
    discard: true
  })

describe("probes", () => {
  it.live("answers /live and /ready, with what is missing", () =>
    running(
      Effect.scoped(
        Effect.gen(function* () {
          assert.strictEqual((yield* ask("/live", { listener: "probes" })).status, 200)
          const good = yield* ask("/ready", { listener: "probes", headers: { host: "any.example" } })
          assert.deepStrictEqual([good.status, JSON.parse(good.text)], [200, { isReady: true, reasons: [] }])
          yield* Host.ready("broker", Effect.succeed("no connection"))
          yield* Effect.sleep("300 millis")
          const bad = yield* ask("/ready", { listener: "probes" })
          assert.deepStrictEqual(
            [bad.status, JSON.parse(bad.text)],
            [503, { isReady: false, reasons: [{ name: "broker", reason: "no connection" }] }]
          )
        })
      )
    )
  )

  it.live("stays alive, and is not ready, after a shutdown has begun", () =>
    running(
      Effect.gen(function* () {
        yield* Host.shutdown("test")
        assert.strictEqual((yield* ask("/live", { listener: "probes" })).status, 200)
        assert.strictEqual((yield* ask("/ready", { listener: "probes" })).status, 503)
      })
    )
  )

  it.live("says which port is taken, and what to do", () =>
    running(
      Effect.gen(function* () {
        const { probes = 0 } = yield* Ops.Ops
        const failure = yield* Effect.flip(running(Effect.void, { metrics: { port: probes } }))
        assert.strictEqual(
          failure.message,
          `Cannot listen on 127.0.0.1:${probes} for metrics (EADDRINUSE). Another program uses the port. Choose another one (\`metrics.port\`), or 0 for any free one.`
        )
      })
    )
  )
})

describe("metrics", () => {
  it.live("gives valid text with the build, the heap and the event loop", () =>
    running(
      Effect.gen(function* () {
        const { headers, status, text } = yield* ask("/metrics", { listener: "metrics" })
        assert.strictEqual(status, 200)
        assert.strictEqual(headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8")
        const samples = new Map(parse(text).map((sample) => [sample.name, sample]))
        assert.strictEqual(samples.get("outlast_build_info")?.labels.get("version"), "1.2.3")
        for (const name of ["nodejs_heap_size_used_bytes", "nodejs_eventloop_lag_p99_seconds"]) {
          assert.isTrue(samples.has(name), name)
        }
      }),
      { version: "1.2.3" }
    )
  )
})

describe("state", () => {
  it.live("has the readiness, the sections and no token", () =>
    running(
      Effect.scoped(
        Effect.gen(function* () {
          yield* Host.section("outbox", Effect.succeed({ backlog: 3 }))
          const { headers, status, text } = yield* ask("/api/state")
          assert.strictEqual(status, 200)
          const state = JSON.parse(text)
          assert.deepStrictEqual(state.sections, { outbox: { backlog: 3 } })
          assert.strictEqual(state.name, "triage")
          assert.isTrue(state.readiness.isReady)
          assert.notInclude(text, token)
          assert.include(headers.get("content-security-policy") ?? "", "default-src 'none'")
        })
      ),
      { name: "triage", page: { ...free, token: Redacted.make(token) } }
    )
  )
})

describe("events", () => {
  it.live("go to every reader in order, with an id each", () =>
    running(
      Effect.gen(function* () {
        const read = Effect.scoped(Stream.runCollect(Stream.take(frames(), 4)))
        const readers = yield* Effect.forkChild(Effect.all([read, read], { concurrency: 2 }))
        const ops = yield* Ops.Ops
        yield* Effect.repeat(Effect.sleep("5 millis").pipe(Effect.andThen(ops.readers)), {
          until: (n) => n === 2
        })
        yield* publish("A", "B", "C")
        const [first, second] = yield* Fiber.join(readers)
        assert.deepStrictEqual(
          first.map(({ event }) => event),
          ["hello", "A", "B", "C"]
        )
        assert.deepStrictEqual(first, second)
        assert.strictEqual(JSON.parse(first[1]?.data ?? "")._tag, "A")
      })
    )
  )

  it.live("resume after the last id, and begin anew after an id that is gone", () =>
    running(
      Effect.gen(function* () {
        const [hello] = yield* Effect.scoped(Stream.runCollect(Stream.take(frames(), 1)))
        yield* publish("A", "B")
        const resumed = yield* Effect.scoped(
          Stream.runCollect(Stream.take(frames({ "last-event-id": hello?.id ?? "" }), 3))
        )
        assert.deepStrictEqual(
          resumed.map(({ event }) => event),
          ["hello", "A", "B"]
        )
        for (const id of ["0123456789ab-1", `${hello?.id}999`, "x", "-1"]) {
          const [first] = yield* Effect.scoped(
            Stream.runCollect(Stream.take(frames({ "last-event-id": id }), 1))
          )
          assert.strictEqual(first?.event, "reset", id)
        }
      })
    )
  )

  it.live("are refused beyond the number of readers", () =>
    running(
      Effect.gen(function* () {
        yield* Effect.scoped(
          Effect.gen(function* () {
            const ops = yield* Ops.Ops
            yield* Effect.forkScoped(Stream.runDrain(frames()))
            yield* Effect.repeat(Effect.sleep("5 millis").pipe(Effect.andThen(ops.readers)), {
              until: (n) => n === 1
            })
            const refused = yield* ask("/events")
            assert.strictEqual(refused.status, 503)
            assert.strictEqual(refused.headers.get("retry-after"), "5")
          })
        )
      }),
      { page: { ...free, maxReaders: 1 } }
    )
  )
})

describe("actions", () => {
  const done: Array<string> = []
  const trip = Ops.action({
    doc: "Opens a circuit.",
    params: Schema.Struct({ circuit: Schema.String }),
    subject: ({ circuit }) => circuit,
    run: ({ circuit }) =>
      circuit === "missing"
        ? Effect.fail(new Error("There is no such circuit."))
        : Effect.sync(() => {
            done.push(circuit)
            return { phase: "open" }
          })
  })
  const page = { ...free, token: Redacted.make(token), actions: { trip } }
  const post = (body: string, headers: Record<string, string> = bearer, name = "trip") =>
    ask(`/api/actions/${name}`, {
      method: "POST",
      body,
      headers: { "content-type": "application/json", ...headers }
    })

  it.live("are carried out with the token, and are in the audit trail", () =>
    running(
      Effect.gen(function* () {
        const seen: Array<unknown> = []
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* ResilienceEvents.tap((event) => Effect.sync(() => seen.push({ ...event, at: 0 })))
            const good = yield* post(JSON.stringify({ circuit: "anthropic" }))
            assert.deepStrictEqual([good.status, good.text], [200, '{"result":{"phase":"open"}}'])
            assert.strictEqual((yield* post(JSON.stringify({ circuit: "missing" }))).status, 409)
            assert.strictEqual((yield* post('{"circuit":1}')).status, 400)
            assert.strictEqual((yield* post('{"circuit":"a","and":1}')).status, 400)
            assert.strictEqual((yield* post("{")).status, 400)
            assert.strictEqual((yield* post("{}", bearer, "toString")).status, 404)
            assert.strictEqual((yield* post("{}", { authorization: "Bearer wrong" })).status, 401)
          })
        )
        assert.deepStrictEqual(done, ["anthropic"])
        const event = (action: string, outcome: string, subject?: string) => ({
          _tag: "OperatorAction",
          at: 0,
          action,
          subject,
          outcome
        })
        assert.deepStrictEqual(seen, [
          event("trip", "done", "anthropic"),
          event("trip", "failed"),
          event("trip", "refused"),
          event("trip", "refused"),
          event("trip", "refused"),
          event("unknown", "refused"),
          event("trip", "refused")
        ])
      }),
      { page }
    )
  )

  it("need a token in the options", () => {
    assert.throws(() => Ops.layer({ page: { actions: { trip } } }), /page.token/)
    assert.throws(() => Ops.layer({ page: { host: "0.0.0.0" } }), /page.token/)
    assert.throws(() => Ops.layer({ page: { token: Redacted.make("short") } }), /16 characters/)
  })
})
