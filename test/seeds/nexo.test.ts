/** Promises of nexo-rs that no other test shows. */
import { join } from "node:path"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Fiber, Layer, Metric, Option, Queue, Scope, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, Presets } from "@outlast/agent"
import { Inbound } from "@outlast/agent/guard"
import { BusError, DeliveryStore, MemoryBus, Outbox } from "@outlast/delivery"
import { Host } from "@outlast/node/host"
import { StdioRpc, Supervised } from "@outlast/node/process"
import { Ops } from "@outlast/node/ops"
import { SqliteClient } from "@outlast/node/sqlite"
import { CircuitBreaker, Metrics, ResilienceEvents } from "@outlast/resilience"
import { Anthropic, Google, OpenAi, OpenAiCompatible, Registry } from "@outlast/providers"
import { until } from "../tasks/Time.ts"
import {
  always,
  ask,
  drawing,
  failureOf,
  inTime,
  key,
  model,
  recorded,
  status,
  temporaryFolder,
  timed,
  timesOf,
  waitsOf
} from "./support.ts"

const { circuits } = Presets.nexo

describe("circuits", () => {
  it.effect("003-cb-initial: open for 10 s at first, and again for 10 s behind every closing", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make(circuits)
      const fail = Effect.exit(breaker.execute("x")(Effect.fail("no")))
      const succeed = breaker.execute("x")(Effect.void)
      const openFor = Effect.map(breaker.state("x"), ({ retryAfter }) => retryAfter)
      const opened = Effect.gen(function* () {
        for (let n = 0; n < 5; n++) yield* fail
        return yield* openFor
      })
      const first = yield* opened
      yield* TestClock.adjust("10 seconds")
      yield* Effect.repeat(succeed, { times: 1 })
      assert.strictEqual((yield* breaker.state("x")).phase, "closed")
      // At once, so that a circuit that counts flapping would stay open for 20 s.
      assert.deepStrictEqual(yield* opened, first)
      assert.strictEqual(String(first), String(yield* openFor))
    }).pipe(Effect.scoped)
  )

  it.effect(
    "003-sig-allow, 003-sig-success, 003-sig-failure: have allow, success and failure as functions",
    () =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.make(circuits)
        const scope = yield* Scope.make()
        const allow = Scope.provide(breaker.acquire("x"), scope)
        assert.isTrue(yield* breaker.available("x"))
        for (let n = 0; n < 5; n++) yield* Effect.flatMap(allow, (permit) => permit.fail())
        assert.isFalse(yield* breaker.available("x"))
        assert.strictEqual((yield* Effect.flip(allow))._tag, "CircuitRefused")
        yield* TestClock.adjust("10 seconds")
        for (let n = 0; n < 2; n++) yield* Effect.flatMap(allow, (permit) => permit.succeed)
        assert.strictEqual((yield* breaker.state("x")).phase, "closed")
        yield* Scope.close(scope, Exit.void)
      }).pipe(Effect.scoped)
  )

  it.effect(
    "003-wrap-cdp, 003-retry-cdp: guard the commands of a browser session, which are not retried",
    () =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.make(circuits)
        let commands = 0
        // A dead browser: its commands never answer, and each has a time limit.
        const dead = Effect.andThen(
          Effect.sync(() => commands++),
          Effect.timeout(Effect.never, "1 second")
        )
        const inSession = (name: string) => breaker.execute(`cdp:${name}`)
        const took = yield* inTime(
          Effect.gen(function* () {
            for (let n = 0; n < 5; n++) yield* Effect.exit(inSession("a")(dead))
            // The loop of the agent goes on: refused at once, and other sessions are not affected.
            const { took } = yield* timed(Effect.exit(inSession("a")(dead)))
            assert.strictEqual(yield* inSession("b")(Effect.succeed("page")), "page")
            return took
          })
        )
        assert.deepStrictEqual([took, commands], [0, 5])
      }).pipe(Effect.scoped)
  )

  it.effect("003-every-call: cover every call of a chain, whatever it asks for", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1", [always(status(500))])
      const calls = [ask, LanguageModel.generateText({ prompt: "another" })]
      yield* inTime(
        Effect.gen(function* () {
          for (const call of calls) yield* Effect.exit(call)
          const { value, took } = yield* timed(failureOf(ask))
          assert.deepStrictEqual([value._tag, took], ["AllTargetsOut", 0])
        }).pipe(Effect.provide(Presets.nexo.layer([target])))
      )
      assert.lengthOf(yield* timesOf(target), 5)
    })
  )
})

