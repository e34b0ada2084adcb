/**
 * State of the targets that all calls of a chain share: a log of each, cooldowns, and facts for the order.
 *
 * Every change is synchronous, so that no call sees half of it. The size is bounded by the number of targets, the calls
 * under way, and by `OrderFacts` for conversations.
 */
import { Iterable, MutableRef, Predicate } from "effect"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Snapshot } from "../decide/CallState.ts"
import type { Cooldown, Cooldowns } from "../decide/Cooldown.ts"
import { ChainLog } from "./ChainLog.ts"
import type { ChainSync } from "./ChainSync.ts"
import { none } from "./ChainSync.ts"
import * as Cool from "../decide/Cooldown.ts"
import * as Evidence from "./Evidence.ts"
import type { Answer, OrderFacts } from "../decide/OrderFacts.ts"
import * as Facts from "../decide/OrderFacts.ts"
import * as Health from "./ProviderHealth.ts"
import { Resets } from "./Resets.ts"
import { RetryQueue } from "./RetryQueue.ts"
import { Omissions } from "./Omissions.ts"
import { tooLate } from "../decide/Hedge.ts"
import type { CooldownRule, Pacing } from "../decide/RecoveryPolicy.ts"
import type { Sending } from "../decide/Sending.ts"
import type { Flight } from "./TargetLog.ts"
import { TargetLog } from "./TargetLog.ts"

/** What a call knows about its failed attempt. */
interface Failed {
  /** The cooldown that the failure may open. */
  readonly rule: CooldownRule | undefined
  /** Start of the attempt if it was a probe. */
  readonly probedAt: number | undefined
  readonly conversation: string | undefined
  readonly now: number
}

export class ChainMemory {
  readonly cooldowns: MutableRef.MutableRef<Cooldowns> = MutableRef.make(Cool.empty)
  /** Logs of the targets that attempts were sent to, by target id. */
  readonly targetLogs = new Map<string, TargetLog>()
  /** Facts for the order of the chain; `undefined` when the order needs none. */
  facts: OrderFacts | undefined
  /** Receives every change of the cooldowns. */
  sync: ChainSync = none
  /** Selects the changes that are written to Effect's log. */
  readonly log = new ChainLog()
  /** Ids of targets that refused to stream. They get plain requests. */
  readonly refusesStreams = new Set<string>()
  /** Images and files that models refused. Requests have notes in their place. */
  readonly omissions = new Omissions()
  /** Calls that wait for the retry budget. */
  readonly retries: RetryQueue
  readonly resets = new Resets(this.targetLogs)
  readonly streaks: Snapshot["streaks"] = factOf(this.targetLogs, (log) => log?.streak)
  /** Time of the last answer by target id, in monotonic milliseconds. */
  readonly answeredAt: Snapshot["answered"] = factOf(this.targetLogs, (log) => log?.answeredAt)
  /** Attempts in flight of all calls. */
  readonly flying = new Set<Flight>()
  /** The target that answers now, as last reported to users. */
  serving: TargetRef
  /**
   * Time of that report in monotonic milliseconds. Later successes of attempts that began before it are not reported.
   */
  servingSince = -Infinity

  readonly pacing: Pacing

  /** `wantsFacts`: true when the order of the chain needs latencies or affinity. */
  constructor(first: TargetRef, wantsFacts: boolean, pacing: Pacing) {
    this.serving = first
    this.pacing = pacing
    this.retries = new RetryQueue(pacing)
    this.facts = wantsFacts ? Facts.empty : undefined
  }

  /** Opens a cooldown. */
  open(cooldown: Cooldown, now: number): void {
    this.change((cooldowns) => Cool.open(cooldowns, cooldown, now))
  }

  /** Records that an attempt is about to be sent. */
  sending({ target, probe, delay }: Sending, now: number): void {
    if (probe) this.change((cooldowns) => Cool.beginProbe(cooldowns, target, now))
    const log = this.targetLogs.get(target.id)
    if (log?.streak !== undefined) log.streak = { ...log.streak, delay }
  }

  /** Records an attempt that was sent. */
  began(flight: Flight): void {
    this.flying.add(flight)
  }

  /** Records the first content of an attempt. */
  progressed(flight: Flight, now: number): void {
    const { target, startedAt } = flight
    flight.firstTokenAt = now
    this.#logOf(target).progressed(now)
    // Content shows that the target is back. The other calls need not wait for the end of a long answer.
    this.change(
      (cooldowns) =>
        Cool.isLookedAt(cooldowns, target) ? Cool.clear(cooldowns, target, startedAt) : cooldowns,
      startedAt
    )
  }

