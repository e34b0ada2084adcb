/**
 * Records the attempts of one call: the one in flight, how it ended, and what it took.
 *
 * Each end is told to those who learn from it: the chain's memory, the retry budget, and `CallAdmission`, which settles
 * circuits and limits. A failed and a cut attempt return the event for `CallState`. All of it is synchronous, so that no
 * other call comes between. Nothing is published here.
 *
 * An attempt ends once: a later end finds nothing in flight, and changes nothing.
 */
import { Effect, Latch } from "effect"
import type { RetryBudget } from "@outlast/resilience"
import { costOf } from "../../conversation/Answered.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Usage } from "../../conversation/Usage.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { hasAnswered } from "../decide/CallLimits.ts"
import type { Tokens, Waiting } from "../chain/RetryQueue.ts"
import type * as TargetLog from "../chain/TargetLog.ts"
import type { Commit, Cut, Failed, Overtaken, Spent } from "../decide/CallState.ts"
import * as OutputLimit from "../decide/OutputLimit.ts"
import { costOfInput } from "../decide/Hedge.ts"
import { rowOf } from "../decide/RecoveryPolicy.ts"
import { charactersPerToken } from "../decide/Bounds.ts"
import type { Attempt } from "./Attempt.ts"
import type { CallAdmission } from "./CallAdmission.ts"
import type { CallContext } from "./CallContext.ts"
import * as Waits from "./Waits.ts"

/** An answer that the output limit cut. */
export interface CutAnswer {
  readonly commit: Commit
  readonly usage: Usage
  /** There is a tool call in it, which must not run. */
  readonly inToolCall: boolean
  /** Length of its text. */
  readonly characters: number
  readonly hasText: boolean
  /** The window cut it, not the output limit. */
  readonly byWindow: boolean
}

/** An attempt in flight, as the chain and its retry budget see it. */
interface Flight extends TargetLog.Flight {
  readonly budget: RetryBudget.Flight | undefined
}

/** Conditions of a call that waits for the retry budget. */
interface Hopes {
  readonly mayGo: Waiting["mayGo"]
  readonly mayHope: () => boolean
}

export class CallOutcome {
  readonly #context: CallContext
  readonly #admission: CallAdmission
  #flight: Flight | undefined
  /** The next attempt's token of the retry budget has been taken. */
  #isPaid = false
  /** The cooling target that the attempt asks, and since when, in monotonic milliseconds. */
  #probe: { readonly target: TargetRef; readonly at: number } | undefined

  constructor(context: CallContext, admission: CallAdmission) {
    this.#context = context
    this.#admission = admission
  }

  // ---------------------------------------------------------------------------
  // Before an attempt
  // ---------------------------------------------------------------------------

  /** True when the retry budget allows an attempt. Calls that wait for the budget come first. */
  get mayRetry(): boolean {
    const { chain, fiber } = this.#context
    return (
      chain.budget === undefined ||
      this.#isPaid ||
      (chain.memory.retries.isEmpty && chain.budget.availableUnsafe(fiber))
    )
  }

