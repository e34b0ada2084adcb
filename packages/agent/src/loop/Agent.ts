/**
 * The agent loop as one Effect program: ask the model, run the tools it asks for, repeat until it answers.
 *
 * The loop works over any `LanguageModel`. Over `Failover.layer` it outlasts failing providers. Tools run only
 * after a complete answer: all calls of a turn concurrently, each with a time limit. Their results are in the
 * transcript in the order of the calls. `run` asks for complete answers, `stream` shows them as they arrive.
 *
 * **Composition.** Inside `SafetyGuard.run` the guard checks every model call and tool call first. A run that a
 * tool of another run starts is a sub-agent of that run.
 *
 * **Compaction.** Inside `Compaction.layer` a run shortens its conversation before each call if it does not fit the
 * window, and once more if a provider still rejects it. The compacted conversation becomes the transcript. No type
 * requires this: a program with long conversations needs the layer, or the option `compaction`, which works without
 * a layer and summarises with the run's own model. The window is that of the target that answered last (`Targets`),
 * or the one that `ContextWindows` knows. If the window is unknown, the run warns once and compacts only after a
 * rejection. A chain with its own `compact` handles rejections itself.
 *
 * **Limits.** Without these layers the loop has no guard against repetition and no compaction. A run does not
 * survive its process.
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
import { Cause, Clock, Duration, Effect, Option, Queue, Stream } from "effect"
import { LanguageModel, Prompt, Toolkit } from "effect/ai"
import type { AiError, Response, Tool } from "effect/ai"
import { ErrorText, ResilienceEvents } from "@outlast/resilience"
import { MissingService, Options as Check } from "@outlast/resilience"
import type { CannotFit, ContextExhausted } from "../compaction/CompactionError.ts"
import * as OutputLimit from "../failover/decide/OutputLimit.ts"
import { answeredBy } from "../conversation/Answered.ts"
import { failureOf } from "../failure/reasons/CallFailed.ts"
import { texts } from "../failover/call/Conversation.ts"
import type { Notice } from "../failover/decide/Notice.ts"
import type { MidStream } from "../failover/decide/RecoveryPolicy.ts"
import type { Rewind } from "../failover/call/Surface.ts"
import * as Surface from "../failover/call/Surface.ts"
import type { CallFailure } from "../failure/reasons/CallFailure.ts"
import * as Classifier from "../failure/Classifier.ts"
import * as ActiveTime from "../conversation/ActiveTime.ts"
import * as BlockedCalls from "../guard/BlockedCalls.ts"
import { current } from "../guard/Branch.ts"
import * as GuardedModel from "../guard/GuardedModel.ts"
import * as Requirements from "../guard/Requirements.ts"
import * as Subagent from "../guard/Subagent.ts"
import * as Kind from "../options/Kind.ts"
import type { AgentEvent } from "./AgentEvent.ts"
import { AgentFailed, isTooLong, leaving } from "./AgentFailed.ts"
import type { Reason } from "./AgentFailed.ts"
import * as Handlers from "./Handlers.ts"
import * as Compacting from "./Compacting.ts"
import type { Outcome, Tally } from "./Outcome.ts"
import { count, emptyTally, totals } from "./Outcome.ts"
import type { Kit, Running, Settings } from "./ToolCalls.ts"
import { runCalls } from "./ToolCalls.ts"
import { Transcript } from "../conversation/Transcript.ts"
import type { Bounds, Transition } from "./Transition.ts"
import { transition } from "./Transition.ts"

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
  /** Approves or rejects calls of tools that need approval. Default: they are rejected. */
  readonly approve?: Settings["approve"]
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
  | { readonly type: "transition"; readonly turn: number; readonly transition: Transition }
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
  loop(options, {
    ask: (prompt, toolkit) =>
      Effect.map(
        LanguageModel.generateText({ prompt, toolkit, ...unresolved }),
        (response): ReadonlyArray<Response.AnyPart> => response.content
      ),
    emit: () => Effect.void,
    hasShown: () => false
  })

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
      return loop(options, {
        ask: (prompt, toolkit) =>
          Effect.suspend(() => {
            shown = false
            return LanguageModel.streamText({ prompt, toolkit, ...unresolved }).pipe(
              Surface.offered({ rewindable: true, midStream: options.midStream }),
              Stream.map((part) => Surface.carriedBy(part) ?? part),
              Stream.tap((part) => {
                shown = part.type !== "rewind" && (shown || !preamble.has(part.type))
                return emit(part)
              }),
              Stream.runFold(nothing, said)
            )
          }),
        emit,
        hasShown: () => shown
      }).pipe(
        Effect.andThen((outcome) => emit({ type: "outcome", outcome })),
        Effect.andThen(Queue.end(queue))
      )
    },
    { bufferSize }
  )
}

