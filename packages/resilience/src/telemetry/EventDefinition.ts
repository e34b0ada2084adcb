/**
 * All that is known of an event beside its fields: when it is published, its line in a log, and its metrics.
 *
 * Each union of events has one record of definitions, in the file of the union. The record is exhaustive by type: an event
 * without a definition, or a definition without a part, does not compile. `Metrics`, `EventLine` of `@outlast/agent`, the
 * printed timeline of `outlast demo`, `docs/lookup/events.md` and `docs/lookup/metrics.md` read the records. They have no list of events of their own.
 *
 * Definitions are read by those who listen: publishing an event reads none.
 *
 * **Example** (Events of a program)
 *
 * ```ts
 * interface MailSent extends ResilienceEvents.ResilienceEvent {
 *   readonly _tag: "MailSent"
 *   readonly server: string
 * }
 *
 * const definitions: EventDefinition.EventDefinitions<MailSent> = {
 *   MailSent: {
 *     doc: "A server has accepted a mail.",
 *     line: ({ server }) => ({ level: "Info", text: `mail sent by ${server}` }),
 *     metrics: [{ metric: mailsSent, names: { server: ({ server }) => server } }]
 *   }
 * }
 *
 * const MailMetrics = ResilienceEvents.layerTap(Effect.sync(() => EventDefinition.reader(definitions)))
 * ```
 */
import { Effect, Metric, Predicate } from "effect"
import * as Check from "../Options.ts"
import { other } from "./Fields.ts"
import type { ResilienceEvent } from "./ResilienceEvents.ts"
import type { Line } from "./Warnings.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** The definition of one event. */
export interface EventDefinition<E extends ResilienceEvent> {
  /** When it is published, in one sentence: `docs/lookup/events.md` has it. */
  readonly doc: string
  /** Its line in a log; `undefined` where another event says the same. {@link named} is the line of most events. */
  readonly line: (event: E) => Line | undefined
  /** The metrics that it updates. Every event is also counted by `Metrics` in `outlast_events_total`. */
  readonly metrics: ReadonlyArray<EventMetric<E>>
}

/** The definitions of a union of events, by tag. */
export type EventDefinitions<E extends ResilienceEvent> = {
  readonly [Tag in E["_tag"]]: EventDefinition<Extract<E, { readonly _tag: Tag }>>
}

/** The definitions of any union. */
export type AnyDefinitions = { readonly [tag: string]: EventDefinition<never> }

/** What an event does to a metric. */
export interface EventMetric<E> {
  readonly metric: Metric.Metric<number, unknown>
  /** Labels whose values are names of the program, such as a circuit. The number of their values is bounded. */
  readonly names?: Labels<E>
  /** Labels whose values are a closed set, such as a reason. */
  readonly words?: Labels<E>
  /** What is added, recorded or set; `undefined`: nothing. Default 1. */
  readonly value?: (event: E) => number | undefined
}

/** Values by label; a label whose value is `undefined` is left out. */
export type Labels<E> = { readonly [label: string]: (event: E) => string | undefined }

// -----------------------------------------------------------------------------
// Lines
// -----------------------------------------------------------------------------

/**
 * The line of an event without a wording of its own: its tag in words and its subject. A `CallAnswered` of a target is
 * `  call answered: anthropic/claude-sonnet-4-5`.
 */
