/** Promises of DECISION_037 that no other test shows. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Metric, Result, Schema } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import type { FailoverReason } from "@outlast/agent"
import { Classifier, Failover, FailoverMetrics, Presets, RecoveryPolicy, Targets } from "@outlast/agent"
import { Vocabulary } from "@outlast/agent/presets"
import * as Resilience from "@outlast/resilience"
import { Backoff, CircuitBreaker, ConnectionMonitor } from "@outlast/resilience"
import {
  always,
  ask,
  classified,
  drawing,
  failureOf,
  inTime,
  logged,
  model,
  recorded,
  reset,
  status,
  timesOf,
  waitsOf
} from "./support.ts"

const { decision037 } = Presets
const { defaults, policy } = decision037
type Class = Vocabulary.Decision037Class

// -----------------------------------------------------------------------------
// Classification
// -----------------------------------------------------------------------------

const texts: { readonly [C in Class]?: ReadonlyArray<string> } = {
  NetworkTransient: [
    "connect ECONNREFUSED 10.0.0.1:443",
    "read ECONNRESET",
    "ECONNABORTED",
    "getaddrinfo ENOTFOUND api.example.com",
    "getaddrinfo EAI_AGAIN api.example.com",
    "connect ETIMEDOUT 10.0.0.1:443",
    "write EPIPE",
    "connect EHOSTUNREACH 10.0.0.1",
    "connect ENETUNREACH 10.0.0.1",
    "connect ENETDOWN",
    "timeout of 30000ms exceeded",
    "The request timed out",
    "unable to connect",
    "network error",
    "connection error",
    "connection refused",
    "connection reset by peer",
    "connection closed",
    "connection timed out",
    "socket hang up",
    "fetch failed",
    "HTTP 502",
    "HTTP 503",
    "HTTP 504",
    "service unavailable",
    "gateway timeout",
    "bad gateway",
    "overloaded_error: Overloaded"
  ],
  NetworkPermanent: [
    "certificate has expired",
    "self-signed certificate",
    "unable to verify the first certificate",
    "DEPTH_ZERO_SELF_SIGNED_CERT",
    "UNABLE_TO_GET_ISSUER_CERT",
    "ERR_TLS_CERT_ALTNAME_INVALID",
    "CERT_HAS_EXPIRED"
  ],
  ProviderRateLimit: [
    "rate limit exceeded",
    "HTTP 429",
    "too many requests",
    "quota exceeded",
    "You exceeded your current quota",
    "RESOURCE_EXHAUSTED",
    "This request requires more credits",
    "insufficient_quota",
    "Limit of requests per minute reached",
    "Limit of tokens per minute reached"
  ],
  ProviderError: [
    "HTTP 401",
    "401 Unauthorized",
    "HTTP 403",
    "403 Forbidden",
    "PERMISSION_DENIED",
    "invalid API key",
    "API key not valid",
    "authentication failed",
    "model not found",
    "unknown model",
    "The model is not available",
    "HTTP 404",
    "HTTP 400",
    "400 Bad Request",
    "HTTP 500",
    "internal server error"
  ],
  ContextLength: [
    "context length exceeded",
    "maximum context length is 8192 tokens",
    "too many tokens in the prompt",
    "context window exceeded",
    "prompt is too long: 208310 tokens > 200000 maximum",
    "input is too long for the requested model"
  ],
  LogicError: [
    "Cannot read properties of undefined",
    "the answer is 42",
    "Unexpected token < in JSON at position 0"
  ]
}

describe("the classes", () => {
  const all = Object.entries(texts)

  it("001-P1-50-types: are found in more than 50 kinds of errors", () => {
    const wrong = all.flatMap(([expected, said]) =>
      said.flatMap((text) => {
        const found = Vocabulary.decision037(classified(text).reason)
        return found === expected ? [] : [`${text}: ${found}, not ${expected}`]
      })
    )
    assert.deepStrictEqual(wrong, [])
    assert.isAbove(all.flatMap(([, said]) => said).length, 50)
  })
})

// -----------------------------------------------------------------------------
// Health and circuits
// -----------------------------------------------------------------------------

/** Circuits publish in a fiber of their own. */
const published = Effect.repeat(Effect.sleep("1 second"), { times: 3 })

const settings = (own: Record<string, unknown>) => Schema.decodeUnknownSync(decision037.Settings)(own)

