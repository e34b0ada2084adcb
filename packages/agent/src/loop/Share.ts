/**
 * The part of a run's limits that the sub-agents of one tool call may use.
 *
 * `RunTools` says how much a call may use. The interpreter provides a share around the call, and a run that starts
 * inside takes its limits from it. What it has used goes back in `ToolsFinished`. Concurrent sub-agents of one call
 * share it: each reports after each of its events, so that together they exceed it by at most a turn each.
 */
import { Context } from "effect"
import type { Tripped } from "../guard/StopReason.ts"
import type { Spent } from "./RunEvent.ts"
import { nothingSpent } from "./RunEvent.ts"
import type { RunLimits } from "./RunSettings.ts"
import type { RunState } from "./RunModel.ts"
import { costOf, plusSpent } from "./RunTally.ts"

/** What a run and its sub-agents have used so far. */
export const spentBy = ({ tally, guard }: RunState): Spent => {
  const { subagents, rows } = tally
  let [turns, tokens] = [0, 0]
  for (const { turns: own, usage } of rows) {
    turns += own
    tokens += usage.inputTokens + usage.outputTokens
  }
  return {
    runs: 1 + subagents.runs,
    turns: turns + subagents.turns,
    toolCalls: tally.toolCalls + subagents.toolCalls,
    events: guard.events,
    tokens: tokens + subagents.tokens,
    costUsd: (costOf(tally) ?? 0) + subagents.costUsd
  }
}

/** One sub-agent's hold on a share. */
export interface Hold {
  /** Limits for the sub-agent; absent without limits. */
  readonly limits: RunLimits | undefined
  /** The sub-agent may not begin. */
  readonly refused: Tripped | undefined
  /** Reports what it has used so far. Returns the limit that all sub-agents of the call have reached together. */
  readonly report: (spent: Spent) => Tripped | undefined
  /** The sub-agent has ended. */
  readonly end: () => void
}

export class Share {
  readonly #limits: RunLimits | undefined
  /** Used by sub-agents that have ended, and by those that run. */
  #ended = nothingSpent
  readonly #running = new Map<object, Spent>()

  constructor(limits: RunLimits | undefined) {
    this.#limits = limits
  }

  /** Used by all sub-agents of the call. */
  get spent(): Spent {
    let all = this.#ended
    for (const spent of this.#running.values()) all = plusSpent(all, spent)
    return all
  }

  begin(): Hold {
    const id = {}
    const refused = this.#refused()
    const limits = this.#left()
    if (refused === undefined) this.#running.set(id, { ...nothingSpent, runs: 1 })
    return {
      limits,
      refused,
      report: (spent) => {
        if (!this.#running.has(id)) return undefined
        this.#running.set(id, spent)
        return this.#over()
      },
      end: () => {
        const spent = this.#running.get(id)
        if (spent === undefined) return
        this.#running.delete(id)
        this.#ended = plusSpent(this.#ended, spent)
      }
    }
  }

  #refused(): Tripped | undefined {
    const { depth, breadth, subagents } = this.#limits ?? {}
    const stop = (limit: number, detail: string): Tripped => ({ reason: "subagents", limit, detail })
    if (depth !== undefined && depth < 0) return stop(0, "reached maximum of levels of sub-agents.")
    if (breadth !== undefined && this.#running.size >= breadth) {
      return stop(breadth, `reached maximum of ${breadth} sub-agents of one agent at a time.`)
    }
    if (subagents !== undefined && this.spent.runs >= subagents) {
      return stop(subagents, `reached maximum of ${subagents} sub-agents.`)
    }
    return this.#over()
  }

  #left(): RunLimits | undefined {
    const limits = this.#limits
    if (limits === undefined) return undefined
    const { runs, turns, toolCalls, events, tokens, costUsd } = this.spent
    const less = (limit: number | undefined, used: number): number | undefined =>
      limit === undefined ? undefined : Math.max(0, limit - used)
    return {
      ...limits,
      turns: less(limits.turns, turns),
      toolCalls: less(limits.toolCalls, toolCalls),
      events: less(limits.events, events),
      tokens: less(limits.tokens, tokens),
      money: less(limits.money, costUsd),
      subagents: less(limits.subagents, runs + 1)
    }
  }

  #over(): Tripped | undefined {
    const { turns, toolCalls, events, tokens, money } = this.#limits ?? {}
    const { spent } = this
    if (turns !== undefined && spent.turns > turns) return { reason: "turns", limit: turns }
    if (toolCalls !== undefined && spent.toolCalls > toolCalls) {
      return { reason: "max_tool_calls", limit: toolCalls }
    }
    if (events !== undefined && spent.events > events) return { reason: "max_events", limit: events }
    if (tokens !== undefined && spent.tokens > tokens) return { reason: "tokens", limit: tokens }
    return money !== undefined && spent.costUsd > money ? { reason: "money", limit: money } : undefined
  }
}

/** The share of the tool call that the current fiber runs in. */
export const Current: Context.Reference<Share | undefined> = Context.Reference<Share | undefined>(
  "@outlast/agent/loop/Share",
  { defaultValue: () => undefined }
)