describe("retries", () => {
  it.effect("003-retry-jitter: twenty calls that fail together are retried at twenty times", () =>
    Effect.gen(function* () {
      for (const code of [429, 500]) {
        const target = yield* model("anthropic", "m1", [{ times: 20, fault: status(code) }])
        const own = { ...Presets.nexo.policy, circuits: false } as const
        const calls = Effect.all(
          Array.from({ length: 20 }, () => ask),
          { concurrency: "unbounded" }
        )
        yield* inTime(Effect.provide(calls, Failover.layer([target], { policy: own })))
        const times = yield* timesOf(target)
        assert.deepStrictEqual([new Set(times.slice(0, 20)).size, new Set(times.slice(20)).size], [1, 20])
      }
    })
  )

  it.effect("003-retry-jitter, 003-retry-429, 003-retry-5xx: wait from 1 s to 60 s, or to 30 s", () =>
    Effect.gen(function* () {
      const { policy } = Presets.nexo
      /** The waits with this draw, for as many attempts as it takes to reach the longest one. */
      const waits = (code: number, draw: number) =>
        Effect.gen(function* () {
          const { rate_limit, server_error } = policy.rows
          const rows = {
            ...policy.rows,
            rate_limit: { ...rate_limit, attempts: 8 },
            server_error: { ...server_error, attempts: 8 }
          }
          const target = yield* model("anthropic", "m1", [always(status(code))])
          const layer = Failover.layer([target], { policy: { ...policy, rows, circuits: false } })
          yield* inTime(Effect.exit(Effect.provide(ask, layer))).pipe(drawing(draw))
          return yield* waitsOf(target)
        })
      const shortest = Array.from({ length: 7 }, () => 1_000)
      assert.deepStrictEqual([yield* waits(429, 0), yield* waits(500, 0)], [shortest, shortest])
      const growing = [2_000, 4_000, 8_000, 16_000]
      assert.deepStrictEqual(yield* waits(429, 1), [...growing, 32_000, 60_000, 60_000])
      assert.deepStrictEqual(yield* waits(500, 1), [...growing, 30_000, 30_000, 30_000])
    })
  )
})

it("003-wrap-llm-four: MiniMax, Anthropic, OpenAI-compatible and Gemini models can be targets", () => {
  const minimax = OpenAiCompatible.model({
    name: "minimax",
    model: "MiniMax-M2",
    baseUrl: "https://api.minimax.io/v1",
    keys: ["MINIMAX_API_KEY"]
  })
  const chain = [
    minimax,
    Anthropic.model("claude-sonnet-4-5"),
    OpenAi.model("gpt-5.1"),
    Google.model("gemini-2.5-pro")
  ] as const
  assert.deepStrictEqual(
    chain.map(({ provider }) => provider),
    ["minimax", "anthropic", "openai", "google"]
  )
  assert.isObject(Failover.layer(chain))
  assert.isAtLeast(Registry.providers.length, 4)
  assert.isObject(key("X"))
})

describe("plain data for the host and for delivery", () => {
  it("003-drop-shed, 003-lock-wait: names the ports, the lock and the outbox of the document", () => {
    const { instance, ports, outbox } = Presets.nexo
    assert.deepStrictEqual(ports, { health: 8080, metrics: 9090 })
    assert.strictEqual(instance.path, "data/agent.lock")
    assert.deepStrictEqual(instance.options.whenHeld.takeOver.grace, Duration.seconds(5))
    assert.deepInclude(outbox, { rejections: 3, whenFull: "shedOldest" })
  })
})

