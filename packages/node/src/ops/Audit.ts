/**
 * The audit trail of operators: each request for an action is an event, a count and a line in the log.
 *
 * Anyone who reaches the page can be refused, so refusals get a limited number of lines. The first line after a pause
 * says how many had none. Events and counts are complete.
 */
import { Clock, Effect } from "effect"
import { EventDefinition, ResilienceEvents, Warnings } from "@outlast/resilience"
import type { OperatorAction, Outcome } from "./OpsEvent.ts"
import { definitions } from "./OpsEvent.ts"

/** Lines of refusals in one `period`. */
export const maxLines = 10

/** Milliseconds. */
export const period = 60_000

/** The refusals since the first one of the current period. */
export interface Refusals {
  readonly since: number
  readonly lines: number
  readonly skipped: number
}

export const none: Refusals = { since: Number.NEGATIVE_INFINITY, lines: 0, skipped: 0 }

/** Counts one refusal. Pure. `skipped` is absent for a refusal without a line. */
export const count = (
  state: Refusals,
  at: number
): { readonly state: Refusals; readonly skipped: number | undefined } => {
  const isOver = at - state.since >= period || at < state.since
  if (isOver) return { state: { since: at, lines: 1, skipped: 0 }, skipped: state.skipped }
  return state.lines < maxLines
    ? { state: { ...state, lines: state.lines + 1 }, skipped: 0 }
    : { state: { ...state, skipped: state.skipped + 1 }, skipped: undefined }
}

/** Actions that are kept for the page. */
const maxKept = 20

export interface Audit {
  readonly add: (action: string, subject: string | undefined, outcome: Outcome) => Effect.Effect<void>
  /** The last actions that were not refused, the newest first. */
  readonly last: () => ReadonlyArray<OperatorAction>
}

const update = EventDefinition.reader(definitions)

/** The audit trail of one page. */
export const make = (): Audit => {
  let refusals = none
  let kept: ReadonlyArray<OperatorAction> = []
  const add: Audit["add"] = (action, subject, outcome) =>
    Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const event: OperatorAction = { _tag: "OperatorAction", at, action, subject, outcome }
      if (outcome !== "refused") kept = [event, ...kept].slice(0, maxKept)
      yield* update(event)
      yield* ResilienceEvents.publish(event)
      const line = EventDefinition.lineOf(definitions, event)
      if (line === undefined) return
      if (outcome !== "refused") return yield* Warnings.log(line)
      const { skipped, state } = count(refusals, at)
      refusals = state
      if (skipped === undefined) return
      const detail = skipped === 0 ? undefined : ` ${skipped} refusals before it have no line.`
      yield* Warnings.log({ ...line, detail })
    })
  return { add, last: () => kept }
}
