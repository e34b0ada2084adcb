/**
 * Raises an alert after too many failures in a time window, and clears it once (default: ten in five minutes).
 *
 * The layer counts the failures among the resilience events for each key, and publishes {@link AlertRaised} and
 * {@link AlertCleared} on the same stream. Events that count by default:
 *
 * | witness    | key          | one failure is                                          | event                                            |
 * | ---------- | ------------ | ------------------------------------------------------- | ------------------------------------------------ |
 * | circuit    | `circuit`    | an attempt that its circuit counts                      | `CircuitFailure`                                 |
 * | connection | `connection` | a call, a ping or a session that its monitor counts     | `ConnectionFailure`, `PingFailed`, `SessionDied` |
 * | retry      | `name`       | a call that failed for good, whatever its attempts were | `RetriesExhausted`, unless it made no attempt    |
 * | target     | its endpoint | an attempt of a failover                                | `AttemptFailed`                                  |
 *
 * Refusals do not count, because nothing was called. An attempt that `Retry` repeats does not count either; a circuit
 * or a monitor inside counts it where that matters.
 *
 * **Several layers, one failure.** Witnesses with the same key report the same failures. Each is counted separately,
 * and the highest count decides. A retry "api" around a circuit "api" in a monitor "api" therefore raises one alert, at
 * the tenth failure and not at the fourth. Different names give separate alerts with separate counts. Calls without a
 * name share the key `all`.
 *
 * An open circuit lets few calls fail, so a count of ten may never be reached. With the breaker's defaults use
 * `{ failures: 5, clearBelow: 1 }`, or alert on the metric `outlast_circuit_state`.
 *
 * An alert is cleared as soon as fewer than `clearBelow` failures are younger than the window, even when no event
 * arrives then. `AlertWindow` has the exact rule.
 *
 * Alerts never count as failures, even if `isFailure` returns true for them. `onAlert` runs in a separate fiber, one
 * alert after the other. It may be slow, and its failures are logged. Beyond 1,024 waiting alerts the oldest are not
 * passed to `onAlert`; their events are still published.
 *
 * **Memory and time.** Each key with a recent failure has one window, up to `maxKeys`; further keys share the key
 * `other`. The layer has one fiber, which sleeps while no alert is raised. Time is monotonic. Counts start at zero
 * after a restart.
 *
 * **How it composes.** The layer reads through a handler, so it sees every published event. Circuits may drop events
 * before that (see `ResilienceEvents`). Provide it on top of the layer of the events (`Layer.provideMerge`). Sending
 * mail and silencing alerts are left to `onAlert`.
 *
 * **Example** (Printing alerts)
 *
 * ```ts
 * const Telemetry = Alerts.layer({
 *   onAlert: (alert) => Console.error(`${alert._tag}: ${alert.key}`)
 * }).pipe(Layer.provideMerge(ResilienceEvents.layer()))
 * ```
 */
import { Clock, Config, Duration, Effect, Latch, Layer, Queue } from "effect"
import type { Scope } from "effect"
import * as Check from "../Options.ts"
import type { AlertEvent } from "./AlertEvent.ts"
import type { AlertWindow, Spec } from "./AlertWindow.ts"
import * as Window from "./AlertWindow.ts"
import { numberOf, other, textOf } from "./Fields.ts"
import type { ResilienceEvent } from "./ResilienceEvents.ts"
import * as ResilienceEvents from "./ResilienceEvents.ts"

export type { AlertCleared, AlertEvent, AlertRaised } from "./AlertEvent.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** Options of the alerts. Defaults: see {@link defaults}. */
export interface Options<R = never> {
  /** Number of failures that raise an alert. Default: 10. */
  readonly failures?: number | undefined
  /** The time in which the failures must happen. Default: 5 minutes. */
  readonly window?: Duration.Input | undefined
  /**
   * An alert is cleared when fewer failures than this are left in the window. From 1 to `failures`. Default:
   * `failures`.
   */
  readonly clearBelow?: number | undefined
  /** Maximum number of keys with failures in their window. Further keys share `other`. Default: 1,000. */
  readonly maxKeys?: number | undefined
  /** Selects the events that count. Default: {@link isFailure}. */
  readonly isFailure?: ((event: ResilienceEvent) => boolean) | undefined
  /** Returns the key of an event; each key is counted separately. Default: {@link keyOf}. */
  readonly keyOf?: ((event: ResilienceEvent) => string) | undefined
  readonly onAlert?: ((alert: AlertEvent) => Effect.Effect<void, never, R>) | undefined
}

