/**
 * Carries out what `CallState` decides for one call: opens cooldowns, sleeps, publishes one event an action.
 *
 * Text and streams share it: {@link CallRun.advance} feeds the machine an event and returns with the next
 * attempt to make, or fails with what the call fails with. The caller makes the attempt and reports back.
 */
import { Clock, Duration, Effect, MutableRef, Random } from "effect"
import type { Context, Fiber, Redacted } from "effect"
import type { Response } from "effect/ai"
import { ResilienceEvents } from "@outlast/resilience"
import type { CallFailure, TargetOut } from "../failure/CallFailure.ts"
import type { ProviderFailure } from "../failure/ProviderFailure.ts"
import type { TargetRef } from "../failure/TargetRef.ts"
import type { Verdict } from "../recovery/Seam.ts"
import type { Answered } from "./Answered.ts"
import { costOf } from "./Answered.ts"
import type { Action, CallState, Commit, Event, TargetView } from "./CallState.ts"
import * as Call from "./CallState.ts"
import type { Cooldown, Cooldowns } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import type { FailoverEvent } from "./FailoverEvent.ts"
import type { ProviderModel } from "./ProviderModel.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"

/** A target that was built. */
export interface Target extends TargetView {
  readonly key: Redacted.Redacted | undefined
  readonly model: ProviderModel
}

/** What the calls of one layer share. */
export interface Chain {
  readonly targets: readonly [Target, ...Array<Target>]
  readonly dead: ReadonlyArray<TargetOut>
  readonly policy: RecoveryPolicy<string>
  readonly cooldowns: MutableRef.MutableRef<Cooldowns>
  /** Calls begun so far. */
  readonly calls: MutableRef.MutableRef<number>
}

/** One attempt to make. */
export interface Attempt {
  readonly target: Target
  readonly answered: Omit<Answered, "requested" | "costUsd">
  /** Monotonic milliseconds. */
  readonly startedAt: number
}

type NoTime<E> = E extends FailoverEvent ? Omit<E, "at"> : never

export class CallRun {
  readonly chain: Chain
  readonly #call: number
  readonly #clock: Clock.Clock
  readonly #random: Context.Service.Shape<typeof Random.Random>
  readonly #events: ResilienceEvents.Service
  #state: CallState = Call.initial
  #ended = false

  private constructor(chain: Chain, fiber: Fiber.Fiber<unknown, unknown>) {
    this.chain = chain
    this.#call = MutableRef.incrementAndGet(chain.calls)
    this.#clock = fiber.getRef(Clock.Clock)
    this.#random = fiber.getRef(Random.Random)
    this.#events = fiber.getRef(ResilienceEvents.ResilienceEvents)
  }

  static readonly make = (chain: Chain): Effect.Effect<CallRun> =>
    Effect.withFiber((fiber) => Effect.succeed(new CallRun(chain, fiber)))

  /** The id of the target that stands first. */
  get requested(): string {
    return this.chain.targets[0].ref.id
  }

