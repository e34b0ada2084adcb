/**
 * What the chat remembers of events: the counts of `/stats`, the last lines of `/events`, and the story of `/why`. Pure,
 * of bounded size.
 */
import { EventLine } from "@outlast/agent"
import type { ResilienceEvents } from "@outlast/resilience"
import * as Why from "./Why.ts"

export interface Stats {
  readonly messages: number
  readonly attempts: number
  readonly successes: number
  readonly failures: number
  /** Calls that failed after all recovery. */
  readonly gaveUp: number
  /** Attempts that went to another target than the one before. */
  readonly rotations: number
  readonly waits: number
  /** Milliseconds of all waits. */
  readonly waited: number
  readonly compactions: number
  /** Tokens that compactions freed. */
  readonly freed: number
  readonly raises: number
  readonly continuations: number
  readonly toolCalls: number
  readonly blocked: number
  readonly tokens: number
  readonly costUsd: number
}

export interface Journal {
  readonly stats: Stats
  /** Oldest first, at most {@link maxLines}. */
  readonly lines: ReadonlyArray<string>
  /** The last failure or switch. `undefined` before the first. */
  readonly why: Why.Story | undefined
}

/** Lines that `/events` can show. */
export const maxLines = 200

export const empty: Journal = {
  stats: {
    messages: 0,
    attempts: 0,
    successes: 0,
    failures: 0,
    gaveUp: 0,
    rotations: 0,
    waits: 0,
    waited: 0,
    compactions: 0,
    freed: 0,
    raises: 0,
    continuations: 0,
    toolCalls: 0,
    blocked: 0,
    tokens: 0,
    costUsd: 0
  },
  lines: [],
  why: undefined
}

/** Transitions that another line already tells, or that every run has. */
const usual: ReadonlySet<string> = new Set([
  "next_turn",
  "completed",
  "compacted",
  "model_switched",
  "model_failed",
  "output_limit_raised",
  "output_continued",
  "aborted_streaming",
  "aborted_tools"
])

const count = (number: number): string => Math.round(number).toLocaleString("en-US")

/** The event, typed. An event of another package has an unknown tag and matches no case. */
const known = (event: ResilienceEvents.ResilienceEvent): EventLine.Event =>
  event as unknown as EventLine.Event

/** The line of an event; `undefined` for an event that says nothing new. */
export const lineOf = (published: ResilienceEvents.ResilienceEvent): string | undefined => {
  const event = known(published)
  switch (event._tag) {
    case "ContextCompacted":
      return `  ${event.reactive ? "reactive compact" : "compact"} (${event.tier}): ${count(event.tokens)} → ${count(event.tokensAfter)} tokens, window ${count(event.window)}`
    case "AgentTransition":
      return usual.has(event.transition) ? undefined : `  ${event.transition}`
    case "CallGaveUp":
      // The answer of the chat has the message.
      return `✗ gave up: ${event.reason}`
    case "ToolFinished":
      return `  ${event.isFailure ? "✗" : "⚒"} ${event.tool}`
    default:
      return EventLine.of(published)?.text
  }
}

/** True for an event of the end of a call: it arrives before the last words of the answer are shown. */
export const isLate = ({ _tag }: ResilienceEvents.ResilienceEvent): boolean =>
  _tag === "CallSucceeded" || _tag === "ModelChanged"

const counted = (stats: Stats, published: ResilienceEvents.ResilienceEvent): Stats => {
  const event = known(published)
  switch (event._tag) {
    case "AttemptStarted":
      return { ...stats, attempts: stats.attempts + 1 }
    case "AttemptFailed":
      return { ...stats, failures: stats.failures + 1 }
    case "CallGaveUp":
      return { ...stats, gaveUp: stats.gaveUp + 1 }
    case "TargetSwitched":
      return { ...stats, rotations: stats.rotations + 1 }
    case "CallWaiting":
      return { ...stats, waits: stats.waits + 1 }
    case "CallWaited":
      return { ...stats, waited: stats.waited + event.elapsed }
    case "OutputLimitRaised":
      return { ...stats, raises: stats.raises + 1 }
    case "AnswerContinued":
      return { ...stats, continuations: stats.continuations + 1 }
    case "ToolFinished":
      return { ...stats, toolCalls: stats.toolCalls + 1 }
    case "ContextCompacted": {
      const freed = Math.max(0, event.tokens - event.tokensAfter)
      return { ...stats, compactions: stats.compactions + 1, freed: stats.freed + freed }
    }
    case "CallSucceeded":
      return {
        ...stats,
        successes: stats.successes + 1,
        tokens: stats.tokens + (event.inputTokens ?? 0) + (event.outputTokens ?? 0),
        costUsd: stats.costUsd + (event.costUsd ?? 0)
      }
    default:
      return stats
  }
}

/** Adds a line, and drops the oldest beyond {@link maxLines}. */
export const wrote = (journal: Journal, line: string): Journal => ({
  ...journal,
  lines: [...journal.lines, line].slice(-maxLines)
})

/** Counts an event, and follows the story of `/why`. */
export const saw = (journal: Journal, event: ResilienceEvents.ResilienceEvent): Journal => ({
  ...journal,
  stats: counted(journal.stats, event),
  why: Why.heard(journal.why, known(event), lineOf(event))
})

/** Counts a message of the user, and the calls that its guard has blocked. */
export const ended = (journal: Journal, blocked: number): Journal => ({
  ...journal,
  stats: {
    ...journal.stats,
    messages: journal.stats.messages + 1,
    blocked: journal.stats.blocked + blocked
  }
})
