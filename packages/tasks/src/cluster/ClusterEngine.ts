/**
 * The workflow engine of many workers over one PostgreSQL database.
 *
 * A worker holds the shards of its tasks by a lease. When the worker is gone, its lease ends and others take its shards.
 * A worker is gone when it has not renewed its lease: no worker asks another whether it lives.
 */
import { Duration, Effect, Layer } from "effect"
import {
  ClusterWorkflowEngine,
  RunnerHealth,
  ShardingConfig,
  SocketRunner,
  SqlMessageStorage,
  SqlRunnerStorage
} from "effect/cluster"
import type { Runners } from "effect/cluster"
import { Digest } from "effect/crypto"
import type { RpcSerialization } from "effect/rpc"
import type { SocketServer } from "effect/socket"
import type { SqlClient } from "effect/sql"
import type { WorkflowEngine } from "effect/workflow"
import type { StoreOutage } from "../store/StoreOutage.ts"
import * as Lease from "./Lease.ts"
import * as PatientStorage from "./PatientStorage.ts"
import * as Waiting from "./Waiting.ts"

/** Services that `ClusterSockets.layer` of `@outlast/node/cluster` provides. */
export type Sockets =
  | ShardingConfig.ShardingConfig
  | SocketServer.SocketServer
  | Runners.RpcClientProtocol
  | RpcSerialization.RpcSerialization

/** All workers must agree on it, and it cannot change while tasks are open: a task belongs to a shard by its id. */
const shards = 60

/** The settings of a lease that lasts this long. */
const leaseOf = (takeover: Duration.Duration): Partial<ShardingConfig.ShardingConfig["Service"]> => ({
  shardLockExpiration: takeover,
  // The engine allows a third of the lease. It is also how long a busy database may take to answer before all turns of the
  // worker begin again, and after which a database that is back is noticed.
  shardLockRefreshInterval: Duration.min(Duration.times(takeover, 1 / 3), Duration.seconds(4)),
  refreshAssignmentsInterval: Duration.times(takeover, 0.1),
  entityMessagePollInterval: Duration.min(Duration.times(takeover, 0.25), Duration.millis(500))
})

export const layer = (
  takeover: Duration.Duration
): Layer.Layer<WorkflowEngine.WorkflowEngine, never, SqlClient.SqlClient | Sockets | StoreOutage> => {
  const config = Layer.effect(
    ShardingConfig.ShardingConfig,
    Effect.map(ShardingConfig.ShardingConfig, (given) => ({
      ...given,
      ...leaseOf(takeover),
      shardsPerGroup: shards,
      entityTerminationTimeout: Duration.seconds(10)
    }))
  )
  return Layer.merge(ClusterWorkflowEngine.layer, Lease.layer).pipe(
    Layer.provide(SocketRunner.layer),
    Layer.provideMerge(PatientStorage.layer(SqlMessageStorage.layerStorage({}))),
    Layer.provide([SqlRunnerStorage.layerStorage({}), RunnerHealth.layerNoop, Digest.layerWebCrypto]),
    Layer.provide(config)
  )
}

/** Makes the tables of the engine, as soon as the database answers. Its migrations let one worker in at a time. */
export const migrated: Effect.Effect<void, never, SqlClient.SqlClient> = Waiting.untilDone(
  Effect.scoped(
    Effect.asVoid(
      Layer.build(
        Layer.fresh(Layer.merge(SqlMessageStorage.layerMigrations({}), SqlRunnerStorage.layerMigrations({})))
      )
    )
  )
)
