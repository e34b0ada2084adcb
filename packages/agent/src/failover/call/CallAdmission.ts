/**
 * Lets an attempt be sent, or refuses it: a health check, a permit of the circuits, a place within known limits, and a
 * key that is fresh. Holds what was granted, and gives it back.
 *
 * {@link CallAdmission.enter} answers by its value. `true`: go at once, as most calls do; nothing was waited for and no
 * Effect was made. Otherwise an Effect that waits and returns the refusal, an event for `CallState`, or `undefined` to
 * go. What is granted is held here before anything can be interrupted, so that {@link CallAdmission.giveBack} finds it.
 */
import { Duration, Effect, MutableRef } from "effect"
import type { Prompt } from "effect/ai"
import * as ActiveTime from "../../conversation/ActiveTime.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Usage } from "../../conversation/Usage.ts"
import { RateLimit } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { knownLimit, local } from "../../failure/reasons/ProviderFailure.ts"
import type * as CallLimiter from "../../limiter/CallLimiter.ts"
import type * as Permits from "../chain/Permits.ts"
import type { CallState, Event } from "../decide/CallState.ts"
import { flightOf, outputLimitAt } from "../decide/CallState.ts"
import { timeLeft } from "../decide/CallLimits.ts"
import { refusalAt } from "../decide/CallLog.ts"
import * as Openings from "../decide/Openings.ts"
import * as OutputLimit from "../decide/OutputLimit.ts"
import { rowOf } from "../decide/RecoveryPolicy.ts"
import type { Sending } from "../decide/Sending.ts"
import type { CallContext } from "./CallContext.ts"
import * as Conversation from "./Conversation.ts"
import type { Waits } from "./Waits.ts"

type Refusal = Extract<Event, { readonly _tag: "PermitRefused" }>

/** The refusal; `undefined`: the attempt may be sent. */
type Answer = Effect.Effect<Refusal | undefined>

/** An attempt that asks: what it would do, in which state of its call, with what conversation. */
interface Asking {
  readonly action: Sending
  readonly state: CallState
  readonly prompt: Prompt.Prompt
}

export class CallAdmission {
  readonly #context: CallContext
  readonly #waits: Waits
  #permit: Permits.Permit | undefined
  #place: CallLimiter.Permit | undefined

  constructor(context: CallContext, waits: Waits) {
    this.#context = context
    this.#waits = waits
  }

  /** Asks for everything that the attempt needs. */
  enter(asking: Asking): true | Answer {
    const { admission } = this.#context.chain
    if (admission === undefined) return this.#take(asking)
    return admission.check === undefined
      ? this.#admit(asking, admission)
      : this.#checked(asking, admission, admission.check)
  }

  /** The refusal that an attempt would get which is about to wait. */
  foresee(target: TargetRef): Answer {
    const { admission } = this.#context.chain
    return admission === undefined
      ? Effect.undefined
      : Effect.map(admission.foresee(target), (refused) =>
          refused === undefined ? undefined : this.#refusal(refused, false)
        )
  }

