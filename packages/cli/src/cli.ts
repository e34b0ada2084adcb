/**
 * The `outlast` command and its subcommands.
 */
import { Console, Data, Effect, Option, Runtime } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import manifest from "../package.json" with { type: "json" }
import * as Chat from "./chat/Chat.ts"
import * as Classify from "./classify/Classify.ts"
import * as Compact from "./compact/Compact.ts"
import * as ConfigCheck from "./config/ConfigCheck.ts"
import * as Demo from "./demo/Demo.ts"
import * as Timeline from "./demo/Timeline.ts"
import * as Dlq from "./dlq/Dlq.ts"
import * as Doctor from "./doctor/Doctor.ts"
import * as Ports from "./doctor/Ports.ts"
import * as Explain from "./explain/Explain.ts"
import { isPreset, presetNames } from "./explain/Preset.ts"
import * as Guard from "./guard/Guard.ts"
import { unknown } from "./chat/Nearest.ts"
import * as JsonError from "./JsonError.ts"
import * as TasksCommand from "./tasks/Tasks.ts"
import * as TaskWorker from "./tasks/Worker.ts"
import { UsageError } from "./UsageError.ts"

/** The run ended without success, and has been reported. */
class Unsuccessful extends Data.TaggedError("Unsuccessful")<{}> {
  override readonly [Runtime.errorExitCode] = 1
  override readonly [Runtime.errorReported] = false
}

