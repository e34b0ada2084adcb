/** Breakers over a Redis of the test's own, in virtual time: the layer for the contract and the model. */
import { NodeRedis } from "@effect/platform-node"
import { CircuitBreaker } from "@outlast/resilience"
import type { SharedCircuits } from "#resilience/breaker/CircuitStore"
import * as RedisCircuitStore from "#resilience/breaker/RedisCircuitStore"
import { Clock, Effect, Layer } from "effect"
import type { RedisServer } from "../support/RedisServer.ts"

/** Lets real I/O go on, for a turn of the event loop. */
export const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** Waits for what only real I/O can bring; the test's own limit ends it. */
export const until = (condition: Effect.Effect<boolean>): Effect.Effect<void> =>
  Effect.flatMap(condition, (holds) => (holds ? Effect.void : Effect.andThen(turn, until(condition))))

export const connection = ({ port }: RedisServer) =>
  NodeRedis.layer({ socket: { host: "127.0.0.1", port }, disableOfflineQueue: true })

export interface RedisStore {
  /** Each call is a set of circuits of its own; a layer that is built twice is two processes. */
  readonly layer: (options?: CircuitBreaker.Options) => Layer.Layer<CircuitBreaker.CircuitBreaker>
  /** Ends when all processes know what the store knows. */
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
            // Virtual time moves while real commands are under way.
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
