/**
 * DECISION_037, "subagent fallback system hardening". A network failure is retried on the same model; an error of
 * the provider moves to the next model at once.
 *
 * Retries are counted for each target over all calls, until it succeeds. A target whose five retries are used up is
 * asked once by each further call, and then skipped.
 *
 * Its connection check before each attempt is `Failover.Options.isHealthy`: an attempt waits until the check is
 * true.
 *
 * {@link deviations} lists where it differs from the document, and how gaps of the document are filled.
 *
 * The document has no deadline for a call. Here the deadline is half an hour, as in `RecoveryPolicy.background`.
 */
import { Duration, Effect, FiberMap, Layer, Stream } from "effect"
import type { Schema } from "effect"
import type { Tool } from "effect/ai"
import { Backoff, CircuitBreaker, ConnectionMonitor, ResilienceEvents } from "@outlast/resilience"
import type { Alerts, CircuitEvent } from "@outlast/resilience"
import * as CompactionPolicy from "../compaction/CompactionPolicy.ts"
import type { TargetRef } from "../conversation/TargetRef.ts"
import type { ChainError, NonEmpty, Services, Specs } from "../failover/chain/Chain.ts"
import * as Permits from "../failover/chain/Permits.ts"
import * as Failover from "../failover/Failover.ts"
import type { FailoverEvent } from "../failover/FailoverEvent.ts"
import type { CallFailure } from "../failure/reasons/CallFailure.ts"
import type { ReasonTag } from "../failure/reasons/FailoverReason.ts"
import type * as Agent from "../loop/Agent.ts"
import type { Outcome } from "../loop/Outcome.ts"
import type { RecoveryPolicy, Row } from "../failover/decide/RecoveryPolicy.ts"
import { background, base } from "../failover/decide/RecoveryPolicy.ts"
import { decode, defaults, Settings } from "./Decision037Settings.ts"
import * as Preset from "./PresetLayer.ts"
import type { Decision037Class } from "./Vocabulary.ts"
import * as Vocabulary from "./Vocabulary.ts"

/** Differences from the document, and how its gaps are filled. `outlast explain --preset` prints them. */
export const deviations: ReadonlyArray<string> = [
  "In its sketch only rate limits count for the circuit; in the code only network failures do. The document wins: all five retries of a network failure take place, and the circuit rejects the fifth retry of a rate limit.",
  "The document waits before that fifth retry, and then rejects it. Here it is rejected at once.",
  "In the sketch a failure that is final for one model is thrown to the surrounding fallback loop: a call whose retries are used up moves to the next model. Permanent network failures and logic errors stop, as in the document; the code continues with the next model.",
  "A conversation that is still too long after one compaction moves only to a target with a larger window.",
  "If one connection is unhealthy and another target's is healthy, that target is asked instead of waiting.",
  "Retry-After is ignored, as in the document."
]

export { defaults, Settings }

/** The six classes of the document. */
export type Class = Decision037Class

const retries = (settings: Settings): Row => {
  const { maxNetworkRetries, baseDelayMs, maxDelayMs, jitterPercent } = settings.retry
  return {
    ...base,
    attempts: 1 + maxNetworkRetries,
    repeatsBeforeEquivalent: maxNetworkRetries,
    backoff: Backoff.exponential({
      initial: baseDelayMs,
      factor: 2,
      cap: maxDelayMs,
      jitter: jitterPercent
    }),
    retryAfter: "ignored"
  }
}

const deadline = Duration.minutes(30)

const circuitsFor = ({ circuitBreaker: { failureThreshold, cooldownMs } }: Settings) =>
  ({
    trip: { consecutive: { failures: failureThreshold, distinctCalls: 1 } },
    halfOpen: { successes: 1 },
    open: Backoff.constant(cooldownMs),
    maxRetryAfter: 0
  }) satisfies CircuitBreaker.Options

