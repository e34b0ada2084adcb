/** Breakers over a Redis server that the test starts, in virtual time. A layer for the contract and the model. */
import * as NodeRedis from "@effect/platform-node/NodeRedis"
import { CircuitBreaker } from "@outlast/resilience"
import type { SharedCircuits } from "#resilience/breaker/CircuitStore"
import * as RedisCircuitStore from "#resilience/breaker/RedisCircuitStore"
import { Clock, Effect, Layer } from "effect"
import type { RedisServer } from "../../../../test/services/Redis.ts"

/** Lets real I/O proceed for one turn of the event loop. */
export const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** Waits for a result of real I/O. The test's time limit ends the wait. */
export const until = (condition: Effect.Effect<boolean>): Effect.Effect<void> =>
  Effect.flatMap(condition, (holds) => (holds ? Effect.void : Effect.andThen(turn, until(condition))))

export const connection = ({ port }: RedisServer) =>
  NodeRedis.layer({ socket: { host: "127.0.0.1", port }, disableOfflineQueue: true })

export interface RedisStore {
  /** Each call creates a new set of circuits. A layer that is built twice stands for two processes. */
  readonly layer: (options?: CircuitBreaker.Options) => Layer.Layer<CircuitBreaker.CircuitBreaker>
  /** Completes when all processes have the store's state. */
  readonly quiet: Effect.Effect<void>
}

let sets = 0

/** The server must run when the first layer is built. */
export const make = (server: () => RedisServer): RedisStore => {
  const attached = new Set<SharedCircuits>()
  const quiet: Effect.Effect<void> = Effect.suspend(() =>
    Effect.forEach([...attached, ...attached], ({ sync }) => until(sync), { discard: true })
  )
  return {
    quiet,
    layer: (options) => {
      const prefix = `circuits-${++sets}`
      return Layer.unwrap(
        Effect.sync(() => {
          const store = RedisCircuitStore.make({
            redis: connection(server()),
            prefix,
            // Virtual time moves while real commands are in flight.
            timeout: "100 days",
            syncEvery: "1 second",
            now: Clock.currentTimeMillis
          })
          const attach: typeof store.attach = (breaker) =>
            Effect.gen(function* () {
              const shared = yield* store.attach(breaker)
              if (shared === undefined) return undefined
              attached.add(shared)
              yield* Effect.addFinalizer(() => Effect.sync(() => attached.delete(shared)))
              yield* until(shared.sync)
              return shared
            })
          return CircuitBreaker.layer({ ...options, store: { attach } })
        })
      )
    }
  }
}
