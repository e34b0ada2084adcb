/** `outlast demo`: runs the same program with the same faults, first without Outlast and then with it. */
import { Console, Data, Effect, FileSystem, Logger, Option, Redacted, Ref, Stream } from "effect"
import type { Duration, Layer } from "effect"
import type { LanguageModel } from "effect/ai"
import { Direct, Failover, KeySource } from "@outlast/agent"
import type { Chain, FailoverEvent, ProviderModel } from "@outlast/agent"
import { Anthropic, OpenAi, Registry } from "@outlast/providers"
import { ResilienceEvents } from "@outlast/resilience"
import { FakeProvider, FaultPlan } from "@outlast/testing"
import { unreadable } from "../Unreadable.ts"
import { UsageError } from "../UsageError.ts"
import { fixTheTest } from "./Program.ts"
import * as Project from "./Project.ts"
import * as Story from "./Story.ts"
import * as Summary from "./Summary.ts"
import * as Timeline from "./Timeline.ts"

export interface Options {
  /** Print the summary of the second run as one JSON object on the last line. */
  readonly json: boolean
  /** A JSON file with `faults`, and optionally other `answers`. */
  readonly plan: Option.Option<string>
  readonly seed: Option.Option<number>
  /** Do the job with a real provider instead. */
  readonly provider: Option.Option<RealProvider>
  readonly model: Option.Option<string>
  readonly paint: Timeline.Paint
}

/** Providers that do the job with a key alone, by name. */
export const realProviders: ReadonlyMap<string, RealProvider> = new Map(
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
    const summary = Option.isSome(options.provider)
      ? yield* real(options.provider.value, options)
      : yield* rehearsed(options)
    yield* Console.log("")
    for (const line of Summary.lines(summary, options.paint)) yield* Console.log(line)
    if (options.json) yield* Console.log(JSON.stringify(summary))
    return summary.outcome === "completed" && summary.jobVerified
  })

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

/** Does both runs with fake providers on this machine. */
const rehearsed = (options: Options) =>
  Effect.gen(function* () {
    const { paint } = options
    const plan = yield* planOf(options)
    yield* title(paint, "Without Outlast: a plain effect/ai program with one provider")
    const first = yield* withServer(plan, paint, (server, timeline) => {
      const [target] = targetsAt(server)
      return doTheJob(Direct.layer(target), timeline, limits.without)
    })
    yield* Console.log("")
    yield* Console.log(
      `  The agent ${first.outcome === "failed" ? "died" : "lived"}; the job is ${first.jobVerified ? "" : "not "}done.`
    )
    yield* title(paint, "With Outlast: the same program and the same faults, another layer")
    return yield* withServer(plan, paint, (server, timeline) =>
      doTheJob(Failover.layer(targetsAt(server)), timeline, limits.with)
    )
  })

/** Does the job with a real provider, whose key is in the environment. */
const real = ({ provider, name, key, usual }: RealProvider, { paint, model }: Options) =>
  Effect.gen(function* () {
    const target = usual.target(Option.getOrElse(model, () => usual.model))
    const found = yield* Effect.option(KeySource.env(key).load)
    if (Option.isNone(found) || Redacted.value(found.value) === "") {
      return yield* new UsageError({
        message: `--provider ${provider} needs a key: set ${key} and run the demo again. Without --provider it needs none.`
      })
    }
    yield* title(paint, `With Outlast, and the real ${name}`)
    return yield* Effect.flatMap(Timeline.make(paint), (timeline) =>
      doTheJob(Failover.layer([target]), timeline, limits.real)
    )
  })

/** Time limits of the runs. A plan may silence a provider without an end, and the demo has to end. */
const limits = { without: "15 seconds", with: "5 minutes", real: "15 minutes" } as const

class TooSlow extends Data.TaggedError("TooSlow")<{}> {
  override readonly message = "The program still waits for its provider. The demo does not wait longer."
}

/** The chain of the second run. The first run has only the first target with its first key. */
const targetsAt = (
  server: FakeProvider.FakeProvider
): readonly [ProviderModel.TargetSpec, ProviderModel.TargetSpec] => [
  Anthropic.model("claude-sonnet-4-5", {
    baseUrl: server.baseUrl("anthropic"),
    keys: Story.keys.anthropic.map(demoKey)
  }),
  OpenAi.chatModel("gpt-4.1", { baseUrl: server.baseUrl("openai"), keys: Story.keys.openai.map(demoKey) })
]

const demoKey = (value: string): KeySource.KeySource => KeySource.value(value, Redacted.make(value))

const withServer = <A, E, R>(
  plan: FaultPlan.FaultPlan,
  paint: Timeline.Paint,
  use: (server: FakeProvider.FakeProvider, timeline: Timeline.Timeline) => Effect.Effect<A, E, R>
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan })
      const timeline = yield* Timeline.make(paint)
      yield* Effect.forkScoped(Stream.runForEach(server.arrivals, timeline.server))
      return yield* use(server, timeline)
    })
  )

/** Runs the program on a fresh project, shows its events, and checks the result. */
const doTheJob = (
  model: Layer.Layer<LanguageModel.LanguageModel, Chain.ChainError>,
  timeline: Timeline.Timeline,
  limit: Duration.Input
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { paint } = timeline
      const events = yield* Ref.make<ReadonlyArray<FailoverEvent.FailoverEvent>>([])
      const tools = yield* Ref.make(0)
      const project = yield* Project.make
      const watch = ResilienceEvents.layerHandler((event) => {
        // In the demo only the failover publishes events.
        const known = event as FailoverEvent.FailoverEvent
        return Effect.andThen(
          Ref.update(events, (all) => [...all, known]),
          timeline.event(known)
        )
      })
      const workspace = Project.layer(project.folder, (tool) =>
        Effect.andThen(
          Ref.update(tools, (n) => n + 1),
          timeline.agent(`⚒ ${tool}`)
        )
      )
      const outcome = yield* fixTheTest((text) => timeline.agent(`“${text}”`, paint.strong)).pipe(
        Effect.as("completed" as const),
        Effect.provide([model, workspace]),
        Effect.provide(watch),
        // The timeline replaces the log.
        Effect.provide(Logger.layer([])),
        Effect.timeoutOrElse({ duration: limit, orElse: () => Effect.fail(new TooSlow()) }),
        Effect.catch((error) => Effect.as(timeline.agent(`✗ ${error.message}`, paint.bad), "failed" as const))
      )
      return Summary.make(yield* Ref.get(events), {
        outcome,
        toolCalls: yield* Ref.get(tools),
        jobVerified: yield* project.verify
      })
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

const title = (paint: Timeline.Paint, text: string) =>
  Effect.andThen(Console.log(""), Console.log(paint.strong(`── ${text} ──`)))
