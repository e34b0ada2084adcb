/**
 * `outlast serve`: a small agent service that can be seen and operated. `POST /api/runs` takes a prompt and streams the
 * events of its run. `POST /api/tasks` takes it as a task, which survives the process.
 * The status page, `/events`, `/live`, `/ready` and `/metrics` show what happens meanwhile.
 *
 * It shows how a service is put together: one instance at a time, an orderly shutdown, settings that change while it
 * runs, and the endpoints of `@outlast/node/ops`.
 */
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { Clock, Console, Context, Effect, FileSystem, Layer, Option, Predicate, Schema, Stream } from "effect"
import type { Redacted } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { Activity, Compaction, Outlast } from "@outlast/agent"
import { LiveConfig, OutlastConfig } from "@outlast/agent/config"
import type { TargetRef } from "@outlast/agent/conversation"
import { Targets } from "@outlast/agent/failover"
import type { Permits } from "@outlast/agent/failover"
import { Inbound } from "@outlast/agent/guard"
import { CallLimiter } from "@outlast/agent/limiter"
import { DeadLetters, DeliveryStore } from "@outlast/delivery"
import { Host, SingleInstance } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import { Registry } from "@outlast/providers"
import { Tasks } from "@outlast/tasks"
import { Alerts, CircuitBreaker, ResilienceEvents } from "@outlast/resilience"
import * as FakeChain from "../chat/FakeChain.ts"
import type { Chain } from "../chat/FakeChain.ts"
import * as Workspace from "../chat/Workspace.ts"
import * as ConfigCheck from "../config/ConfigCheck.ts"
import * as Dlq from "../dlq/Dlq.ts"
import * as Report from "../dlq/Report.ts"
import { unreadable } from "../command/Unreadable.ts"
import { UsageError } from "../command/UsageError.ts"
import * as Listeners from "./Listeners.ts"
import * as Operators from "./Operators.ts"
import * as PromptTask from "./PromptTask.ts"
import * as Requests from "./Requests.ts"
import * as Runs from "./Runs.ts"
import * as Sections from "./Sections.ts"
import { StartFailed } from "../command/StartFailed.ts"
import * as TaskRoutes from "./TaskRoutes.ts"
import * as Traces from "./Traces.ts"

export interface Options {
  /** Port of the page and of `POST /api/runs`. */
  readonly port: number
  readonly probes: number
  readonly metrics: number
  readonly host: string
  /** Names under which the service is reached, beside addresses and `localhost`. */
  readonly names: ReadonlyArray<string>
  readonly config: Option.Option<string>
  readonly folder: Option.Option<string>
  /** The outbox whose dead letters are shown: a SQLite file, or a postgres:// address. */
  readonly store: Option.Option<string>
  /** Folder of the lock. */
  readonly data: string
  /** Use fake providers, also where a key is set. */
  readonly fake: boolean
  /** Answer `/ready` with 503 while no model can answer. */
  readonly readyNeedsModel: boolean
  readonly version: string
}

/** Milliseconds before each word of a fake answer. */
const pace = 30

const isName = (text: string): boolean => /^[\w.-]+$/.test(text)

/** The flags of the listeners. */
const flags: Readonly<Record<string, string>> = {
  "page.port": "--port",
  "page.host": "--host",
  "probes.port": "--probes-port",
  "probes.host": "--host",
  "metrics.port": "--metrics-port",
  "metrics.host": "--host"
}

/** Short names that a person can type. */
const circuitsOf = ({ model, provider }: TargetRef.TargetRef): Permits.Circuits => ({
  endpoint: provider,
  model: `${provider}/${model}`
})

const chainOf = (fake: boolean) =>
  Effect.gen(function* () {
    const found = fake ? Option.none<Chain>() : yield* Effect.option(Registry.detect)
    return Option.isSome(found)
      ? { chain: found.value, isFake: false }
      : { chain: yield* FakeChain.make(pace), isFake: true }
  })

const folderOf = ({ folder }: Options, isFake: boolean) =>
  Effect.gen(function* () {
    if (Option.isNone(folder)) return isFake ? yield* Workspace.sample : undefined
    const fs = yield* FileSystem.FileSystem
    return yield* fs.realPath(folder.value).pipe(
      Effect.tap(fs.readDirectory),
      Effect.mapError((error) => unreadable(`The folder ${folder.value}`, error))
    )
  })

const Run = Schema.Struct(Requests.prompt)

