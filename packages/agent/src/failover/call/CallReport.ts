/**
 * Reports what happens to one call: events, log lines, notices of a change of model, and how long it waited.
 *
 * `CallRun` reports each decision of `CallState` by {@link CallReport.decided}; later events carry its numbers. What is
 * to be told is computed when a method is called, and told when the Effect it returns runs. `undefined` means that
 * there is nothing to tell: a successful call whose events go nowhere pays for no Effect.
 */
import { Duration, Effect, MutableRef } from "effect"
import { ResilienceEvents, Warnings } from "@outlast/resilience"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Usage } from "../../conversation/Usage.ts"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { Leavable } from "../../failure/reasons/Leavable.ts"
import { whatHappened } from "../../failure/reasons/ProviderFailure.ts"
import type { Verdict } from "../../recovery/Seam.ts"
import { isDiminishing } from "../../recovery/Truncation.ts"
import type { CooldownOpened } from "../chain/TargetEvent.ts"
import type { Action, CallState, Event, Failed, Overtaken } from "../decide/CallState.ts"
import { attemptsOf, flightOf, initial, switchesOf, wasCut } from "../decide/CallState.ts"
import { lastFailureOf } from "../decide/CallLog.ts"
import type { CallNotes } from "../decide/CallNotes.ts"
import type { Cooldown } from "../decide/Cooldown.ts"
import * as Cool from "../decide/Cooldown.ts"
import type { Notice } from "../decide/Notice.ts"
import { isChange } from "../decide/Notice.ts"
import * as Order from "../decide/Order.ts"
import type { Sending } from "../decide/Sending.ts"
import { isSending } from "../decide/Sending.ts"
import type { Numbers } from "./ActionEvent.ts"
import { eventOf } from "./ActionEvent.ts"
import type { Repair } from "../target/ProviderModel.ts"
import type { Attempt } from "./Attempt.ts"
import type { CallContext } from "./CallContext.ts"
import type { CallEvent, CallSucceeded } from "./CallEvent.ts"
import type { CallTrace } from "./CallTrace.ts"
import * as Waits from "./Waits.ts"

/**
 * Calls so far in each stream of events. The chains of a program publish into one stream, where each call needs a number
 * of its own. By the stream and not by its service, because a layer may wrap the service.
 */
const calls = new WeakMap<ResilienceEvents.Service["stream"], number>()

const nextOf = ({ stream }: ResilienceEvents.Service): number => {
  const next = (calls.get(stream) ?? 0) + 1
  calls.set(stream, next)
  return next
}

/** Tells it. `undefined`: there is nothing to tell. */
type Told = Effect.Effect<void> | undefined

export class CallReport {
  /** Reports the waits of the call. */
  readonly waits: Waits.Waits
  readonly #context: CallContext
  readonly #events: ResilienceEvents.Service
  /** Number of the call in its stream of events. */
  readonly #number: number
  #state: CallState = initial
  #notices: Array<Notice> = []
  /** The target that this call's line about a refused key has named. */
  #named: string | undefined
  /**
   * What the clients of targets have done in attempts in flight, by target id. It happens inside a request, so it is told
   * when the attempt ends, in the order of the call's events.
   */
  #done: Map<string, { repeats: number; readonly repairs: Set<Repair> }> | undefined
  /** The target of a hedge that was faster than the late attempt. */
  #hedge: TargetRef | undefined
  /** The reason of the first failure. */
  #firstFailure: ReasonTag | undefined

  constructor(context: CallContext, trace: CallTrace | undefined) {
    this.#context = context
    this.#events = context.fiber.getRef(ResilienceEvents.ResilienceEvents)
    this.#number = this.#isSilent ? context.number : nextOf(this.#events)
    this.waits =
      this.#isSilent && trace === undefined
        ? Waits.none
        : Waits.make(
            (event) => {
              if (event._tag === "CallWaited") trace?.waited(event)
              return this.#publish({ ...event, ...this.#numbers() }) ?? Effect.void
            },
            () => context.now(),
            context.chain.policy.heartbeat
          )
  }