describe("the layer", () => {
  it.effect(
    "001-P2-m-success, 001-P2-m-failure: measures the failure rate and the latency of each endpoint",
    () =>
      Effect.gen(function* () {
        const target = yield* model("a", "m1", [{ times: 1, fault: reset }], {
          endpoint: "https://a.example"
        })
        const seen = yield* inTime(
          Effect.gen(function* () {
            for (let n = 0; n < 3; n++) yield* ask
            return yield* Effect.flatMap(ConnectionMonitor.ConnectionMonitor, ({ status }) =>
              status("https://a.example")
            )
          }).pipe(Effect.provide(decision037.layer([target])))
        )
        assert.deepInclude(seen, { health: "healthy", outcomes: 4, failureRate: 0.25 })
      })
  )

  it.effect(
    "001-P2-preflight, 001-P2-ping, 001-I-healthy: pings every 30 s, and asks no target whose ping fails",
    () =>
      Effect.gen(function* () {
        const target = yield* model("a", "m1", [], { endpoint: "https://a.example" })
        const pings: Array<number> = []
        const ping = () =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            pings.push(now)
            return now < 200_000 ? Effect.fail("down") : Effect.void
          })
        yield* Effect.gen(function* () {
          yield* TestClock.adjust("95 seconds")
          yield* Effect.forkChild(ask)
          yield* TestClock.adjust("10 minutes")
        }).pipe(Effect.provide(decision037.layer([target], { ping })))
        assert.deepStrictEqual(pings.slice(0, 3), [0, 30_000, 60_000])
        const [asked] = yield* timesOf(target)
        assert.isAtLeast(asked ?? 0, 200_000)
      })
  )

  it.effect(
    "001-P2-death-process: finds a process that has exited at the next check, and refuses its calls",
    () =>
      Effect.gen(function* () {
        const { layer, of } = recorded()
        const child = spawn(process.execPath, ["-e", "process.stdin.resume()"], {
          stdio: ["pipe", "ignore", "ignore"]
        })
        yield* Effect.addFinalizer(() => Effect.sync(() => child.kill("SIGKILL")))
        const target = yield* model("a", "m1")
        yield* Effect.gen(function* () {
          const monitor = yield* ConnectionMonitor.ConnectionMonitor
          const call = monitor.guard("session")(Effect.succeed("answer"))
          yield* monitor.register("session", {
            probe: Effect.sync(() =>
              child.exitCode === null && child.signalCode === null ? "alive" : "dead"
            )
          })
          yield* TestClock.adjust("30 seconds")
          assert.strictEqual(yield* call, "answer")
          const exited = once(child, "exit")
          child.kill("SIGKILL")
          yield* Effect.promise(() => exited)
          // Nothing has asked yet.
          assert.deepStrictEqual(of("SessionDied"), [])
          yield* TestClock.adjust("30 seconds")
          assert.deepInclude(of("SessionDied")[0], { connection: "session", reason: "probe", at: 60_000 })
          assert.strictEqual((yield* Effect.flip(call))._tag, "SessionDead")
        }).pipe(Effect.provide(decision037.layer([target])), Effect.provide(layer))
      }).pipe(Effect.scoped)
  )

  /** In steps, because transitions are read in a fiber of their own, which needs its turns. */
  const advance = (seconds: number) =>
    Effect.forEach(Array.from({ length: seconds / 5 }), () => TestClock.adjust("5 seconds"), {
      discard: true
    })

  const probed = (healthProbeEnabled: boolean) =>
    Effect.gen(function* () {
      const faults = [{ times: 5, fault: status(429) }]
      const target = yield* model("a", "m1", faults, { endpoint: "https://a.example" })
      const pings: Array<number> = []
      const ping = () => Effect.map(Clock.currentTimeMillis, (now) => void pings.push(now))
      const own = settings({
        circuitBreaker: { healthProbeEnabled },
        healthCheck: { pingIntervalMs: 86_400_000 }
      })
      const phases = yield* Effect.gen(function* () {
        yield* Effect.forkChild(Effect.exit(ask))
        const circuits = Effect.flatMap(Targets.Targets, ({ list }) =>
          Effect.map(list, ([first]) => first?.circuits.map(({ phase }) => phase) ?? [])
        )
        yield* advance(20)
        const before = yield* circuits
        yield* advance(300)
        return [before, yield* circuits]
      }).pipe(Effect.provide(decision037.layer([target], { ping, settings: own })))
      return { phases, probes: pings.length - 1, asked: (yield* timesOf(target)).length }
    })

  it.effect("001-P2-cb-probe, 001-C-cb-probe: probes an open circuit with the ping when its time is up", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* probed(true), { phases: [["open"], []], probes: 1, asked: 5 })
      const without = yield* probed(false)
      assert.deepStrictEqual([without.probes, without.asked], [0, 5])
      assert.isNotEmpty(without.phases[1])
    })
  )

  it.effect("001-P2-cb-probe: opens the circuit again when the ping fails or never answers", () =>
    Effect.gen(function* () {
      for (const answer of [Effect.fail("down"), Effect.never]) {
        const target = yield* model("a", "m1", [always(status(429))], { endpoint: "https://a.example" })
        let pings = 0
        // The first ping is the monitor's.
        const ping = () =>
          Effect.suspend((): Effect.Effect<unknown, unknown> => (pings++ === 0 ? Effect.void : answer))
        const own = settings({ healthCheck: { pingIntervalMs: 86_400_000 } })
        const phase = yield* Effect.gen(function* () {
          yield* Effect.forkChild(Effect.exit(ask))
          yield* advance(20)
          // Opened at about 15 s, probed five minutes later, for at most ten seconds, and open for five more minutes.
          yield* advance(450)
          const all = yield* Effect.flatMap(Targets.Targets, ({ list }) => list)
          return all[0]?.circuits.map(({ phase }) => phase)
        }).pipe(Effect.provide(decision037.layer([target], { ping, settings: own })))
        assert.deepStrictEqual([phase, pings], [["open"], 2])
      }
    })
  )

  it.effect("001-P3-log, 001-V-class-log: logs each retry with its class and its wait", () =>
    Effect.gen(function* () {
      const run = (own: Record<string, unknown>) =>
        Effect.gen(function* () {
          const log = logged()
          const target = yield* model("a", "m1", [{ times: 2, fault: reset }])
          const layer = decision037.layer([target], {
            settings: settings({ retry: { jitterPercent: 0 }, ...own })
          })
          yield* inTime(ask.pipe(Effect.provide(layer), Effect.provide(log.layer)))
          return log.lines
        })
      assert.deepStrictEqual(yield* run({}), [
        "Warn: attempt 1 at a/m1 failed: NetworkTransient (Network)",
        "Info: retry 1 of a/m1 after NetworkTransient in 1.0s",
        "Warn: attempt 2 at a/m1 failed: NetworkTransient (Network)",
        "Info: retry 2 of a/m1 after NetworkTransient in 2.0s"
      ])
      // `logRetries` off.
      assert.deepStrictEqual(yield* run({ visibility: { logRetries: false } }), [])
    })
  )

  it.effect("001-I-circuit-open: says that the circuit of an endpoint is open", () =>
    Effect.gen(function* () {
      const log = logged()
      const target = yield* model("a", "m1", [always(status(429))], { endpoint: "https://a.example" })
      const failure = yield* inTime(
        Effect.andThen(
          Effect.exit(ask),
          Effect.tap(failureOf(ask), () => published)
        ).pipe(Effect.provide(decision037.layer([target])), Effect.provide(log.layer))
      )
      assert.strictEqual(decision037.messageOf(failure), "Circuit breaker open for https://a.example")
      assert.include(log.lines, "Warn: Circuit breaker open for https://a.example")
      const other = yield* model("a", "m1", [always(status(401))])
      const refused = yield* failureOf(ask).pipe(Effect.provide(decision037.layer([other])))
      assert.strictEqual(decision037.messageOf(refused), refused.message)
    })
  )

  it.effect("001-I-throw: fails with the last error", () =>
    Effect.gen(function* () {
      const target = yield* model("a", "m1", [{ times: 5, fault: status(503) }, always(reset)])
      const failure = yield* inTime(failureOf(ask).pipe(Effect.provide(Failover.layer([target], { policy }))))
      const last = failure._tag === "AllTargetsOut" ? failure.targets[0]?.failure : failure
      assert.strictEqual(last?.reason._tag, "Network")
    })
  )

  it.effect("001-FB-override: keeps a circuit closed where the configuration says so", () =>
    Effect.gen(function* () {
      for (const keepClosed of [[], ["https://a.example"]]) {
        const target = yield* model("a", "m1", [always(status(429))], { endpoint: "https://a.example" })
        const own = settings({ circuitBreaker: { keepClosed } })
        yield* inTime(Effect.exit(ask).pipe(Effect.provide(decision037.layer([target], { settings: own }))))
        assert.lengthOf(yield* timesOf(target), keepClosed.length === 0 ? 5 : 6)
      }
    })
  )

  it.effect("001-FB-override: lets an operator close a circuit by hand", () =>
    Effect.gen(function* () {
      const target = yield* model("a", "m1", [{ times: 5, fault: status(429) }])
      const circuits = yield* inTime(
        Effect.gen(function* () {
          yield* Effect.exit(ask)
          const { reset } = yield* Targets.Targets
          const { circuits } = yield* reset()
          yield* ask
          return circuits
        }).pipe(Effect.provide(decision037.layer([target])))
      )
      assert.lengthOf(circuits, 1)
    })
  )

  it.effect("001-D2-shared, 001-D2-openrouter: separates the circuits of two endpoints of one model", () =>
    Effect.gen(function* () {
      const router = yield* model("openrouter", "claude", [always(status(429))], {
        endpoint: "https://openrouter.ai/api/v1"
      })
      const direct = yield* model("anthropic", "claude", [], { endpoint: "https://api.anthropic.com/v1" })
      const { layer, of } = recorded()
      yield* inTime(
        Effect.gen(function* () {
          yield* ask
          yield* ask
          yield* published
        }).pipe(Effect.provide(decision037.layer([router, direct])), Effect.provide(layer))
      )
      assert.deepStrictEqual(
        of("CircuitTransition").map(({ circuit, to }) => [circuit, to]),
        [["https://openrouter.ai/api/v1", "open"]]
      )
      assert.lengthOf(yield* timesOf(direct), 2)
    })
  )
})

