/**
 * Ten failures in five minutes: raised once, cleared once.
 *
 * Counts the failures among the resilience events for each key, and publishes {@link AlertRaised} and
 * {@link AlertCleared} on the same stream. What counts, unless told otherwise:
 *
 * | witness    | key          | one failure is                                          | event                                            |
 * | ---------- | ------------ | ------------------------------------------------------- | ------------------------------------------------ |
 * | circuit    | `circuit`    | an attempt that its circuit counts                      | `CircuitFailure`                                 |
 * | connection | `connection` | a call, a ping or a session that its monitor counts     | `ConnectionFailure`, `PingFailed`, `SessionDied` |
 * | retry      | `name`       | a call that failed for good, whatever its attempts were | `RetriesExhausted`, unless it made no attempt    |
 * | target     | its endpoint | an attempt of a failover                                | `AttemptFailed`                                  |
 *
 * Refusals are no failures: nothing was called. An attempt that `Retry` makes again is none either; where that
 * matters, the circuit or the monitor inside counts it.
 *
 * **Several layers, one failure.** Witnesses that name the same key tell of the same failures: each counts for
 * itself, and the one with the most decides. So a retry "api" around a circuit "api" in a monitor "api" is one
 * alert, raised with the tenth failure, not with the fourth. Under different names they are different alerts, each
 * with its own count: give them one name to get one. Calls that name nothing share the key `all`.
 *
 * While a circuit is open little can fail, so ten failures may never come together: with the breaker's defaults take
 * `{ failures: 5, clearBelow: 1 }`, or alert on `outlast_circuit_state`.
 *
 * An alert is cleared when fewer than `clearBelow` failures are younger than the window (the rule to the
 * millisecond: `AlertWindow`), at that moment, whether or not anything happens then.
 *
 * Alerts are never counted as failures, whatever the predicate says. `onAlert` runs in a fiber of its own, one
 * alert after the other: it may take its time, and what it does wrong is logged. Over 1,024 waiting alerts the
 * oldest are dropped for it; the events are not.
 *
 * **Memory and time.** One window for each key with a failure in it, at most `maxKeys`; further keys share the key
 * `other`. One fiber for the layer, asleep while nothing is raised. Monotonic clock. A restart begins at zero.
 *
 * It reads by a handler, so it sees every event that is published; see `ResilienceEvents` for what circuits drop
 * before that. Put it over the layer of the events (`Layer.provideMerge`). It does not send mail, silence anything,
 * or know what a failure means: see {@link isFailure}.
 *
 * **Example** (Waking somebody)
 *
 * ```ts
 * const Telemetry = Alerts.layer({
 *   onAlert: (alert) => Console.error(`${alert._tag}: ${alert.key}`)
 * }).pipe(Layer.provideMerge(ResilienceEvents.layer()))
 * ```
 */
import { Clock, Duration, Effect, Latch, Queue } from "effect"
import type { Layer, Scope } from "effect"
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

/** For what is left out see {@link defaults}. */
export interface Options<R = never> {
  /** Default 10. */
  readonly failures?: number | undefined
  /** Default 5 minutes. */
  readonly window?: Duration.Input | undefined
  /** An alert is cleared when fewer failures are left in the window. From 1 to `failures`, its default. */
  readonly clearBelow?: number | undefined
  /** Keys with failures in their window, at most; further ones share `other`. Default 1,000. */
  readonly maxKeys?: number | undefined
  /** Which events count. Default {@link isFailure}. */
  readonly isFailure?: ((event: ResilienceEvent) => boolean) | undefined
  /** What they count for. Default {@link keyOf}. */
  readonly keyOf?: ((event: ResilienceEvent) => string) | undefined
  readonly onAlert?: ((alert: AlertEvent) => Effect.Effect<void, never, R>) | undefined
}

/** Ten in five minutes is DECISION_037's. */
export const defaults = { failures: 10, window: "5 minutes", maxKeys: 1_000 } as const satisfies Options

export { other }

/** Of one witness, none of these tells of another one. */
const failureTags: ReadonlySet<string> = new Set([
  "AttemptFailed",
  "CircuitFailure",
  "ConnectionFailure",
  "PingFailed",
  "RetriesExhausted",
  "SessionDied"
])

/** An attempt, a call, a ping or a session that failed; not a call without an attempt, for nothing was called. */
export const isFailure = (event: ResilienceEvent): boolean =>
  failureTags.has(event._tag) && numberOf(event, "attempts") !== 0

/** The connection, circuit, name or endpoint that an event is about; `all` where it names none. */
export const keyOf = (event: ResilienceEvent): string => named(event).key

/** Who tells of a failure, by the field that names what failed, and that name. */
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

/** Raises and clears alerts. Throws a `RangeError` for an option outside its range. */
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
          // The new one may be cleared before those that are raised already.
          wake.openUnsafe()
          return announce(alert)
        })
      }
    })
  )

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

/** The windows of all keys, those that failed last at the end. */
class Keys {
  readonly #spec: Spec
  readonly #max: number
  readonly #windows = new Map<string, AlertWindow>()
  readonly #raised = new Set<string>()

  constructor(spec: Spec, max: number) {
    this.#spec = spec
    this.#max = max
  }

  /** When the next alert is cleared; Infinity while none is raised. */
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

  /** The key itself if there is room. What still counts is not pushed out by new keys. */
  #place(key: string, now: number): string {
    if (this.#windows.has(key)) return key
    for (const [oldest, window] of this.#windows) {
      if (!Window.isForgotten(this.#spec, window, now)) break
      this.#windows.delete(oldest)
    }
    return this.#windows.size < this.#max ? key : other
  }
}

/** Hands alerts to a fiber that carries out `onAlert`. */
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
  // `specOf` knows its most.
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
