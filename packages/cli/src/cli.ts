/**
 * The `outlast` command and its subcommands.
 */
import { Console, Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import manifest from "../package.json" with { type: "json" }
import { kinds } from "./config/Kinds.ts"
import { dlq } from "./dlq/DlqCommand.ts"
import * as Ports from "./doctor/Ports.ts"
import { isPreset, presetNames } from "./explain/PresetName.ts"
import { file, text } from "./command/Flags.ts"
import { gateway } from "./gateway/GatewayCommand.ts"
import { withUsageErrors } from "./command/Invocation.ts"
import { unknown } from "./chat/Nearest.ts"
import * as JsonError from "./command/JsonError.ts"
import { serve } from "./serve/ServeCommand.ts"
import { tasks } from "./tasks/TasksCommand.ts"
import { worker } from "./tasks/WorkerCommand.ts"
import { Unsuccessful } from "./command/Unsuccessful.ts"
import { UsageError } from "./command/UsageError.ts"

// Each is loaded when its command runs: the start of the others need not wait for it.
const Chat = Effect.promise(() => import("./chat/Chat.ts"))
const Classify = Effect.promise(() => import("./classify/Classify.ts"))
const Compact = Effect.promise(() => import("./compact/Compact.ts"))
const ConfigCheck = Effect.promise(() => import("./config/ConfigCheck.ts"))
const Demo = Effect.promise(() => import("./demo/Demo.ts"))
const Doctor = Effect.promise(() => import("./doctor/Doctor.ts"))
const Explain = Effect.promise(() => import("./explain/Explain.ts"))
const Guard = Effect.promise(() => import("./guard/Guard.ts"))

const demo = Command.make(
  "demo",
  {
    json: Flag.Boolean("json").pipe(
      Flag.withDescription("Print only the summary of both runs, or the error, as one JSON object"),
      Flag.withDefault(false)
    ),
    plan: text("plan").pipe(
      Flag.withDescription('A JSON file with the faults: { "faults": [...] }'),
      Flag.optional
    ),
    seed: Flag.Int("seed").pipe(Flag.withDescription("Draw other faults from this number"), Flag.optional),
    provider: text("provider").pipe(
      Flag.withDescription(
        "Do the job with a real provider, for example anthropic; its key must be in the environment"
      ),
      Flag.optional
    ),
    model: text("model").pipe(
      Flag.withDescription("The model of --provider, if not the usual one"),
      Flag.optional
    )
  },
  Effect.fn(
    function* (options) {
      const done = yield* (yield* Demo).run(options)
      if (!done) return yield* new Unsuccessful()
    },
    (effect, { json }) => Effect.tapErrorTag(effect, "UsageError", JsonError.report("demo", json))
  )
).pipe(
  Command.withDescription(
    "An agent fixes a failing test while its providers fail over real HTTP: on the AI SDK alone, then with Outlast. Needs no key and no network."
  )
)

const chat = Command.make(
  "chat",
  {
    real: Flag.Boolean("real").pipe(
      Flag.withDescription("Use the real providers whose keys are set, instead of fake ones"),
      Flag.withDefault(false)
    ),
    preset: Flag.String("preset").pipe(
      Flag.withDescription(`The first preset: ${presetNames.join(" or ")}`),
      Flag.withDefault("interactive")
    ),
    folder: text("folder").pipe(
      Flag.withDescription(
        "A folder whose files the model may read. Default: sample files, or none with --real"
      ),
      Flag.optional
    )
  },
  Effect.fn(
    function* ({ real, preset, folder }) {
      if (!isPreset(preset)) {
        return yield* new UsageError({ message: unknown("a preset", preset, presetNames, "Presets") })
      }
      const isGood = yield* (yield* Chat).run({ real, preset, folder: Option.getOrUndefined(folder) })
      if (!isGood) return yield* new Unsuccessful()
    },
    Effect.tapErrorTag("UsageError", (error) => Console.error(`outlast chat: ${error.message}`))
  )
).pipe(
  Command.withDescription(
    "A conversation with a resilient agent whose providers you can break: on fake providers, which need no key, or on real ones. Works in a pipe, too: one message or command a line."
  )
)

const classify = Command.make(
  "classify",
  {
    file: file.pipe(
      Argument.withDescription("JSON lines, one error each; standard input when absent or -"),
      Argument.optional
    ),
    score: Flag.Boolean("score").pipe(
      Flag.withDescription("The lines have labels: print accuracy, confusion and every miss"),
      Flag.withDefault(false)
    ),
    compare: Flag.Boolean("compare").pipe(
      Flag.withDescription("The lines have labels: print the accuracy of simpler rules beside ours"),
      Flag.withDefault(false)
    ),
    json: Flag.Boolean("json").pipe(
      Flag.withDescription("Print the score as one JSON object; verdicts are JSON in any case"),
      Flag.withDefault(false)
    )
  },
  Effect.fn(
    function* (options) {
      const allRead = yield* (yield* Classify).run(options)
      if (!allRead) return yield* new Unsuccessful()
    },
    Effect.tapErrorTag("UsageError", (error) => Console.error(`outlast classify: ${error.message}`))
  )
).pipe(
  Command.withDescription(
    "What went wrong, and how we know: reads errors as JSON lines with the fields id, provider, status, code, headers, body, message and cause_chain, all optional, and prints one verdict a line."
  )
)

const explain = Command.make(
  "explain",
  {
    error: text("error").pipe(
      Flag.withDescription(
        "A JSON file with the error, or - for standard input, which is also read when no part of it is given"
      ),
      Flag.optional
    ),
    status: Flag.Int("status").pipe(Flag.withDescription("Its HTTP status"), Flag.optional),
    code: Flag.String("code").pipe(Flag.withDescription("Its error code or errno"), Flag.optional),
    message: Flag.String("message").pipe(Flag.withDescription("Its message"), Flag.optional),
    provider: text("provider").pipe(Flag.withDescription("Who said it"), Flag.optional),
    header: Flag.String("header").pipe(
      Flag.withDescription('A response header, "name: value"; may be repeated'),
      Flag.atLeast(0)
    ),
    preset: Flag.String("preset").pipe(
      Flag.withDescription(`The policy: ${presetNames.join(" or ")}`),
      Flag.withDefault("interactive")
    ),
    keys: Flag.Int("keys").pipe(Flag.withDescription("Keys of each model"), Flag.optional),
    models: Flag.Int("models").pipe(
      Flag.withDescription("Models, each at another provider. Default: three chains of one and two"),
      Flag.optional
    ),
    json: Flag.Boolean("json").pipe(
      Flag.withDescription("Print one JSON object; times are in milliseconds"),
      Flag.withDefault(false)
    )
  },
  Effect.fn(
    (options) => Effect.flatMap(Explain, ({ run }) => run(options)),
    Effect.tapErrorTag("UsageError", (error) => Console.error(`outlast explain: ${error.message}`))
  )
).pipe(
  Command.withDescription(
    "What one error is, how we know, and what a policy would do about it, attempt by attempt, in virtual time."
  )
)

const guard = Command.make(
  "guard",
  {
    files: file.pipe(
      Argument.withDescription("Traces: JSON lines, one tool call each; - is standard input"),
      Argument.atLeast(0)
    ),
    score: text("score").pipe(
      Flag.withDescription("A directory of traces with labels.json: print precision, recall and lateness"),
      Flag.optional
    ),
    json: Flag.Boolean("json").pipe(
      Flag.withDescription("Print one JSON object a trace, or the score as one"),
      Flag.withDefault(false)
    )
  },
  Effect.fn(
    function* (options) {
      const allRead = yield* (yield* Guard).run(options)
      if (!allRead) return yield* new Unsuccessful()
    },
    Effect.tapErrorTag("UsageError", (error) => Console.error(`outlast guard: ${error.message}`))
  )
).pipe(
  Command.withDescription(
    "Would the guard have stopped these runs? Reads traces, one tool call a line with the fields turn, tool, arguments, result and failed, and says for each at which call, and why."
  )
)

const doctor = Command.make(
  "doctor",
  {
    files: file.pipe(
      Argument.withDescription(
        'Modules (.ts, .js, .mjs) that export toolkits, tools or extensions, which are loaded, and JSON manifests: { "name", "requires": { "env": [...] } }'
      ),
      Argument.atLeast(0)
    ),
    strict: Flag.Boolean("strict").pipe(
      Flag.withDescription("A tool or extension that is skipped is an error"),
      Flag.withDefault(false)
    ),
    nats: text("nats").pipe(
      Flag.withDescription(
        "Examine the streams of --subject at this NATS server, for example localhost:4222"
      ),
      Flag.optional
    ),
    subject: text("subject").pipe(
      Flag.withDescription("A subject that is published; may be repeated. With --nats"),
      Flag.atLeast(0)
    ),
    config: text("config").pipe(
      Flag.withDescription("A file of settings, or of routes of a gateway, as for config check"),
      Flag.optional
    ),
    store: text("store").pipe(
      Flag.withDescription("A SQLite file or a postgres:// address of the program; may be repeated"),
      Flag.atLeast(0)
    ),
    lock: text("lock").pipe(Flag.withDescription("The lock of the program"), Flag.optional),
    port: text("port").pipe(
      Flag.withDescription("A port that the program opens: 8080 or 127.0.0.1:8080; may be repeated"),
      Flag.atLeast(0)
    ),
    url: text("url").pipe(
      Flag.withDescription(
        "The status page of a program that runs, for example http://127.0.0.1:4180: what its first line says. OUTLAST_OPS_TOKEN is its token"
      ),
      Flag.optional
    ),
    json: Flag.Boolean("json").pipe(Flag.withDescription("Print one JSON object"), Flag.withDefault(false))
  },
  Effect.fn(function* ({ nats, subject, config, store, lock, port, url, ...options }) {
    const node = { version: process.versions.node, needed: manifest.engines.node }
    if (Option.isSome(nats) !== subject.length > 0) {
      const message = "--nats and --subject go together."
      yield* Console.error(`outlast doctor: ${message}`)
      return yield* new UsageError({ message })
    }
    const ports: Array<Ports.Port> = []
    for (const one of port) {
      const parsed = Ports.parse(one)
      if (parsed === undefined) {
        const message = `--port ${one} is no port. Expected 8080, 127.0.0.1:8080 or [::1]:8080.`
        yield* Console.error(`outlast doctor: ${message}`)
        return yield* new UsageError({ message })
      }
      ports.push(parsed)
    }
    const page = Option.isSome(url)
      ? (yield* Effect.promise(() => import("./doctor/RunningProgram.ts"))).parse(url.value)
      : undefined
    if (Option.isSome(url) && page === undefined) {
      const message =
        "--url is no address of a status page. Expected http://127.0.0.1:4180, without a password."
      yield* Console.error(`outlast doctor: ${message}`)
      return yield* new UsageError({ message })
    }
    const named = {
      nats: Option.getOrUndefined(nats),
      subjects: subject,
      config: Option.getOrUndefined(config),
      stores: store,
      lock: Option.getOrUndefined(lock),
      ports,
      url: page
    }
    if (!(yield* (yield* Doctor).run({ ...options, ...named, node }))) return yield* new Unsuccessful()
    // A timer or a connection left open by a user module would keep the process running.
    if (options.files.length > 0) yield* exit
  })
).pipe(
  Command.withDescription(
    "Is this configuration complete? Looks at Node, at the keys of the providers, and at what the tools and extensions of your modules and manifests require: which are offered, which are skipped, and why. Also at the clock, and at what you name: settings, stores, the streams of the subjects that you publish, the lock, the ports, a program that runs. Sends nothing to a provider and shows no value."
  )
)

/** Ends the process once its output is written. */
const exit = Effect.callback<never>(() => {
  process.stdout.write("", () => process.exit())
})

const compact = Command.make(
  "compact",
  {
    file: file.pipe(
      Argument.withDescription(
        "The transcript: the JSON body of a request of Anthropic Messages, OpenAI Chat Completions or Gemini, or a prompt of effect/ai; - is standard input"
      )
    ),
    out: text("out").pipe(
      Flag.withDescription("Write the compacted transcript here, in the same format; may be the same file"),
      Flag.optional
    ),
    window: Flag.Int("window").pipe(
      Flag.withDescription("Tokens of the window, answer included. Default: that of the model in the body"),
      Flag.optional
    ),
    json: Flag.Boolean("json").pipe(
      Flag.withDescription("Print the report, or the error, as one JSON object"),
      Flag.withDefault(false)
    )
  },
  Effect.fn((options) =>
    Effect.flatMap(Compact, ({ run }) => run(options)).pipe(
      Effect.tapError(JsonError.report("compact", options.json))
    )
  )
).pipe(
  Command.withDescription(
    "What would compaction make of this conversation? Reads a transcript, says what it found and what it cut, and keeps the result. Calls no model."
  )
)

const kind = Flag.Literals("kind", kinds).pipe(
  Flag.withDescription(
    "Whose settings: outlast, gateway for routes of outlast gateway, or decision037 for NetworkResilienceConfig. Default: gateway for a file with routes, otherwise outlast"
  ),
  Flag.optional
)

const config = Command.make("config").pipe(
  Command.withDescription("Settings in a file: JSON, YAML or TOML."),
  Command.withSubcommands([
    Command.make(
      "check",
      {
        file: file.pipe(Argument.withDescription("The file: .json, .yaml, .yml or .toml")),
        kind,
        json: Flag.Boolean("json").pipe(
          Flag.withDescription("Print the settings that are given, or the error, as one JSON object"),
          Flag.withDefault(false)
        )
      },
      Effect.fn((options) =>
        Effect.flatMap(ConfigCheck, ({ check }) => check(options)).pipe(
          Effect.tapError(JsonError.report("config check", options.json))
        )
      )
    ).pipe(
      Command.withDescription(
        "Says every problem of the file: syntax errors with the line, wrong fields with their path."
      )
    ),
    Command.make("schema", { kind }, ({ kind }) =>
      Effect.flatMap(ConfigCheck, ({ schemaOf }) =>
        Console.log(JSON.stringify(schemaOf(Option.getOrElse(kind, () => "outlast" as const)), undefined, 2))
      )
    ).pipe(Command.withDescription("Prints the JSON Schema of the file, for editors."))
  ])
)

const outlast = Command.make("outlast").pipe(
  Command.withDescription("Resilience for LLM agents"),
  Command.withSubcommands([
    demo,
    chat,
    classify,
    compact,
    config,
    dlq,
    doctor,
    explain,
    gateway,
    guard,
    serve,
    tasks,
    worker
  ])
)

/** Runs the command with the arguments of `Stdio`. */
export const run = outlast.pipe(Command.run({ version: manifest.version }), withUsageErrors)