  /** Records an attempt that ended without an outcome. */
  interrupted(flight: Flight): void {
    this.flying.delete(flight)
  }

  /** Records a failed attempt. Returns true when it proves that the scope of the cooldown is out: see `Evidence`. */
  failed(flight: Flight, failure: ProviderFailure, { rule, probedAt, conversation, now }: Failed): boolean {
    const { target, startedAt, call } = flight
    this.flying.delete(flight)
    if (probedAt !== undefined) this.change((cooldowns) => Cool.failProbe(cooldowns, target, probedAt))
    const isItsFault = Health.isItsFault(failure)
    if (this.facts !== undefined && isItsFault) {
      this.facts = Facts.failed(this.facts, { target: target.id, conversation, now })
    }
    const log = this.#logOf(target)
    const fault = isItsFault ? Health.faultOf(this.targetLogs.values(), log, failure, now) : log.fault
    if (rule?.proof !== "several-calls") {
      log.failed(now, { fault, doubts: log.doubts })
      return true
    }
    const { scope } = rule
    const { provenBy } = this.pacing
    const covered = [...this.targetLogs.values()].filter((other) => Cool.covers(scope, target, other.target))
    log.failed(now, { fault, doubts: Evidence.doubted(covered, log, { scope, call, startedAt }, provenBy) })
    return (
      Evidence.isProven(covered, scope, target, this.flying, provenBy) ||
      Evidence.isSilence(failure, log, startedAt, this.flying)
    )
  }

  /**
   * Records an attempt that was aborted because it was late. Returns true when the target is silent: see
   * `Evidence.isSilence`. `probedAt` is the start of the attempt if it was a probe.
   */
  overtaken(flight: Flight, probedAt: number | undefined): boolean {
    const { target, startedAt } = flight
    this.flying.delete(flight)
    if (probedAt !== undefined) this.change((cooldowns) => Cool.failProbe(cooldowns, target, probedAt))
    const log = this.#logOf(target)
    const isSilence = Evidence.isSilence(tooLate(target), log, startedAt, this.flying)
    if (isSilence) log.late++
    return isSilence
  }

  /** Records the answer to an attempt; `inputTokens` is the size of its prompt, where the provider told it. */
  succeeded(flight: Flight, answer: Answer, inputTokens: number | undefined): void {
    const { target, startedAt, firstTokenAt } = flight
    this.flying.delete(flight)
    const log = this.#logOf(target)
    log.succeeded(startedAt, answer.now)
    if (firstTokenAt === undefined) log.times.whole.add(inputTokens, answer.elapsed)
    else log.times.firstToken.add(inputTokens, firstTokenAt - startedAt)
    this.log.answered(target.id)
    this.change((cooldowns) => Cool.clear(cooldowns, target, startedAt), startedAt)
    if (this.facts !== undefined) this.facts = Facts.answered(this.facts, answer)
    this.retries.succeeded(target)
  }

  /** Releases a probe that began at `probedAt` and was not sent, or was abandoned. */
  unprobed(target: TargetRef, probedAt: number): void {
    this.change((cooldowns) => Cool.endProbe(cooldowns, target, probedAt))
  }

  /** Records that an operator brought targets back, and wakes the calls that wait. */
  reset(targets: ReadonlyArray<TargetRef>, now: number): void {
    for (const target of targets) this.#logOf(target).reset(now)
    this.resets.wake(now)
  }

  /** Changes the cooldowns. `startedAt` is the start of the attempt or reset that clears them. */
  change(f: (cooldowns: Cooldowns) => Cooldowns, startedAt?: number): void {
    const before = MutableRef.get(this.cooldowns)
    const after = f(before)
    if (after === before) return
    MutableRef.set(this.cooldowns, after)
    this.sync.changed(before, after, startedAt)
  }

  #logOf(target: TargetRef): TargetLog {
    const known = this.targetLogs.get(target.id)
    if (known !== undefined) return known
    const log = new TargetLog(target)
    this.targetLogs.set(target.id, log)
    return log
  }
}

/** One fact of each target by id, read from its log. */
const factOf = <A>(
  logs: ReadonlyMap<string, TargetLog>,
  read: (log: TargetLog | undefined) => A | undefined
) => ({
  get: (id: string) => read(logs.get(id)),
  has: (id: string) => read(logs.get(id)) !== undefined,
  values: () => Iterable.filter(Iterable.map(logs.values(), read), Predicate.isNotUndefined)
})
