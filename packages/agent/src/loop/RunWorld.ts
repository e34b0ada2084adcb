/**
 * Carries out the actions of a run: each method performs one kind of action and returns its event.
 *
 * `Interpreter` feeds the events to the machine. A durable task calls the same methods inside its steps and
 * stores the events. No method keeps anything that the state and the transcript do not have, beside caches.
 */
import { Effect, Option } from "effect"
import type { Clock, Types } from "effect"
import { Prompt } from "effect/ai"
import type { AiError, LanguageModel, Response, Tool, Toolkit } from "effect/ai"
import type { ResilienceEvents } from "@outlast/resilience"
import { answeredBy } from "../conversation/Answered.ts"
import type { Memory } from "../compaction/Memory.ts"
import type { CallFailure } from "../failure/reasons/CallFailure.ts"
import { failureOf } from "../failure/reasons/CallFailed.ts"
import * as Classifier from "../failure/Classifier.ts"
import { RunCompact } from "../failover/call/CallContext.ts"
import { texts } from "../failover/call/Conversation.ts"
import type { Compact } from "../failover/chain/Chain.ts"
import { CallNotes } from "../failover/decide/CallNotes.ts"
import * as OutputLimit from "../failover/decide/OutputLimit.ts"
import * as GuardedTool from "../guard/GuardedTool.ts"
import * as LoopDetector from "../guard/LoopDetector.ts"
import type { AgentEvent } from "./AgentEvent.ts"
import { isRefused } from "./AgentFailed.ts"
import type { Compacting, Last } from "./Compacting.ts"
import type { Hooks } from "./Hooks.ts"
import * as Hook from "./Hooks.ts"
import type * as Action from "./RunAction.ts"
import type * as Event from "./RunEvent.ts"
import type { RunEvent } from "./RunEvent.ts"
import { rulesOf } from "./RunSettings.ts"
import type { RunState } from "./RunModel.ts"
import type { Call, RunTranscript } from "./RunTranscript.ts"
import { editsOf } from "./RunTranscript.ts"
import { Current, Share } from "./Share.ts"
import type { Kit, Result, Settings } from "./ToolCalls.ts"
import type { ToolStep } from "./Steps.ts"
import { needsApproval, runCall } from "./ToolCalls.ts"

/** How the model is asked, and who receives the parts. */
export interface Surface {
  readonly ask: (
    prompt: Prompt.Prompt,
    toolkit: Toolkit.WithHandler<{}>
  ) => Effect.Effect<ReadonlyArray<Response.AnyPart>, AiError.AiError, LanguageModel.LanguageModel>
  readonly emit: (result: Result) => Effect.Effect<void>
  /** True when the consumer has seen a part of the current answer, which then cannot be requested again. */
  readonly hasShown: () => boolean
  /** Parts of the answer that is under way. */
  readonly partial: () => ReadonlyArray<Response.AnyPart>
}

/** A run at one moment. */
export interface Here {
  readonly state: RunState
  readonly transcript: RunTranscript
}

export interface Parts {
  readonly surface: Surface
  readonly offered: Toolkit.WithHandler<{}>
  readonly kit: Kit
  readonly settings: Settings
  readonly hooks: Hooks | undefined
  readonly compacting: Compacting | undefined
  readonly limit: OutputLimit.Raised
  /** True when the events or the state may be stored: then they have what compaction remembers. */
  readonly stored: boolean
  /** Asks the model of the run. */
  readonly withModel: <A, E>(self: Effect.Effect<A, E, LanguageModel.LanguageModel>) => Effect.Effect<A, E>
  readonly unknownWindow: (turn: number, model: string | undefined) => Effect.Effect<void>
  readonly unknownCost: (model: string | undefined) => Effect.Effect<void>
}

/** Carries out a tool call: as it is, or as a step of a durable run. */
export type Carry<E, R, E2> = (
  call: Call,
  at: number,
  tool: Tool.Any | undefined,
  run: Effect.Effect<ToolStep, E, R>
) => Effect.Effect<ToolStep, E2, R>

