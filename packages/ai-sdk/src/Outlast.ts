/**
 * Outlast for a program on the AI SDK: fallback models, limits and loop detection, compaction.
 *
 * {@link outlast} makes one agent, kept for the life of the program: cooldowns hold from call to call. Its
 * {@link Agent.with} gives the settings of `generateText`, `streamText` and `ToolLoopAgent`.
 *
 * **Example** (An agent that may call 50 tools)
 *
 * ```ts
 * const agent = outlast({
 *   models: ["anthropic/claude-sonnet-4-5", "openai/gpt-5.1"],
 *   guard: { toolCalls: 50, time: "10 minutes", cost: 2 }
 * })
 * const { text } = await generateText({ ...agent.with({ tools: {} }), prompt: "Fix the failing test." })
 * ```
 *
 * **Limits.** The loop is the AI SDK's. A model or a tool that hangs is not interrupted when the time of a run is up: pass
 * `abortSignal` or `timeout` for that. A run ends at its next model call, so tool calls of the same step still run if the
 * limits allow them.
 */
import type { LanguageModelV4 } from "@ai-sdk/provider"
import { Targets } from "@outlast/agent"
import { ServedError, ToAiSdk } from "@outlast/providers/internal"
import { Options as Check } from "@outlast/resilience"
import type {
  Instructions,
  LanguageModel,
  ModelMessage,
  PrepareStepFunction,
  StopCondition,
  ToolSet
} from "ai"
import { ConfigProvider, Context, Duration, Effect, Exit, Layer } from "effect"
import * as Chain from "./Chain.ts"
import type { CompactionOptions } from "./compaction/FitSteps.ts"
import { FitSteps } from "./compaction/FitSteps.ts"
import type { OutlastEvent } from "./Events.ts"
import { Events } from "./Events.ts"
import * as GuardedModel from "./guard/GuardedModel.ts"
import * as GuardedTools from "./guard/GuardedTools.ts"
import type { GuardOptions } from "./guard/GuardOptions.ts"
import * as Guards from "./guard/GuardOptions.ts"
import type { Fitting } from "./guard/Run.ts"
import { Run } from "./guard/Run.ts"
import { Runs } from "./guard/Runs.ts"
import type { SafetyStop } from "./guard/SafetyStop.ts"
import type { OtelTracer } from "./Tracing.ts"
import * as Tracing from "./Tracing.ts"
import type { Model, Providers } from "./models/Models.ts"
import * as Models from "./models/Models.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface Options {
  /**
   * Models in the order of preference: names (`provider/model`) of the catalogue or of `providers`, models of the AI SDK,
   * or targets of `@outlast/providers`. Keys of named models come from the usual variables (`ANTHROPIC_API_KEY`, then
   * `ANTHROPIC_API_KEY_2` and so on).
   */
  readonly models: ReadonlyArray<Model>
  /** Providers of the AI SDK for names, by the part before the slash, or a registry. Default: none. */
  readonly providers?: Providers | undefined
  /** Limits and loop detection of each run. Default: the defaults of `GuardOptions`. */
  readonly guard?: GuardOptions | undefined
  /**
   * Keeps conversations within the window of the model, before each step and when a provider refuses one as too long: long
   * results are cut, then older messages are summarised by a model of the chain. Messages whose provider options have
   * `outlast: { pinned: true }` stay. Default `false`.
   */
  readonly compaction?: boolean | CompactionOptions | undefined
  /** Called with each event, in order. Keep it short. Default: none. */
  readonly onEvent?: ((event: OutlastEvent) => void) | undefined
  /** Writes one line for each change, such as a circuit that opens. Default `console.warn`; `false`: no lines. */
  readonly log?: ((line: string) => void) | false | undefined
  /**
   * A tracer of OpenTelemetry: spans of calls and attempts, below those of the AI SDK. Default: no spans.
   */
  readonly tracer?: OtelTracer | undefined
}

/** The state of a model of the chain with one of its keys. Times are milliseconds. */
export interface TargetState {
  /** For example `openai/gpt-5.1#OPENAI_API_KEY`. */
  readonly id: string
  readonly provider: string
  readonly model: string
  /** Name of the key; empty without one. */
  readonly key: string
  /** `ready`, `cooling` (a cooldown), `open` (its circuit), or `dead`: only a person can help. */
  readonly state: Targets.TargetStatus["state"]
  /** Time until it is back. `undefined` when it is ready, and when only a person can bring it back. */
  readonly availableIn: number | undefined
  /** The failure that took it out, without secrets. */
  readonly message: string | undefined
  /** Time of its last answer in Unix milliseconds. */
  readonly lastSuccessAt: number | undefined
}

type List<A> = A | Array<A>

