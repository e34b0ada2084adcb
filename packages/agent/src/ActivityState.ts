/**
 * The current activity of a program, as a fold of its events: calls with their attempts and waits, circuits,
 * cooldowns, alerts, and the figures of the last minutes. Deterministic: the only time is that of the events and of
 * {@link ActivityState.view}.
 *
 * Everything is bounded, see {@link bounds}: the oldest leaves first. Events of unknown tags change nothing.
 */
import type { ResilienceEvents } from "@outlast/resilience"
import * as EventLine from "./EventLine.ts"
import type { FailoverReason } from "./failure/reasons/FailoverReason.ts"
import { definitionOf, definitions, reasonTags } from "./failure/reasons/FailoverReason.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** One line in the chain of a call. */
export interface Step {
  /** Unix time in milliseconds. */
  readonly at: number
  readonly kind: "attempt" | "wait" | "note"
  /** The target, or for a note what happened. */
  readonly text: string
  /**
   * An attempt is `running` until it is `failed`, `answered`, or `overtaken` by the other attempt of a hedged call. A wait is
   * `running` or `over`.
   */
  readonly state: "running" | "failed" | "answered" | "overtaken" | "over" | "note"
  /** Why an attempt failed, or why a call waits. */
  readonly reason: string | undefined
  /** What a wait is for, beside its target: a circuit, a limit or a key. */
  readonly by: string | undefined
  /** HTTP status of a failure. */
  readonly status: number | undefined
  /** The classifier's rule that decided about a failure. */
  readonly rule: string | undefined
  /** Unix time at which a wait ends, as far as that is known. */
  readonly until: number | undefined
  /** Milliseconds that it took. */
  readonly elapsed: number | undefined
}

export interface Call {
  readonly call: number
  readonly startedAt: number
  readonly endedAt: number | undefined
  readonly outcome: "running" | "answered" | "recovered" | "failed" | "abandoned"
  /** Requests that were sent. */
  readonly attempts: number
  readonly steps: ReadonlyArray<Step>
  /** Steps that are not shown, because there are too many. */
  readonly omitted: number
  /** The message of a call that failed. */
  readonly message: string | undefined
}

export interface Circuit {
  readonly circuit: string
  readonly phase: string
  readonly since: number
  /** Unix time at which an open circuit lets a probe through. */
  readonly until: number | undefined
}

export interface Cooldown {
  readonly target: string
  readonly scope: string
  readonly reason: string
  readonly since: number
  /** `undefined`: until it is reset. */
  readonly until: number | undefined
}

export interface Alert {
  readonly key: string
  readonly failures: number
  readonly since: number
}

/** Counts of one minute. */
export interface Minute {
  /** Unix time of its begin. */
  readonly at: number
  readonly attempts: number
  readonly failedAttempts: number
  readonly calls: number
  readonly answered: number
  readonly failed: number
  /** US dollars for calls that were answered, as far as they are known. */
  readonly costUsd: number
  /** Streamed answers, and the sum of their times until the first token, in milliseconds. */
  readonly streamed: number
  readonly firstTokens: number
}

/** Counts of one target in {@link slot} milliseconds. */
export interface Slot {
  /** Unix time of its begin. */
  readonly at: number
  readonly answered: number
  /** Attempts that failed, after which the call went on. */
  readonly repeated: number
  /** Calls that failed after their last attempt here. */
  readonly failed: number
}

/** The last minutes of one target. */
export interface History {
  readonly target: string
  /** Unix time of the first failure of its own since the last answer. `undefined`: there is none. */
  readonly failingSince: number | undefined
  /** The last failure since the last answer. */
  readonly lastFailure:
    | { readonly at: number; readonly reason: string; readonly status: number | undefined }
    | undefined
  /** The oldest first. Slots without attempts are left out. */
  readonly slots: ReadonlyArray<Slot>
  /** Times in which a cooldown kept it out, the oldest first. `until` is absent until it is reset. */
  readonly outs: ReadonlyArray<{ readonly since: number; readonly until: number | undefined }>
}

export interface Notice {
  readonly at: number
  /** The tag of its event. */
  readonly tag: string
  /** The run that it belongs to, where the program names its runs (`Activity.CurrentRun`). */
  readonly run: string | undefined
  readonly level: string
  readonly text: string
}