it.effect("003-op-metrics-inbound: a metric counts inbound events, those that were dropped apart", () =>
  Effect.gen(function* () {
    const inbound = yield* Inbound.make
    const count = (outcome: string) =>
      Effect.map(Metric.value(Metric.withAttributes(Inbound.messages, { outcome })), ({ count }) =>
        Number(count)
      )
    const before = [yield* count("accepted"), yield* count("dropped")] as const
    for (const text of ["hello", " ", "", "bye"]) yield* inbound.accept({ text })
    assert.deepStrictEqual(
      [(yield* count("accepted")) - before[0], (yield* count("dropped")) - before[1]],
      [2, 2]
    )
  })
)

describe("a graceful shutdown", () => {
  it.effect(
    "003-shut-order, 003-shut-intake: stops the intake, then lets the runtimes end with what they have, then flushes",
    () =>
      Effect.gen(function* () {
        const order: Array<string> = []
        const log = (line: string) => Effect.sync(() => void order.push(line))
        const mailbox = yield* Queue.unbounded<string>()
        let isOpen = true
        const accept = (message: string) =>
          Effect.suspend(() =>
            isOpen ? Queue.offer(mailbox, message) : log(`refused ${message}`).pipe(Effect.as(false))
          )
        const drain = Effect.gen(function* () {
          // A message that arrives late finds the intake closed, and the runtime does not wait for it.
          yield* accept("late")
          for (const message of yield* Queue.takeAll(mailbox)) {
            yield* Effect.sleep("500 millis")
            yield* Outbox.publish({ subject: "answers", body: new TextEncoder().encode(message) })
            yield* log(`answered ${message}`)
          }
        })
        // Registered in another order than they run.
        yield* Host.onShutdown("processes", { name: "extensions", run: log("extensions ended") })
        yield* Host.onShutdown("outbox", { name: "flush", run: log("flushed") })
        yield* Host.onShutdown("runs", { name: "agents", run: drain })
        yield* Host.onShutdown("intake", {
          name: "plugins",
          run: Effect.andThen(
            Effect.sync(() => void (isOpen = false)),
            log("intake stopped")
          )
        })
        yield* accept("one")
        yield* accept("two")
        const shutdown = yield* Effect.forkChild(Host.shutdown("SIGTERM"), { startImmediately: true })
        // Load balancers still send while the host is not ready any more.
        yield* accept("three")
        yield* TestClock.adjust("30 seconds")
        yield* Fiber.join(shutdown)
        assert.deepStrictEqual(order, [
          "intake stopped",
          "refused late",
          "answered one",
          "answered two",
          "answered three",
          "flushed",
          "extensions ended"
        ])
        const { stored } = yield* MemoryBus.MemoryBus
        assert.lengthOf(yield* stored, 3)
      }).pipe(
        Effect.provide([
          Host.layer(),
          Outbox.layer(Presets.nexo.outbox).pipe(
            Layer.provideMerge([MemoryBus.layer(), DeliveryStore.layerMemory()])
          )
        ])
      )
  )
})