// -----------------------------------------------------------------------------
// Configuration
// -----------------------------------------------------------------------------

const decoded = (configuration: unknown) =>
  Effect.runSync(
    Effect.result(
      Effect.scoped(
        Effect.provide(LanguageModel.LanguageModel, decision037.layerSettings([unused], configuration))
      )
    )
  )
const unused = Effect.runSync(model("a", "m1"))

describe("the configuration", () => {
  it("001-C-schema: has a default for every field, and names a wrong value by its path", () => {
    assert.deepStrictEqual(defaults, {
      enableNetworkResilience: false,
      retry: { maxNetworkRetries: 5, baseDelayMs: 1_000, maxDelayMs: 30_000, jitterPercent: 0.2 },
      circuitBreaker: {
        failureThreshold: 5,
        cooldownMs: 300_000,
        healthProbeEnabled: true,
        keepClosed: [],
        keepOpen: []
      },
      taskRestart: { maxRestarts: 3, restartBackoffBaseMs: 60_000 },
      healthCheck: { pingIntervalMs: 30_000, unhealthyThreshold: 0.5 },
      visibility: { logRetries: true, alertThreshold: 10 }
    })
    const wrong: ReadonlyArray<readonly [unknown, RegExp]> = [
      [{ retry: { maxNetworkRetries: -1 } }, /\["retry"\]\["maxNetworkRetries"\]/],
      [{ retry: { baseDelayMs: "1s" } }, /\["retry"\]\["baseDelayMs"\]/],
      [{ circuitBreaker: { failureThreshold: 0 } }, /\["circuitBreaker"\]\["failureThreshold"\]/],
      [{ healthCheck: { unhealthyThreshold: 2 } }, /\["healthCheck"\]\["unhealthyThreshold"\]/],
      [{ retries: {} }, /\["retries"\]/],
      [{ retry: { baseDelayMs: 10, maxDelayMs: 5 } }, /maxDelayMs must be at least baseDelayMs/]
    ]
    for (const [configuration, says] of wrong) {
      const result = decoded(configuration)
      assert.isTrue(Result.isFailure(result))
      if (Result.isFailure(result)) assert.match(String(result.failure), says)
    }
    assert.isTrue(Result.isSuccess(decoded({ enableNetworkResilience: true })))
  })

  const rows = (own: Record<string, unknown>) => decision037.withSettings(settings(own)).rows.NetworkTransient
  const circuits = (own: Record<string, unknown>) => {
    const { circuits } = decision037.withSettings(settings({ circuitBreaker: own }))
    return circuits === false ? undefined : circuits
  }
  const delays = (own: Record<string, unknown>) =>
    [1, 2, 3, 9].map(
      (n) => Backoff.range(rows({ retry: { jitterPercent: 0, ...own } }).backoff, n, undefined).longest
    )

  it("001-C-retry-max: 5 retries, or as many as it says", () => {
    assert.strictEqual(rows({}).attempts, 6)
    assert.strictEqual(rows({ retry: { maxNetworkRetries: 2 } }).attempts, 3)
  })

  it("001-C-retry-base: waits 1 s at first, or as long as it says", () => {
    assert.deepStrictEqual(delays({}), [1_000, 2_000, 4_000, 30_000])
    assert.deepStrictEqual(delays({ baseDelayMs: 100 }), [100, 200, 400, 25_600])
  })

  it("001-C-retry-cap: waits at most 30 s, or as long as it says", () => {
    assert.deepStrictEqual(delays({ maxDelayMs: 3_000 }), [1_000, 2_000, 3_000, 3_000])
  })

  it("001-C-retry-jitter: varies a wait by 20 %, or as much as it says", () => {
    const range = (own: Record<string, unknown>) => Backoff.range(rows(own).backoff, 1, undefined)
    assert.deepStrictEqual(range({}), { shortest: 800, longest: 1_200 })
    assert.deepStrictEqual(range({ retry: { jitterPercent: 0.5 } }), { shortest: 500, longest: 1_500 })
  })

  it("001-C-cb-threshold: opens a circuit at 5 failures, or as many as it says", () => {
    assert.deepInclude(circuits({})?.trip?.consecutive, { failures: 5 })
    assert.deepInclude(circuits({ failureThreshold: 7 })?.trip?.consecutive, { failures: 7 })
  })

  it("001-C-cb-cooldown: keeps it open for 5 minutes, or as long as it says", () => {
    const longest = (own: Record<string, unknown>) => Backoff.max(circuits(own)?.open ?? Backoff.constant(0))
    assert.deepStrictEqual([longest({}), longest({ cooldownMs: 1_000 })], [300_000, 1_000])
  })

  it("001-C-restart-max, 001-C-restart-base: names the restarts of a task", () => {
    const restarts = (own: Record<string, unknown>) => {
      const { max, backoff } = decision037.restartsOf(settings({ taskRestart: own }))
      return [max, ...[1, 2, 3].map((n) => Backoff.range(backoff, n, undefined).longest)]
    }
    assert.deepStrictEqual(restarts({}), [3, 60_000, 120_000, 240_000])
    assert.deepStrictEqual(restarts({ maxRestarts: 1, restartBackoffBaseMs: 500 }), [1, 500, 1_000, 2_000])
  })

  it.effect("001-C-health-ping: pings every 30 s, or as often as it says", () =>
    Effect.gen(function* () {
      for (const [pingIntervalMs, expected] of [
        [30_000, [0, 30_000, 60_000]],
        [45_000, [0, 45_000]]
      ] as const) {
        const pings: Array<number> = []
        const began = yield* Clock.currentTimeMillis
        const ping = () => Effect.map(Clock.currentTimeMillis, (now) => void pings.push(now - began))
        const own = settings({ healthCheck: { pingIntervalMs } })
        yield* TestClock.adjust("61 seconds").pipe(
          Effect.provide(decision037.layer([unused], { ping, settings: own }))
        )
        assert.deepStrictEqual(pings, [...expected])
      }
    })
  )

  it.effect(
    "001-C-health-threshold: is unhealthy at half of the outcomes, or at the share that it says",
    () =>
      Effect.gen(function* () {
        for (const [unhealthyThreshold, expected] of [
          [0.5, "unhealthy"],
          [0.9, "healthy"]
        ] as const) {
          const own = settings({ healthCheck: { unhealthyThreshold } })
          const { health } = yield* Effect.gen(function* () {
            const monitor = yield* ConnectionMonitor.ConnectionMonitor
            for (const outcome of ["success", "success", "failure", "failure"] as const) {
              yield* monitor.record("x", outcome)
            }
            return yield* monitor.status("x")
          }).pipe(Effect.provide(decision037.layer([unused], { settings: own })))
          assert.strictEqual(health, expected)
        }
      })
  )

  it.effect("001-C-vis-log: logs retries by default, or not", () =>
    Effect.gen(function* () {
      for (const [visibility, lines] of [
        [{}, 2],
        [{ logRetries: true }, 2],
        [{ logRetries: false }, 0]
      ] as const) {
        const log = logged()
        const target = yield* model("a", "m1", [{ fault: reset }])
        const layer = decision037.layer([target], { settings: settings({ visibility }) })
        yield* inTime(ask.pipe(Effect.provide(layer), Effect.provide(log.layer)))
        assert.lengthOf(log.lines, lines)
      }
    })
  )

  describe("of alerts", () => {
    /** Fails this number of calls before and after a wait, and returns how often an alert was raised behind each. */
    const raised = (own: Record<string, unknown>, before: number, wait: Duration.Input, after: number) =>
      Effect.gen(function* () {
        let alerts = 0
        const target = yield* model("a", "m1", [always(status(401))])
        const onAlert = ({ _tag }: { readonly _tag: string }) =>
          Effect.sync(() => void (alerts += _tag === "AlertRaised" ? 1 : 0))
        const failing = (times: number) =>
          Effect.gen(function* () {
            for (let n = 0; n < times; n++) yield* Effect.exit(ask)
            yield* TestClock.adjust(0)
            return alerts
          })
        return yield* Effect.gen(function* () {
          const first = yield* failing(before)
          yield* TestClock.adjust(wait)
          return [first, yield* failing(after)]
        }).pipe(Effect.provide(decision037.layer([target], { settings: settings(own), onAlert })))
      })

    it.effect("001-C-vis-alert, 001-P3-alert: raises one at 10 failures in 5 minutes by default", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* raised({}, 9, "299999 millis", 1), [0, 1])
        assert.deepStrictEqual(yield* raised({}, 9, "5 minutes", 1), [0, 0])
        assert.deepStrictEqual(yield* raised({}, 10, "1 second", 5), [1, 1])
      })
    )

    it.effect("001-C-vis-alert: raises one at as many failures as it says", () =>
      Effect.gen(function* () {
        const own = { visibility: { alertThreshold: 3 } }
        assert.deepStrictEqual(yield* raised(own, 2, "299999 millis", 1), [0, 1])
        assert.deepStrictEqual(yield* raised(own, 2, "5 minutes", 1), [0, 0])
      })
    )
  })
})

