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
import { Effect, Exit, Queue, Stream } from "effect"
import { LanguageModel, Prompt, Toolkit } from "effect/ai"
import type { AiError, Response, Tool } from "effect/ai"
import { ResilienceEvents } from "@outlast/resilience"
import { MissingService, Options as Check } from "@outlast/resilience"
import * as ActiveTime from "../conversation/ActiveTime.ts"
import { Transcript } from "../conversation/Transcript.ts"
import * as Surfaces from "../failover/call/Surface.ts"
import * as OutputLimit from "../failover/decide/OutputLimit.ts"
import type { MidStream } from "../failover/decide/RecoveryPolicy.ts"
import * as GuardedModel from "../guard/GuardedModel.ts"
import * as Requirements from "../guard/Requirements.ts"
import * as Kind from "../options/Kind.ts"
import * as Subagent from "../guard/Subagent.ts"
import type { AgentEvent } from "./AgentEvent.ts"
import type { AgentFailed } from "./AgentFailed.ts"
import type { Options, Unbound } from "./AgentOptions.ts"
import { resolve } from "./AgentOptions.ts"
import * as Compacting from "./Compacting.ts"
import * as Handlers from "./Handlers.ts"
import { interpret } from "./Interpreter.ts"
import type { Outcome } from "./Outcome.ts"
import type * as RunEvent from "./RunEvent.ts"
import type { Part } from "./RunPart.ts"
import * as RunCap from "./RunCap.ts"
import * as RunSettings from "./RunSettings.ts"
import * as RunState from "./RunState.ts"
import * as RunTranscript from "./RunTranscript.ts"
import type { Surface } from "./RunWorld.ts"
import * as RunWorld from "./RunWorld.ts"
import * as Share from "./Share.ts"
import * as Spans from "../telemetry/Spans.ts"
import type { Steps } from "./Steps.ts"
import { SuspendedRun } from "./Suspended.ts"
import type { Kit } from "./ToolCalls.ts"

export { defaults } from "./AgentOptions.ts"
export type { Options } from "./AgentOptions.ts"

export type { Part } from "./RunPart.ts"

/** Failures that tools declare. An `AiError` is excluded, because the model gets it as a result. */
export type ToolFailure<Tools extends Record<string, Tool.Any>> = Exclude<
  Tool.HandlerError<Tools[keyof Tools]>,
  AiError.AiError
>

/** What a run needs. `R` is what its toolkit needs: the handlers of its tools, or nothing when it has them. */
export type Services<Tools extends Record<string, Tool.Any>, R = Tool.HandlersFor<Tools>> =
  | LanguageModel.LanguageModel
  | R
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
export const run = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Options<Tools, R>
): Effect.Effect<Outcome, AgentFailed | ToolFailure<Tools>, Services<Tools, R>> =>
  loop(options, whole, undefined, {})

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
export const stream = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Options<Tools, R>
): Stream.Stream<Part, AgentFailed | ToolFailure<Tools>, Services<Tools, R>> => shown(options)

/** The stream of a run. */
const shown = <Tools extends Record<string, Tool.Any>, R>(
  options: Options<Tools, R>,
  begin: Begin = {}
): Stream.Stream<Part, AgentFailed | ToolFailure<Tools>, Services<Tools, R>> => {
  // Out-of-range limits throw here, where they are written, as in `run`.
  resolve(options)
  return Stream.callback<Part, AgentFailed | ToolFailure<Tools>, Services<Tools, R>>(
    (queue) => {
      const emit = (part: Part): Effect.Effect<void> =>
        Effect.suspend(() =>
          Queue.offerUnsafe(queue, part)
            ? Effect.void
            : Effect.asVoid(ActiveTime.resting(Queue.offer(queue, part)))
        )
      const surface = streaming(options.midStream, emit)
      return loop(options, surface, emit, begin).pipe(
        Effect.andThen((outcome) => emit({ type: "outcome", outcome })),
        Effect.andThen(Queue.end(queue))
      )
    },
    { bufferSize }
  )
}

