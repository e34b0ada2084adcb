/** Rows of the engine that belong to a task, for its deletion. */
import { Context, Effect, Layer, Schema } from "effect"
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
import { SqlError } from "effect/sql"
import { StoreError as StoreErrors } from "@outlast/resilience"
import type { StoreError } from "@outlast/resilience"
import { TaskWorkflow } from "../worker/TaskWorkflow.ts"

export class EngineRows extends Context.Service<
  EngineRows,
  { readonly forget: (executionId: string) => Effect.Effect<void, StoreError.StoreError> }
>()("@outlast/tasks/store/EngineRows") {}

/** The engine in memory forgets with its process. */
export const layerMemory: Layer.Layer<EngineRows> = Layer.succeed(EngineRows, { forget: () => Effect.void })

const isSqlError = Schema.is(SqlError.SqlError)
const where = { store: "tasks" }

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
          // The engine keeps the error of the database as a cause.
          Effect.mapError(
            ({ cause }) =>
              (isSqlError(cause) ? StoreErrors.fromSqlError(cause, where) : undefined) ??
              new StoreErrors.StoreError({ reason: "unavailable", ...where, cause })
          )
        )
  }))
).pipe(
  Layer.provide(SqlMessageStorage.layerStorage({})),
  Layer.provide([ShardingConfig.layerDefaults, Digest.layerWebCrypto])
)
