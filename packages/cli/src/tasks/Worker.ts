/**
 * `outlast worker`: runs the durable tasks of the agents in a module.
 *
 * The default export of the module is a Layer that registers agents (`Task.toLayer`), with their models and handlers. A
 * SIGTERM or SIGINT parks the tasks after their steps under way: another worker, or the next one here, goes on.
 */
import { hostname } from "node:os"
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { ClusterSockets } from "@outlast/node/cluster"
import { StoreLock } from "@outlast/node/lock"
import { Tasks } from "@outlast/tasks"
import { Console, Effect, Layer, Option } from "effect"
import * as StoreClient from "../dlq/StoreClient.ts"
import { UsageError } from "../command/UsageError.ts"

export interface Flags {
  readonly module: string
  readonly store: Option.Option<string>
  readonly prefix: string
  readonly name: Option.Option<string>
  readonly concurrency: Option.Option<number>
  readonly takeover: Option.Option<string>
  readonly host: string
  readonly port: number
  readonly listen: Option.Option<string>
}

export interface Failure {
  readonly message: string
}

/** Steps that take longer are left: the engine gives them back when the process ends. */
const drainLimit = "20 seconds"

type Agents = Layer.Layer<never, Failure, Tasks.Workers | Tasks.Tasks>

const agentsOf = (file: string): Effect.Effect<Agents, UsageError> =>
  Effect.tryPromise({
    try: (): Promise<Readonly<Record<string, unknown>>> =>
      import(/* @vite-ignore */ pathToFileURL(resolve(file)).href),
    catch: (error) =>
      new UsageError({
        message: `${file} cannot be loaded: ${error instanceof Error ? error.message : String(error)}`
      })
  }).pipe(
    Effect.flatMap((found) =>
      Layer.isLayer(found["default"])
        ? // What the layer needs is not in its value. A missing service ends the worker with its name.
          Effect.succeed(found["default"] as Agents)
        : Effect.fail(
            new UsageError({
              message: `The default export of ${file} is no Layer. Export the agents: Layer.mergeAll(Triage.toLayer(...)).`
            })
          )
    )
  )

export const run = (flags: Flags): Effect.Effect<never, Failure | UsageError> =>
  Effect.gen(function* () {
    const address = yield* StoreClient.addressOf(flags.store, "tasks")
    const agents = yield* agentsOf(flags.module)
    const concurrency = Option.getOrUndefined(flags.concurrency)
    if (concurrency !== undefined && concurrency < 1) {
      return yield* new UsageError({ message: "--concurrency must be at least 1." })
    }
    const name = Option.getOrElse(flags.name, () => `${hostname()}-${process.pid}`)
    const file = StoreClient.nameOf(address)
    const options = { worker: name, prefix: flags.prefix, file, concurrency }
    const client = yield* StoreClient.clientOf(address, { store: "tasks", create: true, connections: 10 })
    const takeover = yield* takeoverOf(flags.takeover)
    const engine: Layer.Layer<Tasks.Workers | Tasks.Tasks, Failure> = StoreClient.isPostgres(address)
      ? Tasks.layerCluster({ ...options, takeover }).pipe(
          Layer.provide([
            Tasks.waitFor(client),
            ClusterSockets.layer({
              host: flags.host,
              port: flags.port,
              listen: Option.getOrUndefined(flags.listen)
            })
          ])
        )
      : Tasks.layerSqlite({ ...options, lock: StoreLock.acquire(`${address}.lock`) }).pipe(
          Layer.provide(client)
        )
    const started = Effect.andThen(Console.log(`Worker ${name} runs the tasks of ${file}.`), Effect.never)
    return yield* started.pipe(
      Effect.provide(agents),
      Effect.onInterrupt(() => Effect.ignore(Effect.timeout(Tasks.drain, drainLimit))),
      Effect.provide(engine)
    )
  })

const takeoverOf = (given: Option.Option<string>): Effect.Effect<number | undefined, UsageError> => {
  if (Option.isNone(given)) return Effect.undefined
  const [, number = "", unit = ""] = /^(\d{1,6})(s|m)$/.exec(given.value) ?? []
  const ms = Number(number) * (unit === "m" ? 60_000 : 1_000)
  return number !== "" && ms >= 1_000
    ? Effect.succeed(ms)
    : Effect.fail(new UsageError({ message: "--takeover must be at least 1s, such as 30s or 2m." }))
}