describe("the feature switch", () => {
  const asked = (configuration: unknown) =>
    Effect.gen(function* () {
      const chain = [yield* model("a", "m1", [always(reset)]), yield* model("b", "m2")] as const
      const exit = yield* inTime(
        Effect.exit(ask).pipe(Effect.provide(decision037.layerSettings(chain, configuration)))
      )
      return [exit._tag, (yield* timesOf(chain[0])).length, (yield* timesOf(chain[1])).length]
    })

  it.effect(
    "001-B-flag, 001-B-default-off, 001-FB-no-config: is off by default and without a configuration",
    () =>
      Effect.gen(function* () {
        for (const none of [undefined, {}, { enableNetworkResilience: false }]) {
          assert.deepStrictEqual(yield* asked(none), ["Failure", 1, 0])
        }
        assert.deepStrictEqual(yield* asked({ enableNetworkResilience: true }), ["Success", 6, 1])
      })
  )

  it.effect("001-FB-no-config: asks no other model, whatever fails", () =>
    Effect.gen(function* () {
      for (const fault of [status(401), status(429), status(500), status(400), status(413)]) {
        const chain = [yield* model("a", "m1", [always(fault)]), yield* model("b", "m2")] as const
        yield* inTime(Effect.exit(ask).pipe(Effect.provide(decision037.layerSettings(chain, undefined))))
        assert.deepStrictEqual([(yield* timesOf(chain[0])).length, (yield* timesOf(chain[1])).length], [1, 0])
      }
    })
  )

  it.effect("001-B-migration: is set for each agent by its layer", () =>
    Effect.gen(function* () {
      const attempts = (enableNetworkResilience: boolean) =>
        Effect.map(asked({ enableNetworkResilience }), ([, first]) => first)
      assert.deepStrictEqual(yield* Effect.all([attempts(true), attempts(false)]), [6, 1])
    })
  )
})

