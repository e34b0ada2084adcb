/**
 * What happens to calls: plain data, without keys and prompts. `FailoverEvent` says when each is published.
 *
 * Durations are milliseconds.
 */
import { Metric } from "effect"
import type { Warnings } from "@outlast/resilience"
import { EventDefinition } from "@outlast/resilience"
import { needsPerson } from "../../failure/reasons/CallFailure.ts"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Repair } from "../target/ProviderModel.ts"
import type { Doubt } from "../../recovery/Seam.ts"

interface OfCall {
  /** Unix time in milliseconds. */
  readonly at: number
  /** Number of the call in the stream of events, from 1. Calls of several chains have different numbers. */
  readonly call: number
  /** The attempt that the event is about, from 1; 0 before the first. */
  readonly attempt: number
}

export interface AttemptStarted extends OfCall {
  readonly _tag: "AttemptStarted"
  readonly target: TargetRef
  /** How long the call waited on our side since its last attempt, or since it began. */
  readonly waited: number
  /** The failure that made another attempt necessary; `undefined` for the first, and behind a cut answer. */
  readonly after: ReasonTag | undefined
  /** The rule of the classifier that decided about that failure, and its HTTP status. */
  readonly rule: string | undefined
  readonly status: number | undefined
}

export interface TargetSwitched extends OfCall {
  readonly _tag: "TargetSwitched"
  readonly from: TargetRef
  readonly target: TargetRef
  readonly reason: ReasonTag
}

export interface AnswerContinued extends OfCall {
  readonly _tag: "AnswerContinued"
  readonly from: TargetRef
  readonly target: TargetRef
  /** `undefined`: the output limit cut the answer. */
  readonly reason: ReasonTag | undefined
  /** The output limit is raised to this, in tokens; `undefined`: it stays. */
  readonly limit: number | undefined
}

export interface OutputLimitRaised extends OfCall {
  readonly _tag: "OutputLimitRaised"
  readonly target: TargetRef
  readonly limit: number
}

export interface OutputLimitLowered extends OfCall {
  readonly _tag: "OutputLimitLowered"
  readonly target: TargetRef
  readonly limit: number
}

export interface CallCompacting extends OfCall {
  readonly _tag: "CallCompacting"
  readonly target: TargetRef
}

export interface MediaDropped extends OfCall {
  readonly _tag: "MediaDropped"
  readonly target: TargetRef
  /** How many. */
  readonly dropped: number
}

export interface ThinkingDropped extends OfCall {
  readonly _tag: "ThinkingDropped"
  readonly target: TargetRef
  /** Number of parts that lost thinking, a signature or an item id. */
  readonly dropped: number
}

export interface StaleConnection extends OfCall {
  readonly _tag: "StaleConnection"
  readonly target: TargetRef
}

export interface KeyRenewing extends OfCall {
  readonly _tag: "KeyRenewing"
  readonly target: TargetRef
}

export interface CutAnswerDelivered extends OfCall {
  readonly _tag: "CutAnswerDelivered"
}

export interface ModelChanged extends OfCall {
  readonly _tag: "ModelChanged"
  readonly from: TargetRef
  readonly target: TargetRef
  /** `undefined`: the first model of the chain is back. */
  readonly reason: ReasonTag | undefined
  /** What the user is told: `RecoveryPolicy.notices`. */
  readonly message: string
}

export interface AnswerRepaired extends OfCall {
  readonly _tag: "AnswerRepaired"
  readonly target: TargetRef
  /** What was unusual. */
  readonly repairs: ReadonlyArray<Repair>
}

export interface SeamRepaired extends OfCall {
  readonly _tag: "SeamRepaired"
  readonly target: TargetRef
  /** Characters. */
  readonly removed: number
}

export interface SeamUnsure extends OfCall {
  readonly _tag: "SeamUnsure"
  readonly target: TargetRef
  /** Characters that may be too many. */
  readonly kept: number
  readonly doubt: Doubt
}

/**
 * Why a call waits on our side:
 *
 * - `backoff`: before it asks the same target again, as the policy or the server says
 * - `cooldown`: all targets are out, until the first is back
 * - `circuit`: until a circuit lets a probe through
 * - `limit`: for its turn within limits that are known
 * - `health`: for the health check of a target, or until it is asked again
 * - `key`: for a key that is refreshed
 */
export type WaitReason = "backoff" | "cooldown" | "circuit" | "limit" | "health" | "key" | "budget"

interface OfWait extends OfCall {
  readonly reason: WaitReason
  /** The target that is to be asked behind it. */
  readonly target: TargetRef
}

