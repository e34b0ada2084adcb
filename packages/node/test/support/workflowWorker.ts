/**
 * A process that runs durable workflows on a SQLite file: `workflowWorker.ts <path>`. Executes the workflow `order`
 * and prints which of its activities run. The second activity waits for `go`.
 */
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { Deferred, Effect, Layer, Schema } from "effect"
import { ClusterWorkflowEngine, SingleRunner } from "effect/cluster"
import { Activity, Workflow } from "effect/workflow"
import { SqliteClient } from "@outlast/node/sqlite"
import * as Child from "./Child.ts"

const go = Deferred.makeUnsafe<void>()
Child.commands(() => Deferred.doneUnsafe(go, Effect.void))

const say = (line: string) => Effect.sync(() => console.log(line))

const Order = Workflow.make("order", {
  payload: { id: Schema.String },
  idempotencyKey: ({ id }) => id,
  success: Schema.String
})

const OrderLive = Order.toLayer(({ id }) =>
  Effect.gen(function* () {
    const paid = yield* Activity.make({
      name: "pay",
      success: Schema.String,
      execute: Effect.as(say(`began pay ${id}`), "paid")
    })
    const sent = yield* Activity.make({
      name: "send",
      success: Schema.String,
      execute: say(`began send ${id}`).pipe(Effect.andThen(Deferred.await(go)), Effect.as("sent"))
    })
    return `${paid} and ${sent}`
  })
)

const Engine = ClusterWorkflowEngine.layer.pipe(
  Layer.provide(SingleRunner.layer({ runnerStorage: "memory", shardingConfig: { shardsPerGroup: 10 } })),
  Layer.provide(SqliteClient.layer({ filename: process.argv[2] ?? "" })),
  Layer.provide(NodeCrypto.layer)
)

await Order.execute({ id: "7" }).pipe(
  Effect.flatMap((result) => say(`result ${result}`)),
  Effect.provide(OrderLive.pipe(Layer.provideMerge(Engine))),
  Effect.runPromise
)
process.exit()
