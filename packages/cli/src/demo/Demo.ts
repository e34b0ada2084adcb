/**
 * `outlast demo`: runs the same program of the AI SDK with the same faults, first with a model of the SDK and then
 * with an Outlast chain as its model.
 */
import { createAnthropic } from "@ai-sdk/anthropic"
import type { LanguageModel } from "ai"
import {
  Console,
  Data,
  Effect,
  FileSystem,
  Layer,
  Logger,
  ManagedRuntime,
  Option,
  Redacted,
  Ref,
  Stream
} from "effect"
import type { Duration, PlatformError, Scope } from "effect"
import { Failover, KeySource } from "@outlast/agent"
import type { FailoverEvent, ProviderModel } from "@outlast/agent"
import { Anthropic, OpenAi, Registry } from "@outlast/providers"
import { ToAiSdk } from "@outlast/providers/internal"
import { ResilienceEvents } from "@outlast/resilience"
import { FakeProvider, FaultPlan } from "@outlast/testing"
import { unreadable } from "../command/Unreadable.ts"
import { UsageError } from "../command/UsageError.ts"
import { fixTheTest } from "./Program.ts"
import * as Screen from "./Screen.ts"
import * as Project from "./Project.ts"
import * as Story from "./Story.ts"
import * as Summary from "./Summary.ts"
import * as Timeline from "./Timeline.ts"

export interface Options {
  /** Print only the summary, as one JSON object. */
  readonly json: boolean
  /** A JSON file with `faults`, and optionally other `answers`. */
  readonly plan: Option.Option<string>
  readonly seed: Option.Option<number>
  /** Do the job with a real provider instead. */
  readonly provider: Option.Option<string>
  readonly model: Option.Option<string>
}

/** Providers that do the job with a key alone, by name. */
const realProviders: ReadonlyMap<string, RealProvider> = new Map(
  Registry.providers.flatMap(({ provider, name, keys: [key], usual }) =>
    key === undefined || usual === undefined ? [] : [[provider, { provider, name, key, usual }] as const]
  )
)

/** A provider, and the variable of its key. */
export interface RealProvider extends Pick<Registry.Provider, "provider" | "name"> {
  readonly key: string
  readonly usual: Registry.Usual
}

/** Runs the demo. `true` when the job was done and verified. */
export const run = (options: Options) =>
  Effect.gen(function* () {
    yield* checked(options)
    const { json } = options
    const screen = yield* Screen.make
    // With `--json` standard output has the summary alone.
    // Callbacks of the AI SDK and of the servers write, too, in fibers that do not have our services.
    const console = yield* Console.Console
    const write: Write = json ? () => Effect.void : (line) => Effect.sync(() => console.log(line))
    const summary = Option.isSome(options.provider)
      ? yield* real(yield* providerOf(options.provider.value), options, screen, write)
      : yield* rehearsed(options, screen, write)
    yield* write("")
    for (const line of Summary.lines(summary, screen)) yield* write(line)
    if (json) yield* Console.log(JSON.stringify(summary))
    return summary.outcome === "completed" && summary.jobVerified
  })

/** Prints a line of the story. */
type Write = (line: string) => Effect.Effect<void>

/** Rejects options that contradict each other. */
const checked = ({ plan, seed, provider, model }: Options): Effect.Effect<void, UsageError> => {
  const wrong = (message: string) => Effect.fail(new UsageError({ message }))
  if (Option.isSome(plan) && Option.isSome(seed)) return wrong("Give either --plan or --seed, not both.")
  if (Option.isSome(provider) && (Option.isSome(plan) || Option.isSome(seed))) {
    return wrong("--plan and --seed are for the fake providers: leave them out with --provider.")
  }
  return Option.isSome(model) && Option.isNone(provider)
    ? wrong("--model names a model of --provider: give that, too.")
    : Effect.void
}