export interface View {
  /** Calls under way, the oldest first. */
  readonly running: ReadonlyArray<Call>
  /** Calls that have ended, the newest first. */
  readonly recent: ReadonlyArray<Call>
  readonly circuits: ReadonlyArray<Circuit>
  readonly cooldowns: ReadonlyArray<Cooldown>
  readonly alerts: ReadonlyArray<Alert>
  /** The last minutes, the oldest first. Minutes without events are left out. */
  readonly minutes: ReadonlyArray<Minute>
  /** Attempts for each call of these minutes; 1 is best. `undefined` without calls. */
  readonly amplification: number | undefined
  /** Share of the calls that ended in these minutes with an answer. `undefined` without any. */
  readonly goodput: number | undefined
  /** US dollars for calls that were answered since the program began, as far as they are known. */
  readonly costUsd: number
  /** The targets that were asked or were out, the last one to begin first. */
  readonly histories: ReadonlyArray<History>
  /** Guard, compaction and other notes, the newest first. */
  readonly notices: ReadonlyArray<Notice>
}

export const bounds = {
  running: 200,
  recent: 50,
  steps: 40,
  names: 200,
  minutes: 15,
  notices: 50,
  histories: 50,
  outs: 20,
  run: 100,
  text: 300,
  message: 2_000
} as const

const minute = 60_000

/** Milliseconds of a {@link Slot}. */
export const slot = 30_000

type Mutable<A> = { -readonly [K in keyof A]: A[K] }
interface OpenHistory extends Mutable<Omit<History, "slots" | "outs">> {
  slots: Array<Mutable<Slot>>
  outs: Array<Mutable<History["outs"][number]>>
}
interface OpenCall extends Mutable<Omit<Call, "steps">> {
  readonly steps: Array<Mutable<Step>>
}

/** Tags whose line is kept as a notice. Other events are part of a call, a circuit or a cooldown. */
const noticed: ReadonlySet<string> = new Set([
  "CompactionGaveUp",
  "CompactionTierFailed",
  "ContextCompacted",
  "ContextFilling",
  "GuardBlocked",
  "GuardExtended",
  "GuardNudged",
  "GuardStopped",
  "ModelChanged",
  "TargetDead"
])

/** Reasons that always count against their target. */
const faults: ReadonlySet<string> = new Set(
  reasonTags.filter((tag) => {
    const samples: ReadonlyArray<FailoverReason> = definitions[tag].samples
    return samples.every((reason) => definitionOf(reason).isItsFault(reason))
  })
)

// -----------------------------------------------------------------------------
// Fold
// -----------------------------------------------------------------------------

export class ActivityState {
  readonly #running = new Map<number, OpenCall>()
  #recent: Array<OpenCall> = []
  readonly #circuits = new Map<string, Circuit>()
  readonly #cooldowns = new Map<string, Cooldown>()
  readonly #alerts = new Map<string, Alert>()
  readonly #minutes: Array<Mutable<Minute>> = []
  #notices: Array<Notice> = []
  readonly #histories = new Map<string, OpenHistory>()
  #costUsd = 0

