/**
 * The state of a program in sentences: what works, what does not, since when, and what a person must do. Pure.
 *
 * It reads the readiness and the known sections of `/api/state`. A section of another shape is ignored. The page, the
 * line in the log and `outlast doctor --url` show the same sentences.
 *
 * **Order.** What only a person can fix comes first, then what does not work, then what works badly.
 *
 * **Levels.** `good`: all is well. `warn`: calls are answered, but something is out or waits. `bad`: no model can answer,
 * the program is not ready, or a person must act.
 */
import type { Json, Readiness, Status } from "../host/HostService.ts"
import type { Activity, Budget, Route, Target, Tasks } from "./HeadlineSections.ts"
import { reader } from "./HeadlineSections.ts"
import type { NextTries } from "./NextTry.ts"
import * as NextTry from "./NextTry.ts"
import type { OperatorAction } from "./OpsEvent.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export type Level = "good" | "warn" | "bad"

/** One sentence. */
export interface Part {
  /** Identifies the problem: the same one keeps its key while its numbers change. */
  readonly key: string
  readonly level: Level
  /** True when waiting does not help. */
  readonly needsPerson: boolean
  /** What happened, without a stop at its end. */
  readonly text: string
  /** Unix milliseconds since when it is so. */
  readonly since: number | null
  /** What happens at `until`, e.g. "next try". */
  readonly next: string | null
  /** Unix milliseconds. */
  readonly until: number | null
  /** What to do, as a sentence. */
  readonly advice: string | null
}

export interface Headline {
  readonly level: Level
  /** All sentences as one text, with times in UTC. */
  readonly text: string
  readonly parts: ReadonlyArray<Part>
  /** When a call next asks each target of the section `targets`. */
  readonly nextTries: NextTries
}

/** The state that is described. */
export interface Described {
  /** Unix milliseconds. */
  readonly at: number
  readonly status: Status
  readonly readiness: Readiness
  readonly sections: { readonly [name: string]: Json }
  /** The last actions of operators, the newest first. */
  readonly operators: ReadonlyArray<OperatorAction>
}

/** Sentences, at most. */
export const maxParts = 6

/** Milliseconds after which events that wait for the broker show that it is down. */
const brokerPatience = 30_000

/** Milliseconds for which a stopped run and a failed call are named. */
const memory = 300_000

// -----------------------------------------------------------------------------
// Sentences
// -----------------------------------------------------------------------------

const part = (key: string, level: Level, text: string, more: Partial<Part> = {}): Part => ({
  key,
  level,
  text: clean(text),
  needsPerson: false,
  since: null,
  next: null,
  until: null,
  advice: null,
  ...more
})

/** Texts come from providers and names: one line, of bounded length. */
const clean = (text: string): string => {
  const line = text.replaceAll(/\s+/g, " ").trim().replace(/\.$/, "")
  return line.length > maxText ? `${line.slice(0, maxText - 1)}…` : line
}
const maxText = 240