/** The policy for other settings. */
export const withSettings = (settings: Settings): RecoveryPolicy<Class> => {
  const transient = retries(settings)
  return {
    ...background,
    classOf: ({ reason }) => Vocabulary.decision037(reason),
    rows: {
      // A call waits for an unhealthy connection, but not for an open circuit.
      NetworkTransient: { ...transient, worthWaiting: true },
      NetworkPermanent: { ...base, then: "stop" },
      ProviderRateLimit: { ...transient, circuit: "endpoint" },
      ProviderError: { ...base, then: "move" },
      LogicError: { ...base, then: "stop" },
      ContextLength: { ...base, then: "grow" }
    },
    // Enough for five models.
    maxAttempts: 5 * transient.attempts,
    deadline,
    patience: deadline,
    counters: "target",
    maxCompactions: 1,
    circuits: circuitsFor(settings),
    probe: false,
    retryBudget: false,
    sharedBackoff: false,
    lastResort: false,
    truncation: false
  }
}

/**
 * A circuit for each endpoint. Opens after five consecutive failures, which may all belong to one call, for five
 * minutes. One success closes it.
 */
export const circuits = circuitsFor(defaults)

export const policy: RecoveryPolicy<Class> = withSettings(defaults)

const once: Row = { ...base, then: "stop", targets: 1 }

/** One attempt at the first target, and nothing else: the behaviour while the feature is switched off. */
export const off: RecoveryPolicy<Class> = {
  ...policy,
  rows: {
    NetworkTransient: once,
    NetworkPermanent: once,
    ProviderRateLimit: once,
    ProviderError: once,
    LogicError: once,
    ContextLength: once
  },
  maxAttempts: 1,
  maxCompactions: 0,
  counters: "call",
  circuits: false,
  whenAllOut: "fail"
}

/** Restarts of a task, for the host of tasks: how often, and the wait before each. */
export const restartsOf = ({ taskRestart: { maxRestarts, restartBackoffBaseMs } }: Settings) => ({
  max: maxRestarts,
  backoff: Backoff.exponential({
    initial: restartBackoffBaseMs,
    factor: 2,
    cap: restartBackoffBaseMs * 2 ** 10,
    jitter: 0
  })
})

/** Failures in five minutes that raise an alert. */
export const alertsOf = ({ visibility: { alertThreshold } }: Settings) =>
  ({ failures: alertThreshold, window: "5 minutes" }) satisfies Alerts.Options

// -----------------------------------------------------------------------------
// Log
// -----------------------------------------------------------------------------

const classOfTag = (tag: ReasonTag): Class => Vocabulary.decision037({ _tag: tag })

/** Lines of the log: the class of every failed attempt, the wait before a retry, and each circuit that opens. */
export const lines: Preset.Lines = () => (event, failed) => {
  switch (event._tag) {
    case "AttemptFailed":
      return Preset.line(
        "Warn",
        `attempt ${event.attempt} at ${event.target.id} failed: ${classOfTag(event.reason)} (${event.reason})`
      )
    case "CallWaiting": {
      if (event.reason !== "backoff") return undefined
      const why = failed === undefined ? "" : ` after ${classOfTag(failed.reason)}`
      return Preset.line(
        "Info",
        `retry ${event.attempt - 1} of ${event.target.id}${why} in ${Preset.seconds(event.delay ?? 0)}`
      )
    }
    case "CircuitTransition":
      return event.to === "open"
        ? Preset.line("Warn", `Circuit breaker open for ${event.circuit}`)
        : undefined
    default:
      return undefined
  }
}

/** The sentence of the document for a call that an open circuit ended; otherwise the message of the failure. */
export const messageOf = (failure: CallFailure): string => {
  const failures =
    failure._tag === "AllTargetsOut" ? failure.targets.map(({ failure }) => failure) : [failure]
  const open = failures.flatMap(({ circuit }) => (circuit === undefined ? [] : [circuit.circuit]))
  return open.length === 0 ? failure.message : `Circuit breaker open for ${[...new Set(open)].join(", ")}`
}

