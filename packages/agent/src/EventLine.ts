/**
 * Formats one line for an event, as `Outlast.layerLog` logs it and `outlast demo` prints it.
 *
 * Events of failover, circuits and the guard have their own wording. Every other event is named by its tag and its
 * subject, so that an event of a later version or of another package still gives a readable line. Pure.
 */
import { Predicate } from "effect"
import type { CircuitEvent, ResilienceEvents, Warnings } from "@outlast/resilience"
import { needsPerson } from "./failure/reasons/CallFailure.ts"
import type { GuardEvent } from "./guard/GuardEvent.ts"
import { blockedText } from "./guard/GuardEvent.ts"
import type { FailoverEvent, WaitReason } from "./failover/FailoverEvent.ts"

/** The line, or `undefined` for an event that repeats another one. */
export const of = (event: ResilienceEvents.ResilienceEvent): Warnings.Line | undefined => {
  const text = textOf(event)
  return text === undefined ? undefined : { level: levelOf(event), text: text.replaceAll(/\s*\n\s*/g, " ") }
}

type Known = FailoverEvent | CircuitEvent.CircuitEvent | GuardEvent

const textOf = (event: ResilienceEvents.ResilienceEvent): string | undefined => {
  // The set of events is open. An unknown tag reaches `default`.
  const known = event as Known
  switch (known._tag) {
    case "AttemptStarted":
      return `→ ${known.target.id}${known.after === undefined ? "" : `, attempt ${known.attempt}`}`
    case "TargetSwitched":
      // The line of the next attempt names the target.
      return undefined
    case "AnswerContinued":
      return `  ${known.target.id} continues the answer${
        known.limit === undefined ? "" : `, output limit raised to ${known.limit} tokens`
      }`
    case "OutputLimitRaised":
    case "OutputLimitLowered": {
      const change = known._tag === "OutputLimitRaised" ? "raised" : "lowered"
      return `  ${known.target.id}: output limit ${change} to ${known.limit} tokens`
    }
    case "CallCompacting":
      return `… the conversation does not fit ${known.target.id}: compacting`
    case "MediaDropped":
      return `  ${known.target.id} refuses ${known.dropped === 1 ? "an image or file" : `${known.dropped} images or files`}: sent as a note`
    case "KeyRenewing":
      return `… refreshing the key of ${known.target.id}`
    case "CutAnswerDelivered":
      return "  the answer is delivered as the output limit cut it"
    case "ModelChanged":
      return `  ${known.message}`
    case "SeamRepaired":
      return `  ${known.removed} repeated characters removed`
    case "SeamUnsure":
      return `  ${known.kept} characters may be a repetition: kept`
    case "CallWaiting":
      return `… waiting${known.delay === undefined ? "" : ` ${seconds(known.delay)}`} ${waitsFor[known.reason]}`
    case "CallWaited":
      // The line for its start says what it waits for.
      return undefined
    case "AttemptFailed": {
      const status = known.status === undefined ? "" : ` (HTTP ${known.status})`
      const wait = known.retryAfter === undefined ? "" : `, retry after ${seconds(known.retryAfter)}`
      return `✗ ${known.reason}${status}${wait}`
    }
    case "CooldownOpened":
    case "CooldownLearned":
      return `  ${known.scope} of ${known.target.id} is out${known.length === undefined ? " until it is reset" : ` for ${seconds(known.length)}`}`
    case "CooldownLifted":
      return `  ${known.scope} of ${known.target.id} is back`
    case "CallSucceeded":
      return `✓ ${known.target.model}${known.costUsd === undefined ? "" : `, $${known.costUsd.toFixed(4)}`}`
    case "CallGaveUp":
      return `✗ ${known.message}`
    case "CallAbandoned":
      return "✗ the program stopped waiting for the answer"
    case "TargetDead":
      return `✗ ${known.message}`
    case "CircuitTransition": {
      const time = known.openFor === undefined ? "" : ` for ${seconds(known.openFor)}`
      return `  circuit ${known.circuit} is ${known.to}${time}`
    }
    case "CircuitFailure":
    case "CircuitRefusal":
      // The line of the failed or abandoned attempt says the same.
      return undefined
    case "GuardBlocked":
      return `✗ ${blockedText(known)}`
    case "GuardStopped":
      return `✗ the guard stopped the run: ${known.reason}${known.subject === undefined ? "" : ` of ${known.subject}`}`
    default:
      return unknown(event)
  }
}

const levelOf = (event: ResilienceEvents.ResilienceEvent): Warnings.Line["level"] => {
  const known = event as Known
  switch (known._tag) {
    case "AttemptFailed":
      return needsPerson.has(known.reason) ? "Error" : "Warn"
    case "CircuitTransition":
      return known.to === "open" ? "Warn" : "Info"
    default:
      return warnings.has(event._tag) ? "Warn" : "Info"
  }
}

const warnings: ReadonlySet<string> = new Set<Known["_tag"]>([
  "ModelChanged",
  "CallGaveUp",
  "TargetDead",
  "KeyNotRefreshed",
  "ChainStoreDown",
  "CircuitStoreDown",
  "GuardBlocked",
  "GuardStopped"
])

/**
 * Line for an event without its own wording: `CallAnswered` of a target is
 * `  call answered: anthropic/claude-sonnet-4-5`.
 */
const unknown = (event: ResilienceEvents.ResilienceEvent): string => {
  const words = event._tag.replaceAll(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase()
  const about = subjects.map((name) => stringAt(event, name)).find((found) => found !== undefined)
  const delay = Predicate.hasProperty(event, "delay") ? event.delay : undefined
  const time = typeof delay === "number" && delay > 0 ? `, ${seconds(delay)}` : ""
  return `  ${words}${about === undefined ? "" : `: ${about}`}${time}`
}

/** Fields that name the subject of an event. The first one present is used. */
const subjects = ["message", "target", "circuit", "tool", "key", "connection", "name"] as const

const stringAt = (event: object, name: string): string | undefined => {
  const found = Predicate.hasProperty(event, name) ? event[name] : undefined
  if (typeof found === "string") return found
  return Predicate.hasProperty(found, "id") && typeof found.id === "string" ? found.id : undefined
}

const waitsFor: Readonly<Record<WaitReason, string>> = {
  backoff: "before the same target is asked again",
  cooldown: "because all targets are out",
  circuit: "for a circuit to let a probe through",
  limit: "for a turn within the known limits",
  health: "for a health check",
  key: "for a key to be refreshed"
}

const seconds = (millis: number): string => `${(millis / 1_000).toFixed(millis < 10_000 ? 1 : 0)} s`
