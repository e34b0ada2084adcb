/** The workflow engine of one process over its own database: it holds every shard, and no other process answers. */
import { Effect, Layer, Random } from "effect"
import {
  ClusterWorkflowEngine,
  MachineId,
  RunnerHealth,
  RunnerStorage,
  Runners,
  Sharding,
  ShardingConfig,
  SqlMessageStorage
} from "effect/cluster"
import { Digest } from "effect/crypto"
import type { SqlClient } from "effect/sql"
import type { WorkflowEngine } from "effect/workflow"
import type { StoreOutage } from "../store/StoreOutage.ts"
import * as PatientStorage from "./PatientStorage.ts"

/**
 * Gives each start of the process its own machine id, of the 1,024 that exist.
 *
 * The id of a message is made of the time and the machine id, and SQLite ignores a message whose id is there already.
 * With the same machine id at every start, a clock that was set back made the same ids again, and those messages were
 * lost: their tasks never went on.
 */
const runners = Layer.effect(
  RunnerStorage.RunnerStorage,
  Effect.gen(function* () {
    const machine = MachineId.make(yield* Random.nextIntBetween(0, 1_023))
    const storage = yield* RunnerStorage.makeMemory
    return RunnerStorage.RunnerStorage.of({
      ...storage,
      register: (runner, healthy) => Effect.as(storage.register(runner, healthy), machine)
    })
  })
)

export const layer: Layer.Layer<WorkflowEngine.WorkflowEngine, never, SqlClient.SqlClient | StoreOutage> =
  ClusterWorkflowEngine.layer.pipe(
    Layer.provide(Sharding.layer),
    Layer.provide(Runners.layerNoop),
    Layer.provideMerge(PatientStorage.layer(SqlMessageStorage.layer)),
    Layer.provide([runners, RunnerHealth.layerNoop, Digest.layerWebCrypto]),
    Layer.provide(ShardingConfig.layer({ entityTerminationTimeout: "10 seconds" }))
  )