export const named =
  (level: Line["level"] = "Info") =>
  (event: ResilienceEvent): Line => {
    const words = event._tag.replaceAll(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase()
    const about = subjects.map((name) => stringAt(event, name)).find((found) => found !== undefined)
    const delay = Predicate.hasProperty(event, "delay") ? event.delay : undefined
    const time = typeof delay === "number" && delay > 0 ? `, ${seconds(delay)}` : ""
    return { level, text: `  ${words}${about === undefined ? "" : `: ${about}`}${time}` }
  }

/** An event that has no line, because another one says the same. */
export const silent = (): undefined => undefined

/** Milliseconds in the words of a line: `3.0 s`. */
export const seconds = (millis: number): string => `${(millis / 1_000).toFixed(millis < 10_000 ? 1 : 0)} s`

/** The line of any event: by its definition, or {@link named} for an event that has none. */
export const lineOf = (definitions: AnyDefinitions, event: ResilienceEvent): Line | undefined => {
  const definition = definitionOf(definitions, event)
  return definition === undefined ? named()(event) : definition.line(event)
}

// -----------------------------------------------------------------------------
// Metrics
// -----------------------------------------------------------------------------

/** Different values of one label, at most. */
export const defaultMaxLabels = 1_000

/** Keeps the first `max` different values (default 1,000) and calls all further ones `other`. */
export const bounded = (max: number = defaultMaxLabels): ((value: string) => string) => {
  Check.positiveInteger("Metrics", "maxLabels", max)
  const known = new Set<string>()
  return (value) => {
    if (known.has(value)) return value
    if (known.size >= max) return other
    known.add(value)
    return value
  }
}

/** Updates the metrics of definitions from any event. Each name has at most `maxLabels` values (default 1,000). */
export const reader = (
  definitions: AnyDefinitions,
  maxLabels?: number
): ((event: ResilienceEvent) => Effect.Effect<void>) => {
  const bounds = new Map<string, (value: string) => string>()
  const bound: Bound = (label, value) => {
    let of = bounds.get(label)
    if (of === undefined) bounds.set(label, (of = bounded(maxLabels)))
    return of(value)
  }
  return (event) => {
    const metrics = definitionOf(definitions, event)?.metrics ?? []
    return metrics.length === 0 ? Effect.void : updateAll(metrics, event, bound)
  }
}

/** Updates the metrics of one event, where it happens. For metrics that need no layer; names are not bounded. */
export const update = <E extends ResilienceEvent>(
  { metrics }: EventDefinition<E>,
  event: E
): Effect.Effect<void> => updateAll(metrics, event, (_, value) => value)

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

type Bound = (label: string, value: string) => string

const definitionOf = (
  definitions: AnyDefinitions,
  { _tag }: ResilienceEvent
): EventDefinition<ResilienceEvent> | undefined =>
  // The tag of an event leads to the definition of that event.
  Object.hasOwn(definitions, _tag) ? (definitions[_tag] as EventDefinition<ResilienceEvent>) : undefined

const updateAll = <E>(metrics: ReadonlyArray<EventMetric<E>>, event: E, bound: Bound): Effect.Effect<void> =>
  Effect.forEach(metrics, (metric) => updateOne(metric, event, bound), { discard: true })

const updateOne = <E>(
  { metric, names = {}, words = {}, value = one }: EventMetric<E>,
  event: E,
  bound: Bound
): Effect.Effect<void> => {
  const amount = value(event)
  if (amount === undefined) return Effect.void
  const attributes: Record<string, string> = {}
  for (const [label, of] of Object.entries(names)) {
    const name = of(event)
    if (name === undefined) continue
    attributes[label] = bound(label, name)
    // The state of many would be that of the last.
    if (metric.type === "Gauge" && attributes[label] === other) return Effect.void
  }
  for (const [label, of] of Object.entries(words)) {
    const word = of(event)
    if (word !== undefined) attributes[label] = word
  }
  return Metric.update(Metric.withAttributes(metric, attributes), amount)
}

const one = (): number => 1

/** Fields that name the subject of an event; the first that is there is used. */
const subjects = ["message", "target", "circuit", "tool", "key", "connection", "name"] as const

const stringAt = (event: object, name: string): string | undefined => {
  const found = Predicate.hasProperty(event, name) ? event[name] : undefined
  if (typeof found === "string") return found
  return Predicate.hasProperty(found, "id") && typeof found.id === "string" ? found.id : undefined
}