  #checked(
    asking: Asking,
    admission: Permits.Admission,
    check: NonNullable<Permits.Admission["check"]>
  ): Answer {
    const { chain, deadline } = this.#context
    const { limits } = chain.policy
    const { target } = asking.action
    const from = this.#context.now()
    const left = timeLeft(chain.policy, asking.state, { deadline, now: from })
    // A policy from a JSON file may have its durations in words.
    const limit = Duration.millis(Math.min(Duration.toMillis(limits.connect), Math.max(0, left)))
    return Effect.flatMap(
      this.#waits.unlessReady({ reason: "health", target }, check(target, limit)),
      (refused) =>
        refused === undefined
          ? waiting(this.#admit(asking, admission))
          : Effect.succeed({ ...this.#refusal(refused), took: this.#context.now() - from })
    )
  }

  /** Asks the circuits. */
  #admit(asking: Asking, admission: Permits.Admission): true | Answer {
    const { target, lastResort } = asking.action
    // A circuit that has just closed lets calls that waited through one by one.
    const waited =
      flightOf(asking.state)?.isReleased === true || refusalAt(asking.state, target) !== undefined
    const permit = waited ? undefined : admission.enterUnsafe(target, this, this.#context.fiber)
    if (permit !== undefined) {
      this.#permit = permit
      return this.#take(asking)
    }
    return Effect.flatMap(
      admission.enter(target, { call: this, lastResort, waited }, (granted) => (this.#permit = granted)),
      (refused) =>
        refused === undefined ? waiting(this.#take(asking)) : Effect.succeed(this.#refusal(refused))
    )
  }

  /** Asks the limiter, and for the key. */
  #take({ action: { target }, state, prompt }: Asking): true | Answer {
    const { chain, deadline, targets } = this.#context
    const { limiter, countsTokens, policy, memory } = chain
    const { info, key } = this.#context.targetOf(target)
    const ready = key?.ready
    const isFree = limiter === undefined || limiter.isFreeUnsafe(target)
    const fresh =
      ready === undefined
        ? Effect.undefined
        : Effect.as(this.#waits.unlessReady({ reason: "key", target, by: key?.name }, ready), undefined)
    if (isFree) return ready === undefined ? true : fresh
    const outputTokens = countsTokens ? (OutputLimit.within(outputLimitAt(state, target), info) ?? 0) : 0
    const tokens = countsTokens ? Conversation.estimate(prompt) + outputTokens : 0
    const now = this.#context.now()
    const cooldowns = MutableRef.get(memory.cooldowns)
    const left = timeLeft(policy, state, { now, deadline })
    const maxWait = Openings.queueTime(policy, left, { now, cooldowns, targets }, target)
    const acquired = this.#waits.inQueue(target, (onWait) =>
      ActiveTime.parked(limiter.acquire({ target, tokens, outputTokens, maxWait, onWait }))
    )
    return Effect.uninterruptibleMask((restore) =>
      // The limiter's wait stays interruptible. The mask keeps a granted place from getting lost.
      Effect.matchEffect(acquired, {
        onFailure: ({ wait }) => {
          this.settle(undefined, true)
          const failure = local(knownLimit, new RateLimit(), target)
          return Effect.succeed(this.#refusal({ wait, failure, byCircuit: false }))
        },
        onSuccess: (place) => {
          this.#place = place
          return restore(fresh)
        }
      })
    )
  }

  #refusal({ wait, failure, byCircuit }: Permits.Refused, waited = true): Refusal {
    return { _tag: "PermitRefused", until: this.#context.now() + wait, failure, waited, byCircuit }
  }

  /** Tells the circuits how the attempt ended: well without a failure. `silent` reports no outcome. */
  settle(failure: ProviderFailure | undefined, silent = false, now?: number): void {
    const permit = this.#permit
    if (permit === undefined) return
    this.#permit = undefined
    const { chain, fiber } = this.#context
    const circuit = failure === undefined ? undefined : rowOf(chain.policy, failure).circuit
    permit.settle(silent ? undefined : { failure, circuit }, fiber, now ?? this.#context.now())
  }

  /** Gives back the place among the calls of the target. `usage` is what the attempt is known to have taken. */
  leave(usage: Usage | undefined): void {
    const place = this.#place
    if (place === undefined) return
    this.#place = undefined
    const used = usage && { inputTokens: usage.inputTokens.total, outputTokens: usage.outputTokens.total }
    const told = used === undefined ? place.release : Effect.andThen(place.settle(used), place.release)
    // Ends at once, unless a store is in the network. The call does not wait for that.
    Effect.runForkWith(this.#context.fiber.context)(told)
  }

  /** Gives back everything: no attempt came of it, or the call was abandoned. */
  giveBack(): void {
    this.settle(undefined, true)
    this.leave(undefined)
  }
}

const waiting = (answer: true | Answer): Answer => (answer === true ? Effect.undefined : answer)
