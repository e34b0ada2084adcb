/**
 * The agent loop as one Effect program: ask the model, run the tools it asks for, repeat until it answers.
 *
 * The loop works over any `LanguageModel`. Over `Failover.layer` it outlasts failing providers. Tools run only
 * after a complete answer: all calls of a turn concurrently, each with a time limit. Their results are in the
 * transcript in the order of the calls. `run` asks for complete answers, `stream` shows them as they arrive.
 *
 * **States.** The run is a pure step machine, `RunState`; this module and `Interpreter` carry out its actions.
 *
 * **Composition.** Inside `SafetyGuard.run` the guard checks every model call and tool call first. A run that a
 * tool of another run starts is a sub-agent of that run. The option `limits` puts limits and loop evidence into the
 * state of the run itself.
 *
 * **Compaction.** Inside `Compaction.layer` a run shortens its conversation before each call if it does not fit the
 * window, and once more if a provider still rejects it. The compacted conversation becomes the transcript. No type
 * requires this: a program with long conversations needs the layer, or the option `compaction`, which works without
 * a layer and summarises with the run's own model. The window is that of the target that answered last (`Targets`),
 * or the one that `ContextWindows` knows. If the window is unknown, the run warns once and compacts only after a
 * rejection. A chain with its own `compact` handles rejections itself.
 *
 * **Limits.** Without these layers and options the loop has no guard against repetition and no compaction. A run
 * does not survive its process; {@link replay} continues one whose events were stored.
 *
 * **Gotcha** In a cut answer (`finish: length`) no tool runs. The model is informed, and may repeat the call.
 *
 * **Example** (An agent with tools)
 *
 * ```ts
 * const outcome = yield* Agent.run({ prompt: "Fix the failing test.", toolkit: Workspace })
 * outcome.models // e.g. [{ target: "anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY", turns: 6, share: 1, ... }]
 * ```
 *
 * **Example** (An agent with compaction)
 *
 * ```ts
 * program.pipe(Effect.provide(Compaction.layer({ summariser: { model: haiku } })))
 * ```
 */
import { Duration, Effect, Exit, Queue, Stream } from "effect"
import { LanguageModel, Prompt, Toolkit } from "effect/ai"
import type { AiError, Response, Tool } from "effect/ai"
import { ResilienceEvents } from "@outlast/resilience"
import { MissingService, Options as Check } from "@outlast/resilience"
import * as ActiveTime from "../conversation/ActiveTime.ts"
import type { Transcript } from "../conversation/Transcript.ts"
import type { Rewind } from "../failover/call/Surface.ts"
import * as Surfaces from "../failover/call/Surface.ts"
import type { Notice } from "../failover/decide/Notice.ts"
import * as OutputLimit from "../failover/decide/OutputLimit.ts"
import type { MidStream } from "../failover/decide/RecoveryPolicy.ts"
import * as GuardedModel from "../guard/GuardedModel.ts"
import * as Limits from "../guard/Limits.ts"
import type * as LoopDetector from "../guard/LoopDetector.ts"
import * as Requirements from "../guard/Requirements.ts"
import * as Subagent from "../guard/Subagent.ts"
import * as Kind from "../options/Kind.ts"
import type { AgentEvent } from "./AgentEvent.ts"
import type { AgentFailed } from "./AgentFailed.ts"
import * as Compacting from "./Compacting.ts"
import * as Handlers from "./Handlers.ts"
import * as Hooks from "./Hooks.ts"
import { interpret } from "./Interpreter.ts"
import type { Outcome } from "./Outcome.ts"
import type * as RunEvent from "./RunEvent.ts"
import * as RunSettings from "./RunSettings.ts"
import * as RunState from "./RunState.ts"
import * as RunTranscript from "./RunTranscript.ts"
import type { Surface } from "./RunWorld.ts"
import * as RunWorld from "./RunWorld.ts"
import * as Share from "./Share.ts"
import * as Spans from "../telemetry/Spans.ts"
import { SuspendedRun } from "./Suspended.ts"
import type { Kit, Settings } from "./ToolCalls.ts"
import type { Cause, Transition } from "./Transition.ts"