const names = (list: ReadonlyArray<string>): string => {
  const shown = list.slice(0, 3)
  const more = list.length - shown.length
  return more > 0
    ? `${shown.join(", ")} and ${more} more`
    : shown.length < 2
      ? shown.join("")
      : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`
}

const unique = (list: ReadonlyArray<string>): ReadonlyArray<string> => [...new Set(list)]

/** `RateLimit` as `rate limit`. */
const words = (tag: string): string => tag.replaceAll(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase()

const least = (times: ReadonlyArray<number | null | undefined>): number | null => {
  const known = times.filter((one) => typeof one === "number")
  return known.length === 0 ? null : Math.min(...known)
}

/** Targets that are out for the same reason, as one sentence. */
const outageOf = (
  group: ReadonlyArray<Target>,
  activity: Activity | undefined,
  nextTries: NextTries,
  isAlone: boolean
): Part => {
  const [first] = group
  const key = first?.key ?? ""
  const ids = new Set(group.map(({ id }) => id))
  const provider = first?.provider ?? ""
  const own = activity?.histories?.filter(({ target }) => ids.has(target)) ?? []
  const isKey =
    first?.cooldowns?.some(({ scope }) => scope.startsWith("key")) === true || first?.state === "dead"
  const who =
    isKey && key !== ""
      ? `${provider} (key ${key})`
      : `${provider}/${names(unique(group.map(({ model }) => model)))}`
  const last = own.find(({ lastFailure }) => lastFailure !== undefined)?.lastFailure
  // A refusal by a circuit says less than the failure that opened it.
  const why =
    first?.state === "open" && last !== undefined
      ? `${words(last.reason)}${statusOf(last)}; its circuit is open`
      : (first?.message ?? words(first?.reason ?? "out"))
  const person = first?.needsPerson === true
  return part(
    `target:${provider}:${first?.reason}:${isKey ? key : first?.model}`,
    person || isAlone ? "bad" : "warn",
    `${who}: ${why}`,
    {
      needsPerson: person,
      since: least(own.map(({ failingSince }) => failingSince)),
      ...(person ? {} : { next: "next try", until: soonest(group, nextTries) }),
      advice: person ? (first?.advice ?? null) : null
    }
  )
}

const statusOf = ({ status }: { readonly status?: number | undefined }): string =>
  status === undefined ? "" : ` (HTTP ${status})`

/** The model, with its key where the model has another key that does not work. */
const nameOf = (one: Target, works: ReadonlyArray<Target>, targets: ReadonlyArray<Target>): string => {
  const { key = "", model, provider } = one
  const others = targets.filter((other) => other.provider === provider && other.model === model)
  return key === "" || others.every((other) => works.includes(other))
    ? `${provider}/${model}`
    : `${provider}/${model} (key ${key})`
}

const soonest = (targets: ReadonlyArray<Target>, nextTries: NextTries): number | null =>
  least(targets.map(({ id }) => nextTries[id]))

const groupOf = ({ cooldowns = [], key = "", message, model, provider, reason }: Target): string => {
  const isKey = cooldowns.some(({ scope }) => scope.startsWith("key"))
  return JSON.stringify([provider, isKey ? key : model, reason, message])
}

/** What the chain can do. The first sentence says what works. */
const models = (
  targets: ReadonlyArray<Target>,
  activity: Activity | undefined,
  nextTries: NextTries,
  byHand: ReadonlySet<string>
): ReadonlyArray<Part> => {
  const failing = failingOf(activity)
  const works = targets.filter(({ id, state }) => state === "ready" && !failing.has(id))
  const out = targets.filter(({ state }) => state !== "ready")
  const doubtful = targets.filter(({ id, state }) => state === "ready" && failing.has(id))
  const isAlone = works.length === 0
  // The sentence about a circuit that is open by hand says why.
  const unexplained = out.filter(
    ({ circuits = [], state }) => state !== "open" || circuits.every(({ circuit }) => !byHand.has(circuit))
  )
  const groups = Object.values(Object.groupBy(unexplained, groupOf))
  const slow = unique(targets.flatMap(({ health, provider }) => (health === "slow" ? [provider] : [])))
  return [
    ...(isAlone
      ? [
          part(
            "models",
            "bad",
            doubtful.length > 0
              ? `No model has answered since its last failure: ${names(unique(doubtful.map(({ provider }) => provider)))} is tried by the next call`
              : "No model can answer",
            doubtful.length > 0
              ? {}
              : {
                  next: "next try",
                  until: soonest(
                    out.filter(({ needsPerson }) => needsPerson !== true),
                    nextTries
                  )
                }
          )
        ]
      : out.length + doubtful.length > 0
        ? [
            part(
              "models",
              "warn",
              `Calls are answered by ${names(unique(works.map((one) => nameOf(one, works, targets))))}`
            )
          ]
        : []),
    ...groups.map((group = []) => outageOf(group, activity, nextTries, isAlone)),
    ...doubtful.map(({ id, model, provider }) => {
      const found = failing.get(id)
      const status = found?.lastFailure?.status
      const why = `${words(found?.lastFailure?.reason ?? "failure")}${status === undefined ? "" : `, HTTP ${status}`}`
      return part(`target:${id}`, isAlone ? "bad" : "warn", `${provider}/${model} failed last (${why})`, {
        since: found?.failingSince ?? null,
        advice: "The next call tries it."
      })
    }),
    ...(slow.length > 0
      ? [
          part(
            "slow",
            "warn",
            `${names(slow)} sends its first token late: a second model is asked, too, and the faster answer is used`
          )
        ]
      : [])
  ]
}

/** Targets that have failed since their last answer. */
const failingOf = (activity: Activity | undefined) =>
  new Map(
    (activity?.histories ?? []).flatMap((one) =>
      typeof one.failingSince === "number" ? [[one.target, one]] : []
    )
  )

/** Routes of a gateway that have no target left, while others have. */
const routesOf = (routes: ReadonlyArray<Route>, activity: Activity | undefined): ReadonlyArray<Part> => {
  const failing = failingOf(activity)
  return routes.flatMap(({ ready, route, until = null, wire }) => {
    if (ready.some((id) => !failing.has(id))) return []
    const key = `route:${route}:${wire}`
    const name = `Route ${route} (${wire})`
    return [
      ready.length > 0
        ? part(key, "bad", `${name} has not answered since its last failure`)
        : part(key, "bad", `${name} cannot answer: all its targets are out`, { next: "next try", until })
    ]
  })
}

/** The last action of an operator on this circuit. */
const operatorOf = (circuit: string, operators: Described["operators"]): OperatorAction | undefined =>
  operators.find(
    ({ action, outcome, subject }) =>
      outcome === "done" && subject === circuit && (action === "trip" || action === "reset")
  )

const circuitsOf = (
  circuits: ReadonlyArray<{
    readonly circuit: string
    readonly phase: string
    readonly until?: number | null | undefined
    readonly since?: number | null | undefined
    readonly lastFailure?: string | null | undefined
  }>,
  operators: Described["operators"],
  explained: ReadonlySet<string>
): ReadonlyArray<Part> =>
  circuits.flatMap((one) => {
    const { circuit, phase, until = null } = one
    if (phase !== "open" && phase !== "isolated") return []
    const last = operatorOf(circuit, operators)
    if (phase === "isolated") {
      return [
        part(`circuit:${circuit}`, "bad", `Circuit ${circuit} is held open by the program`, {
          needsPerson: true,
          since: one.since ?? null,
          advice: "Its calls go elsewhere until the part of the program that isolated it releases it."
        })
      ]
    }
    if (last?.action === "trip") {
      return [
        part(`circuit:${circuit}`, "bad", `An operator opened the circuit ${circuit}: it has been open`, {
          needsPerson: true,
          since: last.at,
          next: "next probe",
          until,
          advice: "Its calls go elsewhere. Close it to let them through again."
        })
      ]
    }
    if (explained.has(circuit)) return []
    const after =
      one.lastFailure === undefined || one.lastFailure === null
        ? ""
        : ` (last failure: ${words(one.lastFailure)})`
    return [
      part(`circuit:${circuit}`, "warn", `Circuit ${circuit} is open${after}`, {
        since: one.since ?? null,
        next: "next probe",
        until
      })
    ]
  })

const tasksOf = (tasks: typeof Tasks.Type): ReadonlyArray<Part> => {
  const doubt = tasks.filter(({ state }) => state === "InDoubt")
  const approvals = tasks.filter(({ state }) => state === "WaitingForApproval")
  const [first] = doubt
  return [
    ...(first === undefined
      ? []
      : [
          part(
            "in doubt",
            "bad",
            doubt.length === 1
              ? `Task ${first.id} is in doubt: it is unknown whether ${first.effect?.tool ?? "its effect"} has happened`
              : `${doubt.length} tasks are in doubt: it is unknown whether an effect of theirs has happened`,
            { needsPerson: true, advice: "Find out, and decide under Tasks." }
          )
        ]),
    ...(approvals.length === 0
      ? []
      : [
          part(
            "approval",
            "warn",
            `${approvals.length === 1 ? `Task ${approvals[0]?.id} waits` : `${approvals.length} tasks wait`} for approval`,
            {
              needsPerson: true,
              advice: "Approve or reject under Tasks."
            }
          )
        ])
  ]
}

const outboxOf = (sections: Described["sections"], at: number): ReadonlyArray<Part> => {
  const outbox = reader.outbox(sections["outbox"])
  const unread = reader.unread(sections["outbox"])
  const letters = reader.letters(sections["dead letters"])?.total ?? 0
  const since = outbox?.oldestAt ?? null
  return [
    ...(unread === undefined
      ? []
      : [
          part("outbox", "bad", `The outbox cannot be read: ${unread.error}`, {
            advice: "Look at its store."
          })
        ]),
    ...(outbox !== undefined && outbox.backlog > 0 && since !== null && at - since > brokerPatience
      ? [
          part(
            "broker",
            "bad",
            `The broker takes no events: ${outbox.backlog === 1 ? "one waits" : `${outbox.backlog} wait`} in the outbox`,
            {
              since,
              advice: "Start the broker or fix its connection. Nothing is lost meanwhile."
            }
          )
        ]
      : []),
    ...(letters > 0
      ? [
          part(
            "dead letters",
            "warn",
            letters === 1 ? "An event could not be delivered" : `${letters} events could not be delivered`,
            {
              needsPerson: true,
              advice: "Read the reason under Outbox, and replay them once it is gone."
            }
          )
        ]
      : [])
  ]
}

const activityOf = (
  activity: Activity,
  at: number,
  hasOutage: boolean,
  budget: typeof Budget.Type | undefined
): ReadonlyArray<Part> => {
  const stops = activity.notices.filter((one) => one.tag === "GuardStopped" && at - one.at < memory)
  const [stop] = stops
  const streak = activity.recent.findIndex(({ outcome }) => outcome !== "failed")
  const failed = streak === -1 ? activity.recent.length : streak
  const [last] = activity.recent
  const waits = activity.running.filter(({ steps }) =>
    steps.some(({ kind, reason, state }) => kind === "wait" && state === "running" && reason === "budget")
  ).length
  const isEmpty = budget !== undefined && budget.paid + budget.reserve < 1
  return [
    ...(waits > 0 || isEmpty
      ? [
          part(
            "retry budget",
            "warn",
            `The retry budget is used up${waits === 0 ? "" : `: ${waits === 1 ? "one call waits" : `${waits} calls wait`} to be retried`}`,
            {
              advice: "Too many attempts fail. Retries go on as other calls are answered."
            }
          )
        ]
      : []),
    ...(failed > 0 && !hasOutage && at - (last?.endedAt ?? 0) < memory
      ? [
          part(
            "calls",
            failed >= 3 ? "bad" : "warn",
            `${failed === 1 ? "The last call" : `The last ${failed} calls`} failed: ${(last?.message ?? "").split(/\n|\.\s/, 1)[0]}`,
            {
              since: activity.recent[failed - 1]?.endedAt ?? null
            }
          )
        ]
      : []),
    ...(stop === undefined
      ? []
      : [
          part(
            "guard",
            "warn",
            `${stopOf(stop)}${stops.length > 1 ? ` (${stops.length} stops in 5 minutes)` : ""}`,
            {
              since: stop.at,
              needsPerson: true,
              advice: "Look at what it did, then start it again with a higher limit or another prompt."
            }
          )
        ])
  ]
}

/** `✗ the guard stopped the run: money` as `Run r1 has been stopped by the guard (reason: money)`. */
const stopOf = ({ run, text }: Activity["notices"][number]): string => {
  const reason = text.split(": ", 2)[1]
  const who = run === undefined || run === null ? "A run" : `Run ${run}`
  return `${who} has been stopped by the guard${reason === undefined ? "" : ` (reason: ${reason})`}`
}

const hostOf = ({ readiness, status }: Described): ReadonlyArray<Part> =>
  status !== "running"
    ? [part("host", "bad", `The program is shutting down (${status})`)]
    : readiness.reasons.map(({ name, reason }) =>
        part(`ready:${name}`, "bad", `Not ready: ${name}: ${reason}`)
      )

const rank = ({ key, level, needsPerson }: Part): number =>
  key === "models" && level === "bad"
    ? 0
    : level === "bad"
      ? needsPerson
        ? 1
        : 2
      : key === "models"
        ? 3
        : needsPerson
          ? 4
          : 5

// -----------------------------------------------------------------------------
// Headline
// -----------------------------------------------------------------------------

/** The state of the program in sentences. */
export const of = (state: Described): Headline => {
  const { at, operators, sections } = state
  const targets = reader.targets(sections["targets"])
  const activity = reader.activity(sections["activity"])
  const circuits = reader.circuits(sections["circuits"]) ?? activity?.circuits ?? []
  const open = circuits.filter(({ phase }) => phase === "open" || phase === "isolated")
  const byHand = new Set(
    open.flatMap(({ circuit, phase }) =>
      phase === "isolated" || operatorOf(circuit, operators)?.action === "trip" ? [circuit] : []
    )
  )
  const explained = new Set(targets?.flatMap(({ circuits = [] }) => circuits.map(({ circuit }) => circuit)))
  const nextTries = NextTry.of(targets ?? [], activity)
  const chain =
    targets === undefined || targets.length === 0 ? [] : models(targets, activity, nextTries, byHand)
  const all = [
    ...hostOf(state),
    ...chain,
    ...(chain.some(({ key, level }) => key === "models" && level === "bad")
      ? []
      : routesOf(reader.routes(sections["routes"]) ?? [], activity)),
    ...circuitsOf(circuits, operators, explained),
    ...tasksOf(reader.tasks(sections["tasks"]) ?? []),
    ...outboxOf(sections, at),
    ...(activity === undefined
      ? []
      : activityOf(activity, at, chain.length > 0, reader.budget(sections["retry budget"])))
  ].toSorted((a, b) => rank(a) - rank(b))
  const hidden = all.length - maxParts
  const shown =
    hidden > 0
      ? [...all.slice(0, maxParts - 1), part("more", "warn", `${hidden + 1} more problems are below`)]
      : all
  const parts = shown.length > 0 ? shown : [fine(targets)]
  return {
    level: parts.some(({ level }) => level === "bad")
      ? "bad"
      : parts.some(({ level }) => level === "warn")
        ? "warn"
        : "good",
    text: parts.map((one) => sentence(one, at)).join(" "),
    parts,
    nextTries
  }
}

const fine = (targets: ReadonlyArray<Target> | undefined): Part =>
  part(
    "fine",
    "good",
    targets === undefined || targets.length === 0
      ? "All is well"
      : targets.length === 1
        ? "All is well: the model can answer"
        : `All is well: all ${targets.length} targets can answer`
  )

/** A sentence with its times, e.g. `openai: … since 14:02 UTC; next try in 8 s.` */
const sentence = ({ advice, next, since, text, until }: Part, at: number): string => {
  const from = since === null ? "" : ` since ${new Date(since).toISOString().slice(11, 16)} UTC`
  const to =
    next === null || until === null ? "" : `; ${next} ${until <= at ? "now" : `in ${seconds(until - at)}`}`
  return `${text}${from}${to}.${advice === null ? "" : ` ${advice}`}`
}

const seconds = (millis: number): string => {
  const s = Math.ceil(millis / 1_000)
  return s < 120 ? `${s} s` : s < 7_200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3_600)} h`
}

/** True when another problem is shown, or one has ended. Numbers and times alone change nothing. */
export const isOther = (a: Headline, b: Headline): boolean => {
  const keys = ({ level, parts }: Headline) =>
    JSON.stringify([level, ...parts.map(({ key }) => key).toSorted()])
  return keys(a) !== keys(b)
}
