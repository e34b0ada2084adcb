/**
 * What the calls of a chain know of its targets from one another: cooldowns, streaks of failures, the health of
 * providers, how fast and where they answered.
 *
 * Every change is one synchronous piece, so that no call sees half of it. Bounded by the number of targets, and what
 * is kept of conversations by `OrderFacts`.
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
import { RefusedMedia } from "./RefusedMedia.ts"
import type { CooldownRule } from "../decide/RecoveryPolicy.ts"
import type { Sending } from "../decide/Sending.ts"

export class ChainMemory {
  readonly cooldowns: MutableRef.MutableRef<Cooldowns> = MutableRef.make(Cool.empty)
  /** In monotonic milliseconds. */
  readonly health: MutableRef.MutableRef<ProviderRecords> = MutableRef.make(Health.empty)
  /** `undefined` where the order of the chain does not ask for them. */
  facts: OrderFacts | undefined
  /** Hears of every change of the cooldowns. */
  sync: ChainSync = none
  /** Decides which changes are written to Effect's log. */
  readonly log = new ChainLog()
  /** By target id: failures since its last success. */
  readonly streaks = new Map<string, Streak>()
  /** The ids of targets that refused to stream. They get requests. */
  readonly refusesStreams = new Set<string>()
  /** Images and files that models refused. They get notes. */
  readonly refusedMedia = new RefusedMedia()
  /** Attempts in flight, by the number of their call, which makes one at a time. */
  readonly flying = new Map<number, Flying>()
  /** By target id: when content came from it last, in monotonic milliseconds. */
  readonly #progress = new Map<string, number>()
  #doubts: Doubts = Evidence.none
  /** Target id → time of its last answer, in monotonic milliseconds. Updated at most once a second. */
  readonly answeredAt = new Map<string, number>()
  /** Who answers, as far as users have been told. */
  serving: TargetRef
  /** Since when, in monotonic milliseconds: the success of an attempt that began before is no news. */
  servingSince = -Infinity

  /** `wantsFacts`: the order of the chain asks how fast and where its targets answered. */
  constructor(first: TargetRef, wantsFacts: boolean) {
    this.serving = first
    this.facts = wantsFacts ? Facts.empty : undefined
  }

  /** Opens a cooldown; whether it was not open. */
  open(cooldown: Cooldown, now: number): boolean {
    return this.change((cooldowns) => Cool.open(cooldowns, cooldown, now))
  }

  /** An attempt is about to be made. */
  sending({ target, probe, delay }: Sending, now: number): void {
    if (probe) this.change((cooldowns) => Cool.beginProbe(cooldowns, target, now))
    const streak = this.streaks.get(target.id)
    if (streak !== undefined) this.streaks.set(target.id, { ...streak, delay })
  }

  /** An attempt failed; `probedAt`: it was a probe, that began then. */
  failed(
    target: TargetRef,
    failure: ProviderFailure,
    facts: { probedAt: number | undefined; conversation: string | undefined; now: number }
  ): void {
    const { probedAt, conversation, now } = facts
    const streak = this.streaks.get(target.id)
    this.streaks.set(target.id, { failures: (streak?.failures ?? 0) + 1, delay: streak?.delay })
    if (probedAt !== undefined) this.change((cooldowns) => Cool.failProbe(cooldowns, target, probedAt))
    if (this.facts !== undefined && Health.isItsFault(failure)) {
      this.facts = Facts.failed(this.facts, { target: target.id, conversation, now })
    }
    MutableRef.update(this.health, (records) => Health.failed(records, target.provider, failure))
  }

  /**
   * Whether the failure of an attempt, which is no longer in flight, proves that the scope of the cooldown is out:
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

  /** Content came from a target. */
  progressed(target: TargetRef, now: number): void {
    this.#progress.set(target.id, now)
  }

  /** An attempt that began at `startedAt`, in monotonic milliseconds, was answered. */
  succeeded(target: TargetRef, startedAt: number, answer: Answer): void {
    this.#doubts = Evidence.succeeded(this.#doubts, target, startedAt)
    this.#progress.set(target.id, answer.now)
    if (this.streaks.size > 0) this.streaks.delete(target.id)
    this.log.answered(target.id)
    if (MutableRef.get(this.cooldowns).size > 0) {
      this.change((cooldowns) => Cool.clear(cooldowns, target, startedAt), startedAt)
    }
    if (this.facts !== undefined) this.facts = Facts.answered(this.facts, answer)
    Health.succeed(this.health, target.provider, answer.now)
    const before = this.answeredAt.get(target.id)
    if (before === undefined || answer.now - before >= 1_000) this.answeredAt.set(target.id, answer.now)
  }

  /** A probe that began at `probedAt` was not sent, or nobody waits for it any more. */
  unprobed(target: TargetRef, probedAt: number): void {
    this.change((cooldowns) => Cool.endProbe(cooldowns, target, probedAt))
  }

  /** `startedAt` is when what clears cooldowns began. */
  change(f: (cooldowns: Cooldowns) => Cooldowns, startedAt?: number): boolean {
    const before = MutableRef.get(this.cooldowns)
    const after = f(before)
    if (after === before) return false
    MutableRef.set(this.cooldowns, after)
    this.sync.changed(before, after, startedAt)
    return true
  }
}
