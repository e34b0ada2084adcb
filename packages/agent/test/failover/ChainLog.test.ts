import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Logger, References } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, FailoverReason, KeySource, ProviderFailure } from "@outlast/agent"
import { ChainLog } from "#agent/failover/chain/ChainLog"
import { ResilienceEvents, Warnings } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import { inTime, key, policy, rateLimited, status } from "../support.ts"

const model = (
  name: string,
  faults: ReadonlyArray<FaultPlan.Step>,
  options: Partial<ScriptedModel.Options> = {}
) =>
  ScriptedModel.make({
    provider: "anthropic",
    model: name,
    keys: [key(`KEY_${name}`)],
    plan: { answers: [{ text: "hello" }], faults },
    ...options
  })

const always = (fault: FaultPlan.Fault): ReadonlyArray<FaultPlan.Step> => [{ times: "always", fault }]

const ask = LanguageModel.generateText({ prompt: "a very private question" })

/** Collects the log lines of a test's program. */
const logged = () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => lines.push(`${logLevel}: ${String(message)}`))
  return { lines, layer: Logger.layer([logger]) }
}

describe("lines in the log without any layer", () => {
  for (const keys of [["KEY_A"], ["KEY_A", "KEY_B"]]) {
    it.effect(`64 concurrent calls that meet the same dead key write one line (keys: ${keys.length})`, () =>
      Effect.gen(function* () {
        const log = logged()
        const first = yield* model(
          "m1",
          [{ when: { key: "secret-of-KEY_A" }, times: "always", fault: status(401) }],
          {
            keys: keys.map(key)
          }
        )
        const chain = [first, yield* model("m2", [])] as const
        yield* inTime(
          Effect.all(
            Array.from({ length: 64 }, () => ask),
            { concurrency: "unbounded" }
          ).pipe(Effect.provide(Failover.layer(chain, { policy })), Effect.provide(log.layer))
        )
        assert.lengthOf(log.lines, 1)
        const next = keys.length === 1 ? "anthropic/m2#KEY_m2" : "anthropic/m1#KEY_B"
        assert.strictEqual(
          log.lines[0],
          `Error: anthropic/m1#KEY_A: the key was refused (HTTP 401). Set KEY_A to a valid key, or add another key. The call goes on at ${next}.`
        )
      })
    )
  }

  it.effect("a model without a price writes one line under a limit of cost", () =>
    Effect.gen(function* () {
      const log = logged()
      const price = { input: 1, output: 1 }
      const built = (maxCost: number | undefined) =>
        Effect.gen(function* () {
          const keys = ["KEY_A", "KEY_B"].map(key)
          const chain = [
            yield* model("m1", [], { keys }),
            yield* model("m2", [], { info: { price } })
          ] as const
          return yield* ask.pipe(Effect.provide(Failover.layer(chain, { policy: { ...policy, maxCost } })))
        }).pipe(Effect.provide(log.layer))
      yield* built(undefined)
      assert.deepStrictEqual(log.lines, [])
      yield* TestClock.adjust("1 hour")
      yield* built(1)
      assert.deepStrictEqual(log.lines, [
        "Warn: The price of m1 is not known: its attempts count as 0 for maxCost. Set it with the option info."
      ])
    })
  )

  it.effect("a switch to the fallback writes one line, and the return of the first model another", () =>
    Effect.gen(function* () {
      const log = logged()
      const first = yield* model("m1", [{ times: 1, fault: rateLimited(600) }])
      const chain = [first, yield* model("m2", [])] as const
      yield* inTime(
        Effect.gen(function* () {
          for (let call = 0; call < 20; call++) yield* ask
          yield* Effect.sleep("11 minutes")
          for (let call = 0; call < 20; call++) yield* ask
        }).pipe(
          Effect.provide(Failover.layer(chain, { policy: { ...policy, probe: false } })),
          Effect.provide(log.layer)
        )
      )
      assert.deepStrictEqual(log.lines, [
        "Warn: Switched from anthropic/m1#KEY_m1 to anthropic/m2#KEY_m2. anthropic/m1#KEY_m1: rate limited (HTTP 429). Wait, or add another key or target to the chain.",
        "Warn: Switched from anthropic/m2#KEY_m2 back to anthropic/m1#KEY_m1, which answers again."
      ])
    })
  )

  it.effect("calls with the same failure write one line, and the next line counts them", () =>
    Effect.gen(function* () {
      const log = logged()
      const refusal: FaultPlan.Fault = {
        type: "status",
        status: 400,
        body: { error: { type: "invalid_request_error", message: "temperature: out of range" } }
      }
      const target = yield* model("m1", [
        { times: 5, fault: refusal },
        { fault: { type: "slow", delay: 1 } },
        { times: 2, fault: refusal },
        { fault: status(401) }
      ])
      yield* inTime(
        Effect.gen(function* () {
          for (let call = 0; call < 9; call++) yield* Effect.exit(ask)
        }).pipe(Effect.provide(Failover.layer([target], { policy })), Effect.provide(log.layer))
      )
      assert.lengthOf(log.lines, 3)
      assert.match(log.lines[0] ?? "", /^Warn: A call failed\. anthropic\/m1#KEY_m1: .* \(HTTP 400\)\./)
      assert.notInclude(log.lines[0], "Since the last")
      assert.match(log.lines[1] ?? "", /Since the last such line 4 more calls failed\.$/)
      assert.match(log.lines[2] ?? "", /refused.* Since the last such line 1 more call failed\.$/)
    })
  )

  it.effect("an unset second key writes one line, however often the chain is built", () =>
    Effect.gen(function* () {
      const log = logged()
      const target = yield* model("m1", [], { keys: [key("KEY_A"), KeySource.env("KEY_B")] })
      for (let build = 0; build < 2; build++) {
        yield* ask.pipe(Effect.provide(Failover.layer([target], { policy })), Effect.provide(log.layer))
      }
      assert.deepStrictEqual(log.lines, [
        "Warn: anthropic/m1#KEY_B: the key is not set. Set KEY_B to a valid key, or add another key. The chain works without this target."
      ])
    }).pipe(Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown({})))
  )

  const switching = Effect.gen(function* () {
    const chain = [yield* model("m1", always(status(401))), yield* model("m2", [])] as const
    return Failover.layer(chain, { policy })
  })

  it.effect("the lines also appear where events are published", () =>
    Effect.gen(function* () {
      const log = logged()
      const chain = yield* switching
      yield* ask.pipe(Effect.provide(chain), Effect.provide([ResilienceEvents.layer(), log.layer]))
      assert.lengthOf(log.lines, 1)
    })
  )

  it.effect("Warnings.layerOff and the program's minimum level silence them", () =>
    Effect.gen(function* () {
      const log = logged()
      const chain = yield* switching
      yield* ask.pipe(Effect.provide(chain), Effect.provide([Warnings.layerOff, log.layer]))
      yield* ask.pipe(
        Effect.provide(chain),
        Effect.provide(log.layer),
        Effect.provideService(References.MinimumLogLevel, "None")
      )
      assert.deepStrictEqual(log.lines, [])
    })
  )

  it.effect("no line has a key, a prompt or a provider's sentence, and each line is a single line", () =>
    Effect.gen(function* () {
      const log = logged()
      const quoting: FaultPlan.Fault = {
        type: "status",
        status: 401,
        body: { error: { message: "invalid key secret-of-KEY_m1 for\n'a very private question'" } }
      }
      const target = yield* model("m1", always(quoting))
      yield* Effect.exit(ask).pipe(
        Effect.provide(Failover.layer([target], { policy })),
        Effect.provide(log.layer)
      )
      assert.lengthOf(log.lines, 1)
      for (const hidden of ["secret-of", "private", "invalid key", "\n"])
        assert.notInclude(log.lines[0], hidden)
    })
  )

  it("a target that answered and is refused again gets another line", () => {
    const target = { id: "a/m#K", provider: "a", model: "m", endpoint: "", key: "K" }
    const refused = ProviderFailure.local("test", new FailoverReason.Auth({ permanent: true }), target)
    const log = new ChainLog()
    assert.isDefined(log.refused(refused, undefined))
    assert.isUndefined(log.refused(refused, undefined))
    log.answered("a/other#K")
    assert.isUndefined(log.refused(refused, undefined))
    log.answered("a/m#K")
    assert.isDefined(log.refused(refused, undefined))
  })

  it("the line about an open circuit omits the provider's earlier message", () => {
    const target = { id: "a/m#K", provider: "a", model: "m", endpoint: "https://a", key: "K" }
    const failure = new ProviderFailure.ProviderFailure({
      reason: new FailoverReason.ServerError(),
      evidence: { rule: "test", signal: "status", depth: 0, status: 500 },
      detail: "the shard of customer 17 is down"
    }).refusedBy({ circuit: "https://a", reason: "open", lastFailure: "HTTP 500" }, target)
    assert.strictEqual(
      new ChainLog().gaveUp(failure)?.text,
      "A call failed. a/m#K: circuit `https://a` is open (last failure: HTTP 500). Add another target, or wait."
    )
  })
})