/** Streams answers to `emit`. */
const streaming = (
  midStream: MidStream | undefined,
  emit: (part: Part) => Effect.Effect<void>
): Surface & { readonly clear: () => void } => {
  /** True when a part of the current answer was shown. */
  let shown = false
  let parts: Array<Response.AnyPart> = []
  const clear = () => {
    shown = false
    parts = []
  }
  return {
    ask: (prompt, toolkit) =>
      Effect.suspend(() => {
        clear()
        return LanguageModel.streamText({ prompt, toolkit, ...unresolved }).pipe(
          Surfaces.offered({ rewindable: true, midStream }),
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
    partial: () => parts,
    clear
  }
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
 * Events of another run, or out of order, are a defect (`RunState.UnexpectedEvent`).
 *
 * **Gotcha** An action that was under way when the process ended is performed again, tool calls included.
 */
export const replay = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Options<Tools, R>,
  history: History
): Effect.Effect<Outcome, AgentFailed | ToolFailure<Tools>, Services<Tools, R>> =>
  loop(options, whole, undefined, { history: checkedHistory(history) })

/** {@link replay} that shows the run from where the events end. The last part is the outcome. */
export const replayStream = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Options<Tools, R>,
  history: History
): Stream.Stream<Part, AgentFailed | ToolFailure<Tools>, Services<Tools, R>> =>
  shown(options, { history: checkedHistory(history) })

/** Options of a durable run. Calls that need approval wait for `Steps.approve`. */
export type DurableOptions<Tools extends Record<string, Tool.Any>, R = Tool.HandlersFor<Tools>> = Omit<
  Options<Tools, R>,
  "approve" | "midStream"
>

/**
 * Runs an agent whose every action is a step that `steps` carries out once and stores. Run again with the same stored
 * steps, it repeats none of them, publishes nothing twice, and goes on where they end. An interruption is no end of
 * such a run. Errors: `AgentFailed`, and the failure of a step.
 */
export const durable = <F, Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: DurableOptions<Tools, R>,
  steps: Steps<F>
): Effect.Effect<Outcome, AgentFailed | F, Services<Tools, R>> => {
  const { isWatched, emit } = steps.parts
  const watched = (part: Part) => Effect.suspend(() => (isWatched() ? emit(part) : Effect.void))
  const shown = streaming(undefined, watched)
  return loop<Tools, R, F>(
    { ...options, approve: "suspend" },
    {
      ...shown,
      ask: (prompt, toolkit) => {
        if (isWatched()) return shown.ask(prompt, toolkit)
        shown.clear()
        return whole.ask(prompt, toolkit)
      }
    },
    watched,
    { steps }
    // Each failure of a tool has become an `F`.
  ) as Effect.Effect<Outcome, AgentFailed | F, Services<Tools, R>>
}

/**
 * Continues a run: from the conversation that an outcome or a failure has left, or from a run that is suspended because
 * calls need approval. `decisions` has one entry for each of `suspended.pending`, in order; a missing one rejects.
 * Usage and limits begin again with a conversation, and continue with a suspended run. Errors as {@link run}.
 */
export const resume = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Omit<Options<Tools, R>, "prompt">,
  from: Transcript | SuspendedRun,
  decisions: ReadonlyArray<boolean> = []
): Effect.Effect<Outcome, AgentFailed | ToolFailure<Tools>, Services<Tools, R>> => {
  const { prompt, begin } = beginOf(from, decisions)
  return loop({ ...options, prompt }, whole, undefined, begin)
}

/** {@link resume} that shows the run as {@link stream} does. The last part is the outcome. */
export const resumeStream = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Omit<Options<Tools, R>, "prompt">,
  from: Transcript | SuspendedRun,
  decisions: ReadonlyArray<boolean> = []
): Stream.Stream<Part, AgentFailed | ToolFailure<Tools>, Services<Tools, R>> => {
  const { prompt, begin } = beginOf(from, decisions)
  return shown({ ...options, prompt }, begin)
}

/** Where a run begins, if not with its prompt. */
interface Begin<F = never> {
  /** Carries out the actions of a durable run. */
  readonly steps?: Steps<F>
  readonly resumed?: { readonly suspended: SuspendedRun; readonly decisions: ReadonlyArray<boolean> }
  readonly history?: History
}

const beginOf = (
  from: Transcript | SuspendedRun,
  decisions: ReadonlyArray<boolean>
): { readonly prompt: Prompt.Prompt; readonly begin: Begin } => {
  if (from instanceof SuspendedRun) {
    Check.check(Array.isArray(decisions), "Agent.resume", "decisions", decisions, "a list of booleans")
    const prompt = Prompt.fromMessages(from.transcript.messages)
    return { prompt, begin: { resumed: { suspended: from, decisions } } }
  }
  const noun = "a transcript or a suspended run, such as outcome.transcript or outcome.suspended"
  Check.check(from instanceof Transcript, "Agent.resume", "from", from, noun)
  return { prompt: from.prompt, begin: {} }
}

