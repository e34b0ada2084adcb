/** Rows of the engine that belong to a task, for its deletion. */
import { Context, Effect, Layer } from "effect"
import {
  EntityAddress,
  EntityId,
  EntityType,
  MessageStorage,
  ShardId,
  ShardingConfig,
  SqlMessageStorage
} from "effect/cluster"
import { Digest } from "effect/crypto"
import type { SqlClient } from "effect/sql"
import { TaskWorkflow } from "../worker/TaskWorkflow.ts"

export class EngineRows extends Context.Service<
  EngineRows,
  { readonly forget: (executionId: string) => Effect.Effect<void> }
>()("@outlast/tasks/store/EngineRows") {}

/** The engine in memory forgets with its process. */
export const layerMemory: Layer.Layer<EngineRows> = Layer.succeed(EngineRows, { forget: () => Effect.void })

/** The tables of effect/cluster. Makes none. */
export const layerSql: Layer.Layer<EngineRows, never, SqlClient.SqlClient> = Layer.effect(
  EngineRows,
  Effect.map(MessageStorage.MessageStorage, (storage) => ({
    forget: (executionId: string) =>
      storage
        .clearAddress(
          EntityAddress.make({
            entityType: EntityType.make(`Workflow/${TaskWorkflow._tag}`),
            entityId: EntityId.make(executionId),
            // Rows are found by type and id.
            shardId: ShardId.make("default", 1)
          })
        )
        .pipe(
          Effect.catchCause((cause) =>
            Effect.logWarning("Tasks: rows of the engine were not deleted for a pruned task.", cause)
          )
        )
  }))
).pipe(
  Layer.provide(SqlMessageStorage.layerStorage({})),
  Layer.provide([ShardingConfig.layerDefaults, Digest.layerWebCrypto])
)