describe("grace windows of a shutdown", () => {
  const grace = Host.layer({ wait: 0, ...Presets.nexo.shutdown })
  const isRunning = Effect.map(Host.status, (status) => status === "running")

  it.effect("003-shut-grace: a background loop ends its sweep within 5 s, and leaves no partial state", () =>
    Effect.gen(function* () {
      const state: Array<string> = []
      const log = (line: string) => Effect.sync(() => void state.push(line))
      const sweep = Effect.andThen(log("half"), Effect.andThen(Effect.sleep("4 seconds"), log("whole")))
      yield* Effect.repeat(sweep, { while: () => isRunning }).pipe(
        Host.run("loops", { name: "dream sweep", drain: "5 seconds" }),
        Effect.forkChild
      )
      yield* TestClock.adjust("5 seconds")
      const ending = yield* Effect.forkChild(Host.shutdown("SIGTERM"))
      yield* TestClock.adjust("5 seconds")
      const { ends } = yield* Fiber.join(ending)
      assert.deepStrictEqual(ends, [{ phase: "loops", name: "dream sweep", result: "done", took: 3_000 }])
      assert.deepStrictEqual(state, ["half", "whole", "half", "whole"])
    }).pipe(Effect.provide(grace))
  )

  /** Answers its last request when it is told to. */
  const server = `let id
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const message = JSON.parse(line)
      if (message.method !== "notifications/go") id = message.id
      else console.log(JSON.stringify({ jsonrpc: "2.0", id, result: "written" }))
    })`

  it.effect("003-shut-grace: an MCP session ends behind the call that it works on", () =>
    Effect.gen(function* () {
      const files = yield* Supervised.make({
        name: "files",
        command: process.execPath,
        args: ["-e", server],
        handshake: (io) => StdioRpc.make(io, Presets.nexo.processes.call),
        ...Presets.nexo.processes.options
      })
      yield* Host.onShutdown("processes", { name: "files", run: files.stop })
      const rpc = yield* files.use(Effect.succeed)
      const call = yield* rpc
        .request("tools/call", { name: "write" })
        .pipe(
          Host.run("loops", { name: "session", drain: "5 seconds" }),
          Effect.forkChild({ startImmediately: true })
        )
      const ending = yield* Effect.forkChild(Host.shutdown("SIGTERM"))
      yield* TestClock.adjust("4 seconds")
      assert.strictEqual((yield* files.status).state, "running")
      yield* rpc.notify("notifications/go")
      assert.strictEqual(yield* Fiber.join(call), "written")
      const { ends, isComplete } = yield* Fiber.join(ending)
      assert.deepStrictEqual(
        ends.map(({ name, phase }) => [name, phase]),
        [
          ["session", "loops"],
          ["files", "processes"]
        ]
      )
      assert.isTrue(isComplete)
      assert.strictEqual((yield* files.status).state, "stopped")
    }).pipe(Effect.scoped, Effect.provide([grace, NodeServices.layer]))
  )

  it.effect("003-shut-grace: whatever has not ended after 5 s is left behind", () =>
    Effect.gen(function* () {
      yield* Host.onShutdown("loops", { name: "stuck loop", run: Effect.never })
      yield* Host.onShutdown("processes", { name: "stuck session", run: Effect.never })
      const ending = yield* Effect.forkChild(Host.shutdown("SIGTERM"))
      yield* TestClock.adjust("5 seconds")
      yield* TestClock.adjust("5 seconds")
      const { ends } = yield* Fiber.join(ending)
      assert.deepStrictEqual(
        ends.map(({ name, result, took }) => [name, result, took]),
        [
          ["stuck loop", "blocked", 5_000],
          ["stuck session", "blocked", 5_000]
        ]
      )
    }).pipe(Effect.provide(grace))
  )

  it.effect(
    "003-shut-drain: an agent answers what is in its mailbox before it ends, and takes nothing new",
    () =>
      Effect.gen(function* () {
        const target = yield* model("anthropic", "m1", [{ times: 1, fault: status(500) }])
        const mailbox = yield* Queue.unbounded<string, Cause.Done>()
        const answered: Array<string> = []
        const answer = (prompt: string) =>
          Effect.gen(function* () {
            const { text } = yield* Presets.nexo.agent({ prompt })
            yield* Effect.sleep("1 second")
            answered.push(`${prompt}: ${text}`)
          }).pipe(Effect.provide(Presets.nexo.layer([target])))
        yield* Stream.fromQueue(mailbox).pipe(
          Stream.runForEach(answer),
          Host.run("runs", { name: "agent", drain: "10 seconds" }),
          Effect.forkChild
        )
        yield* Host.onShutdown("intake", { name: "plugins", run: Queue.end(mailbox) })
        yield* Queue.offerAll(mailbox, ["one", "two", "three"])
        yield* TestClock.adjust(0)
        const ending = yield* Effect.forkChild(Host.shutdown("SIGTERM"))
        yield* TestClock.adjust(0)
        assert.isFalse(yield* Queue.offer(mailbox, "late"))
        yield* TestClock.adjust("10 seconds")
        const { isComplete } = yield* Fiber.join(ending)
        assert.isTrue(isComplete)
        assert.deepStrictEqual(answered, ["one: hello", "two: hello", "three: hello"])
      }).pipe(Effect.provide(grace))
  )
})

