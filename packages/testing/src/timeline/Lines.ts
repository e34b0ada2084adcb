/** The lines of a timeline: one for each event, where an attempt and its outcome are one line. Pure. */
import { Predicate } from "effect"
import { EventLine } from "@outlast/agent"
import type { FailoverEvent } from "@outlast/agent"
import type { TargetRef } from "@outlast/agent/conversation"
import type { CircuitEvent, ResilienceEvents } from "@outlast/resilience"

type Event = ResilienceEvents.ResilienceEvent

export interface Entry {
  /** Milliseconds since the start. */
  readonly at: number
  readonly text: string
}

/** The events that have a wording of their own here. */
type Known = FailoverEvent.FailoverEvent | CircuitEvent.CircuitTransition

const seconds = (millis: number): string => `${(millis / 1_000).toFixed(3)}s`

/** `+1.500s attempt anthropic#1 → RateLimit (429)` */
export const text = ({ at, text }: Entry): string => `+${seconds(at)} ${text}`

export const of = (events: ReadonlyArray<Event>): ReadonlyArray<Entry> => {
  const named = names(events)
  const taken = new Set<Event>()
  return events.flatMap((event, i): ReadonlyArray<Entry> => {
    if (taken.has(event)) return []
    const known = event as Known
    if (known._tag !== "AttemptStarted") return entry(event.at, line(known, named))
    const rest = events.slice(i + 1)
    const outcome = rest.find((later) => isOutcome(later, known))
    if (outcome !== undefined) taken.add(outcome)
    const took =
      outcome === undefined || outcome.at === event.at ? "" : ` after ${seconds(outcome.at - event.at)}`
    return entry(event.at, `attempt ${named(known.target)}#${known.attempt} → ${said(outcome)}${took}`)
  })
}

const entry = (at: number, text: string | undefined): ReadonlyArray<Entry> =>
  text === undefined ? [] : [{ at, text }]

/** True when an event ends this attempt. A hedged call has two, and may be answered by the first. */
const isOutcome = (event: Event, started: FailoverEvent.AttemptStarted): boolean => {
  const known = event as Known
  switch (known._tag) {
    case "AttemptFailed":
    case "AttemptOvertaken":
    case "CallAbandoned":
      return known.call === started.call && known.attempt === started.attempt
    case "CallSucceeded":
      return known.call === started.call && known.target.id === started.target.id
    default:
      return false
  }
}

const said = (outcome: Event | undefined): string => {
  const known = outcome as FailoverEvent.FailoverEvent | undefined
  switch (known?._tag) {
    case "AttemptFailed":
      return `${known.reason}${known.status === undefined ? "" : ` (${known.status})`}`
    case "AttemptOvertaken":
      return `overtaken by ${known.by.id}`
    case "CallSucceeded":
      return "answer"
    case "CallAbandoned":
      return "abandoned"
    default:
      return "no outcome"
  }
}

const line = (event: Known, named: (target: TargetRef.TargetRef) => string): string | undefined => {
  switch (event._tag) {
    case "AttemptFailed":
      return `${named(event.target)}#${event.attempt} → ${said(event)}`
    case "CallWaiting":
      return `wait${event.delay === undefined ? "" : ` ${seconds(event.delay)}`} (${event.reason})`
    case "CallWaited":
      return undefined
    case "CallHedged":
      return `hedge ${named(event.target)} at ${named(event.by)}`
    case "TargetSwitched":
      return `switch ${named(event.from)} → ${named(event.target)} (${event.reason})`
    case "AnswerContinued":
      return `continue at ${named(event.target)} (${event.reason ?? "output limit"})`
    case "CallGaveUp":
      return `give up (${event.reason})`
    case "CircuitTransition":
      return `circuit ${event.circuit} ${event.from} → ${event.to}`
    default:
      return other(event)
  }
}

/** A note, or the line that a log would have. */
const other = (event: Event): string | undefined =>
  event._tag === "Note" && Predicate.hasProperty(event, "text") && typeof event.text === "string"
    ? event.text
    : EventLine.of(event)?.text.trim()

/**
 * The shortest names that tell the targets of a timeline apart: the provider, with the model where a provider has
 * several, and with the key where a model has several.
 */
const names = (events: ReadonlyArray<Event>): ((target: TargetRef.TargetRef) => string) => {
  const models = new Map<string, Set<string>>()
  const keys = new Map<string, Set<string>>()
  const add = (all: Map<string, Set<string>>, name: string, value: string) =>
    all.set(name, (all.get(name) ?? new Set()).add(value))
  const modelOf = ({ provider, model }: TargetRef.TargetRef) => `${provider}/${model}`
  for (const event of events) {
    for (const field of ["from", "target"] as const) {
      if (!Predicate.hasProperty(event, field) || !isTarget(event[field])) continue
      add(models, event[field].provider, event[field].model)
      add(keys, modelOf(event[field]), event[field].key)
    }
  }
  return (target) => {
    const several = (models.get(target.provider)?.size ?? 0) > 1
    const name = several ? modelOf(target) : target.provider
    return (keys.get(modelOf(target))?.size ?? 0) > 1 ? `${name}(${target.key})` : name
  }
}

const isTarget = (value: unknown): value is TargetRef.TargetRef =>
  Predicate.hasProperty(value, "provider") &&
  typeof value.provider === "string" &&
  Predicate.hasProperty(value, "model") &&
  typeof value.model === "string" &&
  Predicate.hasProperty(value, "key") &&
  typeof value.key === "string"

/** The differences of two lists, by their longest common part. `undefined` when there are none. */
export const diff = (expected: ReadonlyArray<string>, actual: ReadonlyArray<string>): string | undefined => {
  if (expected.length === actual.length && expected.every((line, i) => line === actual[i])) return undefined
  // common[i][j]: length of the longest common part of expected from i and actual from j.
  const common = Array.from({ length: expected.length + 1 }, () =>
    Array.from({ length: actual.length + 1 }, () => 0)
  )
  const at = (i: number, j: number): number => common[i]?.[j] ?? 0
  for (let i = expected.length - 1; i >= 0; i--) {
    const row = common[i] ?? []
    for (let j = actual.length - 1; j >= 0; j--) {
      row[j] = expected[i] === actual[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const lines: Array<string> = []
  let [i, j] = [0, 0]
  while (i < expected.length || j < actual.length) {
    if (i < expected.length && j < actual.length && expected[i] === actual[j]) {
      lines.push(`  ${expected[i]}`)
      i++
      j++
    } else if (j >= actual.length || (i < expected.length && at(i + 1, j) >= at(i, j + 1))) {
      lines.push(`- ${expected[i++]}`)
    } else {
      lines.push(`+ ${actual[j++]}`)
    }
  }
  return lines.join("\n")
}