export const bufferSize = 64

/** Returns calls as the model made them. The loop checks and runs them after a complete answer. */
const unresolved = { disableToolCallResolution: true, toolCallValidation: "deferred" } as const

/** Part types without content of the answer. */
const preamble: ReadonlySet<string> = new Set(["response-metadata", "notice"])

const nothing = (): Array<Response.AnyPart> => []

/** The parts of a turn's answer after one more part of the stream. */
const said = (
  parts: Array<Response.AnyPart>,
  part: Response.AnyPart | Notice | Rewind
): Array<Response.AnyPart> => {
  if (part.type === "rewind") return []
  if (part.type !== "notice") parts.push(part)
  return parts
}

/** The difference between `run` and `stream`: how the model is asked, and who receives the parts. */
interface Surface {
  readonly ask: (
    prompt: Prompt.Prompt,
    toolkit: Toolkit.WithHandler<{}>
  ) => Effect.Effect<ReadonlyArray<Response.AnyPart>, AiError.AiError, LanguageModel.LanguageModel>
  readonly emit: (part: Part) => Effect.Effect<void>
  /** True when the consumer has seen a part of the current answer, which then cannot be requested again. */
  readonly hasShown: () => boolean
}

/** An answer and its prompt. */
interface Asked {
  readonly parts: ReadonlyArray<Response.AnyPart>
  readonly prompt: Prompt.Prompt
}