export class RunWorld {
  readonly #parts: Parts
  /** Results of the turn that is under way, by position. */
  #done: Array<Prompt.ToolResultPart | null> = []

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Results of the turn that is under way, in the order of the calls; `null` for a call without one. */
  get done(): ReadonlyArray<Prompt.ToolResultPart | null> {
    return this.#done.slice()
  }

  /** The part of the current answer that the consumer has seen, without its calls. */
  get partial(): ReadonlyArray<Prompt.Message> {
    const parts = this.#parts.surface
      .partial()
      .filter(
        ({ type }) => type !== "tool-call" && type !== "tool-result" && type !== "tool-approval-request"
      )
    return Prompt.fromResponseParts(parts).content
  }

  /** Takes over what an earlier process has learned, before the first action that this one carries out. */
  restore({ memory, raised }: RunState): Effect.Effect<void> {
    const { compacting, limit } = this.#parts
    limit.restore(raised)
    return compacting === undefined ? Effect.void : compacting.restore(memory)
  }

  /** What compaction remembers of the run, where it may be stored. */
  #memory(last: Last): Effect.Effect<Memory | undefined> {
    const { compacting, stored } = this.#parts
    return compacting === undefined || !stored ? Effect.undefined : compacting.remembered(last)
  }

  fit(
    { state, transcript }: Here,
    action: Action.Of<"Fit">
  ): Effect.Effect<Event.Of<"Fitted" | "FitFailed">> {
    const { compacting, unknownWindow } = this.#parts
    if (compacting === undefined) return Effect.succeed(unchanged)
    const last = lastOf(state)
    const prompt = Prompt.fromMessages(transcript.messages)
    const { reason } = action
    const made =
      reason === undefined
        ? compacting.fit(prompt, last, (model) => unknownWindow(state.turn, model))
        : compacting.shrink(prompt, reason, last)
    return Effect.matchEffect(made, {
      onFailure: (reason) =>
        Effect.map(this.#memory(last), (memory) => ({ _tag: "FitFailed", reason, memory }) as const),
      onSuccess: (fitted) => {
        if (fitted === undefined) return Effect.succeed(unchanged)
        const { tier, summaries } = fitted.report
        return Effect.map(this.#memory(last), (memory): Event.Of<"Fitted"> => ({
          _tag: "Fitted",
          edits: editsOf(transcript.messages, fitted.prompt.content),
          compacted: tier !== "none",
          // Only a prepared summary costs no call.
          prepared: tier === "chunks" && summaries.calls === 0,
          summaries,
          memory
        }))
      }
    })
  }

  ask(here: Here, action: Action.Of<"Ask">): Effect.Effect<Event.Of<"Answered" | "AskFailed">> {
    const { surface, offered, limit, withModel } = this.#parts
    this.#done = []
    const prompt = Prompt.fromMessages(here.transcript.messages)
    const nudged =
      action.nudges.length === 0
        ? prompt
        : Prompt.concat(prompt, [
            { role: "user", content: action.nudges.map((text) => ({ type: "text" as const, text })) }
          ])
    limit.notes = new CallNotes()
    return surface.ask(nudged, offered).pipe(
      Effect.provideService(OutputLimit.RunLimit, limit),
      Effect.provideService(RunCompact, this.#compactOf(here)),
      withModel,
      Effect.matchEffect({
        onFailure: (error) => this.#failed(here, prompt, error),
        onSuccess: (parts) => this.#answered(nudged, parts)
      })
    )
  }

  /** Shortens the conversation of a call whose answer fills the window. */
  #compactOf({ state }: Here): Compact | undefined {
    const { compacting } = this.#parts
    if (compacting === undefined) return undefined
    return (prompt, failure) =>
      compacting.shrink(prompt, failure, lastOf(state)).pipe(
        Effect.map((fitted) => fitted?.prompt ?? prompt),
        Effect.provideService(RunCompact, undefined)
      )
  }

  #failed(
    { state }: Here,
    prompt: Prompt.Prompt,
    error: AiError.AiError
  ): Effect.Effect<Event.Of<"AskFailed">> {
    const { surface, compacting, limit } = this.#parts
    return Effect.gen({ self: this }, function* () {
      const reason = yield* toFailure(error, prompt)
      const partial = isRefused(reason) ? [] : this.partial
      const mayShrink =
        compacting !== undefined &&
        !surface.hasShown() &&
        !(yield* compacting.leavesToChain(reason, lastOf(state)))
      const shown = partial.length === 0 ? {} : { partial }
      return { _tag: "AskFailed", reason, mayShrink, ...shown, ...notesOf(limit.notes) }
    })
  }

  #answered(
    prompt: Prompt.Prompt,
    parts: ReadonlyArray<Response.AnyPart>
  ): Effect.Effect<Event.Of<"Answered">> {
    const { kit, compacting, limit, unknownCost } = this.#parts
    const by = Option.getOrUndefined(answeredBy(parts))
    const finish = parts.findLast((part) => part.type === "finish")
    const calls: Array<Types.Mutable<Event.AnsweredCall>> = []
    const checks: Array<Effect.Effect<void>> = []
    if (by?.costUsd === undefined) checks.push(unknownCost(by?.model))
    for (const part of parts) {
      if (part.type !== "tool-call" || part.providerExecuted === true) continue
      const { id, name, params } = part
      const call: Types.Mutable<Event.AnsweredCall> = { id, name }
      calls.push(call)
      const hints = GuardedTool.hintsOf(kit.tools[name])
      if (hints !== undefined) call.hints = hints
      const check = needsApproval(kit, { id, name, params }, prompt.content)
      if (check === undefined) continue
      checks.push(
        Effect.map(check, (needed) => {
          if (needed) call.approval = true
        })
      )
    }
    const event: Event.Of<"Answered"> = {
      _tag: "Answered",
      messages: Prompt.fromResponseParts(parts).content,
      finish: finish?.reason ?? "unknown",
      calls,
      usage: {
        inputTokens: finish?.usage.inputTokens.total ?? 0,
        cachedInputTokens: finish?.usage.inputTokens.cacheRead ?? 0,
        outputTokens: finish?.usage.outputTokens.total ?? 0
      },
      ...(by?.costUsd === undefined ? {} : { costUsd: by.costUsd }),
      ...(by === undefined ? {} : { by: { target: by.target, provider: by.provider, model: by.model } }),
      ...(limit.known === undefined ? {} : { raised: limit.known }),
      ...notesOf(limit.notes)
    }
    if (compacting === undefined && checks.length === 0) return Effect.succeed(event)
    return Effect.gen({ self: this }, function* () {
      for (const check of checks) yield* check
      if (compacting === undefined) return event
      const last = Option.fromUndefinedOr(by)
      yield* compacting.answered(prompt, parts)
      const messages = parts.some((part) => part.type === "tool-result")
        ? (yield* compacting.admit(Prompt.fromMessages(event.messages), last)).content
        : event.messages
      const memory = yield* this.#memory(last)
      return memory === undefined ? { ...event, messages } : { ...event, messages, memory }
    })
  }

  /**
   * Runs the calls of the last answer. Fails with what a tool declares. `carry` carries out each call that may run; a
   * call that it does not finish ends the turn.
   */
  tools<E, R, E2 = E>(
    { state, transcript }: Here,
    { verdicts, share }: Action.Of<"RunTools">,
    publish: (event: ResilienceEvents.NoTime<AgentEvent>) => Effect.Effect<void>,
    carry: Carry<E, R, E2>
  ): Effect.Effect<Event.Of<"ToolsFinished" | "Stopped" | "Interrupted">, E2, R> {
    const { kit, settings, surface } = this.#parts
    const { turn } = state
    const calls = transcript.open
    const done: Array<Prompt.ToolResultPart | null> = calls.map(() => null)
    this.#done = done
    const shares = calls.map(() => new Share(share))
    const blocked: Array<Event.CallResult["blocked"]> = []
    const late = new Set<number>()
    const detector = rulesOf(state.settings)?.detector
    const running = {
      kit,
      settings,
      verdicts,
      blocked: (at: number, why: NonNullable<Event.CallResult["blocked"]>) => {
        blocked[at] = why
      },
      timedOut: (at: number) => void late.add(at),
      around: <A, E3, R3>(at: number, run: Effect.Effect<A, E3, R3>) =>
        Effect.provideService(run, Current, shares[at]),
      finished: (at: number, result: Result, elapsed: number) => {
        done[at] = partOf(result)
        const { name: tool, isFailure } = result
        return Effect.andThen(
          publish({ _tag: "ToolFinished", turn, tool, isFailure, elapsed }),
          surface.emit(result)
        )
      }
    }
    const one = (call: Call, at: number): Effect.Effect<ToolStep, E2, R> => {
      const ran = Effect.map(runCall<E, R>(call, at, running), (result): ToolStep => {
        const isRun = verdicts[at]?._tag !== "Block" && blocked[at] === undefined
        const spent = shares[at]?.spent
        return {
          _tag: "Ran",
          result: {
            part: done[at] ?? partOf(result),
            ...(detector !== undefined && isRun
              ? { evidence: LoopDetector.evidence(detector, observed(turn, kit, call, result)) }
              : {}),
            ...(blocked[at] === undefined ? {} : { blocked: blocked[at] }),
            ...(spent === undefined || spent.runs === 0 ? {} : { spent })
          },
          ...(late.has(at) ? { timedOut: true } : {})
        }
      })
      return carry(call, at, kit.tools[call.name], ran)
    }
    return Effect.map(Effect.forEach(calls, one, { concurrency: settings.concurrency }), (steps) => {
      const took = tookOf(steps)
      for (const [at, step] of steps.entries()) done[at] = step._tag === "Ran" ? step.result.part : null
      const stop = steps.find((step) => step._tag === "Stopped")
      if (stop !== undefined) {
        return { _tag: "Stopped", tripped: stop.tripped, results: done, ...took }
      }
      if (steps.some((step) => step._tag === "Cancelled")) {
        return { _tag: "Interrupted", results: done, ...took }
      }
      const results = steps.flatMap((step) => (step._tag === "Ran" ? [step.result] : []))
      return { _tag: "ToolsFinished", results, ...took }
    })
  }

  /** True when {@link fit} and {@link admitted} may change the conversation. */
  get compacts(): boolean {
    return this.#parts.compacting !== undefined
  }

  /** Shortens results that are larger than the compaction allows. */
  admitted<A extends RunEvent>({ state }: Here, event: A): Effect.Effect<A | Event.Of<"ToolsFinished">> {
    const { compacting } = this.#parts
    if (compacting === undefined || event._tag !== "ToolsFinished" || event.results.length === 0) {
      return Effect.succeed(event)
    }
    const { results } = event
    const content = results.map(({ part }) => part)
    const prompt = Prompt.fromMessages([Prompt.makeMessage("tool", { content })])
    return Effect.map(compacting.admit(prompt, lastOf(state)), ({ content: [message] }) => {
      const parts = resultsOf(message)
      return {
        ...event,
        results: results.map((result, at) => ({ ...result, part: parts[at] ?? result.part }))
      }
    })
  }

  hook(
    { state, transcript }: Here,
    { point, calls }: Action.Of<"AskHook">
  ): Effect.Effect<Event.Of<"HookReplied">> {
    const { hooks } = this.#parts
    const { turn } = state
    const results = resultsOf(transcript.messages.at(-1))
    const asked = calls.flatMap((at) => {
      const call = transcript.calls[at]
      if (call === undefined) return []
      const { result, isFailure = false } = results[at] ?? {}
      return [{ turn, id: call.id, tool: call.name, params: call.params, result, isFailure }]
    })
    const replies =
      point === "beforeStop"
        ? Hook.ask(point, hooks?.beforeStop, [{ turn, text: transcript.text }])
        : point === "beforeTool"
          ? Hook.ask(
              point,
              hooks?.beforeTool,
              asked.map(({ turn, id, tool, params }) => ({ turn, id, tool, params }))
            )
          : Hook.ask(point, hooks?.afterTool, asked)
    return Effect.map(replies, (replies) => ({ _tag: "HookReplied", replies }))
  }
}