  /**
   * Waits until the retry budget allows an attempt, at most until `until`, and as long as the call `mayHope`. `mayGo`: a
   * target, or this one, is ready for the call. Returns the target that has just answered another call, if that is why.
   */
  queued(until: number, { mayGo, mayHope }: Hopes): Effect.Effect<TargetRef | undefined> {
    return Effect.suspend(() => {
      const context = this.#context
      const { answeredAt, retries } = context.chain.memory
      context.chain.budget?.refusedUnsafe(context.fiber)
      const latch = Latch.makeUnsafe()
      let to: TargetRef | undefined
      const waiting: Waiting = {
        call: context.number,
        mayGo,
        go: (target) => {
          to = target
          if (target !== undefined) this.#tokens?.take()
          this.#isPaid = true
          latch.openUnsafe()
        }
      }
      retries.add(waiting)
      const looking = Waits.asleepUntil(until, context, () => {
        retries.release(this.#tokens)
        const now = context.now()
        if (hasAnswered(context.chain.policy, { now, answered: answeredAt }))
          retries.trickle(now, this.#tokens)
        return this.#isPaid || !mayHope()
      })
      return Effect.raceFirst(latch.await, looking).pipe(
        Effect.onExit(() => Effect.sync(() => retries.remove(waiting))),
        Effect.map(() => to)
      )
    })
  }

  /** Tokens for calls that wait. Attempts in flight do not pay for them: in an outage they all fail. */
  get #tokens(): Tokens | undefined {
    const { chain, fiber } = this.#context
    const { budget } = chain
    return (
      budget && {
        isAvailable: () => budget.availableUnsafe(fiber, "settled"),
        take: () => budget.takeUnsafe(fiber)
      }
    )
  }

  /** Takes the token of the next attempt, once. */
  pay(): void {
    if (this.#isPaid) return
    const { chain, fiber } = this.#context
    chain.budget?.withdrawUnsafe(fiber)
    this.#isPaid = true
  }

  /** The next attempt asks whether a cooling target is back. */
  probes(target: TargetRef, now: number): void {
    this.#probe = { target, at: now }
  }

  /** The probe is not sent, or was abandoned: another call may probe. */
  endProbe(): void {
    const probe = this.#probe
    if (probe === undefined) return
    this.#probe = undefined
    this.#context.chain.memory.unprobed(probe.target, probe.at)
  }

  /** Milliseconds until the first token of a streamed answer. Absent for a whole one, and before an answer. */
  firstToken: number | undefined

  // ---------------------------------------------------------------------------
  // The attempt in flight
  // ---------------------------------------------------------------------------

  /** An attempt is sent at `now`; `isFirst`: the first of the call. */
  begin(target: TargetRef, isFirst: boolean, now: number): void {
    const { chain, fiber, number } = this.#context
    const { budget, memory } = chain
    this.#isPaid = false
    if (isFirst) budget?.depositUnsafe(fiber, now)
    this.#flight = {
      target,
      call: number,
      startedAt: now,
      firstTokenAt: undefined,
      isHeard: false,
      budget: budget?.beginUnsafe(fiber, now)
    }
    memory.began(this.#flight)
  }

  /** The headers of the response have come. */
  heard(): void {
    if (this.#flight !== undefined) this.#flight.isHeard = true
  }

  /** True once the headers of the response have come. */
  get isHeard(): boolean {
    return this.#flight?.isHeard === true
  }

  /** The first token, or a further one, came at `now`. */
  progressed(now: number): void {
    const flight = this.#flight
    if (flight === undefined) return
    flight.budget?.progressUnsafe(now)
    if (flight.firstTokenAt === undefined) this.#context.chain.memory.progressed(flight, now)
  }

  // ---------------------------------------------------------------------------
  // How it ended
  // ---------------------------------------------------------------------------

  /** The attempt failed; `usage` is what it is known to have taken. `more`: see {@link Failed}. */
  failed(
    attempt: Attempt,
    failure: ProviderFailure,
    commit: Commit,
    usage: Usage | undefined,
    more: Pick<Failed, "isLate" | "keptText" | "overlap" | "silent"> = {}
  ): Failed {
    const { chain, conversation } = this.#context
    const spent = this.#spent(attempt, usage)
    const flight = this.#landed(false)
    const facts = {
      rule: rowOf(chain.policy, failure).cooldown,
      probedAt: this.#probe?.at,
      conversation,
      now: this.#context.now()
    }
    const isProven = flight !== undefined && chain.memory.failed(flight, failure, facts)
    this.#probe = undefined
    this.#admission.settle(failure)
    return { _tag: "Failed", failure, commit, isProven, ...more, ...spent }
  }

  /** The other attempt of the call has sent content first. `inputTokens` is what the aborted one is taken to have read. */
  overtaken(
    { target, startedAt }: Attempt,
    { isLate, inputTokens }: Pick<Overtaken, "isLate"> & { readonly inputTokens: number }
  ): Overtaken {
    const { chain } = this.#context
    const flight = this.#landed(false)
    this.#admission.giveBack()
    let isProven = false
    if (flight !== undefined && isLate) {
      isProven = chain.memory.overtaken(flight, this.#probe?.at)
      this.#probe = undefined
    } else if (flight !== undefined) chain.memory.interrupted(flight)
    this.endProbe()
    const elapsed = this.#context.now() - startedAt
    const cost = costOfInput(target.info, inputTokens)
    return { _tag: "Overtaken", isLate, isProven, elapsed, cost, tokens: inputTokens }
  }

  /** The output limit cut the answer. */
  cut(attempt: Attempt, { commit, usage, inToolCall, characters, hasText }: CutAnswer): Cut {
    this.#answered(attempt, usage)
    return {
      _tag: "Cut",
      commit,
      inToolCall,
      hasText,
      gain: usage.outputTokens.total ?? Math.ceil(characters / charactersPerToken),
      input: usage.inputTokens.total,
      limit: OutputLimit.within(attempt.outputLimit, attempt.target.info),
      ...this.#spent(attempt, usage)
    }
  }

  /** The call has its answer. `usage` is the answer's own; `undefined` for a cut one, which {@link cut} has counted. */
  succeeded(attempt: Attempt, usage: Usage | undefined): void {
    this.#admission.leave(usage)
    if (usage !== undefined) this.#answered(attempt, usage)
  }

  /** The call was interrupted, or has failed: gives back what it holds. */
  abandoned(): void {
    this.#admission.settle(undefined, true)
    const flight = this.#landed(false)
    if (flight !== undefined) this.#context.chain.memory.interrupted(flight)
    this.#admission.leave(undefined)
    this.endProbe()
  }

  /** The attempt is over: takes it, and ends its share of the retry budget. */
  #landed(isAnswered: boolean, now?: number): Flight | undefined {
    const flight = this.#flight
    this.#flight = undefined
    flight?.budget?.endUnsafe(this.#context.fiber, isAnswered, now)
    return flight
  }

  /** The target of an attempt has shown that it works. */
  #answered({ target, outputLimit }: Attempt, { inputTokens }: Usage): void {
    const { chain, conversation, raised, range, streams } = this.#context
    const now = this.#context.now()
    const { id } = target.ref
    raised?.answered(id, outputLimit, range)
    this.#admission.settle(undefined, false, now)
    const flight = this.#landed(true, now)
    this.#probe = undefined
    if (flight === undefined) return
    const { startedAt, firstTokenAt } = flight
    // A whole answer is compared by the time it takes.
    this.firstToken = streams && firstTokenAt !== undefined ? firstTokenAt - startedAt : undefined
    const answer = {
      target: id,
      conversation,
      elapsed: now - startedAt,
      firstToken: this.firstToken,
      now
    }
    chain.memory.succeeded(flight, answer, inputTokens.total)
  }

  #spent({ target, startedAt }: Attempt, usage: Usage | undefined): Spent {
    this.#admission.leave(usage)
    return {
      elapsed: this.#context.now() - startedAt,
      cost: usage === undefined ? 0 : (costOf(target.info.price, usage) ?? 0),
      tokens: (usage?.inputTokens.total ?? 0) + (usage?.outputTokens.total ?? 0)
    }
  }
}
