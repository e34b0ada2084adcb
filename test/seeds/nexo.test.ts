/** Promises of nexo-rs that no other test shows. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Fiber, Layer, Metric, Option, Queue, Scope } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, Presets } from "@outlast/agent"
import { Inbound } from "@outlast/agent/guard"
import { DeliveryStore, MemoryBus, Outbox } from "@outlast/delivery"
import { Host } from "@outlast/node/host"
import { Ops } from "@outlast/node/ops"
import { CircuitBreaker } from "@outlast/resilience"
import { Anthropic, Google, OpenAi, OpenAiCompatible, Registry } from "@outlast/providers"
import { always, ask, failureOf, inTime, key, model, status, timed, timesOf } from "./support.ts"

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

describe("no message drop", () => {
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