/** `POST /api/runs`. */
const taking = (runs: Runs.Runs, inbound: Inbound.Inbound) =>
  Requests.withPrompt(inbound, Run, 'Send { "prompt": TEXT } and no other fields.', (prompt) =>
    Effect.gen(function* () {
      const events = yield* runs.start(prompt)
      if (events === undefined) {
        return yield* new Requests.Refused({
          status: 503,
          message: "Too many runs. Try again when one has ended."
        })
      }
      const context = yield* Effect.context<Runs.Needed>()
      return HttpServerResponse.stream(events.pipe(Stream.provideContext(context), Stream.encodeText), {
        contentType: "text/event-stream; charset=utf-8"
      })
    })
  )

/** Serves until the program is ended. */
export const run = (options: Options) =>
  Effect.gen(function* () {
    const settings = Option.isSome(options.config) ? yield* ConfigCheck.settingsOf(options.config.value) : {}
    const token = yield* Listeners.token("--host", options.host)
    const wrong = options.names.find((name) => !isName(name))
    if (wrong !== undefined) {
      return yield* new UsageError({
        message: `--name ${wrong} must be a host name without a scheme, a port and a path.`
      })
    }
    yield* Effect.tryPromise({
      try: () => mkdir(options.data, { recursive: true }),
      catch: (error) =>
        new UsageError({
          message:
            codeOf(error) === "EEXIST"
              ? `--data ${options.data} is a file. Choose a folder.`
              : `The folder ${options.data} cannot be made: ${codeOf(error)}. Choose another one with --data.`
        })
    })
    const lock = yield* SingleInstance.acquire(join(options.data, "serve.lock")).pipe(
      Effect.catchTag("AlreadyRunning", ({ holder }) =>
        Effect.fail(
          new StartFailed({
            exitCode: SingleInstance.exitCode,
            message: `Another instance is running: ${holder}. End it first, or choose another folder with --data.`
          })
        )
      )
    )
    yield* Host.ready("lock", lock.isHeld)

    const { chain, isFake } = yield* chainOf(options.fake)
    const live = yield* LiveConfig.make(settings)
    const { circuits } = OutlastConfig.policyOf(settings)
    const breaker = yield* CircuitBreaker.make(circuits === false ? {} : circuits)
    const limiter = yield* CallLimiter.make()
    const parts = Layer.mergeAll(
      LiveConfig.layerFailover(chain, live, { breaker, circuitsOf, limiter }),
      Workspace.layer(yield* folderOf(options, isFake))
    )
    const model = Compaction.layerModel({ policy: OutlastConfig.compactionOf(settings) }).pipe(
      Layer.provideMerge(parts)
    )
    return yield* Effect.provide(
      serving(options, {
        breaker,
        limiter,
        outbox: yield* outboxOf(options),
        isFake,
        live,
        token
      }),
      PromptTask.layer(join(options.data, "tasks.db"), OutlastConfig.limitsOf(settings)).pipe(
        Layer.provideMerge(model)
      )
    )
  }).pipe(
    Effect.scoped,
    // The engine of the tasks dies when its file takes no writes.
    Effect.catchDefect((defect) =>
      Predicate.isTagged(defect, "SqlError") && Predicate.isError(defect)
        ? Effect.fail(new StartFailed({ exitCode: 1, message: defect.message }))
        : Effect.die(defect)
    ),
    Effect.provide(Telemetry)
  )

const Telemetry = Alerts.layer().pipe(
  Layer.provideMerge(Outlast.layerMetrics()),
  Layer.provideMerge(ResilienceEvents.layer()),
  Layer.provideMerge(Traces.layer("outlast-serve"))
)

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error ? String(error.code) : "unknown error"

/** The outbox of `--store`. */
const outboxOf = ({ store }: Options) =>
  Effect.gen(function* () {
    if (Option.isNone(store)) return undefined
    const context = yield* Layer.build(yield* Dlq.layerOf(store.value, "outlast"))
    return {
      dead: Context.get(context, DeadLetters.DeadLetters),
      events: Context.get(context, DeliveryStore.DeliveryStore)
    }
  })

const waiting = ["InDoubt", "WaitingForApproval", "WaitingForWorker", "WaitingUntil"] as const
const moving = ["Retrying", "Running", "Queued"] as const
const over = ["Failed", "Done", "Cancelled"] as const

/** Dead letters that the page lists. */
const shownLetters = 20

interface Parts {
  readonly outbox: { readonly dead: DeadLetters.Service; readonly events: DeliveryStore.Service } | undefined
  readonly breaker: CircuitBreaker.Service
  readonly limiter: CallLimiter.Service
  readonly isFake: boolean
  readonly live: LiveConfig.Service
  readonly token: Redacted.Redacted | undefined
}