export interface Options<Tools extends Record<string, Tool.Any>> {
  /** The task, or a conversation to continue. */
  readonly prompt: Prompt.RawInput
  /** Default: no tools. */
  readonly toolkit?: Toolkit.Toolkit<Tools> | undefined
  /** Turns of the run, at most. Default {@link defaults}`.maxTurns`: 50. */
  readonly maxTurns?: number | undefined
  /**
   * US dollars of the run, at most, checked after each turn. Default: no limit. Calls without a known price count
   * as 0.
   */
  readonly maxCost?: number | undefined
  /** Time limit of one tool call. Default {@link defaults}`.toolTimeout`: 2 minutes. */
  readonly toolTimeout?: Duration.Input | undefined
  /** Number of tool calls of a turn that run concurrently. Default {@link defaults}`.toolConcurrency`: 8. */
  readonly toolConcurrency?: number | undefined
  /**
   * Behaviour when a stream breaks after text was shown; for `stream` only. Default: the policy of the model's
   * layer decides.
   */
  readonly midStream?: MidStream | undefined
  /**
   * Limits of the run and its sub-agents, as in `SafetyGuard`. The run ends with the status `guard_stopped` when it
   * reaches one. Default: no limits beside `maxTurns`, `maxCost` and those of a guard around the run.
   */
  readonly limits?: Limits.Limits | undefined
  /**
   * Reaction to loops, as in `SafetyGuard`; they count as limits. Default: `"strict"` with `limits`, otherwise
   * `false`.
   */
  readonly loops?: LoopDetector.Mode | false | undefined
  /**
   * Output tokens that the run should produce. A model that stops below 90 % is asked to go on, until three answers
   * in a row add less than 500 tokens. Default: the model decides when it ends.
   */
  readonly tokenBudget?: number | undefined
  /** Hooks of the host. Default: none. */
  readonly hooks?: Hooks.Hooks | undefined
  /**
   * Approves or rejects calls of tools that need approval. `"suspend"`: the run ends with the status `suspended`, and
   * {@link resume} continues it. Default: they are rejected.
   */
  readonly approve?: Settings["approve"] | "suspend"
  /** Cancels the run when it ends. The outcome has the conversation so far. Default: none. */
  readonly cancel?: Effect.Effect<unknown> | undefined
  /**
   * Compacts the conversation when it does not fit: with the `Compaction` around the run, otherwise with the run's
   * own model as the summariser. Default: only with a surrounding `Compaction`. `false`: never.
   */
  readonly compaction?: Compacting.Options | false | undefined
}

export const defaults = { maxTurns: 50, toolTimeout: "2 minutes", toolConcurrency: 8 } as const

/**
 * A part of a run's stream: a part of the model's answer, a tool result, or a notice of the loop. A `Rewind`
 * retracts what the turn has shown so far; the retracted part is not in the transcript.
 */
export type Part =
  | Response.StreamPart<Record<string, Tool.Any>>
  | Notice
  | Rewind
  | Response.ToolResultPart<string, unknown, unknown>
  | {
      readonly type: "transition"
      readonly turn: number
      readonly transition: Transition
      readonly cause: Cause | undefined
    }
  | { readonly type: "outcome"; readonly outcome: Outcome }

/** Failures that tools declare. An `AiError` is excluded, because the model gets it as a result. */
export type ToolFailure<Tools extends Record<string, Tool.Any>> = Exclude<
  Tool.HandlerError<Tools[keyof Tools]>,
  AiError.AiError
>

export type Services<Tools extends Record<string, Tool.Any>> =
  | LanguageModel.LanguageModel
  | Tool.HandlersFor<Tools>
  | Tool.HandlerServices<Tools[keyof Tools]>

/**
 * Runs an agent to its end.
 *
 * Errors: `AgentFailed` with the transcript, whose reason is the failure of the last call, or `CannotFit` or
 * `ContextExhausted` when the conversation does not fit and cannot be compacted further. A failure that a tool
 * declares with `failureMode: "error"` keeps its type; its cause has the transcript (`AgentFailed.transcriptOf`),
 * as has the cause of a defect. Throws an `InvalidOption` (a `RangeError`) for an option that is unknown or out of
 * range.
 */