/** Settings of a run that Outlast composes with its own. All other settings pass unchanged. */
export interface RunSettings<TOOLS extends ToolSet> {
  /** Their calls are counted and checked for loops. */
  readonly tools?: TOOLS | undefined
  /** Default: never. The limits of the guard end the run. */
  // oxlint-disable-next-line typescript/no-explicit-any -- As the AI SDK's own conditions: any context of the program.
  readonly stopWhen?: List<StopCondition<NoInfer<TOOLS>, any>> | undefined
  // oxlint-disable-next-line typescript/no-explicit-any -- As above.
  readonly prepareStep?: PrepareStepFunction<NoInfer<TOOLS>, any> | undefined
  // oxlint-disable-next-line typescript/no-explicit-any -- The AI SDK checks it where the settings are used.
  readonly prepareCall?: ((call: any) => any) | undefined
}

/** Settings to spread into `generateText`, `streamText` or `new ToolLoopAgent`. */
export interface Guarded<TOOLS extends ToolSet> {
  readonly model: LanguageModelV4
  readonly tools: TOOLS
  // The types of these two name no context, so that the AI SDK infers that of the program.
  readonly stopWhen: List<
    (step: { readonly steps: ReadonlyArray<unknown> }) => PromiseLike<boolean> | boolean
  >
  readonly prepareStep: (step: {
    readonly steps: ReadonlyArray<unknown>
    readonly messages: ReadonlyArray<ModelMessage>
    readonly initialMessages: ReadonlyArray<ModelMessage>
    readonly instructions: Instructions | undefined
  }) => PromiseLike<{ readonly messages: Array<ModelMessage>; readonly model: LanguageModel }>
  /** Makes each `generate` and `stream` of a `ToolLoopAgent` a run of its own. `generateText` ignores it. */
  readonly prepareCall: <C extends object>(call: C) => Promise<C>
}

export interface Agent extends AsyncDisposable {
  /** The chain as a model of the AI SDK, without guard and compaction. */
  readonly model: LanguageModelV4
  /**
   * Settings of a run with limits, loop detection and compaction, to spread into `generateText`, `streamText` or
   * `new ToolLoopAgent`. Pass your own `stopWhen` and `prepareStep` here, so that both apply. Other settings pass
   * unchanged. Each call that uses the settings is a run of its own.
   */
  readonly with: <TOOLS extends ToolSet = {}, S extends object = {}>(
    // The types of `RunSettings` alone apply to its fields.
    settings?: RunSettings<TOOLS> & {
      readonly [K in keyof S]: K extends keyof RunSettings<TOOLS> ? unknown : S[K]
    }
  ) => Omit<S, keyof RunSettings<TOOLS>> &
    Guarded<TOOLS> & {
      /** The stop of the run that began last; `undefined` if it was not stopped. Not copied by a spread. */
      readonly stopped: SafetyStop | undefined
    }
  /** Events from the moment on in which a loop begins to read them. A slow reader loses the oldest of 1,024. */
  readonly events: AsyncIterable<OutlastEvent>
  /** The models of the chain with their keys, and whether they can be used now. */
  readonly targets: () => Promise<ReadonlyArray<TargetState>>
  /** Ends cooldowns and closes circuits, of all targets or of the target with this id. */
  readonly reset: (target?: string) => Promise<void>
  /** Ends running calls and releases everything. The agent cannot be used afterwards. */
  readonly close: () => Promise<void>
}

// -----------------------------------------------------------------------------
// Constructor
// -----------------------------------------------------------------------------

const module = "outlast"
const { is } = Check

const checks: Check.Checks<Options> = {
  // `Models` checks each of them.
  models: is.required(is.list(undefined, 'a list of models, for example ["openai/gpt-5.1"]')),
  providers: Models.providersCheck,
  guard: is.object(Guards.checks),
  compaction: is.either(is.flag, is.object<CompactionOptions>({ window: is.integer({ min: 1 }) })),
  onEvent: is.fn("(event) => void"),
  log: is.falseOr(is.fn("(line) => void")),
  tracer: is.having('a tracer, for example trace.getTracer("my-app")', "startSpan")
}

/** Makes an agent. Throws an `InvalidOption` (a `RangeError`) for an unknown or wrong option, and for an unknown model. */
export const outlast = (options: Options): Agent => {
  Check.fields(module, options, checks)
  const { guard = {}, onEvent, log } = options
  const compaction = options.compaction === true ? {} : options.compaction || undefined
  const chain = Models.targets(options.models, options.providers)
  const settings = Guards.settingsOf(guard)
  const events = new Events({ onEvent, log })
  const built = ToAiSdk.builtFrom(
    Chain.layer(chain, compaction !== undefined, compaction?.window).pipe(
      Layer.provideMerge(events.layer),
      // The environment of this moment. Effect reads it once in a process, perhaps before the program has set its keys.
      Layer.provideMerge(Layer.suspend(() => ConfigProvider.layer(ConfigProvider.fromEnv())))
    )
  )
  const model = traced(ToAiSdk.serving(built, { modelId: "chain" }), options.tracer)
  const close = async (): Promise<void> => {
    await built.dispose()
    await events.close()
  }
  const begin = (tools: ToolSet) =>
    new Run({
      settings,
      onStop: guard.onStop,
      publish: events.publish,
      fitting: compaction && fittingOf(new FitSteps(compaction, tools), built.runtime)
    })
  const targets = async () => {
    const list = Effect.flatMap(Targets.Targets, ({ list }) => list)
    return (await built.runtime().runPromise(list)).map(stateOf)
  }
  return {
    model,
    // The settings with the types that they came with.
    with: (given = {} as never) => withGuard(given as RunSettings<ToolSet>, model, begin) as never,
    events: { [Symbol.asyncIterator]: () => events.stream() },
    targets,
    reset: async (target) => {
      const reset = Effect.flatMap(Targets.Targets, (targets) => targets.reset({ target }))
      await built.runtime().runPromise(reset)
    },
    close,
    [Symbol.asyncDispose]: close
  }
}

