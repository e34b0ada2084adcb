/**
 * The configuration of DECISION_037 as its document writes it: every field has a default, and a wrong value is named
 * with its path.
 *
 * Three fields are this module's own. `enableNetworkResilience` is the feature flag that the document describes in prose;
 * it is off by default. `circuitBreaker.keepClosed` and `keepOpen` list endpoints whose circuit is held by hand.
 */
import { Effect, Schema } from "effect"

const setting = <S extends Schema.Top>(schema: S, value: S["Encoded"]) =>
  schema.pipe(Schema.withDecodingDefaultKey(Effect.succeed(value)))

const whole = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
const share = (minimum: number) => Schema.Number.check(Schema.isBetween({ minimum, maximum: 1 }))

/** A day in milliseconds, the longest wait of a setting. */
const day = 86_400_000

const Retry = Schema.Struct({
  /** Repeats at one target before the call moves on, from 0 to 100. Default 5. */
  maxNetworkRetries: setting(whole(0, 100), 5),
  /** First wait in milliseconds. Default 1,000. */
  baseDelayMs: setting(whole(1, day), 1_000),
  /** Longest wait in milliseconds, at least `baseDelayMs`. Default 30,000. */
  maxDelayMs: setting(whole(1, day), 30_000),
  /** Share by which a wait varies. Default 0.2. */
  jitterPercent: setting(share(0), 0.2)
}).check(
  Schema.makeFilter(({ baseDelayMs, maxDelayMs }) =>
    maxDelayMs >= baseDelayMs ? undefined : "maxDelayMs must be at least baseDelayMs"
  )
)

const CircuitBreaker = Schema.Struct({
  /** Consecutive failures that open the circuit of an endpoint. Default 5. */
  failureThreshold: setting(whole(1, 1_000), 5),
  /** Time open in milliseconds. Default 300,000. */
  cooldownMs: setting(whole(1, day), 300_000),
  /** True to probe an open circuit with the ping when its time is up. Default true. */
  healthProbeEnabled: setting(Schema.Boolean, true),
  /** Endpoints whose circuit is kept closed by hand. Default: none. */
  keepClosed: setting(Schema.Array(Schema.String), []),
  /** Endpoints whose circuit is held open by hand. Default: none. */
  keepOpen: setting(Schema.Array(Schema.String), [])
})

const TaskRestart = Schema.Struct({
  /** Restarts of one task. Default 3. */
  maxRestarts: setting(whole(0, 100), 3),
  /** Wait before the first restart in milliseconds, doubled each time. Default 60,000. */
  restartBackoffBaseMs: setting(whole(1, day), 60_000)
})

const HealthCheck = Schema.Struct({
  /** Time between two pings in milliseconds. Default 30,000. */
  pingIntervalMs: setting(whole(1, day), 30_000),
  /** Share of failures at which a connection is unhealthy. Default 0.5. */
  unhealthyThreshold: setting(share(0.01), 0.5)
})

const Visibility = Schema.Struct({
  /** True to log every failed attempt with its class and the wait before the next one. Default true. */
  logRetries: setting(Schema.Boolean, true),
  /** Failures in five minutes that raise an alert. Default 10. */
  alertThreshold: setting(whole(1, 100_000), 10)
})

export const Settings = Schema.Struct({
  /** Default false: the calls of a program stay as they are. */
  enableNetworkResilience: setting(Schema.Boolean, false),
  retry: setting(Retry, {}),
  circuitBreaker: setting(CircuitBreaker, {}),
  taskRestart: setting(TaskRestart, {}),
  healthCheck: setting(HealthCheck, {}),
  visibility: setting(Visibility, {})
})
export type Settings = typeof Settings.Type

/** Decodes a configuration. An unknown field is an error, because it may be a misspelt one. */
export const decode = Schema.decodeUnknownEffect(Settings, { onExcessProperty: "error", errors: "all" })

export const defaults: Settings = Schema.decodeUnknownSync(Settings)({})