export const run = <Tools extends Record<string, Tool.Any> = {}>(
  options: Options<Tools>
): Effect.Effect<Outcome, AgentFailed | ToolFailure<Tools>, Services<Tools>> =>
  loop(options, whole, undefined)

/** Asks for complete answers. */
const whole: Surface = {
  ask: (prompt, toolkit) =>
    Effect.map(
      LanguageModel.generateText({ prompt, toolkit, ...unresolved }),
      (response): ReadonlyArray<Response.AnyPart> => response.content
    ),
  emit: () => Effect.void,
  hasShown: () => false,
  partial: () => []
}

/**
 * Runs an agent and shows it as it works. The last part is the outcome. Errors as {@link run}.
 *
 * A queue of {@link bufferSize} parts decouples the consumer. The run waits while the queue is full.
 */
export const stream = <Tools extends Record<string, Tool.Any> = {}>(
  options: Options<Tools>
): Stream.Stream<Part, AgentFailed | ToolFailure<Tools>, Services<Tools>> => {
  // Out-of-range limits throw here, where they are written, as in `run`.
  boundsOf(options)
  return Stream.callback<Part, AgentFailed | ToolFailure<Tools>, Services<Tools>>(
    (queue) => {
      const emit = (part: Part): Effect.Effect<void> =>
        Effect.suspend(() =>
          Queue.offerUnsafe(queue, part)
            ? Effect.void
            : Effect.asVoid(ActiveTime.resting(Queue.offer(queue, part)))
        )
      /** True when a part of the current answer was shown. */
      let shown = false
      let parts: Array<Response.AnyPart> = []
      const surface: Surface = {
        ask: (prompt, toolkit) =>
          Effect.suspend(() => {
            shown = false
            parts = []
            return LanguageModel.streamText({ prompt, toolkit, ...unresolved }).pipe(
              Surfaces.offered({ rewindable: true, midStream: options.midStream }),
              Stream.map((part) => Surfaces.carriedBy(part) ?? part),
              Stream.runForEach((part) => {
                shown = part.type !== "rewind" && (shown || !preamble.has(part.type))
                if (part.type === "rewind") parts = []
                else if (part.type !== "notice") parts.push(part)
                return emit(part)
              }),
              Effect.map(() => parts)
            )
          }),
        emit,
        hasShown: () => shown,
        partial: () => parts
      }
      return loop(options, surface, emit).pipe(
        Effect.andThen((outcome) => emit({ type: "outcome", outcome })),
        Effect.andThen(Queue.end(queue))
      )
    },
    { bufferSize }
  )
}

/** The stored events of a run, and how to store more. */
export interface History {
  /** Events of this run so far, in order. Empty for a run that begins. */
  readonly events: ReadonlyArray<RunEvent.RunEvent>
  /** Stores an event. It is called once for each new event, before the next action. */
  readonly record: (event: RunEvent.RunEvent) => Effect.Effect<void>
}

/**
 * Runs an agent from stored events: they are folded, no action of theirs is repeated, and nothing is published again.
 * Without events it runs from the beginning. Pass the options with which the events were made. Errors as {@link run}.
 *
 * **Gotcha** An action that was under way when the process ended is performed again, tool calls included.
 */
export const replay = <Tools extends Record<string, Tool.Any> = {}>(
  options: Options<Tools>,
  history: History
): Effect.Effect<Outcome, AgentFailed | ToolFailure<Tools>, Services<Tools>> =>
  loop(options, whole, undefined, undefined, history)

/**
 * Continues a run: from the conversation that an outcome or a failure has left, or from a run that is suspended because
 * calls need approval. `decisions` has one entry for each of `suspended.pending`, in order; a missing one rejects.
 * Usage and limits begin again with a conversation, and continue with a suspended run. Errors as {@link run}.
 */