const serving = (options: Options, { breaker, isFake, limiter, live, outbox, token }: Parts) =>
  Effect.gen(function* () {
    const targets = yield* Targets.Targets
    const refs = (yield* targets.list).map(({ target }) => target)
    const circuits = [...new Set(refs.map(circuitsOf).flatMap(({ endpoint, model }) => [endpoint, model]))]
    const runs = yield* Runs.make(Effect.map(live.get, OutlastConfig.limitsOf))
    const inbound = yield* Inbound.make
    const activity = yield* Activity.make

    yield* Host.section("activity", activity.json)
    yield* Host.section("targets", Activity.chain)
    yield* Host.section(
      "retry budget",
      Effect.map(targets.retryBudget, (budget) => plain(budget ?? null))
    )
    yield* Host.section(
      "circuits",
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.map(Effect.forEach(circuits, breaker.state), (list) => Sections.circuits(list, now))
      )
    )
    const dead = outbox?.dead
    if (outbox !== undefined) {
      const { dead: own, events } = outbox
      const backlog = Effect.all({ stored: events.totals, oldest: events.oldest })
      yield* Host.section(
        "outbox",
        Effect.map(backlog, ({ oldest, stored }) => ({
          backlog: stored.events,
          bytes: stored.bytes,
          oldestAt: Option.getOrNull(oldest)
        }))
      )
      const letters = Effect.all({ total: own.count(), newest: own.list({}, { limit: shownLetters }) })
      yield* Host.section(
        "dead letters",
        Effect.map(letters, ({ newest, total }) => plain({ total, newest: newest.map(Report.summary) }))
      )
    }
    const tasks = yield* Tasks.Tasks
    yield* Host.ready("tasks", tasks.ready)
    // What waits for a person is never beyond the end of the list.
    const listed = Effect.all([
      Stream.runCollect(Stream.take(tasks.list({ state: waiting }), Sections.maxTasks)),
      Stream.runCollect(Stream.take(tasks.list({ state: moving }), Sections.maxTasks)),
      Stream.runCollect(Stream.take(tasks.list({ state: over }), Sections.maxTasks))
    ])
    yield* Host.section(
      "tasks",
      Effect.map(listed, (lists) => plain(Sections.tasks(lists.flat())))
    )
    yield* Host.section("runs", Effect.map(runs.list, plain))
    yield* Host.section("settings", Effect.map(live.get, plain))
    yield* Host.section(
      "configuration",
      Effect.map(live.get, (settings) => plain(Sections.configuration(settings)))
    )
    yield* Host.section(
      "limits",
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.map(
          Effect.forEach(refs, (ref) =>
            Effect.map(limiter.limits(ref), (list) => Sections.limits(ref.id, list, now))
          ),
          (lists) => plain(lists.flat())
        )
      )
    )
    // By default not: an outage of the providers would take every replica out of the load balancer.
    if (options.readyNeedsModel) yield* Host.ready("models", Activity.canAnswer)

    // Routes need what this effect has.
    const context = yield* Effect.context<Runs.Needed>()
    const routes = Layer.merge(
      Ops.routes([
        HttpRouter.route("POST", "/api/runs", Effect.provideContext(taking(runs, inbound), context))
      ]),
      yield* TaskRoutes.make(inbound)
    )
    const ports = yield* Listeners.open(
      {
        name: "outlast serve",
        version: options.version,
        probes: { host: options.host, port: options.probes },
        metrics: { host: options.host, port: options.metrics },
        page: {
          host: options.host,
          port: options.port,
          hosts: options.names,
          token,
          actions:
            token === undefined ? {} : Operators.make({ breaker, circuits, dead, live, targets, tasks }),
          routes
        }
      },
      flags
    )
    yield* Console.log(
      [
        isFake
          ? "Fake providers on this machine: no key is set, or --fake is given."
          : `Targets: ${refs.map(({ id }) => id).join(", ")}`,
        `status page  http://${Listeners.urlHost(options.host)}:${ports.page}/`,
        `prompts      curl -N -H 'content-type: application/json' -d '{"prompt":"tell me a joke"}' http://${Listeners.urlHost(options.host)}:${ports.page}/api/runs`,
        `tasks        the same at /api/tasks, which outlive this process`,
        `probes       http://${Listeners.urlHost(options.host)}:${ports.probes}/ready`,
        `metrics      http://${Listeners.urlHost(options.host)}:${ports.metrics}/metrics`,
        token === undefined
          ? `actions      off: set ${Listeners.tokenName} to turn them on`
          : "actions      on, with the token"
      ].join("\n")
    )
    return yield* Effect.never
  })

/** Data as JSON has it, without what is undefined. */
const plain = (value: unknown): Host.Json => JSON.parse(JSON.stringify(value))
