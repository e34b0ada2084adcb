/** The flags of `outlast serve`. */
import { Console, Effect } from "effect"
import { Command, Flag } from "effect/cli"
import manifest from "../../package.json" with { type: "json" }
import { port, text } from "../command/Flags.ts"
import { Unsuccessful } from "../command/Unsuccessful.ts"
import { UsageError } from "../command/UsageError.ts"

export const serve = Command.make(
  "serve",
  {
    port: port("port", 4_180, "The port of the status page, of /api/runs and of /api/tasks"),
    probes: port("probes-port", 8_080, "The port of /live and /ready"),
    metrics: port("metrics-port", 9_090, "The port of /metrics"),
    host: text("host").pipe(
      Flag.withDescription("The address to listen on. Beyond loopback, OUTLAST_OPS_TOKEN must be set"),
      Flag.withDefault("127.0.0.1")
    ),
    names: text("name").pipe(
      Flag.withDescription("A host name under which the service is reached; may be repeated"),
      Flag.atLeast(0)
    ),
    config: text("config").pipe(
      Flag.withDescription("Settings: .json, .yaml or .toml, as for outlast config check"),
      Flag.optional
    ),
    folder: text("folder").pipe(
      Flag.withDescription(
        "A folder whose files the model may read. Default: sample files with fake providers, otherwise none"
      ),
      Flag.optional
    ),
    store: text("store").pipe(
      Flag.withDescription(
        "An outbox whose dead letters are shown and can be replayed: a SQLite file, or a postgres:// address"
      ),
      Flag.optional
    ),
    data: text("data").pipe(
      Flag.withDescription("The folder of the tasks, and of the lock, which keeps a second instance away"),
      Flag.withDefault(".outlast")
    ),
    readyNeedsModel: Flag.Boolean("ready-needs-model").pipe(
      Flag.withDescription(
        "/ready answers 503 while no model can answer. An outage then takes every replica out"
      ),
      Flag.withDefault(false)
    ),
    fake: Flag.Boolean("fake").pipe(
      Flag.withDescription("Use fake providers, also where keys are set"),
      Flag.withDefault(false)
    )
  },
  Effect.fn(
    function* (options) {
      // Loaded only here: the servers would slow the start of every other command.
      const Serve = yield* Effect.promise(() => import("./Serve.ts"))
      return yield* Serve.run({ ...options, version: manifest.version })
    },
    Effect.tapError((error) => Console.error(`outlast serve: ${error.message}`)),
    Effect.mapError((error) =>
      error instanceof UsageError || error._tag === "StartFailed" ? error : new Unsuccessful()
    )
  )
).pipe(
  Command.withDescription(
    "A small agent service with a status page: POST a prompt, stream its events, and watch what fails and recovers. With keys in the environment it uses real providers, otherwise fake ones. OUTLAST_OPS_TOKEN turns actions of operators on."
  )
)
