/** Tells whether this process still holds the lease under which it runs an execution. */
import { Context, Effect, Layer } from "effect"
import { EntityId, Sharding } from "effect/cluster"

/** False: the execution moves to another worker. Where there is one process it is always true. */
export const Lease: Context.Reference<(executionId: string) => boolean> = Context.Reference<
  (executionId: string) => boolean
>("@outlast/tasks/cluster/Lease", { defaultValue: () => () => true })

export const layer: Layer.Layer<never, never, Sharding.Sharding> = Layer.effect(
  Lease,
  Effect.map(
    Sharding.Sharding,
    (sharding) => (executionId: string) =>
      // Workflows are in the default group.
      sharding.hasShardId(sharding.getShardId(EntityId.make(executionId), "default"))
  )
)