// A shell expands an unset variable to an empty text.
const isGiven = (text: string): boolean => text !== ""
const empty = () => "Expected a text that is not empty"
const text = (name: string) => Flag.String(name).pipe(Flag.filter(isGiven, empty))
const file = Argument.String("file").pipe(Argument.filter(isGiven, empty))

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
    provider: Flag.ChoiceWithValue("provider", [...Demo.realProviders]).pipe(
      Flag.withDescription("Do the job with a real provider; its key must be in the environment"),
      Flag.optional
    ),
    model: text("model").pipe(
      Flag.withDescription("The model of --provider, if not the usual one"),
      Flag.optional
    )
  },
  Effect.fn(
    function* (options) {
      const done = yield* Demo.run({
        ...options,
        paint: paintFor(process.stdout.isTTY, process.env["NO_COLOR"])
      })
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
      const isGood = yield* Chat.run({ real, preset, folder: Option.getOrUndefined(folder) })
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
      const allRead = yield* Classify.run(options)
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
    (options) => Explain.run(options),
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
      const allRead = yield* Guard.run(options)
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
      Flag.withDescription("A file of settings, as for config check"),
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
    json: Flag.Boolean("json").pipe(Flag.withDescription("Print one JSON object"), Flag.withDefault(false))
  },
  Effect.fn(function* ({ nats, subject, config, store, lock, port, ...options }) {
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
    const named = {
      nats: Option.getOrUndefined(nats),
      subjects: subject,
      config: Option.getOrUndefined(config),
      stores: store,
      lock: Option.getOrUndefined(lock),
      ports
    }
    if (!(yield* Doctor.run({ ...options, ...named, node }))) return yield* new Unsuccessful()
    // A timer or a connection left open by a user module would keep the process running.
    if (options.files.length > 0) yield* exit
  })
).pipe(
  Command.withDescription(
    "Is this configuration complete? Looks at Node, at the keys of the providers, and at what the tools and extensions of your modules and manifests require: which are offered, which are skipped, and why. Also at the clock, and at what you name: settings, stores, the streams of the subjects that you publish, the lock, the ports. Sends nothing to a provider and shows no value."
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
  Effect.fn((options) => Effect.tapError(Compact.run(options), JsonError.report("compact", options.json)))
).pipe(
  Command.withDescription(
    "What would compaction make of this conversation? Reads a transcript, says what it found and what it cut, and keeps the result. Calls no model."
  )
)

const dlqStore = {
  store: text("store").pipe(
    Flag.withDescription(
      "The outbox: a SQLite file, or a postgres:// address. Default: OUTLAST_STORE in the environment"
    ),
    Flag.optional
  ),
  prefix: text("prefix").pipe(
    Flag.withDescription("First part of the names of its tables"),
    Flag.withDefault("outlast")
  ),
  json: Flag.Boolean("json").pipe(
    Flag.withDescription("Print JSON: one object a line, or one for the whole"),
    Flag.withDefault(false)
  )
}
const dlqFilter = {
  subject: text("subject").pipe(
    Flag.withDescription('A subject, or a pattern: "*" is one part, ">" the rest'),
    Flag.optional
  ),
  reason: Flag.Literals("reason", Dlq.reasons).pipe(Flag.withDescription("Why it is dead"), Flag.optional),
  since: text("since").pipe(
    Flag.withDescription("Died since: 30m, 12h, 7d ago, or a date such as 2026-11-23T08:00:00Z"),
    Flag.optional
  ),
  olderThan: text("older-than").pipe(Flag.withDescription("Died before: as --since"), Flag.optional),
  limit: Flag.Int("limit").pipe(Flag.withDescription("At most so many"), Flag.optional)
}
const dlqIds = Argument.String("id").pipe(
  Argument.filter(isGiven, empty),
  Argument.withDescription("Numbers of dead letters, or ids of their events"),
  Argument.atLeast(0)
)
const dlqEverything = Flag.Boolean("all").pipe(
  Flag.withDescription("Every dead letter: needed where no id and no filter is given"),
  Flag.withDefault(false)
)
const dryRun = Flag.Boolean("dry-run").pipe(
  Flag.withDescription("Say how many it would be, and change nothing"),
  Flag.withDefault(false)
)

/** A store that fails is no mistake in the arguments: it ends with 1. */
const reported = <E extends { readonly message: string }, R>(
  effect: Effect.Effect<boolean, E, R>,
  command = "dlq"
) =>
  effect.pipe(
    Effect.tapError((error) => Console.error(`outlast ${command}: ${error.message}`)),
    Effect.mapError((error) => (error instanceof UsageError ? error : new Unsuccessful())),
    Effect.flatMap((done) => (done ? Effect.void : new Unsuccessful()))
  )

const dlq = Command.make("dlq").pipe(
  Command.withDescription(
    "Dead letters of an outbox: events that could not be delivered, which are kept until they are replayed or removed."
  ),
  Command.withSubcommands([
    Command.make(
      "list",
      {
        ...dlqStore,
        ...dlqFilter,
        replayed: Flag.Boolean("replayed").pipe(
          Flag.withDescription("Also those that were replayed"),
          Flag.withDefault(false)
        )
      },
      (options) => reported(Dlq.list(options))
    ).pipe(Command.withDescription("Lists dead letters, the newest first, without their bodies.")),
    Command.make(
      "show",
      {
        ...dlqStore,
        id: Argument.String("id").pipe(
          Argument.filter(isGiven, empty),
          Argument.withDescription("Number of the dead letter, or id of its event")
        ),
        body: Flag.Boolean("body").pipe(
          Flag.withDescription("Print the body as well, which may hold what is not for everyone"),
          Flag.withDefault(false)
        )
      },
      (options) => reported(Dlq.show(options))
    ).pipe(Command.withDescription("Shows one dead letter with its history.")),
    Command.make(
      "replay",
      { ids: dlqIds, ...dlqStore, ...dlqFilter, all: dlqEverything, dryRun },
      (options) => reported(Dlq.replay(options))
    ).pipe(
      Command.withDescription(
        "Puts dead letters back into the outbox, behind what their subjects have stored, all or none. A running outbox publishes them at its next sweep."
      )
    ),
    Command.make("purge", { ids: dlqIds, ...dlqStore, ...dlqFilter, all: dlqEverything, dryRun }, (options) =>
      reported(Dlq.purge(options))
    ).pipe(Command.withDescription("Removes dead letters for good."))
  ])
)

const taskStore = {
  ...dlqStore,
  store: text("store").pipe(
    Flag.withDescription(
      "Where the tasks are: a SQLite file, or a postgres:// address. Default: OUTLAST_STORE in the environment"
    ),
    Flag.optional
  )
}
const taskId = Argument.String("id").pipe(
  Argument.filter(isGiven, empty),
  Argument.withDescription("Id of the task: agent/key")
)
const taskIds = taskId.pipe(Argument.atLeast(1))

const tasks = Command.make("tasks").pipe(
  Command.withDescription("Durable tasks: agent runs that go on after a crash, a deploy or an outage."),
  Command.withSubcommands([
    Command.make(
      "list",
      {
        ...taskStore,
        state: Flag.Literals("state", TasksCommand.states).pipe(
          Flag.withDescription("Only tasks in this state; can be given again"),
          Flag.atLeast(0)
        ),
        task: text("task").pipe(Flag.withDescription("Only tasks of this agent"), Flag.optional),
        limit: Flag.Int("limit").pipe(Flag.withDescription("At most so many. Default 50"), Flag.optional)
      },
      (options) => reported(TasksCommand.list(options), "tasks")
    ).pipe(Command.withDescription("Lists tasks, the newest first.")),
    Command.make(
      "show",
      {
        ...taskStore,
        id: taskId,
        answer: Flag.Boolean("answer").pipe(
          Flag.withDescription("Print the answer as well, which may hold what is not for everyone"),
          Flag.withDefault(false)
        )
      },
      (options) => reported(TasksCommand.show(options), "tasks")
    ).pipe(Command.withDescription("Shows one task: its state, what it waits for, and how it ended.")),
    Command.make("watch", { ...taskStore, id: taskId }, (options) =>
      reported(TasksCommand.watch(options), "tasks")
    ).pipe(
      Command.withDescription("Prints each change of a task until it ends. Ends with 1 unless it is done.")
    ),
    Command.make("cancel", { ...taskStore, ids: taskIds }, (options) =>
      reported(TasksCommand.cancel(options), "tasks")
    ).pipe(Command.withDescription("Cancels tasks, also while a tool runs.")),
    Command.make("resume", { ...taskStore, ids: taskIds }, (options) =>
      reported(TasksCommand.resume(options), "tasks")
    ).pipe(Command.withDescription("Continues failed or cancelled tasks from their conversations.")),
    Command.make(
      "decide",
      {
        ...taskStore,
        id: taskId,
        happened: Flag.Boolean("happened").pipe(
          Flag.withDescription("The effect has happened"),
          Flag.withDefault(false)
        ),
        didNot: Flag.Boolean("did-not").pipe(
          Flag.withDescription("The effect has not happened and cannot happen any more: it is done now"),
          Flag.withDefault(false)
        ),
        result: text("result").pipe(
          Flag.withDescription("JSON that the tool would have returned, with --happened"),
          Flag.optional
        ),
        approve: text("approve").pipe(
          Flag.withDescription("yes or no for each call that waits for approval: yes,no"),
          Flag.optional
        )
      },
      (options) => reported(TasksCommand.decide(options), "tasks")
    ).pipe(Command.withDescription("Answers what a task waits for, so that it goes on.")),
    Command.make(
      "prune",
      {
        ...taskStore,
        olderThan: text("older-than").pipe(
          Flag.withDescription("Ended before: 12h, 30d ago, or a date such as 2026-11-23T08:00:00Z")
        )
      },
      (options) => reported(TasksCommand.prune(options), "tasks")
    ).pipe(
      Command.withDescription("Removes tasks that ended, with their history. Their keys can be used again.")
    )
  ])
)

const worker = Command.make(
  "worker",
  {
    module: Argument.String("module").pipe(
      Argument.filter(isGiven, empty),
      Argument.withDescription("A module (.ts, .js, .mjs) whose default export is the Layer of its agents")
    ),
    store: taskStore.store,
    prefix: taskStore.prefix,
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
  (options) => reported(TaskWorker.run(options), "worker")
).pipe(
  Command.withDescription(
    "Runs durable tasks: one worker for a SQLite file, as many as wanted for PostgreSQL. Ends in good order on SIGTERM."
  )
)

const kind = Flag.Literals("kind", ConfigCheck.kinds).pipe(
  Flag.withDescription("Whose settings: outlast, or decision037 for NetworkResilienceConfig"),
  Flag.withDefault("outlast")
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
        Effect.tapError(ConfigCheck.check(options), JsonError.report("config check", options.json))
      )
    ).pipe(
      Command.withDescription(
        "Says every problem of the file: syntax errors with the line, wrong fields with their path."
      )
    ),
    Command.make("schema", { kind }, ({ kind }) =>
      Console.log(JSON.stringify(ConfigCheck.schemaOf(kind), undefined, 2))
    ).pipe(Command.withDescription("Prints the JSON Schema of the file, for editors."))
  ])
)

