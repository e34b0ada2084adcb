/**
 * Asks a person whether a run that has reached a limit shall continue, and continues it from its conversation.
 *
 * The limits of the run begin again with each "yes". Under a guard of the host, the guard is extended instead. The
 * outcome at the end has the usage of all parts. Nobody is asked about a run that completed, failed or was cancelled.
 *
 * **Example** (On a terminal)
 *
 * ```ts
 * const outcome = yield* ContinueDialogue.run(
 *   { prompt, toolkit, maxTurns: 50 },
 *   { ask: ({ text }) => confirm(text) }
 * )
 * ```
 */
import { Effect } from "effect"
import type { LanguageModel, Tool } from "effect/ai"
import type { Extension } from "../guard/Limits.ts"
import type { ExtensionRefused, Host } from "../guard/SafetyGuard.ts"
import type { SafetyStop } from "../guard/SafetyStop.ts"
import type { Transcript } from "../conversation/Transcript.ts"
import * as Agent from "./Agent.ts"
import type { AgentFailed } from "./AgentFailed.ts"
import type { Outcome } from "./Outcome.ts"

/** What a person is asked. */
export interface Question {
  /** The limit that ended the run, what it has done, and the question. */
  readonly text: string
  /** The run so far, unless a guard around it stopped it. */
  readonly outcome: Outcome | undefined
  /** Number of the question, from 1. */
  readonly number: number
}

export interface Options {
  readonly ask: (question: Question) => Effect.Effect<boolean>
  /** Questions, at most. Default {@link defaults}`.questions`: 10. */
  readonly questions?: number | undefined
}

/** A guard of the host, and what a "yes" adds to its limits. */
export interface Guarded {
  readonly host: Host
  readonly extend: Extension
}

export const defaults = { questions: 10 } as const

/** Statuses of a run that a limit ended. */
const limits: ReadonlySet<Outcome["status"]> = new Set<Outcome["status"]>([
  "turn_limit",
  "cost_limit",
  "guard_stopped"
])

/** True when a limit ended the run, so that it can continue. */
export const isLimited = ({ status }: Outcome): boolean => limits.has(status)

/** The question about a run that a limit has ended. */
export const questionOf = (outcome: Outcome): string => {
  const { status, turns, toolCalls, costUsd, stop } = outcome
  const what =
    status === "turn_limit"
      ? `The run has used all its turns (${turns}).`
      : status === "cost_limit"
        ? "The run has used up its budget."
        : (stop?.message ?? "A limit stopped the run.")
  const cost = costUsd === undefined ? "" : `, $${costUsd.toFixed(2)}`
  return `${what} So far: ${turns} turns, ${toolCalls} tool calls${cost}. Continue?`
}

/** Runs an agent, and asks after each limit. Errors as `Agent.run`. */
export const run = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Agent.Options<Tools, R>,
  dialogue: Options
): Effect.Effect<Outcome, AgentFailed | Agent.ToolFailure<Tools>, Agent.Services<Tools, R>> => {
  const { ask, questions = defaults.questions } = dialogue
  const go = (
    outcome: Outcome,
    number: number
  ): Effect.Effect<Outcome, AgentFailed | Agent.ToolFailure<Tools>, Agent.Services<Tools, R>> => {
    if (!isLimited(outcome) || number > questions) return Effect.succeed(outcome)
    return Effect.flatMap(ask({ text: questionOf(outcome), outcome, number }), (yes) =>
      yes
        ? Effect.flatMap(Agent.resume(options, outcome.transcript), (next) =>
            go(both(outcome, next), number + 1)
          )
        : Effect.succeed(outcome)
    )
  }
  return Effect.flatMap(Agent.run(options), (outcome) => go(outcome, 1))
}

/**
 * Runs an agent under a guard of the host, and asks after each stop. A "no" fails with the `SafetyStop`. Other errors as
 * `Agent.run`.
 */
export const guarded = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Agent.Options<Tools, R>,
  { host, extend }: Guarded,
  dialogue: Options
): Effect.Effect<
  Outcome,
  AgentFailed | Agent.ToolFailure<Tools> | SafetyStop | ExtensionRefused,
  Agent.Services<Tools, R> | LanguageModel.LanguageModel
> => {
  const { ask, questions = defaults.questions } = dialogue
  type Result = ReturnType<typeof guarded<Tools, R>>
  const go = (from: Transcript | undefined, number: number): Result => {
    const running = from === undefined ? Agent.run(options) : Agent.resume(options, from)
    // `run` takes the service of the guard away, which these services do not contain.
    const under = host.run(running) as Result
    return Effect.catchTag(under, "SafetyStop", (stop: SafetyStop): Result => {
      if (number > questions) return Effect.fail(stop)
      const text = `${stop.message} Continue?`
      return Effect.flatMap(ask({ text, outcome: undefined, number }), (yes) =>
        yes
          ? Effect.andThen(
              host.extend(extend),
              Effect.suspend(() => go(stop.transcript, number + 1))
            )
          : Effect.fail(stop)
      )
    }) as Result
  }
  return go(undefined, 1)
}

/** Blocked calls in an outcome, at most. */
const mostBlocked = 100

/** The outcome of two parts of a run: the end of the second, with the usage of both. */
export const both = (first: Outcome, second: Outcome): Outcome => {
  const turns = first.turns + second.turns
  const models = new Map(first.models.map((model) => [model.target, model]))
  for (const model of second.models) {
    const before = models.get(model.target)
    models.set(
      model.target,
      before === undefined
        ? model
        : {
            ...model,
            turns: before.turns + model.turns,
            usage: sum(before.usage, model.usage),
            costUsd: plus(before.costUsd, model.costUsd)
          }
    )
  }
  const [a, b] = [first.compactions, second.compactions]
  return {
    ...second,
    turns,
    models: [...models.values()].map((model) => ({ ...model, share: model.turns / turns })),
    toolCalls: first.toolCalls + second.toolCalls,
    blockedCalls: first.blockedCalls + second.blockedCalls,
    blocked: [...first.blocked, ...second.blocked].slice(-mostBlocked),
    modelSwitches: first.modelSwitches + second.modelSwitches,
    outputRaises: first.outputRaises + second.outputRaises,
    continuations: first.continuations + second.continuations,
    mediaDropped: first.mediaDropped + second.mediaDropped,
    usage: sum(first.usage, second.usage),
    subagents: sum(first.subagents, second.subagents),
    compactions: {
      times: a.times + b.times,
      summaries: {
        calls: a.summaries.calls + b.summaries.calls,
        tokens: a.summaries.tokens + b.summaries.tokens,
        costUsd: plus(a.summaries.costUsd, b.summaries.costUsd)
      }
    },
    costUsd: plus(first.costUsd, second.costUsd)
  }
}

/** Adds two records of numbers, field by field. */
const sum = <A extends { readonly [field: string]: number }>(a: A, b: A): A =>
  // Both have the same fields.
  Object.fromEntries(Object.entries(a).map(([field, n]) => [field, n + (b[field] ?? 0)])) as A

const plus = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : a + (b ?? 0)