  /** Monotonic milliseconds. */
  now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1_000_000
  }

  /** Feeds the machine and carries out its actions up to the next attempt. */
  advance(event: Event): Effect.Effect<Attempt, CallFailure> {
    return Effect.suspend(() => {
      const now = this.now()
      const { action, opened } = this.#decide(event, now)
      const told = this.#publish(this.#eventOf(action, now))
      return opened === undefined
        ? Effect.andThen(told, this.#carryOut(action))
        : this.#publishCooldown(opened, now).pipe(
            Effect.andThen(told),
            Effect.andThen(this.#carryOut(action))
          )
    })
  }

  #carryOut(action: Action): Effect.Effect<Attempt, CallFailure> {
    switch (action._tag) {
      case "GiveUp":
        this.#ended = true
        return Effect.fail(action.failure)
      case "Wait":
        return Effect.suspend(() =>
          Effect.sleep(Duration.millis(Math.max(0, action.until - this.now())))
        ).pipe(Effect.andThen(this.advance({ _tag: "Woke" })))
      default:
        return action.delay === 0
          ? Effect.sync(() => this.#attemptAt(action.target))
          : Effect.flatMap(Effect.sleep(Duration.millis(action.delay)), () => this.#afterDelay(action.target))
    }
  }

  /** The attempt, unless another call has found meanwhile that its target is out. */
  #afterDelay(target: TargetRef): Effect.Effect<Attempt, CallFailure> {
    const out = Cool.outOf(MutableRef.get(this.chain.cooldowns), target, this.now())
    return out === undefined
      ? Effect.sync(() => this.#attemptAt(target))
      : this.advance({ _tag: "TakenAway" })
  }

  /** Reports a failed attempt and advances; `usage` is what it is known to have taken. */
  failed(
    attempt: Attempt,
    failure: ProviderFailure,
    commit: Commit,
    usage?: Response.FinishPartEncoded["usage"]
  ): Effect.Effect<Attempt, CallFailure> {
    const cost = usage === undefined ? 0 : (costOf(attempt.target.model.info.price, usage) ?? 0)
    const elapsed = this.now() - attempt.startedAt
    const { reason, evidence, retryAfter } = failure
    const told = this.#publish({
      _tag: "AttemptFailed",
      ...this.#numbers(),
      target: attempt.target.ref,
      reason: reason._tag,
      rule: evidence.rule,
      status: evidence.status,
      retryAfter: retryAfter === undefined ? undefined : Duration.toMillis(retryAfter),
      elapsed
    })
    return Effect.andThen(told, this.advance({ _tag: "Failed", failure, commit, elapsed, cost }))
  }

  /** Reports how the text of an attempt was joined to what had been shown, if there is something to say. */
  joined({ target }: Attempt, { removed, kept, doubt }: Verdict): Effect.Effect<void> {
    const of = { ...this.#numbers(), target: target.ref }
    if (doubt !== undefined) return this.#publish({ _tag: "SeamUnsure", ...of, kept, doubt })
    return removed === 0 ? Effect.void : this.#publish({ _tag: "SeamRepaired", ...of, removed })
  }

  /**
   * Reports the answer: clears what covers its target. Returns what the call has cost in US dollars, its failed
   * attempts included as far as they are known; `undefined` where the cost of the answer is not.
   */
  succeeded(attempt: Attempt, finish: Response.FinishPartEncoded): Effect.Effect<number | undefined> {
    return Effect.suspend(() => {
      this.#ended = true
      const { ref, model } = attempt.target
      const own = costOf(model.info.price, finish.usage)
      const costUsd = own === undefined ? undefined : own + this.#state.cost
      MutableRef.update(this.chain.cooldowns, (cooldowns) => Cool.clear(cooldowns, ref, attempt.startedAt))
      const elapsed = this.now() - attempt.startedAt
      return Effect.as(
        this.#publish({ _tag: "CallSucceeded", ...this.#numbers(), target: ref, elapsed, costUsd }),
        costUsd
      )
    })
  }

  /** Reports that nobody wants the answer any more, if the call has not ended. */
  readonly abandoned: Effect.Effect<void> = Effect.suspend(() =>
    this.#ended ? Effect.void : this.#publish({ _tag: "CallAbandoned", ...this.#numbers() })
  )

  #attemptAt(ref: TargetRef): Attempt {
    // The machine chooses among the targets of the snapshot, which are these.
    const target = this.chain.targets.find((known) => known.ref.id === ref.id) ?? this.chain.targets[0]
    const switched = this.#state.switches > 0 ? this.#state.lastFailure?.reason._tag : undefined
    const answered = {
      target: ref.id,
      provider: ref.provider,
      model: ref.model,
      attempts: this.#state.attempts,
      ...(switched === undefined ? {} : { switched })
    }
    return { target, answered, startedAt: this.now() }
  }

  /**
   * One step of the machine on the chain as it is now. Synchronous, so that no other call comes between.
   * `opened` is the cooldown that it opened.
   */
  #decide(event: Event, now: number): { readonly action: Action; readonly opened: Cooldown | undefined } {
    const { policy, targets, dead } = this.chain
    const cooldowns = MutableRef.get(this.chain.cooldowns)
    const draw = this.#random.nextDoubleUnsafe()
    const [action, state] = Call.step(policy, this.#state, event, { now, targets, dead, cooldowns }, draw)
    this.#state = state
    if (action.cooldown === undefined) return { action, opened: undefined }
    const changed = Cool.open(cooldowns, action.cooldown, now)
    MutableRef.set(this.chain.cooldowns, changed)
    return { action, opened: changed === cooldowns ? undefined : action.cooldown }
  }

  #eventOf(action: Action, now: number): NoTime<FailoverEvent> {
    const numbers = this.#numbers()
    switch (action._tag) {
      case "Attempt":
        return { _tag: "AttemptStarted", ...numbers, target: action.target, delay: action.delay }
      case "Switch":
      case "Continue": {
        const { from, target, delay } = action
        const reason = action.failure.reason._tag
        return action._tag === "Switch"
          ? { _tag: "TargetSwitched", ...numbers, from, target, reason }
          : { _tag: "AnswerContinued", ...numbers, from, target, delay, reason }
      }
      case "Wait":
        return { _tag: "CallWaiting", ...numbers, delay: action.until - now }
      case "GiveUp":
        return { _tag: "CallGaveUp", ...numbers, message: action.failure.message }
    }
  }

  #publishCooldown({ scope, target, until, failure }: Cooldown, now: number): Effect.Effect<void> {
    const length = until === Infinity ? undefined : until - now
    return this.#publish({ _tag: "CooldownOpened", scope, target, reason: failure.reason._tag, length })
  }

  #numbers(): { readonly call: number; readonly attempt: number } {
    return { call: this.#call, attempt: this.#state.attempts }
  }

  #publish(event: NoTime<FailoverEvent>): Effect.Effect<void> {
    return this.#events.publish({ ...event, at: this.#clock.currentTimeMillisUnsafe() })
  }
}