const port = (name: string, usual: number, what: string) =>
  Flag.Int(name).pipe(
    Flag.filter(
      (port) => port >= 0 && port <= 65_535,
      () => "Expected a port from 0 to 65535; 0 is any free one"
    ),
    Flag.withDescription(`${what}. Default: ${usual}`),
    Flag.withDefault(usual)
  )

const serve = Command.make(
  "serve",
  {
    port: port("port", 4_180, "The port of the status page and of POST /api/runs"),
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
      Flag.withDescription("The folder of the lock, which keeps a second instance away"),
      Flag.withDefault(".outlast")
    ),
    fake: Flag.Boolean("fake").pipe(
      Flag.withDescription("Use fake providers, also where keys are set"),
      Flag.withDefault(false)
    )
  },
  Effect.fn(
    function* (options) {
      // Loaded only here: the servers would slow the start of every other command.
      const Serve = yield* Effect.promise(() => import("./serve/Serve.ts"))
      return yield* Serve.run({ ...options, version: manifest.version })
    },
    Effect.tapError((error) => Console.error(`outlast serve: ${error.message}`)),
    Effect.mapError((error) =>
      error instanceof UsageError || error._tag === "AlreadyRunning" ? error : new Unsuccessful()
    )
  )
).pipe(
  Command.withDescription(
    "A small agent service with a status page: POST a prompt, stream its events, and watch what fails and recovers. With keys in the environment it uses real providers, otherwise fake ones. OUTLAST_OPS_TOKEN turns actions of operators on."
  )
)

/** Returns colours for a terminal, unless they are turned off. */
const paintFor = (isTerminal: boolean | undefined, noColor: string | undefined): Timeline.Paint =>
  isTerminal === true && (noColor === undefined || noColor === "") ? Timeline.coloured : Timeline.uncoloured

export const outlast = Command.make("outlast").pipe(
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
    guard,
    serve,
    tasks,
    worker
  ])
)