const providerOf = (name: string): Effect.Effect<RealProvider, UsageError> => {
  const provider = realProviders.get(name)
  const known = [...realProviders.keys()].join(", ")
  return provider === undefined
    ? Effect.fail(new UsageError({ message: `--provider ${name} is unknown. Known providers: ${known}.` }))
    : Effect.succeed(provider)
}

/** Does both runs with fake providers on this machine. */
const rehearsed = (options: Options, screen: Screen.Screen, write: Write) =>
  Effect.gen(function* () {
    const plan = yield* planOf(options)
    yield* title(write, screen, "Without Outlast: the AI SDK with its default retries")
    yield* note(write, screen, "A model of the SDK has one key of one provider.")
    const without = yield* withServer(plan, screen, write, (server, timeline) =>
      Effect.gen(function* () {
        const { outcome, toolCalls, jobVerified, error } = yield* doTheJob(
          Effect.succeed(unprotected(server)),
          timeline,
          limits.without
        )
        const requests = (yield* server.requests).length
        return { outcome, ...(error === undefined ? {} : { error }), requests, toolCalls, jobVerified }
      })
    )
    yield* write("")
    yield* write(
      `  The agent ${without.outcome === "failed" ? "died" : "lived"}; the job is ${without.jobVerified ? "" : "not "}done.`
    )
    yield* title(write, screen, "With Outlast: the same program and faults, another model")
    yield* note(write, screen, "The model is a chain: that key, a second one, and another provider.")
    const summary = yield* withServer(plan, screen, write, (server, timeline) =>
      protectedRun(targetsAt(server), timeline, limits.with)
    )
    return { ...summary, without }
  })

/** Does the job with a real provider, whose key is in the environment. */
const real = (
  { provider, name, key, usual }: RealProvider,
  { model }: Options,
  screen: Screen.Screen,
  write: Write
): Effect.Effect<Summary.Summary, UsageError | PlatformError.PlatformError, Project.Services> =>
  Effect.gen(function* () {
    const target = usual.target(Option.getOrElse(model, () => usual.model))
    const found = yield* Effect.option(KeySource.env(key).load)
    if (Option.isNone(found) || Redacted.value(found.value) === "") {
      return yield* new UsageError({
        message: `--provider ${provider} needs a key: set ${key} and run the demo again. Without --provider it needs none.`
      })
    }
    yield* title(write, screen, `With Outlast, and the real ${name}`)
    const timeline = yield* Timeline.make(screen, write)
    return yield* protectedRun([target], timeline, limits.real)
  })

/** Time limits of the runs. A plan may silence a provider without an end, and the demo has to end. */
const limits = { without: "30 seconds", with: "5 minutes", real: "15 minutes" } as const

class TooSlow extends Data.TaggedError("TooSlow")<{}> {
  override readonly message = "The program still waits for its provider. The demo does not wait longer."
}

/** The model of the first run: the first target with its first key, as the AI SDK offers it. */
const unprotected = (server: FakeProvider.FakeProvider): LanguageModel =>
  createAnthropic({ baseURL: server.baseUrl("anthropic"), apiKey: Story.keys.anthropic[0] })(
    "claude-sonnet-4-5"
  )

/** The chain of the second run. */
const targetsAt = (server: FakeProvider.FakeProvider): Targets => [
  Anthropic.model("claude-sonnet-4-5", {
    baseUrl: server.baseUrl("anthropic"),
    keys: Story.keys.anthropic.map(demoKey)
  }),
  OpenAi.chatModel("gpt-4.1", { baseUrl: server.baseUrl("openai"), keys: Story.keys.openai.map(demoKey) })
]

type Targets = readonly [ProviderModel.TargetSpec, ...ReadonlyArray<ProviderModel.TargetSpec>]

const demoKey = (value: string): KeySource.KeySource => KeySource.value(value, Redacted.make(value))

