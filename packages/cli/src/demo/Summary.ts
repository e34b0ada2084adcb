/** The figures of a run, counted from its events. */
import type { FailoverEvent } from "@outlast/agent"
import * as Screen from "./Screen.ts"

/** The figures of one target. */
interface TargetSummary {
  readonly target: string
  readonly attempts: number
  readonly answers: number
  readonly costUsd: number
}

export interface Summary {
  readonly outcome: "completed" | "failed"
  readonly attempts: number
  /** Number of times that a call continued at another target. */
  readonly switches: number
  /** Number of times that a call waited on our side. */
  readonly waits: number
  readonly waitedSeconds: number
  readonly toolCalls: number
  /** True when the project's own tests pass in a fresh process. */
  readonly jobVerified: boolean
  /** US dollars at the list prices of the catalogue. */
  readonly costUsd: number
  readonly targets: ReadonlyArray<TargetSummary>
  /** The run without Outlast. Absent with a real provider. */
  readonly without?: Unprotected
}

/** The run of the same program on the AI SDK alone. */
interface Unprotected {
  readonly outcome: Summary["outcome"]
  readonly error?: string
  /** Requests that the provider got. */
  readonly requests: number
  readonly toolCalls: number
  readonly jobVerified: boolean
}

export const make = (
  events: ReadonlyArray<FailoverEvent.FailoverEvent>,
  rest: Pick<Summary, "outcome" | "toolCalls" | "jobVerified">
): Summary => {
  const targets = new Map<string, TargetSummary>()
  const add = (id: string, more: Partial<Omit<TargetSummary, "target">>) => {
    const { attempts, answers, costUsd } = targets.get(id) ?? { attempts: 0, answers: 0, costUsd: 0 }
    targets.set(id, {
      target: id,
      attempts: attempts + (more.attempts ?? 0),
      answers: answers + (more.answers ?? 0),
      costUsd: costUsd + (more.costUsd ?? 0)
    })
  }
  let switches = 0
  let waits = 0
  let waited = 0
  for (const event of events) {
    switch (event._tag) {
      case "AttemptStarted":
        add(event.target.id, { attempts: 1 })
        break
      case "AnswerContinued":
      case "TargetSwitched":
        if (event.from.id !== event.target.id) switches++
        break
      case "CallWaited":
        waits++
        waited += event.elapsed
        break
      case "CallSucceeded":
        add(event.target.id, { answers: 1, costUsd: event.costUsd ?? 0 })
        break
    }
  }
  const rows = [...targets.values()]
  return {
    outcome: rest.outcome,
    attempts: rows.reduce((sum, row) => sum + row.attempts, 0),
    switches,
    waits,
    waitedSeconds: Math.round(waited / 100) / 10,
    toolCalls: rest.toolCalls,
    jobVerified: rest.jobVerified,
    costUsd: rounded(rows.reduce((sum, row) => sum + row.costUsd, 0)),
    targets: rows.map((row) => ({ ...row, costUsd: rounded(row.costUsd) }))
  }
}

const rounded = (usd: number): number => Math.round(usd * 1e6) / 1e6

/** Columns of the name of a figure, and of the spaces around it. */
const nameWidth = 13

/** Formats the summary as text. */
export const lines = (summary: Summary, screen: Screen.Screen): ReadonlyArray<string> => {
  const { outcome, jobVerified } = summary
  const row = (name: string, value: string, colour: (text: string) => string = Screen.plain) =>
    Screen.wrapped(value, screen.columns - nameWidth).map(
      (line, i) => `  ${screen.dim((i === 0 ? name : "").padEnd(nameWidth - 3))} ${colour(line)}`
    )
  return [
    row("outcome", outcome, outcome === "completed" ? screen.good : screen.bad),
    jobVerified
      ? row("job", "done: its tests pass in a fresh process", screen.good)
      : row("job", "not done", screen.bad),
    row("attempts", String(summary.attempts)),
    row("switches", String(summary.switches)),
    row("waits", `${summary.waits} (${summary.waitedSeconds} s)`),
    row("tool calls", String(summary.toolCalls)),
    row("cost", `$${summary.costUsd.toFixed(4)}`),
    ...summary.targets.map(({ target, attempts, answers, costUsd }) =>
      row("", `${target}: ${answers} of ${attempts} answered, $${costUsd.toFixed(4)}`)
    )
  ].flat()
}