describe("an operator", () => {
  it.effect("003-op-inbound: pays for no call about an event with neither text nor media", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1")
      const inbound = yield* Inbound.make
      const events = [
        { kind: "message", text: "hello" },
        { kind: "receipt", text: undefined },
        { kind: "typing", text: "" },
        { kind: "reaction", text: null, media: [] },
        { kind: "photo", text: "", media: ["photo.jpg"] }
      ]
      yield* Stream.fromIterable(events).pipe(
        Stream.filterEffect(inbound.accept),
        Stream.runForEach(({ kind }) => LanguageModel.generateText({ prompt: kind })),
        Effect.provide(Presets.nexo.layer([target]))
      )
      const prompts = (yield* target.requests).map(({ prompt }) => JSON.stringify(prompt.content))
      assert.lengthOf(prompts, 2)
      assert.include(prompts[0], "message")
      assert.include(prompts[1], "photo")
      assert.deepStrictEqual(yield* inbound.counts, { accepted: 2, dropped: 3 })
    })
  )

  it.effect("003-op-metrics-circuit: reads the state of the circuits at /metrics", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make(circuits)
      const chain = [
        yield* model("anthropic", "m1", [{ times: 5, fault: status(500) }]),
        yield* model("openai", "m2")
      ] as const
      const port = { port: 0 } as const
      const states = Effect.gen(function* () {
        const { metrics } = yield* Ops.Ops
        const url = `http://127.0.0.1:${metrics}/metrics`
        const text = yield* Effect.promise(async (signal) => (await fetch(url, { signal })).text())
        return text.split("\n").filter((line) => line.startsWith("outlast_circuit_state{"))
      })
      /** A call that ends within five seconds. */
      const call = Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(ask)
        yield* TestClock.adjust("5 seconds")
        yield* Fiber.join(fiber)
      })
      yield* Effect.gen(function* () {
        // Three failures of one call and two of the next.
        yield* call
        assert.deepStrictEqual(yield* states, [])
        yield* call
        const open = 'outlast_circuit_state{circuit="anthropic"} 2'
        assert.deepStrictEqual(yield* states, [open])
        yield* breaker.trip("openai", "1 day")
        yield* TestClock.adjust("10 seconds")
        const other = 'outlast_circuit_state{circuit="openai"} 2'
        assert.deepStrictEqual(yield* states, [open, other])
        yield* call
        assert.deepStrictEqual(yield* states, ['outlast_circuit_state{circuit="anthropic"} 1', other])
        yield* call
        assert.deepStrictEqual(yield* states, ['outlast_circuit_state{circuit="anthropic"} 0', other])
      }).pipe(
        Effect.provide(
          Presets.nexo
            .layer(chain, { breaker })
            .pipe(
              Layer.provideMerge(Ops.layer({ probes: false, metrics: port, page: false })),
              Layer.provideMerge(Host.layer({ wait: 0 })),
              Layer.provideMerge(Metrics.layer()),
              Layer.provideMerge(ResilienceEvents.layer())
            )
        )
      )
    }).pipe(Effect.scoped, Effect.provideService(Metric.MetricRegistry, new Map()))
  )
})