  /** True when nothing listens to events, as in most programs. Then a successful call publishes none. */
  get #isSilent(): boolean {
    return this.#events === ResilienceEvents.nowhere
  }

  /** Changes of model that the consumer has not been told of. Later calls return only newer ones. */
  takeNotices(): ReadonlyArray<Notice> {
    if (this.#notices.length === 0) return none
    const notices = this.#notices
    this.#notices = []
    return notices
  }

  /**
   * The machine has answered `event` with `action` and is in `state`; `opened` is the cooldown that it opened. Call it
   * before the action is carried out, which may read what it has told.
   */
  decided(state: CallState, event: Event, action: Action, opened: Cooldown | undefined, now: number): Told {
    this.#state = state
    if (this.#context.raised !== undefined) this.#note(this.#context.raised.notes, action)
    const cooldown = opened === undefined ? undefined : this.#cooldown(opened, now)
    const refused = this.#refused(event, action)
    if (isSending(action)) return inTurn(cooldown, refused)
    const acted = eventOf(action, this.#numbers())
    const told = inTurn(inTurn(cooldown, refused), acted && this.#publish(acted))
    return action._tag === "GiveUp"
      ? inTurn(told, written(this.#context.chain.memory.log.gaveUp(action.failure)))
      : told
  }

  /** Notes for the agent run that made the call. */
  #note(notes: CallNotes, action: Action): void {
    if (action._tag === "RaiseOutputLimit") notes.raisedTo = action.limit
    else if (action._tag === "Continue" && action.failure === undefined) {
      notes.continued++
      notes.raisedTo = action.raisedTo ?? notes.raisedTo
    } else if (action._tag === "Deliver") {
      const { truncation } = this.#context.chain.policy
      notes.diminished = truncation !== false && isDiminishing(truncation, this.#state.mended.rungs)
    }
  }

  /** The attempt of this action is sent. */
  sent(action: Sending): Told {
    const acted = action.hedges === undefined ? eventOf(action, this.#numbers()) : this.#hedged(action)
    const started = this.#isSilent ? undefined : this.#started(action)
    return acted === undefined ? started : inTurn(this.#publish(acted), started)
  }

  #hedged({ hedges, target }: Sending): ResilienceEvents.NoTime<CallEvent> | undefined {
    const { attempt, call } = this.#numbers()
    return hedges && { _tag: "CallHedged", call, attempt: attempt - 1, target: hedges, by: target }
  }

  #started({ target }: Sending): Told {
    const waited = this.waits.take()
    const failure = wasCut(this.#state) ? undefined : this.#state.made.failure
    return this.#publish({
      _tag: "AttemptStarted",
      ...this.#numbers(),
      target,
      waited,
      after: failure?.reason._tag,
      rule: failure?.evidence.rule,
      status: failure?.evidence.status
    })
  }

  /** The attempt's request was sent again, because its idle connection was closed. */
  repeated(attempt: Attempt): void {
    this.#doneAt(attempt).repeats++
  }

  /** The attempt's answer was read by its meaning. */
  repaired(attempt: Attempt, repair: Repair): void {
    this.#doneAt(attempt).repairs.add(repair)
  }

  #doneAt({ target: { ref } }: Attempt): { repeats: number; readonly repairs: Set<Repair> } {
    const done = (this.#done ??= new Map())
    const known = done.get(ref.id)
    if (known !== undefined) return known
    const none = { repeats: 0, repairs: new Set<Repair>() }
    done.set(ref.id, none)
    return none
  }

  /** The attempt at the target has ended: what its client has done. */
  attemptEnded(target: TargetRef | undefined): Told {
    const done = target === undefined ? undefined : this.#done?.get(target.id)
    if (target === undefined || done === undefined) return undefined
    this.#done?.delete(target.id)
    const of = { ...this.#numbers(), target }
    let told: Told
    for (let i = 0; i < done.repeats; i++)
      told = inTurn(told, this.#publish({ _tag: "StaleConnection", ...of }))
    const repairs = [...done.repairs]
    return repairs.length === 0
      ? told
      : inTurn(told, this.#publish({ _tag: "AnswerRepaired", ...of, repairs }))
  }

  failed(attempt: Attempt, { failure, elapsed }: Failed): Told {
    const { target } = attempt
    const { reason, evidence, retryAfter } = failure
    this.#firstFailure ??= reason._tag
    const told = this.#publish({
      _tag: "AttemptFailed",
      ...this.#numbers(attempt),
      target: target.ref,
      reason: reason._tag,
      rule: evidence.rule,
      status: evidence.status,
      retryAfter: retryAfter === undefined ? undefined : Duration.toMillis(retryAfter),
      message: whatHappened(failure),
      elapsed
    })
    return inTurn(this.attemptEnded(target.ref), told)
  }

  /** The attempt was aborted, because the one at `by` has sent content first. */
  overtaken(attempt: Attempt, by: TargetRef | undefined, { elapsed, isLate }: Overtaken): Told {
    const target = attempt.target.ref
    if (isLate) this.#hedge = by
    const of = { ...this.#numbers(attempt), target }
    const told =
      by === undefined
        ? undefined
        : this.#publish({ _tag: "AttemptOvertaken", ...of, by, late: isLate, elapsed })
    return inTurn(this.attemptEnded(target), told)
  }

  /** The target of the attempt answers: the first part of its answer has come, or all of it. */
  answers({ target: { ref }, startedAt }: Attempt): Told {
    const { chain } = this.#context
    // Orders that rotate models on purpose change the model without news. The answer of a hedge is none either: the next
    // call begins where this one did, unless the late target is out, which that call tells.
    const isNews =
      ref.id !== this.#hedge?.id &&
      startedAt >= chain.memory.servingSince &&
      (chain.order === Order.inOrder || switchesOf(this.#state) > 0)
    return isNews ? this.#announce(ref) : undefined
  }

  succeeded(
    attempt: Attempt,
    usage: Usage | undefined,
    { costUsd, firstToken }: Pick<CallSucceeded, "costUsd" | "firstToken">
  ): Told {
    const { ref } = attempt.target
    const news = this.answers(attempt)
    if (this.#isSilent) return news
    const told = this.#publish({
      _tag: "CallSucceeded",
      ...this.#numbers(),
      target: ref,
      elapsed: this.#context.now() - attempt.startedAt,
      firstToken,
      waited: this.waits.total(),
      recoveredFrom: this.#firstFailure,
      costUsd,
      inputTokens: usage?.inputTokens.total,
      outputTokens: usage?.outputTokens.total
    })
    return inTurn(inTurn(news, this.attemptEnded(ref)), told)
  }

  abandoned(): Told {
    const told = this.#publish({ _tag: "CallAbandoned", ...this.#numbers() })
    return inTurn(this.attemptEnded(flightOf(this.#state)?.target ?? this.#state.made.left), told)
  }

  /** Parts of a kind are not sent to `target` from now on. */
  leftOut(target: TargetRef, part: Leavable, dropped: number): Told {
    if (dropped === 0) return undefined
    const isMedia = part === "media"
    if (isMedia && this.#context.raised !== undefined) this.#context.raised.notes.mediaDropped += dropped
    const line = this.#context.chain.memory.log.leftOut(target, part, dropped)
    return inTurn(written(line), this.#dropped(target, part, dropped))
  }

  /** The requests of an attempt's target omit what its model refused in earlier calls. */
  recalled({ target: { ref } }: Attempt, { media, thinking }: Readonly<Record<Leavable, number>>): Told {
    return inTurn(this.#dropped(ref, "media", media), this.#dropped(ref, "thinking", thinking))
  }

  #dropped(target: TargetRef, part: Leavable, dropped: number): Told {
    const _tag = part === "media" ? "MediaDropped" : "ThinkingDropped"
    return dropped === 0 ? undefined : this.#publish({ _tag, ...this.#numbers(), target, dropped })
  }

  /** How the text of an attempt was joined to what had been shown. */
  joined({ target }: Attempt, { removed, kept, doubt }: Verdict): Told {
    if (doubt === undefined && removed === 0) return undefined
    const of = { ...this.#numbers(), target: target.ref }
    return doubt === undefined
      ? this.#publish({ _tag: "SeamRepaired", ...of, removed })
      : this.#publish({ _tag: "SeamUnsure", ...of, kept, doubt })
  }

  /** One notice for each change of the model that answers, whichever call finds it. */
  #announce(target: TargetRef): Told {
    const { memory, policy, targets } = this.#context.chain
    const { log, serving: from } = memory
    if (!isChange(from, target)) return undefined
    // The reason is what happened at the model that answered before, not at targets between.
    const failure =
      lastFailureOf(this.#state.made, (target) => !isChange(from, target)) ??
      Cool.outOf(MutableRef.get(memory.cooldowns), from, this.#context.now())?.failure
    memory.serving = target
    memory.servingSince = this.#context.now()
    const isBack = !isChange(target, targets[0].ref)
    const change = { from, target, reason: isBack ? undefined : failure?.reason._tag }
    const message = isBack ? policy.notices.returned(change) : policy.notices.switched(change, failure)
    this.#notices.push({ type: "notice", ...change, message })
    const isNamed = target.id === this.#named
    const line = isNamed
      ? undefined
      : isBack
        ? log.returned(from, target)
        : log.switched(from, target, failure)
    return inTurn(
      written(line),
      this.#publish({ _tag: "ModelChanged", ...this.#numbers(), ...change, message })
    )
  }

  /** The log line about a target that only a person can bring back, written when the call leaves it. */
  #refused(event: Event, action: Action): Told {
    const hasFailed = event._tag === "Failed" || event._tag === "KeyAsked"
    const { failure } = this.#state.made
    if (!hasFailed || failure === undefined) return undefined
    if (!("from" in action) && action._tag !== "Wait") return undefined
    const next = "from" in action ? action.target : undefined
    const line = this.#context.chain.memory.log.refused(failure, next)
    // No second line names the same target.
    if (line !== undefined) this.#named = next?.id
    return written(line)
  }

  #cooldown({ scope, target, until, failure }: Cooldown, now: number): Told {
    const length = until === Infinity ? undefined : until - now
    return this.#publish({ _tag: "CooldownOpened", scope, target, reason: failure.reason._tag, length })
  }

  /** `attempt`: the attempt that is meant, where the call may have another one in flight. */
  #numbers(attempt?: Attempt): Numbers {
    return { call: this.#number, attempt: attempt?.answered.attempts ?? attemptsOf(this.#state) }
  }

  #publish(event: ResilienceEvents.NoTime<CallEvent | CooldownOpened>): Told {
    return this.#isSilent
      ? undefined
      : this.#events.publish({ ...event, at: this.#context.clock.currentTimeMillisUnsafe() })
  }
}

const none: ReadonlyArray<never> = []

const written = (line: Warnings.Line | undefined): Told =>
  line === undefined ? undefined : Warnings.write(line)

/** Both in this order, as far as there is something to tell. */
const inTurn = (first: Told, then: Told): Told =>
  first === undefined ? then : then === undefined ? first : Effect.andThen(first, then)
