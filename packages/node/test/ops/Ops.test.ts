/** The endpoints, over real sockets. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger, Redacted, Schema, Stream } from "effect"
import { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import { ResilienceEvents } from "@outlast/resilience"
import * as Audit from "#node/ops/Audit"
import { get } from "node:http"
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
          yield* Host.ready("store", Effect.succeed(true))
          const good = yield* ask("/ready", { listener: "probes", headers: { host: "any.example" } })
          assert.deepStrictEqual(
            [good.status, JSON.parse(good.text)],
            [200, { isReady: true, passed: ["store"], reasons: [] }]
          )
          yield* Host.ready("broker", Effect.succeed("no connection"))
          yield* Effect.sleep("300 millis")
          const bad = yield* ask("/ready", { listener: "probes" })
          assert.deepStrictEqual(
            [bad.status, JSON.parse(bad.text)],
            [
              503,
              { isReady: false, passed: ["store"], reasons: [{ name: "broker", reason: "no connection" }] }
            ]
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

  it("has the ports of nexo-rs by default", () => {
    const { metrics, probes } = Ops.defaults
    assert.deepStrictEqual([probes.port, metrics.port], [8_080, 9_090])
  })

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

describe("the page alone", () => {
  it.live("answers probes and metrics, too, behind its checks", () =>
    running(
      Effect.gen(function* () {
        for (const path of ["/live", "/ready", "/metrics"]) {
          assert.strictEqual((yield* ask(path)).status, 200, path)
          const { page = 0 } = yield* Ops.Ops
          const refused = yield* Effect.promise(
            () =>
              new Promise<number | undefined>((resolve) =>
                get({ port: page, path, headers: { host: "evil.example" } }, (response) => {
                  response.resume()
                  resolve(response.statusCode)
                })
              )
          )
          assert.strictEqual(refused, 403, path)
        }
      }),
      { probes: false, metrics: false }
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

describe("listeners", () => {
  it.live("beyond loopback give data only with the token, and the files of the page to anyone", () =>
    running(
      Effect.gen(function* () {
        assert.strictEqual((yield* ask("/api/state")).status, 401)
        assert.strictEqual((yield* ask("/events")).status, 401)
        assert.strictEqual((yield* ask("/api/state", { headers: bearer })).status, 200)
        for (const path of ["/", "/status.js", "/status.css"])
          assert.strictEqual((yield* ask(path)).status, 200, path)
      }),
      { page: { port: 0, host: "0.0.0.0", token: Redacted.make(token) } }
    )
  )

  it.live("answer the names in `hosts`, and no others", () =>
    running(
      Effect.gen(function* () {
        const { page = 0 } = yield* Ops.Ops
        const statusOf = (host: string) =>
          Effect.callback<number | undefined>((resume) => {
            get({ port: page, path: "/api/state", headers: { host } }, (response) => {
              response.resume()
              resume(Effect.succeed(response.statusCode))
            })
          })
        assert.strictEqual(yield* statusOf("agent.internal"), 200)
        assert.strictEqual(yield* statusOf("other.internal"), 403)
      }),
      { page: { port: 0, hosts: ["Agent.Internal"] } }
    )
  )

  it("cannot have names with a scheme, a port or a path", () => {
    for (const name of ["https://status.example", "status.example:443", "status.example/", "*.example"]) {
      assert.throws(() => Ops.layer({ page: { hosts: [name] } }), /page.hosts\[0\] must be a host name/)
    }
  })

  it.live("can be turned off", () =>
    running(
      Effect.gen(function* () {
        const { metrics, page, probes } = yield* Ops.Ops
        assert.deepStrictEqual([probes, metrics, page], [undefined, undefined, undefined])
      }),
      { probes: false, metrics: false, page: false }
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

  it.live("end with the event shutdown, after the events of the shutdown", () =>
    running(
      Effect.gen(function* () {
        const ops = yield* Ops.Ops
        const reader = yield* Effect.forkChild(Effect.scoped(Stream.runCollect(frames())), {
          startImmediately: true
        })
        yield* Effect.repeat(Effect.sleep("5 millis").pipe(Effect.andThen(ops.readers)), {
          until: (count) => count === 1
        })
        yield* Host.shutdown("test")
        const events = (yield* Fiber.join(reader)).map(({ event }) => event)
        assert.include(events, "ShutdownStarted")
        assert.strictEqual(events.at(-1), "shutdown")
        assert.strictEqual((yield* ask("/events")).status, 503)
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
            assert.strictEqual(refused.headers.get("connection"), "close")
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

  it.live("that end with a defect are in the audit trail, and answered", () =>
    running(
      Effect.gen(function* () {
        const seen: Array<unknown> = []
        yield* ResilienceEvents.tap((event) => Effect.sync(() => seen.push({ ...event, at: 0 })))
        const { status, text } = yield* post("{}", bearer, "broken")
        assert.strictEqual(status, 409)
        assert.notInclude(text, "a secret")
        assert.deepStrictEqual(seen, [
          { _tag: "OperatorAction", at: 0, action: "broken", subject: undefined, outcome: "failed" }
        ])
      }).pipe(Effect.scoped),
      {
        page: {
          ...page,
          actions: {
            broken: Ops.action({
              doc: "Does not work.",
              params: Schema.Struct({}),
              run: () => Effect.die(new Error("a secret"))
            })
          }
        }
      }
    )
  )

  it.live("that are refused fill no log: events and counts are complete, lines are limited", () => {
    const lines: Array<string> = []
    return running(
      Effect.gen(function* () {
        let events = 0
        yield* ResilienceEvents.tap(() => Effect.sync(() => events++))
        const wrong = { authorization: "Bearer wrong" }
        yield* Effect.forEach(Array.from({ length: 15 }), () => post("{}", wrong), { discard: true })
        yield* post(JSON.stringify({ circuit: "anthropic" }))
        assert.strictEqual(events, 16)
        assert.deepStrictEqual(lines, [
          ...Array.from({ length: Audit.maxLines }, () => "Operator: trip refused."),
          "Operator: trip of anthropic done."
        ])
      }).pipe(Effect.scoped),
      { page }
    ).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => lines.push(String(message)))])))
  })

  it("that are refused get lines again after a minute, with the number that had none", () => {
    let state = Audit.none
    const at = (time: number) => {
      const counted = Audit.count(state, time)
      state = counted.state
      return counted.skipped
    }
    const start = 1_000_000
    for (let i = 0; i < Audit.maxLines; i++) assert.strictEqual(at(start + i), 0)
    assert.strictEqual(at(start + 20), undefined)
    assert.strictEqual(at(start + Audit.period - 1), undefined)
    assert.strictEqual(at(start + Audit.period), 2)
    assert.strictEqual(at(start + Audit.period + 1), 0)
    // A clock that was set back begins a new minute.
    for (let i = 0; i < Audit.maxLines; i++) at(start + Audit.period + 2)
    assert.strictEqual(at(0), 2)
  })

  it("need a token in the options", () => {
    assert.throws(() => Ops.layer({ page: { actions: { trip } } }), /page.token/)
    assert.throws(() => Ops.layer({ page: { host: "0.0.0.0" } }), /page.token/)
    assert.throws(() => Ops.layer({ page: { token: Redacted.make("short") } }), /16 characters/)
  })

  it("cannot have a token that no header can carry", () => {
    for (const wrong of [`${token}\n`, `${token} and more`, `${token}é`]) {
      assert.throws(
        () => Ops.layer({ page: { token: Redacted.make(wrong) } }),
        /page.token must be .*without spaces/
      )
    }
  })
})