export interface CallWaiting extends OfWait {
  readonly _tag: "CallWaiting"
  /** How long, as far as that is known. */
  readonly delay: number | undefined
  /** The circuit, the kind of limit (`requests`), or the key that it waits for. */
  readonly by: string | undefined
}

export interface CallStillWaiting extends OfWait {
  readonly _tag: "CallStillWaiting"
  /** How long the call has waited, in this wait. */
  readonly elapsed: number
}

export interface CallWaited extends OfWait {
  readonly _tag: "CallWaited"
  readonly elapsed: number
}

export interface CallGaveUp extends OfCall {
  readonly _tag: "CallGaveUp"
  readonly reason: ReasonTag | "AllTargetsOut"
  /** The failure's own message: what happened and what to do. */
  readonly message: string
}

export interface CallAbandoned extends OfCall {
  readonly _tag: "CallAbandoned"
}

export interface AttemptFailed extends OfCall {
  readonly _tag: "AttemptFailed"
  readonly target: TargetRef
  readonly reason: ReasonTag
  /** The classifier's rule that decided. */
  readonly rule: string
  readonly status: number | undefined
  readonly retryAfter: number | undefined
  /** What happened, in one clause without secrets, as in `TargetStatus`. */
  readonly message: string
  readonly elapsed: number
}

export interface CallHedged extends OfCall {
  readonly _tag: "CallHedged"
  /** The target whose first token is late. */
  readonly target: TargetRef
  /** The target that is asked, too. */
  readonly by: TargetRef
}

export interface AttemptOvertaken extends OfCall {
  readonly _tag: "AttemptOvertaken"
  readonly target: TargetRef
  /** The target that has sent content first. */
  readonly by: TargetRef
  /** True when the attempt was the late one, false when it was its hedge. */
  readonly late: boolean
  readonly elapsed: number
}

export interface CallSucceeded extends OfCall {
  readonly _tag: "CallSucceeded"
  readonly target: TargetRef
  /** Of the last attempt. */
  readonly elapsed: number
  /** Time until the first token of the last attempt; `undefined` for an answer that was not streamed. */
  readonly firstToken: number | undefined
  /** How long the whole call waited on our side. */
  readonly waited: number
  /** The reason of its first failure, if it had one: the call has recovered from it. */
  readonly recoveredFrom: ReasonTag | undefined
  readonly costUsd: number | undefined
  /** Tokens of the last attempt, as far as the provider named them. */
  readonly inputTokens: number | undefined
  readonly outputTokens: number | undefined
}

export type CallEvent =
  | AttemptStarted
  | TargetSwitched
  | AnswerContinued
  | OutputLimitRaised
  | OutputLimitLowered
  | CallCompacting
  | MediaDropped
  | ThinkingDropped
  | StaleConnection
  | KeyRenewing
  | CutAnswerDelivered
  | ModelChanged
  | AnswerRepaired
  | SeamRepaired
  | SeamUnsure
  | CallWaiting
  | CallStillWaiting
  | CallWaited
  | CallGaveUp
  | CallAbandoned
  | AttemptFailed
  | CallHedged
  | AttemptOvertaken
  | CallSucceeded

// -----------------------------------------------------------------------------
// Definitions
// -----------------------------------------------------------------------------

const counter = (name: string, description: string) =>
  Metric.counter(name, { description, incremental: true })

export const calls = counter("outlast_calls_total", "Calls that have ended, by outcome")

export const callAttempts = Metric.histogram("outlast_call_attempts", {
  description: "Attempts that a call took",
  boundaries: [1, 2, 3, 4, 5, 7, 10, 15, 20]
})

export const attempts = counter("outlast_attempts_total", "Requests that were sent")

export const attemptFailures = counter("outlast_attempt_failures_total", "Requests that failed")

export const retries = counter("outlast_call_retries_total", "Attempts of a call after a failure")

export const switches = counter("outlast_switches_total", "Calls that went on at another target")

export const hedges = counter(
  "outlast_hedges_total",
  "Calls whose first token was late, with a second attempt"
)

export const hedgesWon = counter(
  "outlast_hedges_won_total",
  "Hedged calls whose second attempt sent content first"
)

export const firstTokenSeconds = Metric.histogram("outlast_first_token_seconds", {
  description: "Time until the first token of streamed answers",
  boundaries: [0.25, 0.5, 1, 2, 3, 5, 8, 13, 20, 30, 60, 120]
})

export const waits = counter("outlast_waits_total", "Waits on our side that have begun")