/** Ten failures in five minutes is the rule of DECISION_037. */
export const defaults = { failures: 10, window: "5 minutes", maxKeys: 1_000 } as const satisfies Options

export { other }

/** Events that count as failures. No two of them report the same failure of one witness. */
const failureTags: ReadonlySet<string> = new Set([
  "AttemptFailed",
  "CircuitFailure",
  "ConnectionFailure",
  "PingFailed",
  "RetriesExhausted",
  "SessionDied"
])

/**
 * True for a failed attempt, call, ping or session. A call without an attempt does not count, because nothing was
 * called.
 */
export const isFailure = (event: ResilienceEvent): boolean =>
  failureTags.has(event._tag) && numberOf(event, "attempts") !== 0

/** Returns the connection, circuit, name or endpoint that an event is about, or `all` where it names none. */
export const keyOf = (event: ResilienceEvent): string => named(event).key

/** Returns the witness (the kind of field that names the failed part) and the name in that field. */
const named = (event: ResilienceEvent): { readonly witness: string; readonly key: string } => {
  for (const witness of ["connection", "circuit", "name"]) {
    const key = textOf(event, witness)
    if (key !== undefined) return { witness, key }
  }
  const endpoint = textOf(event, "target", "endpoint")
  return endpoint === undefined ? { witness: "", key: "all" } : { witness: "target", key: endpoint }
}

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/**
 * Raises and clears alerts. Building it dies with an `InvalidOption`, a `RangeError`, for an option out of its range.
 */
export const layer = <R = never>(
  options: Options<R> = {}
): Layer.Layer<never, never, Exclude<R, Scope.Scope>> =>
  ResilienceEvents.layerTap(
    Effect.gen(function* () {
      Check.fields<Options<R>>("Alerts", options, checks)
      const spec = specOf(options)
      const keys = new Keys(spec, options.maxKeys ?? defaults.maxKeys)
      const { isFailure: counts = isFailure, keyOf: key = keyOf, onAlert } = options
      const events = yield* ResilienceEvents.ResilienceEvents
      const wake = Latch.makeUnsafe(false)
      const tell = onAlert === undefined ? () => Effect.void : yield* told(onAlert)
      const announce = (alert: AlertEvent) => Effect.andThen(tell(alert), events.publish(alert))

      const clearing = Effect.gen(function* () {
        const clock = yield* Clock.Clock
        while (true) {
          wake.closeUnsafe()
          const now = monotonic(clock)
          for (const cleared of keys.clear(now, clock.currentTimeMillisUnsafe())) yield* announce(cleared)
          const next = keys.nextClear
          yield* next === Infinity
            ? wake.await
            : Effect.raceFirst(
                wake.await,
                Effect.sleep(Duration.millis(Math.max(0, next - monotonic(clock))))
              )
        }
      })
      yield* Effect.forkScoped(clearing)

      return (event: ResilienceEvent) => {
        if (event._tag === "AlertRaised" || event._tag === "AlertCleared" || !counts(event))
          return Effect.void
        return Effect.flatMap(Clock.Clock, (clock) => {
          const { witness } = named(event)
          const alert = keys.failed(key(event), witness, monotonic(clock), clock.currentTimeMillisUnsafe())
          if (alert === undefined) return Effect.void
          // The new alert may have to be cleared before those that are already raised.
          wake.openUnsafe()
          return announce(alert)
        })
      }
    })
  )

/**
 * {@link layer} with settings from `effect/Config`, such as environment variables. A field that is not named keeps its
 * default.
 *
 * **Example**
 *
 * ```ts
 * Alerts.layerConfig({ failures: Config.Int("ALERT_FAILURES"), window: Config.Duration("ALERT_WINDOW") })
 * ```
 */