describe("no message drop", () => {
  it.effect(
    "003-wrap-nats: one circuit over the broker opens at five failures, and the queue on disk takes all further events",
    () =>
      Effect.gen(function* () {
        const folder = yield* temporaryFolder
        const disk = DeliveryStore.layerSql().pipe(
          Layer.provide(SqliteClient.layer({ filename: join(folder, "outbox.db") }))
        )
        const { layer, of } = recorded()
        yield* Effect.gen(function* () {
          const { answer, stored } = yield* MemoryBus.MemoryBus
          let asked = 0
          const unavailable = new BusError({ reason: "unavailable", detail: "It is down." })
          yield* answer(() => {
            asked++
            return { error: unavailable }
          })
          const { status } = yield* Outbox.Outbox
          const publish = (n: number) =>
            Outbox.publish({ subject: `subject-${n}`, body: new Uint8Array(8), id: String(n) })
          for (let n = 0; n < 4; n++) yield* publish(n)
          assert.strictEqual((yield* status).circuit, "closed")
          for (let n = 4; n < 10; n++) yield* publish(n)
          assert.strictEqual((yield* status).circuit, "open")
          const before = asked
          const receipts = yield* Effect.forEach([...Array(20).keys()], (n) => publish(10 + n))
          // Whatever their subjects, they do not ask the broker.
          assert.strictEqual(asked, before)
          assert.deepStrictEqual([...new Set(receipts.map(({ safe }) => safe))], ["store"])
          assert.strictEqual((yield* status).backlog, 30)
          yield* answer(() => undefined)
          yield* until(Effect.map(status, ({ backlog }) => backlog === 0))
          assert.lengthOf(yield* stored, 30)
          assert.strictEqual((yield* status).circuit, "closed")
        }).pipe(
          Effect.provide(
            Outbox.layer(Presets.nexo.outbox).pipe(Layer.provideMerge([MemoryBus.layer(), disk]))
          ),
          Effect.provide(layer)
        )
        assert.deepStrictEqual(
          of("CircuitTransition").map(({ circuit, from, to }) => [circuit, from, to]),
          [
            ["broker", "closed", "open"],
            ["broker", "open", "half-open"],
            ["broker", "half-open", "closed"]
          ]
        )
      }).pipe(Effect.scoped)
  )

  it.effect(
    "003-drop-nocrash: a producer gets a typed error while the broker is down and the store full, and goes on",
    () =>
      Effect.gen(function* () {
        const { set, stored } = yield* MemoryBus.MemoryBus
        const publish = (n: number) =>
          Outbox.publish({ subject: `s${n % 3}`, body: new Uint8Array(8), id: String(n) })
        yield* set("down")
        const exits = yield* Effect.forEach(
          Array.from({ length: 200 }, (_, n) => n),
          (n) => Effect.exit(publish(n)),
          { concurrency: 20 }
        )
        yield* TestClock.adjust("10 seconds")
        const errors = exits.flatMap((exit) =>
          Exit.isFailure(exit) ? [Option.getOrUndefined(Cause.findErrorOption(exit.cause))?._tag] : []
        )
        assert.deepStrictEqual([...new Set(errors)], ["OutboxFull"])
        assert.strictEqual(exits.length - errors.length, 50)
        yield* set("up")
        yield* TestClock.adjust("5 minutes")
        yield* publish(1_000)
        yield* TestClock.adjust("1 minute")
        assert.lengthOf(yield* stored, 51)
      }).pipe(
        Effect.provide(
          Outbox.layer({ cap: { events: 50 }, waitForRoom: 0 }).pipe(
            Layer.provideMerge([MemoryBus.layer(), DeliveryStore.layerMemory()])
          )
        )
      )
  )
})

it("the endpoints of a host listen on the ports of the document", () => {
  const { probes, metrics } = Ops.defaults
  assert.deepStrictEqual({ health: probes.port, metrics: metrics.port }, { health: 8_080, metrics: 9_090 })
  assert.deepStrictEqual(Presets.nexo.ports, { health: probes.port, metrics: metrics.port })
})
