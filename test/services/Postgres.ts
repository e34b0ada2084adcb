/** A PostgreSQL server of the test's own. */
import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import type { Scope } from "effect"
import { SqlClient } from "effect/sql"
import { execFileSync } from "node:child_process"
import { chownSync } from "node:fs"
import { join } from "node:path"
import * as Server from "./Server.ts"

export const missing = Server.missing("initdb") ?? Server.missing("postgres")

/** The server refuses to run as root. */
const user = (() => {
  if (process.getuid?.() !== 0) return {}
  const idOf = (flag: string) => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }))
  return { uid: idOf("-u"), gid: idOf("-g") }
})()

/** A server that runs. */
export const started = ({
  fsync
}: {
  readonly fsync: boolean
}): Effect.Effect<Server.Program, Server.ServerFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const port = yield* Server.freePort
    const folder = yield* Server.folder
    const data = join(folder, "data")
    if (user.uid !== undefined) chownSync(folder, user.uid, user.gid)
    execFileSync("initdb", ["-D", data, "-A", "trust", "-U", "outlast", "-E", "UTF8", "--no-sync"], {
      stdio: "ignore",
      ...user
    })
    const args = ["-D", data, "-p", String(port), "-c", "listen_addresses=127.0.0.1", "-k", folder]
    const program = yield* Server.program(
      port,
      "postgres",
      [...args, "-c", `fsync=${fsync ? "on" : "off"}`],
      user
    )
    yield* program.start
    // Its port is open before it takes connections.
    const hello = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1`)
    yield* Effect.provide(hello, client(program)).pipe(
      Effect.tapError(() => Effect.promise(Server.pause)),
      Effect.retry({ times: 1_000 }),
      Effect.mapError((error) => new Server.ServerFailed({ message: String(error) }))
    )
    return program
  })

/** A server without durability: it is asked about rules, not about its disk. */
export const running = started({ fsync: false })

export const client = (
  { port }: Server.Program,
  options: { readonly maxConnections?: number; readonly database?: string } = {}
) => PgClient.layer({ host: "127.0.0.1", port, username: "outlast", database: "postgres", ...options })
