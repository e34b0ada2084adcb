/** Shared helpers for tests of the monitor. */
import { Effect, Exit, Layer } from "effect"
import type { Scope } from "effect"
import { ConnectionMonitor, ResilienceEvents } from "@outlast/resilience"
import type { ConnectionEvent } from "@outlast/resilience"

type Outcomes = ReadonlyArray<"success" | "failure">
type Events = ReadonlyArray<ConnectionEvent.ConnectionEvent>
type Failures = ReadonlyArray<ConnectionEvent.ConnectionFailure>

/** A monitor, its events, those of failed calls separately, and a program with all of them. */
export const watching = (options: ConnectionMonitor.Options = {}) => {
  const events: Array<ConnectionEvent.ConnectionEvent> = []
  const failures: Array<ConnectionEvent.ConnectionFailure> = []
  const layer = ConnectionMonitor.layer(options).pipe(
    Layer.provideMerge(
      ResilienceEvents.layerHandler((published) =>
        Effect.sync(() => {
          // Only the monitor publishes in these tests.
          const event = published as ConnectionEvent.ConnectionEvent
          if (event._tag === "ConnectionFailure") failures.push(event)
          else events.push(event)
        })
      )
    )
  )
  const run = <A, E>(
    program: (
      monitor: ConnectionMonitor.Service,
      events: Events,
      failures: Failures
    ) => Effect.Effect<A, E, Scope.Scope>
  ) =>
    ConnectionMonitor.ConnectionMonitor.pipe(
      Effect.flatMap((monitor) => program(monitor, events, failures)),
      Effect.scoped,
      Effect.provide(layer)
    )
  return run
}

export const recordAll = (monitor: ConnectionMonitor.Service, name: string, outcomes: Outcomes) =>
  Effect.forEach(outcomes, (outcome) => monitor.record(name, outcome), { discard: true })
export const threeFailures: Outcomes = ["failure", "failure", "failure"]
export const tags = (events: Events) => events.map(({ _tag }) => _tag)
export const isHealthy = (monitor: ConnectionMonitor.Service, name: string) =>
  Effect.map(Effect.exit(monitor.check(name)), Exit.isSuccess)

/** Errors whose properties cannot be read. */
export const hostile: ReadonlyArray<readonly [string, unknown]> = [
  ["objects without a prototype", Object.create(null)],
  ["undefined", undefined],
  ["null", null],
  ["of a class without a name", Object.create({ constructor: { name: 7 } })],
  [
    "objects that throw when they are looked at",
    new Proxy(
      {},
      {
        get: () => {
          throw new Error("trap")
        },
        has: () => {
          throw new Error("trap")
        },
        getPrototypeOf: () => {
          throw new Error("trap")
        }
      }
    )
  ]
]
