/** Rows of the engine that belong to a task: for its deletion, and to read all stored steps of a resumed task at once. */
import { Context, Effect, Layer, Option, Schema } from "effect"
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
import { SqlClient } from "effect/sql"
import { StoreError as StoreErrors } from "@outlast/resilience"
import type { StoreError } from "@outlast/resilience"
import { storeErrorOf } from "./PatientStorage.ts"
import { TaskWorkflow } from "../workflow/TaskWorkflow.ts"

export class EngineRows extends Context.Service<
  EngineRows,
  {
    readonly forget: (executionId: string) => Effect.Effect<void, StoreError.StoreError>
    /**
     * The stored results of activities, as JSON, by their names. The engine reads them one by one. A result that is not
     * here may still be stored: the engine has the last word.
     */
    readonly replies: (executionId: string) => Effect.Effect<Replies>
  }
>()("@outlast/tasks/cluster/EngineRows") {}

/** Results of activities by their names. A stored result never changes. */
export type Replies = Map<string, unknown>

/** An activity, as the engine stores it. */
const Asked = Schema.fromJsonString(Schema.Struct({ name: Schema.String, attempt: Schema.Literal(1) }))
/** Its reply, if it has ended with a success. */
const Ended = Schema.fromJsonString(
  Schema.TaggedStruct("Success", {
    value: Schema.TaggedStruct("Complete", {
      exit: Schema.TaggedStruct("Success", { value: Schema.Unknown })
    })
  })
)
const StoredReply = Schema.Struct({ asked: Asked, reply: Ended })
const decode = Schema.decodeUnknownOption(StoredReply)

const workflow = `Workflow/${TaskWorkflow._tag}`

/** The engine in memory forgets with its process. */
export const layerMemory: Layer.Layer<EngineRows> = Layer.succeed(EngineRows, {
  forget: () => Effect.void,
  replies: () => Effect.sync(() => new Map())
})

/** The tables of effect/cluster. Makes none. */
export const layerSql: Layer.Layer<EngineRows, never, SqlClient.SqlClient> = Layer.effect(
  EngineRows,
  Effect.gen(function* () {
    const storage = yield* MessageStorage.MessageStorage
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    const replies = (executionId: string) => {
      const entity = `${workflow}/${executionId}`
      // The range is for the index. Its end is above all keys of the execution in every collation.
      return sql`SELECT m.payload AS asked, r.payload AS reply
        FROM cluster_messages m JOIN cluster_replies r ON r.request_id = m.request_id AND r.kind = 0
        WHERE m.message_id >= ${`${entity}/activity/`} AND m.message_id < ${`${entity}z`}
          AND m.entity_type = ${workflow} AND m.entity_id = ${executionId} AND m.tag = 'activity'`
    }
    return {
      replies: (executionId: string) =>
        replies(executionId).pipe(
          Effect.map((rows): Replies => {
            const found: Replies = new Map()
            for (const row of rows) {
              const stored = Option.getOrUndefined(decode(row))
              if (stored !== undefined) found.set(stored.asked.name, stored.reply.value.exit.value)
            }
            return found
          }),
          // An engine with other tables, or a store that is gone for a moment: the engine reads step by step.
          Effect.orElseSucceed((): Replies => new Map())
        ),
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
