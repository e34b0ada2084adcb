/** The flags of `outlast gateway`. */
import { Console, Effect } from "effect"
import { Command, Flag } from "effect/cli"
import manifest from "../../package.json" with { type: "json" }
import { optionalPort, port, text } from "../command/Flags.ts"

export const gateway = Command.make(
  "gateway",
  {
    port: port("port", 4_190, "The port"),
    host: text("host").pipe(
      Flag.withDescription("The address to listen on. Beyond loopback, OUTLAST_GATEWAY_KEY must be set"),
      Flag.withDefault("127.0.0.1")
    ),
    config: text("config").pipe(
      Flag.withDescription(
        "Routes: .json, .yaml or .toml. Read again when it changes. Default: every model of the vendors whose keys are set"
      ),
      Flag.optional
    ),
    log: Flag.Boolean("access-log").pipe(
      Flag.withDescription("Print a line for each answer: path, status, target, attempts, time. No content"),
      Flag.withDefault(false)
    ),
    ops: optionalPort(
      "ops-port",
      "The port of the status page, /events, /live, /ready and /metrics. Default: the one after --port"
    ),
    opsHost: text("ops-host").pipe(
      Flag.withDescription(
        "The address of --ops-port, --probes-port and --metrics-port. Beyond loopback, OUTLAST_OPS_TOKEN must be set"
      ),
      Flag.withDefault("127.0.0.1")
    ),
    probes: optionalPort("probes-port", "A port of its own for /live and /ready, which needs no token"),
    metrics: optionalPort("metrics-port", "A port of its own for /metrics, which needs no token"),
    names: text("name").pipe(
      Flag.withDescription("A host name under which the gateway is reached; may be repeated"),
      Flag.atLeast(0)
    ),
    origins: text("origin").pipe(
      Flag.withDescription(
        "The origin of a web page that may use the gateway, for example https://app.example.com; may be repeated"
      ),
      Flag.atLeast(0)
    )
  },
  Effect.fn(
    function* (options) {
      // Loaded only here: the clients of the vendors would slow the start of every other command.
      const Serving = yield* Effect.promise(() => import("./Serving.ts"))
      return yield* Serving.run({ ...options, version: manifest.version })
    },
    Effect.tapError((error) => Console.error(`outlast gateway: ${error.message}`))
  )
).pipe(
  Command.withDescription(
    "The same resilience for any program, by changing its base URL: speaks Chat Completions and Responses of OpenAI, and Messages of Anthropic. Keys in the environment are enough: OPENAI_API_KEY, ANTHROPIC_API_KEY, and further ones with _2 to _9. OUTLAST_GATEWAY_KEY (several with commas) is asked of callers."
  )
)