const unchanged: Event.Of<"Fitted"> = {
  _tag: "Fitted",
  edits: [],
  compacted: false,
  summaries: { calls: 0, tokens: 0, costUsd: undefined }
}

/** The target that answered last. */
const lastOf = ({ tally, by }: RunState): Last =>
  tally.rows.length === 0 ? undefined : Option.fromUndefinedOr(by)

/** Time of calls that ran concurrently: that of the longest. */
const tookOf = (
  steps: ReadonlyArray<ToolStep>
): { readonly elapsed?: number | undefined; readonly active?: number | undefined } => {
  const longest = (of: "elapsed" | "active") => Math.max(0, ...steps.map((step) => step[of] ?? 0))
  const [elapsed, active] = [longest("elapsed"), longest("active")]
  return elapsed === 0 && active === 0 ? {} : { elapsed, active }
}

const partOf = (result: Result): Prompt.ToolResultPart =>
  Prompt.makePart("tool-result", {
    id: result.id,
    name: result.name,
    isFailure: result.isFailure,
    result: jsonOf(result.encodedResult),
    ...(result.modelOutput === undefined ? {} : { modelOutput: result.modelOutput }),
    providerExecuted: false,
    options: result.metadata
  })

/**
 * A result as JSON has it, so that a conversation can always be stored: a `Schema.Void` becomes `null`, and a date the
 * text that the model reads.
 */