const checkedHistory = (history: History): History => {
  Kind.carrier("a history such as { events, record }")("Agent.replay", "history", history)
  Check.fields<History>("Agent.replay", history, historyChecks)
  return history
}

const historyChecks: Check.Checks<History> = {
  events: Check.is.required((module, field, value) =>
    Check.check(Array.isArray(value), module, field, value, "a list of events")
  ),
  record: Check.is.required(Check.is.fn("(event) => Effect<void>"))
}

export const bufferSize = 64

/** Returns calls as the model made them. The loop checks and runs them after a complete answer. */
const unresolved = { disableToolCallResolution: true, toolCallValidation: "deferred" } as const

/** Part types without content of the answer. */
const preamble: ReadonlySet<string> = new Set(["response-metadata", "notice"])

const loop = <Tools extends Record<string, Tool.Any>, R, F = never>(
  options: Options<Tools, R>,
  surface: Surface,
  emit: ((part: Part) => Effect.Effect<void>) | undefined,
  { resumed, history, steps }: Begin<F>
): Effect.Effect<Outcome, AgentFailed | ToolFailure<Tools> | F, Services<Tools, R>> => {
  const { maxTurns, tools: toolSettings, settings } = resolve(options)
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
    const turns = maxTurns === "by keys" ? yield* RunCap.ofChain : maxTurns
    const first: RunEvent.RunEvent =
      resumed === undefined
        ? {
            _tag: "Started",
            settings: within(settings(turns, compacting?.maxReactive), hold?.limits),
            messages: prompt.content,
            ...(hold?.refused === undefined ? {} : { refused: hold.refused })
          }
        : { _tag: "Approved", decisions: resumed.decisions }
    let isSaid = false
    let isCostSaid = options.maxCost === undefined && options.limits?.money === undefined
    const world = new RunWorld.RunWorld({
      surface,
      offered,
      kit,
      settings: toolSettings,
      hooks: options.hooks,
      compacting,
      limit: new OutputLimit.Raised(reached.raised),
      stored: history !== undefined || steps !== undefined || options.approve === "suspend",
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
        }),
      unknownCost: (model) =>
        Effect.suspend(() => {
          if (isCostSaid) return Effect.void
          isCostSaid = true
          return Effect.logWarning(unknownCost(model))
        })
    })
    return yield* interpret<ToolFailure<Tools>, Services<Tools, R>, F>({
      world,
      steps,
      from,
      first,
      replayed: history?.events ?? [],
      record: history?.record,
      emit: emit && (({ turn, transition, cause }) => emit({ type: "transition", turn, transition, cause })),
      cancel: options.cancel,
      hold
    })
  })
  // The engine of a durable run has spans of its own, and a replay is no other run.
  return Subagent.run(steps === undefined ? Spans.around("invoke_agent", spanOptions, running) : running)
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

const unknownCost = (model: string | undefined): string =>
  `Agent: the cost of an answer of ${model ?? "the model"} is unknown. Such answers count as 0 for the limit of cost. Set the price with the option info of the target.`

/**
 * The tools of a run: `offered` to the model, whose calls come back unchecked, and `handlers`, which are found by
 * name. Both have erased types: the signature of `run` has the types.
 */
const handlersOf = <Tools extends Record<string, Tool.Any>, R>(
  toolkit: Options<Tools, R>["toolkit"]
): Effect.Effect<{ readonly offered: Toolkit.WithHandler<{}>; readonly handlers: Kit }, never, R> =>
  toolkit === undefined
    ? Effect.map(Toolkit.empty, (kit) => ({ offered: kit, handlers: kit as unknown as Kit }))
    : Effect.gen(function* () {
        // A tool whose required service is absent could only fail, so it is not offered.
        const met = Requirements.isAnnotated(toolkit)
          ? (yield* Requirements.offered(toolkit)).toolkit
          : toolkit
        const kit = Effect.isEffect(toolkit)
          ? // The handlers of the offered tools are among those that `R` names.
            yield* Effect.updateContext(met as Unbound<Tools, R>, Handlers.checked<Tools, R>(met))
          : { ...toolkit, tools: met.tools }
        return { offered: kit as unknown as Toolkit.WithHandler<{}>, handlers: kit as unknown as Kit }
      })