const withServer = <A, E, R>(
  plan: FaultPlan.FaultPlan,
  screen: Screen.Screen,
  write: Write,
  use: (server: FakeProvider.FakeProvider, timeline: Timeline.Timeline) => Effect.Effect<A, E, R>
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan })
      const timeline = yield* Timeline.make(screen, write)
      yield* timeline.heading
      yield* Effect.forkScoped(Stream.runForEach(server.arrivals, timeline.server))
      return yield* use(server, timeline)
    })
  )

/** Does the job over a chain, and counts its events. */
const protectedRun = (targets: Targets, timeline: Timeline.Timeline, limit: Duration.Input) =>
  Effect.gen(function* () {
    const events = yield* Ref.make<ReadonlyArray<FailoverEvent.FailoverEvent>>([])
    const watch = ResilienceEvents.layerHandler((event) => {
      // In the demo only the failover publishes events.
      const known = event as FailoverEvent.FailoverEvent
      return Effect.andThen(
        Ref.update(events, (all) => [...all, known]),
        timeline.event(known)
      )
    })
    // The timeline replaces the log.
    const chain = Failover.layer(targets).pipe(
      Layer.provideMerge(watch),
      Layer.provideMerge(Logger.layer([]))
    )
    const model = Effect.acquireRelease(
      Effect.sync(() => ManagedRuntime.make(chain)),
      (runtime) => runtime.disposeEffect
    ).pipe(Effect.map((runtime) => ToAiSdk.toAiSdk(runtime)))
    const job = yield* doTheJob(model, timeline, limit)
    return Summary.make(yield* Ref.get(events), job)
  })

/** Runs the program on a fresh project, and checks the result. */
const doTheJob = (
  model: Effect.Effect<LanguageModel, never, Scope.Scope>,
  timeline: Timeline.Timeline,
  limit: Duration.Input
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { screen } = timeline
      let toolCalls = 0
      let error: string | undefined
      const project = yield* Project.make
      const tools = yield* Project.tools(project.folder, (tool) =>
        Effect.suspend(() => {
          toolCalls++
          return timeline.agent(`⚒ ${tool}`)
        })
      )
      const show = (text: string) => Effect.runPromise(timeline.agent(`“${text}”`, screen.strong))
      const outcome = yield* fixTheTest(yield* model, tools, show).pipe(
        Effect.as("completed" as const),
        Effect.timeoutOrElse({ duration: limit, orElse: () => Effect.fail(new TooSlow()) }),
        Effect.catch(({ message }) => {
          error = message
          return Effect.as(timeline.agent(`✗ ${message}`, screen.bad), "failed" as const)
        })
      )
      return { outcome, error, toolCalls, jobVerified: yield* project.verify }
    })
  )

const planOf = ({ plan, seed }: Options) =>
  Effect.gen(function* () {
    if (Option.isSome(plan)) return yield* readPlan(plan.value)
    return Option.isSome(seed) ? yield* Story.seeded(seed.value) : Story.plan
  })

const readPlan = (file: string): Effect.Effect<FaultPlan.FaultPlan, UsageError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = yield* fs
      .readFileString(file)
      .pipe(Effect.mapError((error) => unreadable(`The plan ${file}`, error)))
    const json = yield* Effect.try({
      try: (): unknown => JSON.parse(text),
      catch: (error) => new UsageError({ message: `The plan ${file} is not JSON: ${String(error)}` })
    })
    const withAnswers =
      typeof json === "object" && json !== null && !Array.isArray(json)
        ? { answers: Story.answers, ...json }
        : json
    return yield* Effect.mapError(
      FaultPlan.decode(withAnswers),
      (error) => new UsageError({ message: `The plan ${file} cannot be used. ${error.message}` })
    )
  })

const title = (write: Write, screen: Screen.Screen, text: string) =>
  Effect.andThen(
    write(""),
    Effect.forEach(Screen.wrapped(`── ${text} ──`, screen.columns), (line) => write(screen.strong(line)))
  )

/** A line below a title. */
const note = (write: Write, screen: Screen.Screen, text: string) =>
  Effect.forEach(Screen.wrapped(text, screen.columns - 2), (line) => write(screen.dim(`  ${line}`)))