// -----------------------------------------------------------------------------
// Health
// -----------------------------------------------------------------------------

const endpointOf = (target: TargetRef): string => Permits.circuitsOf(target).endpoint

const networkClasses: ReadonlySet<Class> = new Set<Class>(["NetworkTransient", "NetworkPermanent"])

/** Records the outcome of each attempt with the monitor. Only failures of the network count against a connection. */
const recording = (monitor: ConnectionMonitor.Service) =>
  ResilienceEvents.tap((published) => {
    // Only two tags are read, which belong to the chain.
    const event = published as unknown as FailoverEvent
    if (event._tag === "CallSucceeded") {
      return monitor.record(endpointOf(event.target), "success", event.elapsed)
    }
    if (event._tag === "AttemptFailed" && networkClasses.has(classOfTag(event.reason))) {
      return monitor.record(endpointOf(event.target), "failure")
    }
    return Effect.void
  })

/** The breaker without these circuits: they let every call through and count nothing. */
const without = (
  breaker: CircuitBreaker.Service,
  keepClosed: ReadonlySet<string>
): CircuitBreaker.Service => ({
  ...breaker,
  acquire: (names, options) => {
    const left = [names].flat().filter((name) => !keepClosed.has(name))
    return left.length === 0 ? Effect.succeed(uncounted) : breaker.acquire(left, options)
  },
  enterUnsafe: (name, fiber, call) =>
    keepClosed.has(name) ? () => undefined : breaker.enterUnsafe(name, fiber, call)
})

const uncounted: CircuitBreaker.Permit = {
  succeed: Effect.void,
  fail: () => Effect.void,
  ignore: Effect.void
}

/** Probes an open circuit with its ping when its time is up. */
const tending = (
  breaker: CircuitBreaker.Service,
  pings: ReadonlyMap<string, Effect.Effect<unknown, unknown>>,
  { circuitBreaker: { healthProbeEnabled } }: Settings
) =>
  Effect.gen(function* () {
    const probes = yield* FiberMap.make<string>()
    const tend = ({ circuit, to }: CircuitTransition) => {
      if (to !== "open") return Effect.void
      const ping = healthProbeEnabled ? pings.get(circuit) : undefined
      if (ping === undefined) return Effect.void
      // A ping that never answers is a failed one, as for the monitor.
      const limited = Effect.timeout(ping, ConnectionMonitor.defaults.timeout)
      // The time that is left now: the transition may have been read late. Up to a millisecond more, because timers drop
      // fractions, and the circuit would refuse a probe that comes too early.
      const probe = Effect.flatMap(breaker.state(circuit), ({ retryAfter = 0 }) =>
        Effect.delay(
          Effect.ignoreCause(breaker.execute(circuit)(limited)),
          Math.floor(Duration.toMillis(retryAfter)) + 1
        )
      )
      return FiberMap.run(probes, circuit, probe)
    }
    yield* Effect.forkScoped(Stream.runForEach(breaker.transitions, tend), { startImmediately: true })
  })

type CircuitTransition = CircuitEvent.CircuitTransition

// -----------------------------------------------------------------------------
// Layer and agent
// -----------------------------------------------------------------------------

export interface Options extends Omit<Preset.Options<Class>, "circuitsOf"> {
  /**
   * The circuits, to trip and reset them by hand: `CircuitBreaker.make(Presets.decision037.circuits)`. Their names are
   * the endpoints. Default: circuits of its own, by `settings`.
   */
  readonly breaker?: CircuitBreaker.Service | undefined
  /** Default: {@link defaults}. `enableNetworkResilience` has no effect here: see {@link layerSettings}. */
  readonly settings?: Settings | undefined
  /**
   * Checks the connection of an endpoint. Runs every `pingIntervalMs`, and as the probe of an open circuit. With it an
   * attempt waits for an unhealthy connection. Default: none; health is then only measured.
   */
  readonly ping?: ((target: Endpoint) => Effect.Effect<unknown, unknown>) | undefined
}