/** The model with the spans of its calls. */
const traced = (model: ToAiSdk.Serving, tracer: OtelTracer | undefined): ToAiSdk.Serving => {
  if (tracer === undefined) return model
  const inside = (context: Context.Context<never> = Context.empty()) =>
    Context.merge(context, Tracing.here(tracer))
  return {
    ...model,
    doGenerate: (call, context) => model.doGenerate(call, inside(context)),
    doStream: (call, context) => model.doStream(call, inside(context))
  }
}

/** The compaction of a run, in the runtime of the agent. */
const fittingOf = (steps: FitSteps, runtime: ToAiSdk.Built<Chain.Services>["runtime"]): Fitting => ({
  fit: async (messages, instructions) => {
    const exit = await runtime().runPromiseExit(steps.fit(messages, instructions))
    if (Exit.isSuccess(exit)) return exit.value
    // As the model fails: without a key, this is the first use of the chain.
    throw ServedError.ofCause(exit.cause)
  },
  answered: (ended) => void runtime().runFork(steps.answered(ended))
})

const stateOf = (status: Targets.TargetStatus): TargetState => ({
  id: status.target.id,
  provider: status.target.provider,
  model: status.target.model,
  key: status.target.key,
  state: status.state,
  availableIn: status.availableIn === undefined ? undefined : Duration.toMillis(status.availableIn),
  message: status.message,
  lastSuccessAt: status.lastSuccessAt
})

// -----------------------------------------------------------------------------
// Settings of a run
// -----------------------------------------------------------------------------

const never: StopCondition<ToolSet> = () => false

/** The types of tools and settings are stated by {@link Agent.with}. */
const withGuard = (given: RunSettings<ToolSet>, model: ToAiSdk.Serving, begin: (tools: ToolSet) => Run) => {
  const { tools = {}, stopWhen = never, prepareStep, prepareCall, ...rest } = given
  Check.check(
    !("model" in rest),
    "agent.with",
    "model",
    Reflect.get(rest, "model"),
    "left out: outlast({ models }) has the models"
  )
  let last: Run | undefined
  const guardedBy = (runs: Runs) => ({
    model: GuardedModel.guarded(model, () => runs.last),
    tools: GuardedTools.guarded(tools, (messages) => runs.ofTool(messages)),
    prepareStep: prepared(runs, model, prepareStep)
  })
  const runs = () =>
    new Runs(() => {
      last = begin(tools)
      return last
    })
  const own = guardedBy(runs())
  const settings = {
    ...rest,
    ...own,
    stopWhen,
    prepareCall: async <C extends object>(call: C): Promise<C> => {
      const known: Record<string, unknown> = { ...call, ...(await prepareCall?.(call)) }
      const fresh = guardedBy(runs())
      for (const [name, value] of Object.entries(fresh)) {
        if (known[name] === Reflect.get(own, name)) known[name] = value
      }
      // The fields of the call, with the same types.
      return known as C
    }
  }
  // A spread copies only what can be enumerated.
  return Object.defineProperty(settings, "stopped", { get: () => last?.stopped })
}

/** Begins or continues the run of a step. */
const prepared =
  (
    runs: Runs,
    model: ToAiSdk.Serving,
    own: RunSettings<ToolSet>["prepareStep"]
    // oxlint-disable-next-line typescript/no-explicit-any -- As in `RunSettings`.
  ): PrepareStepFunction<ToolSet, any> =>
  async (step) => {
    const run = runs.ofStep(step.steps, step.initialMessages)
    const chosen = await own?.(step)
    const given = [...(chosen?.messages ?? step.messages)]
    const instructions = chosen?.instructions ?? chosen?.system ?? step.instructions
    // A list of its own tells the run of its tools.
    const messages = [...((await run.fitting?.fit(given, instructions)) ?? given)]
    runs.asked(run, messages)
    const base = chosen?.model ?? model
    return {
      ...chosen,
      messages,
      model: typeof base === "string" ? base : GuardedModel.guarded(base as GuardedModel.Askable, () => run)
    }
  }
