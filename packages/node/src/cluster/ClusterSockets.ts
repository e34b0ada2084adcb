/**
 * Sockets of one worker in a cluster of `effect/cluster`: where it listens, and how it reaches the others.
 *
 * The sockets make a cluster faster: a worker hears of a message at once. Messages themselves are stored, and a worker
 * that cannot be reached finds them at its next look at the store.
 *
 * **How it composes.** `Tasks.layerCluster` of `@outlast/tasks` requires this layer. Needs `@effect/platform-node`.
 *
 * **Limits.** A connection is neither encrypted nor authenticated: let only the workers reach the port.
 *
 * **Example** (Workers on one machine, each on a free port)
 *
 * ```ts
 * const Sockets = ClusterSockets.layer({ host: "127.0.0.1" })
 * ```
 */
import * as NodeClusterSocket from "@effect/platform-node/NodeClusterSocket"
import * as NodeSocketServer from "@effect/platform-node/NodeSocketServer"
import { Options as Check } from "@outlast/resilience"
import { Effect, Layer, Option } from "effect"
import type { Runners } from "effect/cluster"
import { RunnerAddress, ShardingConfig } from "effect/cluster"
import { RpcSerialization } from "effect/rpc"
import { SocketServer } from "effect/socket"

export interface Options {
  /** Name or address by which the other workers reach this one. Each worker has an address of its own. */
  readonly host: string
  /**
   * Default: a free port. With a port of its own, a worker that was killed goes on with its tasks as soon as it is back;
   * on a free port it waits until the lease of the killed one is over.
   */
  readonly port?: number | undefined
  /** Address of the interface to listen on. Default: `host`. */
  readonly listen?: string | undefined
}

const checks: Check.Checks<Options> = {
  host: Check.is.required(Check.is.text),
  port: Check.is.integer({ min: 0, max: 65_535 }),
  listen: Check.is.text
}

/** Services that a cluster needs from a worker's sockets. */
export type Services =
  | ShardingConfig.ShardingConfig
  | SocketServer.SocketServer
  | Runners.RpcClientProtocol
  | RpcSerialization.RpcSerialization

/** Listens from now on. The `ShardingConfig` says the address of this worker, and has the defaults for the rest. */
export const layer = (options: Options): Layer.Layer<Services, SocketServer.SocketServerError> => {
  Check.fields("ClusterSockets", options, checks)
  const { host, port = 0, listen = host } = options
  const config = Layer.effect(
    ShardingConfig.ShardingConfig,
    Effect.map(SocketServer.SocketServer, ({ address }) => ({
      ...ShardingConfig.defaults,
      runnerAddress: Option.some(RunnerAddress.make(host, "port" in address ? address.port : port))
    }))
  )
  return Layer.merge(config, NodeClusterSocket.layerClientProtocol).pipe(
    Layer.provideMerge(NodeSocketServer.layer({ host: listen, port })),
    Layer.provideMerge(RpcSerialization.layerSchemaBinary({}))
  )
}
