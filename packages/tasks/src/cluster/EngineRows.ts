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
import { StoreError as StoreErrors } from "@outlast/resilience"
import type { StoreError } from "@outlast/resilience"
import { storeErrorOf } from "./PatientStorage.ts"
import { TaskWorkflow } from "../workflow/TaskWorkflow.ts"

export class EngineRows extends Context.Service<
  EngineRows,
  {
    readonly forget: (executionId: string) => Effect.Effect<void, StoreError.StoreError>
  }
>()("@outlast/tasks/cluster/EngineRows") {}

const workflow = `Workflow/${TaskWorkflow._tag}`

/** The engine in memory forgets with its process. */
export const layerMemory: Layer.Layer<EngineRows> = Layer.succeed(EngineRows, {
  forget: () => Effect.void
})

/** The tables of effect/cluster. Makes none. */
export const layerSql: Layer.Layer<EngineRows, never, SqlClient.SqlClient> = Layer.effect(
  EngineRows,
  Effect.gen(function* () {
    const storage = yield* MessageStorage.MessageStorage
    return {
      forget: (executionId: string) =>
        storage
          .clearAddress(
            EntityAddress.make({
              entityType: EntityType.make(workflow),
              entityId: EntityId.make(executionId),
              // Rows are found by type and id.
              shardId: ShardId.make("default", 1)
            })
          )
          .pipe(
            // The engine keeps the error of the database as a cause.
            Effect.mapError(
              (error) =>
                storeErrorOf(error) ??
                new StoreErrors.StoreError({ reason: "unavailable", store: "tasks", cause: error.cause })
            )
          )
    }
  })
).pipe(
  Layer.provide(SqlMessageStorage.layerStorage({})),
  Layer.provide([ShardingConfig.layerDefaults, Digest.layerWebCrypto])
)