describe("the modules, by the index of their package", () => {
  it("001-F-classifier, 001-F-types: classify an error, and its reason has one of the shared types", () => {
    const { reason } = Classifier.failureOf(new Error("connect ECONNRESET"))
    // The type is that of every layer: a policy and an event take the same one.
    const shared: FailoverReason.FailoverReason = reason
    assert.strictEqual(Vocabulary.decision037(shared), "NetworkTransient")
    assert.strictEqual(policy.rows[Vocabulary.decision037(shared)].attempts, 6)
  })

  it("001-F-backoff: grows exponentially, and jitter varies each wait within its share", () => {
    const backoff = Backoff.exponential({ initial: "1 second", factor: 2, cap: "30 seconds", jitter: 0.2 })
    const ranges = [1, 2, 3].map((attempt) => Backoff.range(backoff, attempt, undefined))
    assert.deepStrictEqual(ranges, [
      { shortest: 800, longest: 1_200 },
      { shortest: 1_600, longest: 2_400 },
      { shortest: 3_200, longest: 4_800 }
    ])
  })

  it.effect("001-F-monitor: tells a connection that fails half of the time from one that answers", () =>
    Effect.gen(function* () {
      const monitor = yield* ConnectionMonitor.make({ window: { unhealthyAt: 0.5 } })
      for (const outcome of ["success", "failure", "success", "failure"] as const) {
        yield* monitor.record("answers", "success")
        yield* monitor.record("fails", outcome)
      }
      const found = yield* Effect.forEach(["answers", "fails"], monitor.status)
      assert.deepStrictEqual(
        found.map(({ health }) => health),
        ["healthy", "unhealthy"]
      )
    })
  )

  it.effect("001-F-breaker: opens the circuit of one endpoint, and the other one stays closed", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make(decision037.circuits)
      for (let n = 0; n < 5; n++) yield* Effect.ignore(breaker.execute("first")(Effect.fail("no")))
      const phases = yield* Effect.forEach(["first", "second"], breaker.state)
      assert.deepStrictEqual(
        phases.map(({ phase }) => phase),
        ["open", "closed"]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("001-F-visibility: log each retry with its wait, and count it as a metric", () =>
    Effect.gen(function* () {
      const { lines, layer } = logged()
      const target = yield* model("anthropic", "m1", [{ times: 2, fault: reset }])
      yield* inTime(ask.pipe(Effect.provide(decision037.layer([target])))).pipe(
        Effect.provide([layer, FailoverMetrics.layer()])
      )
      const retries = lines.filter((line) =>
        /retry \d of anthropic\S* after NetworkTransient in \d/.test(line)
      )
      assert.lengthOf(retries, 2)
      const failures = (yield* Metric.snapshot).filter(({ id }) => id === "outlast_attempt_failures_total")
      assert.isAbove(failures.length, 0)
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  )

  it("001-F-index: the index of the package exports each of them", () => {
    const { Alerts, HealthWindow, Metrics, Retry } = Resilience
    for (const module of [Alerts, Backoff, CircuitBreaker, ConnectionMonitor, HealthWindow, Metrics, Retry]) {
      assert.isAbove(Object.keys(module).length, 1)
    }
  })
})

describe("the backoff", () => {
  const waits = (draw: number) =>
    Effect.gen(function* () {
      const target = yield* model("a", "m1", [always(reset)])
      const own = settings({ retry: { maxNetworkRetries: 8 } })
      yield* inTime(
        Effect.exit(ask).pipe(Effect.provide(decision037.layer([target], { settings: own })))
      ).pipe(drawing(draw))
      return yield* waitsOf(target)
    })

  it.effect(
    "001-P1-backoff-cap, 001-V-backoff: waits 1, 2, 4, 8 and 16 s, ±20 %, and never more than 30 s, also with the jitter",
    () =>
      Effect.gen(function* () {
        const exact = [1_000, 2_000, 4_000, 8_000, 16_000]
        const shortest = exact.map((wait) => wait * 0.8)
        const longest = exact.map((wait) => wait * 1.2)
        assert.deepStrictEqual(yield* waits(0), [...shortest, 24_000, 24_000, 24_000])
        assert.deepStrictEqual(yield* waits(0.5), [...exact, 27_000, 27_000, 27_000])
        assert.deepStrictEqual(yield* waits(1), [...longest, 30_000, 30_000, 30_000])
      })
  )
})

it("001-P1-jitter: leaves an exact policy without jitter", () => {
  const { backoff } = RecoveryPolicy.withoutJitter(policy).rows.NetworkTransient
  assert.deepStrictEqual(Backoff.range(backoff, 1, undefined), { shortest: 1_000, longest: 1_000 })
  assert.strictEqual(Duration.toMillis(policy.deadline), 1_800_000)
})