export const resume = <Tools extends Record<string, Tool.Any> = {}>(
  options: Omit<Options<Tools>, "prompt">,
  from: Transcript | SuspendedRun,
  decisions: ReadonlyArray<boolean> = []
): Effect.Effect<Outcome, AgentFailed | ToolFailure<Tools>, Services<Tools>> =>
  from instanceof SuspendedRun
    ? loop({ ...options, prompt: Prompt.fromMessages(from.transcript.messages) }, whole, undefined, {
        suspended: from,
        decisions
      })
    : run({ ...options, prompt: from.prompt })

export const bufferSize = 64

/** Returns calls as the model made them. The loop checks and runs them after a complete answer. */
const unresolved = { disableToolCallResolution: true, toolCallValidation: "deferred" } as const

/** Part types without content of the answer. */
const preamble: ReadonlySet<string> = new Set(["response-metadata", "notice"])

const loop = <Tools extends Record<string, Tool.Any>>(
  options: Options<Tools>,
  surface: Surface,
  emit: ((part: Part) => Effect.Effect<void>) | undefined,
  resumed?: { readonly suspended: SuspendedRun; readonly decisions: ReadonlyArray<boolean> },
  history?: History
): Effect.Effect<Outcome, AgentFailed | ToolFailure<Tools>, Services<Tools>> => {
  const { bounds, settings } = boundsOf(options)
  const running = Effect.gen(function* () {
    const own = yield* MissingService.get(
      LanguageModel.LanguageModel,
      "LanguageModel",
      "Failover.layer([...])"
    )
    const model = GuardedModel.ambient(own)
    const { offered, handlers: kit } = yield* handlersOf(options.toolkit)
    const prompt = Prompt.make(options.prompt)
    const tools = Object.values(kit.tools)
    const compacting = yield* Compacting.open(options.compaction, tools, prompt, own)
    const from = resumed?.suspended ?? { state: RunState.initial, transcript: RunTranscript.empty }
    const reached = (history?.events ?? []).reduce(
      (state, event) => RunState.step(state, event).state,
      from.state
    )
    if (compacting !== undefined) yield* compacting.restore(reached.memory)
    const share = yield* Share.Current
    const hold = share?.begin()
    const first: RunEvent.RunEvent =
      resumed === undefined
        ? {
            _tag: "Started",
            settings: within(settings(compacting?.maxReactive), hold?.limits),
            messages: prompt.content,
            ...(hold?.refused === undefined ? {} : { refused: hold.refused })
          }
        : { _tag: "Approved", decisions: resumed.decisions }
    let isSaid = false
    const world = new RunWorld.RunWorld({
      surface,
      offered,
      kit,
      settings: bounds,
      hooks: options.hooks,
      compacting,
      limit: new OutputLimit.Raised(reached.raised),
      stored: history !== undefined || options.approve === "suspend",
      withModel: Effect.provideService(LanguageModel.LanguageModel, model),
      unknownWindow: (turn, model) =>
        Effect.suspend(() => {
          if (isSaid) return Effect.void
          isSaid = true
          return Effect.andThen(
            ResilienceEvents.publishNow<AgentEvent>({ _tag: "ContextWindowUnknown", turn, model }),
            // A program may have no consumer of events.
            Effect.logWarning(unknownWindow(model))
          )
        })
    })
    return yield* interpret<ToolFailure<Tools>, Services<Tools>>({
      world,
      from,
      first,
      replayed: history?.events ?? [],
      record: history?.record,
      emit: emit && (({ turn, transition, cause }) => emit({ type: "transition", turn, transition, cause })),
      cancel: options.cancel,
      hold
    })
  })
  return Subagent.run(Spans.around("invoke_agent", spanOptions, running))
}

/** The span of a run. */
const spanOptions: Spans.Options<Outcome, unknown> = {
  attributes: { "gen_ai.operation.name": "invoke_agent" },
  ended: (exit) =>
    Exit.isFailure(exit)
      ? {}
      : {
          "outlast.status": exit.value.status,
          "outlast.turns": exit.value.turns,
          "outlast.cost_usd": exit.value.costUsd
        }
}