export const layerConfig = (options: Config.Wrap<Options>): Layer.Layer<never, Config.ConfigError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      return layer(yield* Config.unwrap<Options>(options))
    })
  )

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

/** The windows of all keys, ordered by their last failure, oldest first. */
class Keys {
  readonly #spec: Spec
  readonly #max: number
  readonly #windows = new Map<string, AlertWindow>()
  readonly #raised = new Set<string>()

  constructor(spec: Spec, max: number) {
    this.#spec = spec
    this.#max = max
  }

  /** Time at which the next alert is cleared. Infinity while none is raised. */
  get nextClear(): number {
    let next = Infinity
    for (const key of this.#raised) next = Math.min(next, Window.clearAt(this.#spec, this.#of(key)))
    return next
  }

  failed(wanted: string, witness: string, now: number, at: number): AlertEvent | undefined {
    const key = this.#place(wanted, now)
    return this.#step(key, "Failed", now, at, witness)
  }

  clear(now: number, at: number): ReadonlyArray<AlertEvent> {
    return [...this.#raised].flatMap((key) => this.#step(key, "Woke", now, at) ?? [])
  }

  #step(
    key: string,
    event: "Failed" | "Woke",
    now: number,
    at: number,
    witness?: string
  ): AlertEvent | undefined {
    const before = this.#of(key)
    const [transition, after] = Window.step(this.#spec, before, event, now, witness)
    if (event === "Failed") this.#windows.delete(key)
    this.#windows.set(key, after)
    switch (transition) {
      case "Raised":
        this.#raised.add(key)
        return { _tag: "AlertRaised", at, key, failures: this.#spec.failures, window: this.#spec.window }
      case "Cleared":
        this.#raised.delete(key)
        return { _tag: "AlertCleared", at, key, after: Math.round(now - (before.raisedAt ?? now)) }
      case undefined:
        return undefined
    }
  }

  #of(key: string): AlertWindow {
    return this.#windows.get(key) ?? Window.empty
  }

  /** Returns the key itself if there is room, else {@link other}. New keys never evict a window that still counts. */
  #place(key: string, now: number): string {
    if (this.#windows.has(key)) return key
    for (const [oldest, window] of this.#windows) {
      if (!Window.isForgotten(this.#spec, window, now)) break
      this.#windows.delete(oldest)
    }
    return this.#windows.size < this.#max ? key : other
  }
}

/** Runs `onAlert` in a separate fiber and returns the function that queues alerts for it. */
const told = <R>(
  onAlert: (alert: AlertEvent) => Effect.Effect<void, never, R>
): Effect.Effect<(alert: AlertEvent) => Effect.Effect<void>, never, R | Scope.Scope> =>
  Effect.gen(function* () {
    const waiting = yield* Queue.sliding<AlertEvent>(ResilienceEvents.defaultCapacity)
    const one = Effect.flatMap(Queue.take(waiting), (alert) =>
      Effect.suspend(() => onAlert(alert)).pipe(
        Effect.catchCause((cause) =>
          Effect.logWarning(`onAlert failed at ${alert._tag} of ${alert.key}`, cause)
        )
      )
    )
    yield* Effect.forkScoped(Effect.forever(one))
    return (alert) => Effect.asVoid(Queue.offer(waiting, alert))
  })

const { is } = Check

const checks: Check.Checks<Options> = {
  failures: is.integer({ min: 1 }),
  window: is.duration({ min: "1 millis" }),
  // `specOf` checks the range, because the maximum is `failures`.
  clearBelow: is.anything,
  maxKeys: is.integer({ min: 1 }),
  isFailure: is.fn("(event) => boolean"),
  keyOf: is.fn("(event) => string"),
  onAlert: is.fn("(alert) => Effect<void>")
}

const specOf = (options: Omit<Options, "onAlert">): Spec => {
  const failures = options.failures ?? defaults.failures
  return {
    failures,
    window: Duration.toMillis(options.window ?? defaults.window),
    clearBelow: Check.positiveInteger("Alerts", "clearBelow", options.clearBelow ?? failures, {
      max: failures
    })
  }
}

const monotonic = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
