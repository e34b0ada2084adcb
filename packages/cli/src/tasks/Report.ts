/** Tasks for people and as JSON. Pure. */
import type { TaskFailed, TaskState, TaskStatus, Unreadable } from "@outlast/tasks"
import { Tasks } from "@outlast/tasks"
import type { Outcome } from "@outlast/agent"

const iso = (at: number): string => new Date(at).toISOString()

/** The state of a task in words. */
export const words = (state: TaskState | Unreadable): string => {
  switch (state._tag) {
    case "Queued":
      return `queued, number ${state.position}`
    case "Running":
      return `turn ${state.turn} on ${plain(state.worker)}`
    case "Retrying":
      return `turn ${state.turn} on ${plain(state.worker)}: attempt ${state.attempt} ${
        state.nextIn === undefined ? "waits" : `in ${Math.ceil(state.nextIn / 1_000)} s`
      } (${plain(state.reason)})`
    case "WaitingUntil":
      return `restart ${state.restart} of ${state.of} at ${iso(state.until)} (${plain(state.reason)})`
    case "WaitingForWorker":
      return `waiting for a worker with ${plain(state.needs)}`
    case "WaitingForStore":
      return `waiting for its store (${state.reason})`
    case "WaitingForApproval":
      return `waiting for approval of ${state.calls.map(({ tool }) => plain(tool)).join(", ")}`
    case "InDoubt":
      return state.effect.deaths === undefined
        ? `in doubt: has ${plain(state.effect.tool)} happened?`
        : `in doubt: ${plain(state.effect.tool)} ended its process ${state.effect.deaths} times; shall it run again?`
    case "Done":
      return `done (${state.status})${unknownOf(state)}`
    case "Failed":
      return `failed: ${plain(state.message)}${unknownOf(state)}`
    case "Cancelled":
      return `cancelled by ${plain(state.by)}${unknownOf(state)}`
    case "Unreadable":
      return `unreadable (${plain(state.tag)}): a newer version may have written it, so use that version`
  }
}

/** Effects that were cut off by the end. */
const unknownOf = ({ unknown = [] }: Extract<TaskState, { readonly unknown?: unknown }>): string =>
  unknown.length === 0
    ? ""
    : `; not known whether it happened: ${unknown.map(({ tool }) => plain(tool)).join(", ")}`

export const summary = ({ since, submittedAt, ...status }: TaskStatus) => ({
  ...status,
  since: iso(since),
  submitted: iso(submittedAt),
  decisionKey: Tasks.decisionKey(status.state)
})

export const table = (all: ReadonlyArray<TaskStatus>): ReadonlyArray<string> => {
  const rows = [
    ["task", "agent", "since", "state"],
    ...all.map(({ id, task, version, since, state }) => [
      plain(id),
      `${task}@${version}`,
      iso(since),
      words(state)
    ])
  ]
  const widths = [0, 1, 2].map((column) => Math.max(...rows.map((cells) => cells[column]?.length ?? 0)))
  return rows.map((cells) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd()
  )
}

/** True for a state that a task leaves by `resume` only. */
export const hasEnded = ({ _tag }: TaskState | Unreadable): boolean =>
  _tag === "Done" || _tag === "Failed" || _tag === "Cancelled"

export type End =
  | { readonly outcome: Outcome.Outcome; readonly failure?: never }
  | { readonly failure: TaskFailed; readonly outcome?: never }

/** Everything about a task. The answer only where it is asked for. */
export const full = (status: TaskStatus, end: End | undefined, withAnswer: boolean) => ({
  ...summary(status),
  ...(end?.outcome === undefined
    ? {}
    : {
        turns: end.outcome.turns,
        models: end.outcome.models,
        ...(withAnswer ? { answer: end.outcome.text } : {})
      }),
  ...(end?.failure === undefined ? {} : { failure: end.failure.message })
})

export const lines = (
  status: TaskStatus,
  end: End | undefined,
  withAnswer: boolean
): ReadonlyArray<string> => {
  const { id, task, version, generation, state, since, submittedAt, restarts, deaths, costUsd } = status
  return [
    `Task ${plain(id)}: ${words(state)}`,
    `  agent       ${task}@${version}, generation ${generation}`,
    `  submitted   ${iso(submittedAt)}`,
    `  since       ${iso(since)}`,
    `  restarts    ${restarts}`,
    ...(deaths === 0 ? [] : [`  deaths      ${deaths} of its process at this step`]),
    ...(costUsd === undefined ? [] : [`  cost        $${costUsd.toFixed(4)}`]),
    ...waiting(status),
    ...(end?.outcome === undefined ? [] : [`  turns       ${end.outcome.turns}`]),
    ...(end?.failure === undefined ? [] : [`  failure     ${plain(end.failure.message)}`]),
    ...(withAnswer && end?.outcome !== undefined ? ["", end.outcome.text] : [])
  ]
}

const waiting = ({ id, state }: TaskStatus): ReadonlyArray<string> => {
  const key = Tasks.decisionKey(state)
  if (key === undefined) return []
  const next = `  next        outlast tasks decide ${quoted(id)} --key ${quoted(key)}`
  if (state._tag === "InDoubt") {
    const { tool, params, holder, at } = state.effect
    return [
      `  tool        ${plain(tool)} ${quoted(params)}`,
      `  key         ${plain(key)}`,
      `  begun       ${iso(at)} by ${plain(holder)}`,
      `${next} --happened or --did-not`
    ]
  }
  const calls = state._tag === "WaitingForApproval" ? state.calls : []
  return [
    ...calls.map(({ tool, params }, n) => `  call ${n + 1}      ${plain(tool)} ${quoted(params)}`),
    `${next} --approve ${calls.map(() => "yes").join(",")} (or no)`
  ]
}

const quoted = (value: unknown): string => plain(JSON.stringify(value))

/** One line without control characters: a terminal must not obey a tool. */
export const plain = (text: string): string => text.replace(/\p{Cc}/gu, " ")