export const waitSeconds = Metric.histogram("outlast_wait_seconds", {
  description: "Length of the waits on our side that have ended",
  boundaries: [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
})

export const giveUps = counter("outlast_give_ups_total", "Calls that failed")

export const cost = counter("outlast_cost_usd_total", "US dollars for calls that were answered")

export const tokens = counter("outlast_tokens_total", "Tokens of answers, input and output")

/** Labels of the target that an event is about. */
const of = {
  provider: ({ target }: { readonly target: TargetRef }) => target.provider,
  model: ({ target }: { readonly target: TargetRef }) => target.model
}

const reason = ({ reason }: { readonly reason: string | undefined }) => reason

/** An unknown amount adds nothing, and nothing makes no series. */
const some = (amount: number | undefined) => (amount === 0 ? undefined : amount)

const made = ({ attempt }: OfCall) => some(attempt)

const info = (text: string): Warnings.Line => ({ level: "Info", text })

const waitsFor: Readonly<Record<WaitReason, string>> = {
  backoff: "before the next attempt",
  cooldown: "because all targets are out",
  circuit: "for a circuit to let a probe through",
  limit: "for a turn within the known limits",
  health: "for a health check",
  key: "for a key to be refreshed",
  budget: "for the retry budget"
}

const { seconds, silent } = EventDefinition

const evidence = (rule: string | undefined, status: number | undefined): string =>
  [status === undefined ? [] : `HTTP ${status}`, rule === undefined ? [] : `rule ${rule}`].flat().join(", ")

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<CallEvent> = {
  AttemptStarted: {
    doc: "A request is sent: nothing keeps it away any more. One for each attempt.",
    line: ({ target, after, attempt, waited, rule, status }) => ({
      ...info(`→ ${target.id}${after === undefined ? "" : `, attempt ${attempt}`}`),
      detail:
        after === undefined ? undefined : ` after ${seconds(waited)}: ${after} (${evidence(rule, status)})`
    }),
    metrics: [
      { metric: attempts, names: of },
      {
        metric: retries,
        words: { reason: ({ after }) => after },
        value: ({ after }) => (after === undefined ? undefined : 1)
      }
    ]
  },
  TargetSwitched: {
    doc: "A request is sent to another target.",
    // The attempt that follows names the target.
    line: silent,
    metrics: [{ metric: switches, words: { reason } }]
  },
  AnswerContinued: {
    doc: "A partial answer, already shown, is sent on to be continued.",
    line: ({ target, limit }) =>
      info(
        `  ${target.id} continues the answer${
          limit === undefined ? "" : `, output limit raised to ${limit} tokens`
        }`
      ),
    metrics: [
      {
        metric: switches,
        words: { reason },
        value: ({ from, target, reason }) => (from.id === target.id || reason === undefined ? undefined : 1)
      }
    ]
  },
  OutputLimitRaised: {
    doc: "The call is repeated with room for a longer answer.",
    line: ({ target, limit }) => info(`  ${target.id}: output limit raised to ${limit} tokens`),
    metrics: []
  },
  OutputLimitLowered: {
    doc: "The call is repeated with an output limit that the model takes, or that leaves room for the conversation.",
    line: ({ target, limit }) => info(`  ${target.id}: output limit lowered to ${limit} tokens`),
    metrics: []
  },
  CallCompacting: {
    doc: "The conversation did not fit the target and is made shorter.",
    line: ({ target }) => info(`… the conversation does not fit ${target.id}: compacting`),
    metrics: []
  },
  MediaDropped: {
    doc: "Images and files that the model refused, in this call or before, are sent as a note. Published in later calls, too.",
    line: ({ target, dropped }) =>
      info(
        `  ${target.id} refuses ${dropped === 1 ? "an image or file" : `${dropped} images or files`}: sent as a note`
      ),
    metrics: []
  },
  ThinkingDropped: {
    doc: "The model refused thinking, signatures or item ids of earlier answers, in this call or before. The conversation is sent without them. Published in later calls, too.",
    line: ({ target }) => info(`  ${target.id} refuses thinking of earlier answers: left out`),
    metrics: []
  },
  StaleConnection: {
    doc: "The server had closed an idle connection. The request, of which no answer came, was sent again within its attempt. Told when the attempt ends.",
    line: ({ target }) =>
      info(`  ${target.id}: an idle connection was closed, the request was sent on another`),
    metrics: []
  },
  KeyRenewing: {
    doc: "The key of the target was refused and is asked for anew.",
    line: ({ target }) => info(`… refreshing the key of ${target.id}`),
    metrics: []
  },
  CutAnswerDelivered: {
    doc: "An answer that the output limit cut is delivered as it is.",
    line: () => info("  the answer is delivered as the output limit cut it"),
    metrics: []
  },
  ModelChanged: {
    doc: "Another model answers than before. One for each change, whichever call finds it, and none for the answer of a hedge.",
    line: ({ message }) => ({ level: "Warn", text: `  ${message}` }),
    metrics: []
  },
  AnswerRepaired: {
    doc: "Parts of an answer had an unusual form, and were read by their meaning. One for each attempt.",
    line: ({ target, repairs }) =>
      info(`  ${target.id}: unusual form, read by its meaning: ${repairs.join(", ")}`),
    metrics: []
  },
  SeamRepaired: {
    doc: "What a continuation repeated of the answer, or remarked before it, was taken out.",
    line: ({ removed }) => info(`  ${removed} repeated characters taken out`),
    metrics: []
  },
  SeamUnsure: {
    doc: "A continuation may begin with a repetition or a remark that could not be proved: all of it was kept.",
    line: ({ kept }) => info(`  ${kept} characters may be a repetition: kept`),
    metrics: []
  },
  CallWaiting: {
    doc: "The call waits on our side. A check or a refresh that ends at once is no wait.",
    line: ({ delay, reason, target, by }) => ({
      ...info(`… waiting${delay === undefined ? "" : ` ${seconds(delay)}`} ${waitsFor[reason]}`),
      detail: `: ${target.id}${by === undefined ? "" : `, ${by}`}`
    }),
    metrics: [{ metric: waits, words: { reason } }]
  },
  CallStillWaiting: {
    doc: "A long wait goes on. Published at the interval of `RecoveryPolicy.heartbeat`, where it is set.",
    line: ({ elapsed, reason, target }) => ({
      ...info(`… still waiting after ${seconds(elapsed)} ${waitsFor[reason]}`),
      detail: `: ${target.id}`
    }),
    metrics: []
  },
  CallWaited: {
    doc: "The wait that `CallWaiting` told of is over, also where the call was interrupted.",
    // The line of its beginning says what it waits for.
    line: silent,
    metrics: [{ metric: waitSeconds, words: { reason }, value: ({ elapsed }) => elapsed / 1_000 }]
  },
  CallGaveUp: {
    doc: "The call failed, after all recovery.",
    line: ({ message }) => ({ level: "Warn", text: `✗ ${message}` }),
    metrics: [
      { metric: calls, words: { outcome: () => "failed" } },
      { metric: callAttempts, value: made },
      { metric: giveUps, words: { reason } }
    ]
  },
  CallAbandoned: {
    doc: "The program was interrupted, or stopped reading, before the call had ended.",
    line: () => info("✗ the program stopped waiting for the answer"),
    metrics: [{ metric: calls, words: { outcome: () => "abandoned" } }]
  },
  AttemptFailed: {
    doc: "A request failed.",
    line: ({ reason, rule, status, retryAfter, target }) => ({
      level: needsPerson.has(reason) ? "Error" : "Warn",
      text: `✗ ${reason}${status === undefined ? "" : ` (HTTP ${status})`}${
        retryAfter === undefined ? "" : `, retry after ${seconds(retryAfter)}`
      }`,
      detail: `: ${target.id}, rule ${rule}`
    }),
    metrics: [{ metric: attemptFailures, names: of, words: { reason } }]
  },
  CallHedged: {
    doc: "The first token of the attempt is late: a second attempt starts at another target.",
    line: ({ target, by }) => info(`… ${target.id} is late: asking ${by.id}, too`),
    metrics: [{ metric: hedges, names: of }]
  },
  AttemptOvertaken: {
    doc: "The other attempt of a hedged call has sent content first: this one was aborted. It is no failure.",
    line: ({ target, by, elapsed }) =>
      info(`  ${target.id} aborted after ${seconds(elapsed)}: ${by.id} was faster`),
    metrics: [{ metric: hedgesWon, names: of, value: ({ late }) => (late ? 1 : undefined) }]
  },
  CallSucceeded: {
    doc: "The call is answered: `attempt` is how many attempts it took.",
    line: ({ target, costUsd }) =>
      info(`✓ ${target.model}${costUsd === undefined ? "" : `, $${costUsd.toFixed(4)}`}`),
    metrics: [
      {
        metric: calls,
        words: {
          outcome: ({ recoveredFrom }) => (recoveredFrom === undefined ? "answered" : "recovered")
        }
      },
      { metric: callAttempts, value: made },
      { metric: cost, names: of, value: ({ costUsd }) => some(costUsd) },
      {
        metric: firstTokenSeconds,
        names: of,
        value: ({ firstToken }) => (firstToken === undefined ? undefined : firstToken / 1_000)
      },
      {
        metric: tokens,
        names: of,
        words: { kind: () => "input" },
        value: ({ inputTokens }) => some(inputTokens)
      },
      {
        metric: tokens,
        names: of,
        words: { kind: () => "output" },
        value: ({ outputTokens }) => some(outputTokens)
      }
    ]
  }
}