const loop = <Tools extends Record<string, Tool.Any>>(
  options: Options<Tools>,
  { ask, emit, hasShown }: Surface
): Effect.Effect<Outcome, AgentFailed | ToolFailure<Tools>, Services<Tools>> => {
  const bounds = boundsOf(options)

  const running = Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const own = yield* MissingService.get(
      LanguageModel.LanguageModel,
      "LanguageModel",
      "Failover.layer([...])"
    )
    const model = GuardedModel.ambient(own)
    const branch = yield* current
    /** Publishes the transition of an interrupted run: stopped by the guard, or `transition`. */
    const aborted = (turn: number, transition: Transition) =>
      Effect.suspend(() =>
        publish({
          _tag: "AgentTransition",
          turn,
          transition: branch?.isStopped === true ? "guard_stopped" : transition
        })
      )
    const events = yield* ResilienceEvents.ResilienceEvents
    const kit = yield* handlersOf(options.toolkit)
    const publish = ResilienceEvents.publisher(events, clock)<AgentEvent>
    const moved = (turn: number, transition: Transition) =>
      Effect.andThen(
        publish({ _tag: "AgentTransition", turn, transition }),
        emit({ type: "transition", turn, transition })
      )

    let prompt = Prompt.make(options.prompt)
    let tally: Tally = emptyTally
    let toolCalls = 0
    let blocked = BlockedCalls.none
    let answeredLast: string | undefined
    const limit = new OutputLimit.Raised()
    const compacting = yield* Compacting.open(
      options.compaction,
      Object.values(kit.handlers.tools),
      prompt,
      own
    )

    let isSaid = false
    const unknown = (turn: number) => (model: string | undefined) =>
      Effect.suspend(() => {
        if (isSaid) return Effect.void
        isSaid = true
        return Effect.andThen(
          publish({ _tag: "ContextWindowUnknown", turn, model }),
          // A program may have no consumer of events.
          Effect.logWarning(unknownWindow(model))
        )
      })
    const failed = (turn: number, prompt: Prompt.Prompt) => (reason: Reason) =>
      Effect.andThen(
        moved(
          turn,
          isTooLong(reason) ? "context_exhausted" : isRefused(reason) ? "answer_refused" : "model_failed"
        ),
        Effect.fail(
          ErrorText.brief(
            new AgentFailed({ reason, turn, transcript: new Transcript(prompt) }),
            "reason",
            "transcript"
          )
        )
      )
    /** Runs a compaction, and publishes `compacted` if it changed the prompt. */
    const replaced = <P extends Prompt.Prompt | undefined>(
      turn: number,
      before: Prompt.Prompt,
      made: Effect.Effect<P, CannotFit | ContextExhausted>
    ): Effect.Effect<P, AgentFailed> =>
      Effect.catch(made, failed(turn, before)).pipe(
        Effect.tap((after) =>
          after === undefined || after === before ? Effect.void : moved(turn, "compacted")
        )
      )
    const answer = (turn: number, prompt: Prompt.Prompt): Effect.Effect<Asked, AgentFailed> =>
      ask(prompt, kit.offered).pipe(
        Effect.provideService(LanguageModel.LanguageModel, model),
        Effect.provideService(OutputLimit.RunLimit, limit),
        Effect.map((parts) => ({ parts, prompt })),
        Effect.catch((error) =>
          Effect.gen(function* () {
            const reason = yield* toFailure(error, prompt)
            const smaller =
              compacting === undefined || hasShown()
                ? undefined
                : yield* replaced(turn, prompt, compacting.shrink(prompt, reason))
            return yield* smaller === undefined ? failed(turn, prompt)(reason) : answer(turn, smaller)
          })
        )
      )

    for (let turn = 1; ; turn++) {
      const fit = compacting === undefined ? Effect.succeed(prompt) : compacting.fit(prompt, unknown(turn))
      const { parts, prompt: before } = yield* replaced(turn, prompt, fit).pipe(
        Effect.flatMap((prompt) => answer(turn, prompt)),
        Effect.tap(({ parts, prompt }) => compacting?.answered(prompt, parts) ?? Effect.void),
        Effect.onInterrupt(() => aborted(turn, "aborted_streaming")),
        keeping(prompt)
      )
      tally = count(tally, parts)
      const by = Option.getOrUndefined(answeredBy(parts))
      if (by !== undefined) {
        const answering = `${by.provider}/${by.model}`
        if (answeredLast !== undefined && answeredLast !== answering) yield* moved(turn, "model_switched")
        answeredLast = answering
      }

      const finish = parts.findLast((part) => part.type === "finish")?.reason ?? "unknown"
      const calls = parts.filter((part) => part.type === "tool-call").filter((call) => !call.providerExecuted)
      const running: Running = {
        kit: kit.handlers,
        whole: complete.has(finish),
        messages: before.content,
        settings: bounds,
        blocked: (call) => {
          blocked = BlockedCalls.add(blocked, { turn, ...call })
        },
        finished: (result, elapsed) =>
          Effect.andThen(
            publish({ _tag: "ToolFinished", turn, tool: result.name, isFailure: result.isFailure, elapsed }),
            emit(result)
          )
      }
      const results = yield* runCalls<ToolFailure<Tools>, Services<Tools>>(calls, running, (cause, all) => {
        const left = Prompt.concat(before, Prompt.fromResponseParts([...parts, ...all]))
        const ended = Effect.failCause(leaving(cause, new Transcript(left)))
        return Cause.hasInterruptsOnly(cause) ? ended : Effect.andThen(moved(turn, "tool_failed"), ended)
      }).pipe(Effect.onInterrupt(() => aborted(turn, "aborted_tools")))
      toolCalls += results.length
      const came = Prompt.fromResponseParts([...parts, ...results])
      prompt = Prompt.concat(before, came)
      if (compacting !== undefined) {
        const admitted = yield* compacting.admit(came).pipe(
          Effect.onInterrupt(() => aborted(turn, "aborted_tools")),
          keeping(prompt)
        )
        prompt = Prompt.concat(before, admitted)
      }

      const so = totals(tally, compacting?.taken ?? Compacting.none)
      const next = transition(bounds, {
        number: turn,
        finish,
        toolCalls: calls.length,
        costUsd: so.costUsd ?? 0
      })
      yield* moved(turn, next)
      if (next !== "next_turn") {
        return {
          status: statuses[next] ?? "completed",
          text: textOf(parts),
          finishReason: finish,
          toolCalls,
          blockedCalls: blocked.count,
          blocked: blocked.last,
          ...so,
          transcript: new Transcript(prompt)
        }
      }
    }
  })
  return Subagent.run(running)
}