describe("a chain that is built again and again", () => {
  it.effect("writes one warning at its third build within a minute", () =>
    Effect.gen(function* () {
      const log = logged()
      const target = yield* model("m1", [])
      const perCall = ask.pipe(Effect.provide(Failover.layer([target], { policy })))
      yield* Effect.gen(function* () {
        yield* perCall
        yield* perCall
        assert.deepStrictEqual(log.lines, [])
        for (let call = 0; call < 18; call++) yield* perCall
      }).pipe(Effect.provide([Warnings.layerOff, log.layer]))
      assert.lengthOf(log.lines, 1)
      assert.match(log.lines[0] ?? "", /^Warn: The chain anthropic\/m1#KEY_m1 was built 3 times/)
      assert.include(log.lines[0], "ManagedRuntime.make(layer)")
    })
  )

  it.effect("writes no line when the builds are further apart, or of other chains", () =>
    Effect.gen(function* () {
      const log = logged()
      yield* Effect.gen(function* () {
        for (let build = 0; build < 6; build++) {
          const chain = [yield* model(`m${build % 3}`, [])] as const
          yield* ask.pipe(Effect.provide(Failover.layer(chain, { policy })))
          yield* TestClock.adjust("20 seconds")
        }
      }).pipe(Effect.provide(log.layer))
      assert.deepStrictEqual(log.lines, [])
    })
  )

  it.effect("a chain of one runtime is built once: the dead key is asked once in 20 calls", () =>
    Effect.gen(function* () {
      const first = yield* model("m1", always(status(401)))
      const chain = [first, yield* model("m2", [])] as const
      const calls = Effect.gen(function* () {
        for (let call = 0; call < 20; call++) yield* ask
      })
      yield* inTime(calls.pipe(Effect.provide(Failover.layer(chain, { policy }))))
      assert.lengthOf(yield* first.requests, 1)
    })
  )
})