/** The settings of a run, narrowed to the limits that another run has left for it. */
const within = (
  settings: RunSettings.RunSettings,
  limits: RunSettings.RunLimits | undefined
): RunSettings.RunSettings =>
  limits === undefined
    ? settings
    : { ...settings, limits: RunSettings.narrower(settings.limits ?? {}, limits) }

const unknownWindow = (model: string | undefined): string =>
  `Agent: the context window of ${model ?? "the model"} is unknown, so the conversation is compacted only when a provider rejects it. Set compaction.window, or provide ContextWindows.`

/**
 * The tools of a run: `offered` to the model, whose calls come back unchecked, and `handlers`, which are found by
 * name. Both have erased types: the signature of `run` has the types.
 */
const handlersOf = <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools> | undefined
): Effect.Effect<
  { readonly offered: Toolkit.WithHandler<{}>; readonly handlers: Kit },
  never,
  Tool.HandlersFor<Tools>
> =>
  toolkit === undefined
    ? Effect.map(Toolkit.empty, (kit) => ({ offered: kit, handlers: kit as unknown as Kit }))
    : Effect.gen(function* () {
        // A tool whose required service is absent could only fail, so it is not offered.
        const met = Requirements.isAnnotated(toolkit)
          ? (yield* Requirements.offered(toolkit)).toolkit
          : toolkit
        const kit = yield* Effect.updateContext(met, Handlers.checked<Tools, Tool.HandlersFor<Tools>>(met))
        return { offered: kit as unknown as Toolkit.WithHandler<{}>, handlers: kit as unknown as Kit }
      })

interface Resolved {
  readonly bounds: Settings
  /** The settings of the run, with the reactive compactions of a turn where it has compaction. */
  readonly settings: (maxReactive: number | undefined) => RunSettings.RunSettings
}

const boundsOf = <Tools extends Record<string, Tool.Any>>(options: Options<Tools>): Resolved => {
  Kind.carrier("options such as { prompt, toolkit }")("Agent", "options", options)
  Check.fields<Options<Tools>>("Agent", options, checks)
  const { maxTurns = defaults.maxTurns, maxCost, limits, tokenBudget, hooks, approve } = options
  const { toolConcurrency: concurrency = defaults.toolConcurrency } = options
  const timeout = Duration.fromInputUnsafe(options.toolTimeout ?? defaults.toolTimeout)
  const loops = options.loops === false ? undefined : (options.loops ?? (limits && "strict"))
  const bounded = limits === undefined ? undefined : RunSettings.limitsOf(Limits.make(limits))
  return {
    bounds: { timeout, concurrency, approve: approve === "suspend" ? undefined : approve },
    settings: (maxReactive) => ({
      maxTurns,
      hooks: Hooks.pointsOf(hooks),
      suspends: approve === "suspend",
      ...(maxCost === undefined ? {} : { maxCost }),
      ...(bounded === undefined ? {} : { limits: bounded }),
      ...(loops === undefined ? {} : { loops }),
      ...(tokenBudget === undefined ? {} : { tokenBudget }),
      ...(maxReactive === undefined ? {} : { maxReactive })
    })
  }
}

const { is } = Check

const checks: Check.Checks<Options<{}>> = {
  prompt: is.required(Kind.prompt),
  toolkit: Kind.toolkit,
  maxTurns: Kind.count,
  maxCost: Kind.dollars,
  limits: Kind.object("limits such as { toolCalls: 100 }", Limits.checks),
  loops: is.falseOr(is.oneOf("strict", "soft", "tell")),
  tokenBudget: Kind.count,
  toolTimeout: Kind.positiveDuration,
  toolConcurrency: Kind.count,
  midStream: is.oneOf("continue", "fail", "restart"),
  approve: (module, field, value) => {
    if (value !== "suspend") is.fn('(call) => Effect<boolean>, or "suspend"')(module, field, value)
  },
  hooks: Kind.object("hooks such as { beforeTool }", Hooks.checks),
  cancel: (module, field, value) => Check.check(Effect.isEffect(value), module, field, value, "an Effect"),
  compaction: Kind.orFalse(Kind.object("false, or options such as { window: 200_000 }", Compacting.checks))
}
