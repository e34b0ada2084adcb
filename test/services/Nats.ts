/** A nats-server with JetStream of the test's own. */
import { Effect } from "effect"
import type { Scope } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Server from "./Server.ts"

export const missing = Server.missing("nats-server")

export interface Nats extends Server.Program {
  readonly url: string
}

/** A server that is not running yet. `config` is appended to its configuration. */
export const make = (config = ""): Effect.Effect<Nats, never, Scope.Scope> =>
  Effect.gen(function* () {
    const port = yield* Server.freePort
    const folder = yield* Server.folder
    const file = join(folder, "nats.conf")
    yield* Effect.sync(() =>
      writeFileSync(
        file,
        `listen: "127.0.0.1:${port}"\njetstream { store_dir: ${JSON.stringify(join(folder, "js"))} }\n${config}\n`
      )
    )
    const program = yield* Server.program(port, "nats-server", ["-c", file])
    return { ...program, url: `127.0.0.1:${port}` }
  })

/** A server that runs. */
export const running = (config?: string) => Effect.tap(make(config), ({ start }) => start)