  apply(published: ResilienceEvents.ResilienceEvent, run?: string): void {
    // An event of another package has an unknown tag and matches no case.
    const event = published as unknown as EventLine.Event
    switch (event._tag) {
      case "AttemptStarted":
        this.#minute(event.at).attempts++
        this.#step(event, { kind: "attempt", text: event.target.id, state: "running" })
        this.#call(event).attempts = event.attempt
        break
      case "AttemptFailed": {
        this.#minute(event.at).failedAttempts++
        const { at, elapsed, reason, rule, status } = event
        this.#closeAt(this.#running.get(event.call), event, {
          state: "failed",
          reason,
          status,
          rule,
          elapsed
        })
        const history = this.#history(event.target.id)
        // A request that would fail everywhere says nothing of its target.
        if (faults.has(reason)) {
          history.failingSince ??= at
          history.lastFailure = { at, reason, status }
        }
        slotOf(history, at).repeated++
        break
      }
      case "AttemptOvertaken":
        this.#closeAt(this.#running.get(event.call), event, { state: "overtaken", elapsed: event.elapsed })
        break
      case "CallWaiting":
        this.#step(event, {
          kind: "wait",
          text: event.target.id,
          by: event.by === undefined ? undefined : cut(event.by),
          state: "running",
          reason: event.reason,
          until: event.delay === undefined ? undefined : event.at + event.delay
        })
        break
      case "CallWaited":
        // The event may arrive after the end of a call that was interrupted.
        this.#close(this.#running.get(event.call), "wait", { state: "over", elapsed: event.elapsed })
        break
      case "TargetSwitched":
      case "AnswerContinued":
      case "OutputLimitRaised":
      case "OutputLimitLowered":
      case "CallCompacting":
      case "MediaDropped":
      case "ThinkingDropped":
      case "StaleConnection":
      case "KeyRenewing":
      case "CutAnswerDelivered":
      case "CallHedged":
        this.#step(event, { kind: "note", text: noteOf(published), state: "note" })
        break
      case "CallSucceeded": {
        const minute = this.#minute(event.at)
        minute.answered++
        minute.costUsd += event.costUsd ?? 0
        this.#costUsd += event.costUsd ?? 0
        if (event.firstToken !== undefined) {
          minute.streamed++
          minute.firstTokens += event.firstToken
        }
        const history = this.#history(event.target.id)
        history.failingSince = undefined
        history.lastFailure = undefined
        slotOf(history, event.at).answered++
        endOuts(history, event.at)
        const call = this.#call(event)
        this.#closeAt(call, event, { state: "answered", elapsed: event.elapsed })
        this.#end(call, event.at, event.recoveredFrom === undefined ? "answered" : "recovered")
        // An answer ends what kept its target out.
        for (const [key, { target }] of this.#cooldowns) {
          if (target === event.target.id) this.#cooldowns.delete(key)
        }
        break
      }
      case "CallGaveUp": {
        this.#minute(event.at).failed++
        const call = this.#call(event)
        call.message = cut(event.message, bounds.message)
        const last = call.steps.findLast(({ kind, state }) => kind === "attempt" && state === "failed")
        if (last !== undefined) {
          const found = slotOf(this.#history(last.text), event.at)
          found.failed++
          // The attempt was counted when it failed, before the end of its call was known.
          if (found.repeated > 0) found.repeated--
        }
        this.#end(call, event.at, "failed")
        break
      }
      case "CallAbandoned":
        this.#end(this.#call(event), event.at, "abandoned")
        break
      case "CircuitTransition": {
        const { at, circuit, openFor, to } = event
        if (to === "closed") this.#circuits.delete(circuit)
        else {
          const until = openFor === undefined ? undefined : at + openFor
          keep(this.#circuits, circuit, { circuit, phase: to, since: at, until })
        }
        break
      }
      case "CooldownOpened":
      case "CooldownLearned": {
        const { at, length, reason, scope, target } = event
        const until = length === undefined ? undefined : at + length
        const { id } = target
        keep(this.#cooldowns, `${scope} ${id}`, { target: id, scope, reason, since: at, until })
        const history = this.#history(id)
        history.outs = [...history.outs, { since: at, until }].slice(-bounds.outs)
        break
      }
      case "CooldownLifted":
        this.#cooldowns.delete(`${event.scope} ${event.target.id}`)
        endOuts(this.#history(event.target.id), event.at)
        break
      case "AlertRaised":
        keep(this.#alerts, event.key, { key: event.key, failures: event.failures, since: event.at })
        break
      case "AlertCleared":
        this.#alerts.delete(event.key)
        break
      default:
        break
    }
    if (noticed.has(published._tag)) this.#notice(published, run)
  }

  /** The state as plain data. Cooldowns that are over are left out. */
  view(now: number): View {
    const minutes = this.#minutes.filter(({ at }) => at > now - bounds.minutes * minute)
    const sum = (field: keyof Minute): number => minutes.reduce((total, one) => total + one[field], 0)
    const calls = sum("calls")
    const ended = sum("answered") + sum("failed")
    return {
      running: [...this.#running.values()].map(shown),
      recent: this.#recent.map(shown),
      circuits: [...this.#circuits.values()],
      cooldowns: [...this.#cooldowns.values()].filter(({ until }) => until === undefined || until > now),
      alerts: [...this.#alerts.values()],
      minutes: minutes.map((one) => ({ ...one })),
      amplification: calls === 0 ? undefined : sum("attempts") / calls,
      goodput: ended === 0 ? undefined : sum("answered") / ended,
      costUsd: this.#costUsd,
      histories: [...this.#histories.values()].toReversed().map((one) => historyAt(one, now)),
      notices: [...this.#notices]
    }
  }

  #call({ at, call }: { readonly at: number; readonly call: number }): OpenCall {
    let found = this.#running.get(call)
    if (found === undefined) {
      found = {
        call,
        startedAt: at,
        endedAt: undefined,
        outcome: "running",
        attempts: 0,
        steps: [],
        omitted: 0,
        message: undefined
      }
      this.#minute(at).calls++
      keep(this.#running, call, found, bounds.running)
    }
    return found
  }

  #step(
    event: { readonly at: number; readonly call: number },
    step: Pick<Step, "kind" | "text" | "state"> & Partial<Step>
  ): void {
    const { steps } = this.#call(event)
    steps.push({
      at: event.at,
      reason: undefined,
      by: undefined,
      status: undefined,
      rule: undefined,
      until: undefined,
      elapsed: undefined,
      ...step,
      text: cut(step.text)
    })
    if (steps.length <= bounds.steps) return
    // The first steps say how it began, the last ones where it is.
    steps.splice(bounds.steps / 2, 1)
    this.#call(event).omitted++
  }

  #close(call: OpenCall | undefined, kind: Step["kind"], change: Partial<Step>, text?: string): void {
    const open = call?.steps.findLast(
      (step) => step.kind === kind && step.state === "running" && (text ?? step.text) === step.text
    )
    if (open !== undefined) Object.assign(open, change)
  }

  /** Closes the attempt at the target of the event. A hedged call has another one open. */
  #closeAt(
    call: OpenCall | undefined,
    { target }: { readonly target: { readonly id: string } },
    change: Partial<Step>
  ): void {
    this.#close(call, "attempt", change, cut(target.id))
  }

  #end(call: OpenCall, at: number, outcome: Call["outcome"]): void {
    call.endedAt = at
    call.outcome = outcome
    // Nothing of a call that has ended still runs.
    for (const step of call.steps) if (step.state === "running") step.state = "over"
    this.#running.delete(call.call)
    this.#recent = [call, ...this.#recent].slice(0, bounds.recent)
  }

  #minute(at: number): Mutable<Minute> {
    const start = Math.floor(at / minute) * minute
    // Events of several fibers may arrive slightly out of order.
    let found = this.#minutes.findLast((one) => one.at === start)
    if (found === undefined) {
      found = {
        at: start,
        attempts: 0,
        failedAttempts: 0,
        calls: 0,
        answered: 0,
        failed: 0,
        costUsd: 0,
        streamed: 0,
        firstTokens: 0
      }
      this.#minutes.push(found)
      if (this.#minutes.length > bounds.minutes) this.#minutes.shift()
    }
    return found
  }

  #history(target: string): OpenHistory {
    const id = cut(target)
    let found = this.#histories.get(id)
    if (found === undefined) {
      found = { target: id, failingSince: undefined, lastFailure: undefined, slots: [], outs: [] }
      keep(this.#histories, id, found, bounds.histories)
    }
    return found
  }

  #notice(event: ResilienceEvents.ResilienceEvent, name: string | undefined): void {
    const line = EventLine.of(event)
    if (line === undefined) return
    const text = cut(line.text.trim())
    const run = name === undefined ? undefined : cut(name, bounds.run)
    this.#notices = [{ at: event.at, tag: event._tag, run, level: line.level, text }, ...this.#notices].slice(
      0,
      bounds.notices
    )
  }
}

/** A text of at most `max` characters. An ellipsis shows that some are missing. */
const cut = (text: string, max: number = bounds.text): string =>
  text.length > max ? `${text.slice(0, max - 1)}…` : text

/** Sets an entry, and drops the oldest beyond the bound. */
const keep = <K, V>(map: Map<K, V>, key: K, value: V, max: number = bounds.names): void => {
  map.delete(key)
  map.set(key, value)
  if (map.size <= max) return
  const [oldest] = map.keys()
  // The map is not empty.
  if (oldest !== undefined) map.delete(oldest)
}

const slotOf = (history: OpenHistory, at: number): Mutable<Slot> => {
  const start = Math.floor(at / slot) * slot
  let found = history.slots.findLast((one) => one.at === start)
  if (found === undefined) {
    found = { at: start, answered: 0, repeated: 0, failed: 0 }
    history.slots = [...history.slots, found].slice(-maxSlots)
  }
  return found
}

const maxSlots = (bounds.minutes * minute) / slot

/** The target is back: a cooldown that was longer ends at this time. */
const endOuts = ({ outs }: OpenHistory, at: number): void => {
  for (const out of outs) if (out.until === undefined || out.until > at) out.until = at
}

const historyAt = ({ outs, slots, ...history }: OpenHistory, now: number): History => {
  const start = now - bounds.minutes * minute
  return {
    ...history,
    slots: slots.filter(({ at }) => at > start - slot).map((one) => ({ ...one })),
    outs: outs.filter(({ until }) => until === undefined || until > start).map((one) => ({ ...one }))
  }
}

const shown = ({ steps, ...call }: OpenCall): Call => ({ ...call, steps: steps.map((step) => ({ ...step })) })

const noteOf = (event: ResilienceEvents.ResilienceEvent): string => {
  const text = EventLine.of(event)?.text.trim()
  if (text !== undefined) return text
  const { target } = event as unknown as { readonly target?: { readonly id: string } }
  return target === undefined ? event._tag : `switched to ${target.id}`
}
