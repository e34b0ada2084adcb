/** A private Redis server on a free port, which is killed with its scope. */
import { Effect } from "effect"
import type { Scope } from "effect"
import * as Server from "./Server.ts"

export type { Program as RedisServer } from "./Server.ts"

/** The reason to skip the suites that need Redis. CI requires Redis. */
export const missing: string | undefined = Server.missing("redis-server")

/** A server that is not running yet. */
export const make: Effect.Effect<Server.Program, never, Scope.Scope> = Effect.flatMap(
  Server.freePort,
  (port) =>
    Server.program(port, "redis-server", [
      "--port",
      String(port),
      "--bind",
      "127.0.0.1",
      "--save",
      "",
      "--appendonly",
      "no"
    ])
)

/** A running server. */
export const running: Effect.Effect<Server.Program, Server.ServerFailed, Scope.Scope> = Effect.tap(
  make,
  ({ start }) => start
)
