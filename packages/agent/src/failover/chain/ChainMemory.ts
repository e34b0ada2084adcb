/**
 * State of the targets that all calls of a chain share: cooldowns, consecutive failures, health of the providers,
 * latencies and affinity.
 *
 * Every change is synchronous, so that no call sees half of it. The size is bounded by the number of targets, and by
 * `OrderFacts` for conversations.
 */
import { MutableRef } from "effect"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Streak } from "../decide/CallState.ts"
import type { Cooldown, Cooldowns } from "../decide/Cooldown.ts"
import { ChainLog } from "./ChainLog.ts"
import type { ChainSync } from "./ChainSync.ts"
import { none } from "./ChainSync.ts"
import * as Cool from "../decide/Cooldown.ts"
import type { Doubts, Flying } from "./Evidence.ts"
import * as Evidence from "./Evidence.ts"
import type { Answer, OrderFacts } from "../decide/OrderFacts.ts"
import * as Facts from "../decide/OrderFacts.ts"
import type { ProviderRecords } from "./ProviderHealth.ts"
import * as Health from "./ProviderHealth.ts"
import { Resets } from "./Resets.ts"
import { RetryQueue } from "./RetryQueue.ts"
import { Omissions } from "./Omissions.ts"
import type { CooldownRule } from "../decide/RecoveryPolicy.ts"
import type { Sending } from "../decide/Sending.ts"

export class ChainMemory {
  readonly cooldowns: MutableRef.MutableRef<Cooldowns> = MutableRef.make(Cool.empty)
  /** Health of the providers. Times are monotonic milliseconds. */
  readonly health: MutableRef.MutableRef<ProviderRecords> = MutableRef.make(Health.empty)
  /** Facts for the order of the chain; `undefined` when the order needs none. */
  facts: OrderFacts | undefined
  /** Receives every change of the cooldowns. */
  sync: ChainSync = none
  /** Selects the changes that are written to Effect's log. */
  readonly log = new ChainLog()
  /** Failures since the last success, by target id. */
  readonly streaks = new Map<string, Streak>()
  /** Ids of targets that refused to stream. They get plain requests. */
  readonly refusesStreams = new Set<string>()
  /** Images and files that models refused. Requests have notes in their place. */
  readonly omissions = new Omissions()
  /** Attempts in flight by call number. A call has at most one. */
  readonly flying = new Map<number, Flying>()
  /** Time of the last content from each target, by target id, in monotonic milliseconds. */
  readonly #progress = new Map<string, number>()
  #doubts: Doubts = Evidence.none
  /** Calls that wait for the retry budget. */
  readonly retries = new RetryQueue()
  /** Target id → time of its last answer, in monotonic milliseconds. Updated at most once a second. */
  readonly answeredAt = new Map<string, number>()
  readonly resets = new Resets()
  /** The target that answers now, as last reported to users. */
  serving: TargetRef
  /**
   * Time of that report in monotonic milliseconds. Later successes of attempts that began before it are not reported.
   */
  servingSince = -Infinity

  /** `wantsFacts`: true when the order of the chain needs latencies or affinity. */
  constructor(first: TargetRef, wantsFacts: boolean) {
    this.serving = first
    this.facts = wantsFacts ? Facts.empty : undefined
  }

  /** Opens a cooldown. */
  open(cooldown: Cooldown, now: number): void {
    this.change((cooldowns) => Cool.open(cooldowns, cooldown, now))
  }

  /** Records that an attempt is about to be sent. */
  sending({ target, probe, delay }: Sending, now: number): void {
    if (probe) this.change((cooldowns) => Cool.beginProbe(cooldowns, target, now))
    const streak = this.streaks.get(target.id)
    if (streak !== undefined) this.streaks.set(target.id, { ...streak, delay })
  }

  /** Records a failed attempt. `probedAt` is the start of the attempt if it was a probe. */
  failed(
    target: TargetRef,
    failure: ProviderFailure,
    facts: { probedAt: number | undefined; conversation: string | undefined; now: number }
  ): void {
    const { probedAt, conversation, now } = facts
    const streak = this.streaks.get(target.id)
    this.streaks.set(target.id, { failures: (streak?.failures ?? 0) + 1, delay: streak?.delay, at: now })
    if (probedAt !== undefined) this.change((cooldowns) => Cool.failProbe(cooldowns, target, probedAt))
    if (this.facts !== undefined && Health.isItsFault(failure)) {
      this.facts = Facts.failed(this.facts, { target: target.id, conversation, now })
    }
    MutableRef.update(this.health, (records) => Health.failed(records, target.provider, failure))
  }

  /**
   * True when the failure of an attempt that is no longer in flight proves that the scope of the cooldown is out: see
   * `Evidence`.
   */
  proves(rule: CooldownRule | undefined, failure: ProviderFailure, attempt: Flying, call: number): boolean {
    if (rule?.proof !== "several-calls") return true
    this.#doubts = Evidence.failed(this.#doubts, rule.scope, attempt, call)
    const { target, startedAt } = attempt
    const hasProgressed = (this.#progress.get(target.id) ?? -Infinity) >= startedAt
    return (
      Evidence.isProven(this.#doubts, rule.scope, target, this.flying.values()) ||
      Evidence.isSilence(failure, target, this.flying.values(), hasProgressed)
    )
  }

  /** Records that content arrived from a target. */
  progressed(target: TargetRef, now: number): void {
    this.#progress.set(target.id, now)
  }

  /** Records the answer to an attempt that began at `startedAt`, in monotonic milliseconds. */
  succeeded(target: TargetRef, startedAt: number, answer: Answer): void {
    this.#doubts = Evidence.succeeded(this.#doubts, target, startedAt)
    this.#progress.set(target.id, answer.now)
    this.retries.succeeded(target)
    if (this.streaks.size > 0) this.streaks.delete(target.id)
    this.log.answered(target.id)
    if (!Cool.isEmpty(MutableRef.get(this.cooldowns))) {
      this.change((cooldowns) => Cool.clear(cooldowns, target, startedAt), startedAt)
    }
    if (this.facts !== undefined) this.facts = Facts.answered(this.facts, answer)
    Health.succeed(this.health, target.provider, answer.now)
    const before = this.answeredAt.get(target.id)
    if (before === undefined || answer.now - before >= 1_000) this.answeredAt.set(target.id, answer.now)
  }

  /** Releases a probe that began at `probedAt` and was not sent, or was abandoned. */
  unprobed(target: TargetRef, probedAt: number): void {
    this.change((cooldowns) => Cool.endProbe(cooldowns, target, probedAt))
  }

  /** Changes the cooldowns. `startedAt` is the start of the attempt or reset that clears them. */
  change(f: (cooldowns: Cooldowns) => Cooldowns, startedAt?: number): boolean {
    const before = MutableRef.get(this.cooldowns)
    const after = f(before)
    if (after === before) return false
    MutableRef.set(this.cooldowns, after)
    this.sync.changed(before, after, startedAt)
    return true
  }
}