/** True when the provider rejected the content, in the request or in the answer. */
const isRefused = (reason: Reason): boolean =>
  reason._tag === "ProviderFailure" && reason.reason._tag === "ContentPolicy"

const unknownWindow = (model: string | undefined): string =>
  `Agent: the context window of ${model ?? "the model"} is unknown, so the conversation is compacted only when a provider rejects it. Set compaction.window, or provide ContextWindows.`

/** Adds the conversation so far to the cause of a defect, because it shows which tools have run. */
const keeping =
  (prompt: Prompt.Prompt) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.catchCause(self, (cause) =>
      Effect.failCause(Cause.hasDies(cause) ? leaving(cause, new Transcript(prompt)) : cause)
    )

/** Status of a run for the transitions that end it. */
const statuses: Partial<Record<Transition, Outcome["status"]>> = {
  answer_cut: "cut",
  answer_refused: "refused",
  turn_limit: "turn_limit",
  guard_stopped: "cost_limit"
}

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

/** Finish reasons of a complete answer. After any other reason its tool calls may be cut. */
const complete: ReadonlySet<Response.FinishReason> = new Set<Response.FinishReason>([
  "stop",
  "tool-calls",
  "pause"
])

const textOf = (parts: ReadonlyArray<Response.AnyPart>): string =>
  parts
    .map((part) => (part.type === "text" ? part.text : part.type === "text-delta" ? part.delta : ""))
    .join("")

const toFailure = (error: AiError.AiError, prompt: Prompt.Prompt): Effect.Effect<CallFailure> =>
  Option.match(failureOf(error), {
    onNone: () => Classifier.failure(error, { secrets: { prompt: texts(prompt) } }),
    onSome: (failure) => Effect.succeed(failure)
  })

const boundsOf = <Tools extends Record<string, Tool.Any>>(options: Options<Tools>): Bounds & Settings => {
  Kind.carrier("options such as { prompt, toolkit }")("Agent", "options", options)
  Check.fields<Options<Tools>>("Agent", options, checks)
  const {
    maxTurns = defaults.maxTurns,
    maxCost,
    toolConcurrency: concurrency = defaults.toolConcurrency
  } = options
  const timeout = Duration.fromInputUnsafe(options.toolTimeout ?? defaults.toolTimeout)
  return { maxTurns, maxCost, timeout, concurrency, approve: options.approve }
}

const { is } = Check

const checks: Check.Checks<Options<{}>> = {
  prompt: is.required(Kind.prompt),
  toolkit: Kind.toolkit,
  maxTurns: Kind.count,
  maxCost: Kind.dollars,
  toolTimeout: Kind.positiveDuration,
  toolConcurrency: Kind.count,
  midStream: is.oneOf("continue", "fail", "restart"),
  approve: is.fn("(call) => Effect<boolean>"),
  compaction: Kind.orFalse(Kind.object("false, or options such as { window: 200_000 }", Compacting.checks))
}
