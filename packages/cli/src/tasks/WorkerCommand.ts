/** The flags of `outlast worker`. */
import { Effect } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { argument, storeFlags, text } from "../command/Flags.ts"
import { reported } from "../command/Unsuccessful.ts"

// Loaded when the command runs: the start of the others need not wait for it.
const Worker = Effect.promise(() => import("./Worker.ts"))

const { store, prefix } = storeFlags("Where the tasks are")

export const worker = Command.make(
  "worker",
  {
    module: argument("module").pipe(
      Argument.withDescription("A module (.ts, .js, .mjs) whose default export is the Layer of its agents")
    ),
    store,
    prefix,
    name: text("name").pipe(
      Flag.withDescription("Name of the worker in a status. Default: its host and process"),
      Flag.optional
    ),
    concurrency: Flag.Int("concurrency").pipe(
      Flag.withDescription("Tasks at a time. Default 32"),
      Flag.optional
    ),
    takeover: text("takeover").pipe(
      Flag.withDescription("PostgreSQL: others take over this long after a worker is gone. Default 30s"),
      Flag.optional
    ),
    host: text("host").pipe(
      Flag.withDescription("PostgreSQL: name or address by which other workers reach this one"),
      Flag.withDefault("127.0.0.1")
    ),
    port: Flag.Int("port").pipe(
      Flag.withDescription("PostgreSQL: port for other workers. Default: a free one"),
      Flag.withDefault(0)
    ),
    listen: text("listen").pipe(
      Flag.withDescription("PostgreSQL: address to listen on. Default: that of --host"),
      Flag.optional
    )
  },
  (options) =>
    reported(
      Effect.flatMap(Worker, ({ run }) => run(options)),
      "worker"
    )
).pipe(
  Command.withDescription(
    "Runs durable tasks: one worker for a SQLite file, as many as wanted for PostgreSQL. Ends in good order on SIGTERM."
  )
)