/** A place that is pinged: the endpoint of an entry, or its provider if it has none. */
export interface Endpoint {
  readonly provider: string
  readonly endpoint: string
}

export type Provided = Preset.Provided | ConnectionMonitor.ConnectionMonitor

/**
 * The preset over a chain: its policy, circuits, connection monitor, compaction, alerts and lines. With `ping` each
 * attempt first asks the monitor about its endpoint.
 */
export const layer = <const S extends Specs>(
  chain: NonEmpty<S>,
  options: Options = {}
): Layer.Layer<Provided, ChainError, Services<S>> => {
  const { settings = defaults, ping, ...rest } = options
  const { pingIntervalMs, unhealthyThreshold } = settings.healthCheck
  const built = Effect.gen(function* () {
    const monitor = yield* ConnectionMonitor.make({
      interval: pingIntervalMs,
      window: { unhealthyAt: unhealthyThreshold }
    })
    const breaker = options.breaker ?? (yield* CircuitBreaker.make(circuitsFor(settings)))
    const pings = new Map<string, Effect.Effect<unknown, unknown>>()
    if (ping !== undefined) {
      for (const { provider, endpoint } of chain) {
        pings.set(endpoint === "" ? provider : endpoint, ping({ provider, endpoint }))
      }
    }
    for (const [name, check] of pings) yield* monitor.register(name, { ping: check })
    yield* Effect.forEach(settings.circuitBreaker.keepOpen, (name) => breaker.isolate(name))
    yield* recording(monitor)
    yield* tending(breaker, pings, settings)
    // Without pings nothing would tell that a connection is back, and the retries of a call go first.
    const isHealthy = (target: TargetRef) =>
      Effect.match(monitor.check(endpointOf(target)), { onFailure: () => false, onSuccess: () => true })
    const parts = { policy: withSettings(settings), compaction: CompactionPolicy.defaults }
    return Layer.merge(
      Preset.chainLayer(chain, parts, {
        ...(ping === undefined ? {} : { isHealthy }),
        ...rest,
        breaker: without(breaker, new Set(settings.circuitBreaker.keepClosed))
      }),
      Layer.succeed(ConnectionMonitor.ConnectionMonitor, monitor)
    )
  })
  return Layer.unwrap(built).pipe(
    Layer.provideMerge(
      Preset.telemetry(
        { alerts: alertsOf(settings), ...(settings.visibility.logRetries ? { lines } : {}) },
        rest.onAlert
      )
    )
  )
}

/**
 * {@link layer} for a configuration as the document writes it, with its feature switch. Without a configuration, or
 * with `enableNetworkResilience` off, calls make one attempt at the first target ({@link off}). Give each agent its own
 * to switch it on one by one.
 */
export const layerSettings = <const S extends Specs>(
  chain: NonEmpty<S>,
  configuration: unknown,
  options: Omit<Options, "settings"> = {}
): Layer.Layer<Failover.Provided, ChainError | Schema.SchemaError, Services<S>> =>
  Layer.unwrap(
    Effect.map(
      configuration === undefined ? Effect.succeed(defaults) : decode(configuration),
      (settings): Layer.Layer<Failover.Provided, ChainError, Services<S>> =>
        settings.enableNetworkResilience
          ? layer(chain, { ...options, settings })
          : Failover.layer(chain, { policy: off })
    )
  )

/** An agent run. The document has no limit of its own, so the defaults of `Agent` and `SafetyGuard` apply. */
export const agent = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Agent.Options<Tools, R>
): Effect.Effect<Outcome, Preset.Failures<Tools>, Agent.Services<Tools, R>> => Preset.guarded({}, options)
