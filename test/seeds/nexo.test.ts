/** Promises of nexo-rs that no other test shows. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Metric, Scope } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, Presets } from "@outlast/agent"
import { Inbound } from "@outlast/agent/guard"
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