const jsonOf = (result: unknown): unknown => {
  if (typeof result === "string") return result
  try {
    const json = JSON.stringify(result, (_, value: unknown) =>
      typeof value === "bigint" ? String(value) : value
    )
    return json === undefined ? null : JSON.parse(json)
  } catch {
    // `String` throws for an object without a prototype.
    return Object.prototype.toString.call(result)
  }
}

const resultsOf = (message: Prompt.Message | undefined): ReadonlyArray<Prompt.ToolResultPart> =>
  message?.role === "tool" ? message.content.filter((part) => part.type === "tool-result") : []

const observed = (
  turn: number,
  kit: Kit,
  { name, params }: Call,
  { encodedResult, isFailure }: Result
): LoopDetector.Observation => ({
  turn,
  tool: name,
  arguments: params,
  hints: GuardedTool.hintsOf(kit.tools[name]),
  result: encodedResult,
  failed: isFailure
})

/** The notes of a call, if there are any. */
const notesOf = ({
  raisedTo,
  continued,
  diminished,
  mediaDropped
}: CallNotes): { readonly notes?: Event.CallNotes } =>
  raisedTo === undefined && continued === 0 && !diminished && mediaDropped === 0
    ? {}
    : { notes: { raisedTo, continued, diminished, mediaDropped } }

const toFailure = (error: AiError.AiError, prompt: Prompt.Prompt): Effect.Effect<CallFailure> =>
  Option.match(failureOf(error), {
    onNone: () => Classifier.failure(error, { waits: true, secrets: { prompt: texts(prompt) } }),
    onSome: (failure) => Effect.succeed(failure)
  })

/** Milliseconds of the monotonic clock. */
export const now = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
