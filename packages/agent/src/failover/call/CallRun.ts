/**
 * Carries out what `CallState` decides for one call: opens cooldowns, asks circuits, waits, and publishes what happens.
 *
 * Text and streams share it: {@link CallRun.advance} feeds the machine an event and returns with the next attempt to
 * make, with `undefined` when the answer that was cut is to be delivered as it is, or fails with what the call fails
 * with. The caller makes the attempt and reports back.
 *
 * Longer than 600 lines, because admission, the attempt and its outcome share the private state of one call.
 */
import { Cause, Clock, Duration, Effect, MutableRef, Random } from "effect"
import type { Context, Fiber } from "effect"
import type { LanguageModel, Response } from "effect/ai"
import type { RetryBudget } from "@outlast/resilience"
import { Deadline, ResilienceEvents, Warnings } from "@outlast/resilience"
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import { RateLimit } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { knownLimit, local } from "../../failure/reasons/ProviderFailure.ts"
import * as ActiveTime from "../../conversation/ActiveTime.ts"
import type * as CallLimiter from "../../limiter/CallLimiter.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Verdict } from "../../recovery/Seam.ts"
import type { Numbers } from "./ActionEvent.ts"
import { AnswerEnd } from "../decide/AnswerEnd.ts"
import { eventOf } from "./ActionEvent.ts"
import { costOf } from "../../conversation/Answered.ts"
import type { Attempt } from "./Attempt.ts"
import { attemptOf } from "./Attempt.ts"
import type { AttemptRequest } from "./AttemptRequest.ts"
import { requestOf } from "./AttemptRequest.ts"
import type { Action, CallState, Commit, Cut, Event, Spent } from "../decide/CallState.ts"
import * as Call from "../decide/CallState.ts"
import type { Chain, Target } from "../chain/Chain.ts"
import * as Choice from "../decide/Choice.ts"
import * as Conversation from "./Conversation.ts"
import * as ConversationKey from "./ConversationKey.ts"
import type { Cooldown, Cooldowns } from "../decide/Cooldown.ts"
import * as Cool from "../decide/Cooldown.ts"
import type { CallEvent } from "./CallEvent.ts"
import type { CooldownOpened } from "../chain/TargetEvent.ts"
import type { Notice } from "../decide/Notice.ts"
import { isChange } from "../decide/Notice.ts"
import * as Order from "../decide/Order.ts"
import * as Facts from "../decide/OrderFacts.ts"
import * as OutputLimit from "../decide/OutputLimit.ts"
import type * as Permits from "../chain/Permits.ts"
import type { MidStream } from "../decide/RecoveryPolicy.ts"
import { rowOf } from "../decide/RecoveryPolicy.ts"
import type { Sending } from "../decide/Sending.ts"
import { isSending, staysAt } from "../decide/Sending.ts"
import type { Surface } from "./Surface.ts"
import { timed } from "../target/Timed.ts"
import * as Waits from "./Waits.ts"

type Usage = Response.FinishPartEncoded["usage"]

export class CallRun {
  readonly chain: Chain
  /** Changes of model that the consumer has not been told of yet. */
  notices: Array<Notice> = []
  /** When the current attempt sent its first token, in monotonic milliseconds; only streams tell. */
  firstTokenAt: number | undefined
  readonly #call: number
  /** The program reads a stream. */
  readonly #streams: boolean
  readonly #fiber: Fiber.Fiber<unknown, unknown>
  readonly #clock: Clock.Clock
  readonly #random: Context.Service.Shape<typeof Random.Random>
  readonly #events: ResilienceEvents.Service
  readonly #deadline: number
  readonly #started: Started
  /** As the program and the policy say. */
  readonly #range: OutputLimit.Range
  readonly #raised: OutputLimit.Raised | undefined
  #options: LanguageModel.ProviderOptions
  /** The conversation ends with results of tools: a model may have nothing to add. */
  readonly #endsInResults: boolean
  /** What is sent is the conversation that the program has, and nothing else. */
  #isAsHad: boolean
  #state: CallState = Call.initial
  /** Of the chain, when the machine decided last. */
  #cooldowns: Cooldowns = Cool.empty
  #permit: Permits.Permit | undefined
  /** Of the key that the current attempt was sent with. */
  #keyVersion = 0
  /** What the limits of the target are asked with, and who holds its place. */
  #place: CallLimiter.Permit | undefined
  /** The targets as this call prefers them. */
  readonly #targets: ReadonlyArray<Target>
  readonly #conversation: string | undefined
  /** Since when the attempt asks whether a cooling target is back, in monotonic milliseconds. */
  #probedAt: number | undefined
  /** The current attempt, from when it is sent until it ends. */
  #flying: Departed | undefined
  /** The next attempt's token of the retry budget has been taken. */
  #paid = false
  #ended = false
  /** The target that this call's line about a refused key has named. */
  #named: string | undefined
  readonly #waits: Waits.Waits
  /** The reason of the first failure. */
  #firstFailure: ReasonTag | undefined

  constructor(
    chain: Chain,
    options: LanguageModel.ProviderOptions,
    surface: Surface,
    streams: boolean,
    fiber: Fiber.Fiber<unknown, unknown>
  ) {
    this.chain = chain
    this.#call = MutableRef.incrementAndGet(chain.calls)
    this.#streams = streams
    this.#fiber = fiber
    this.#clock = fiber.getRef(Clock.Clock)
    this.#random = fiber.getRef(Random.Random)
    this.#events = fiber.getRef(ResilienceEvents.ResilienceEvents)
    this.#waits = this.#isSilent
      ? Waits.none
      : Waits.make(
          (event) => this.#publish({ ...event, ...this.#numbers() }),
          () => this.now()
        )
    const deadline = fiber.getRef(Deadline.Deadline)
    this.#deadline = deadline === undefined ? Infinity : Number(deadline) / 1_000_000
    this.#options = options
    const { truncation } = chain.policy
    this.#endsInResults = options.prompt.content.at(-1)?.role === "tool"
    // Behind a message of the assistant most targets get one of the user.
    this.#isAsHad = options.prompt.content.at(-1)?.role !== "assistant"
    const limit = fiber.getRef(OutputLimit.OutputLimit)
    this.#range = OutputLimit.range(limit, truncation === false ? undefined : truncation.start)
    this.#raised = fiber.getRef(OutputLimit.RunLimit)
    this.#started = {
      _tag: "Started",
      rewindable: surface.rewindable,
      midStream: surface.midStream,
      structured: options.responseFormat.type === "json",
      outputLimit: this.#raised?.range(this.#range) ?? this.#range
    }
    const { order, memory, targets } = chain
    this.#conversation = Order.wantsConversation(order) ? ConversationKey.of(options.prompt) : undefined
    this.#targets =
      order === Order.inOrder
        ? targets
        : Order.arrange(order, targets, memory.facts ?? Facts.empty, {
            number: this.#call,
            draw: this.#random.nextDoubleUnsafe(),
            now: this.now(),
            streams,
            conversation: this.#conversation
          })
  }

  static readonly make = (
    chain: Chain,
    options: LanguageModel.ProviderOptions,
    surface: Surface,
    streams: boolean
  ): Effect.Effect<CallRun> =>
    Effect.withFiber((fiber) => Effect.succeed(new CallRun(chain, options, surface, streams, fiber)))

  /** The id of the target that stands first. */
  get requested(): string {
    return this.chain.targets[0].ref.id
  }

  /** What may become of text that was seen: see `CallState.midStreamAtMost`. */
  get midStream(): MidStream {
    return Call.midStreamAtMost(this.chain.policy, this.#started)
  }

  /** Monotonic milliseconds. */
  now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1_000_000
  }

  /** What the answer of an attempt is judged by. */
  judge({ continues }: Attempt): AnswerEnd {
    return new AnswerEnd(this.#endsInResults || continues !== undefined)
  }

  /** The first attempt. Reading it begins: it is to be read where somebody sees to {@link abandoned}. */
  get begin(): Effect.Effect<Attempt, CallFailure> {
    // The machine delivers only answers that were cut: there is none yet.
    return this.#advance(this.#started) as Effect.Effect<Attempt, CallFailure>
  }

  /** What is sent in an attempt; `partial` is the answer so far. */
  request({ target, continues, nudge, outputLimit }: Attempt, partial: string): AttemptRequest {
    const { limiter, policy } = this.chain
    const plain = requestOf(this.#options, target, {
      outputLimit,
      wording: policy.wording,
      refuses: this.chain.memory.refusedMedia.test(target.ref),
      limits: policy.limits,
      heard: (headers) => {
        if (this.#flying !== undefined) this.#flying.isHeard = true
        limiter?.learnUnsafe(target.ref, headers)
      }
    })
    // There is nothing in an answer of blanks to continue.
    const blank = continues === "interrupted" && partial.trim() === ""
    if (nudge === undefined || blank) return plain
    const prompt = Conversation.continued(plain.prompt, continues === undefined ? "" : partial, nudge)
    return { ...plain, prompt }
  }

  /** Feeds the machine and carries out its actions up to the next attempt. */
  advance(event: Event): Effect.Effect<Attempt | undefined, CallFailure> {
    return Effect.suspend(() => this.#advance(event))
  }

  #advance(event: Event): Effect.Effect<Attempt | undefined, CallFailure> {
    const now = this.now()
    const { action, opened } = this.#decide(event, now)
    // The usual beginning: nothing to log or to publish yet.
    if (event === this.#started && opened === undefined && isSending(action)) return this.#carryOut(action)
    // First: carrying out the action reads `#named`, so that no second line names the same target.
    const line = this.#refused(event, action)
    // `#begin` publishes the event of an attempt when the attempt is sent.
    const told = isSending(action) ? undefined : eventOf(action, this.#numbers())
    const carriedOut = this.#carryOut(action)
    const next = told === undefined ? carriedOut : Effect.andThen(this.#publish(told), carriedOut)
    const all = warned(line, next)
    return opened === undefined ? all : Effect.andThen(this.#publishCooldown(opened, now), all)
  }

  /** True when nothing listens to events, as in most programs. Then a successful call publishes none. */
  get #isSilent(): boolean {
    return this.#events === ResilienceEvents.nowhere
  }

  #carryOut(action: Action): Effect.Effect<Attempt | undefined, CallFailure> {
    switch (action._tag) {
      case "GiveUp":
        this.#ended = true
        return warned(this.chain.memory.log.gaveUp(action.failure), Effect.fail(action.failure))
      case "Deliver":
        return Effect.undefined
      case "Wait":
        return Effect.suspend(() => {
          const delay = Math.max(0, action.until - this.now())
          // A circuit lets calls that wait for it through one by one.
          const sleep = action.soonest.refused ? asleep(delay) : this.#untilBack(action.until, this.now())
          return this.#waits.during(Waits.untilBack(action.soonest, delay), sleep)
        }).pipe(
          Effect.andThen(
            Effect.suspend(() =>
              this.advance({ _tag: "Woke", early: Math.max(0, action.until - this.now()) })
            )
          )
        )
      case "Compact":
        return this.#compact(action.failure)
      case "DropMedia":
        return this.#dropMedia(action.target)
      case "RenewKey":
        return Effect.flatMap(this.#renewed(action), (renewed) => this.advance({ _tag: "KeyAsked", renewed }))
      default:
        return action.delay === 0
          ? this.#enter(action)
          : Effect.flatMap(this.#foreseen(action.target), (refused) =>
              refused === undefined ? this.#delayed(action) : this.advance(refused)
            )
    }
  }

  /** Sleeps until a cooldown ends, or until the chain is found to answer again before that. */
  #untilBack(until: number, since: number): Effect.Effect<void> {
    return Effect.suspend(() => {
      const { memory, policy } = this.chain
      const left = until - this.now()
      if (left <= 0) return Effect.void
      // With jitter, so that calls that wait for the same target do not go on together.
      // Whole milliseconds: a clock of a test that is moved in steps never reaches the end of a fraction.
      const pause = Math.ceil(Math.min(left, wakeEvery * (0.5 + this.#random.nextDoubleUnsafe())))
      return Effect.flatMap(asleep(pause), () => {
        const snapshot = this.#snapshot(this.now(), false)
        return Call.mayWake(
          policy,
          this.#state,
          snapshot,
          ({ id }) => (memory.answeredAt.get(id) ?? 0) > since
        )
          ? Effect.void
          : this.#untilBack(until, since)
      })
    })
  }

  #dropMedia(target: TargetRef): Effect.Effect<Attempt | undefined, CallFailure> {
    const { log, refusedMedia } = this.chain.memory
    const dropped = refusedMedia.add(target, this.#options.prompt)
    const next = this.advance({ _tag: "MediaDropped", dropped })
    if (dropped === 0) return next
    const told = this.#publish({ _tag: "MediaDropped", ...this.#numbers(), target, dropped })
    return warned(log.droppedMedia(target, dropped), Effect.andThen(told, next))
  }

  #renewed({ target }: { readonly target: TargetRef }): Effect.Effect<boolean> {
    const { key } = this.#targetOf(target)
    if (key?.renew === undefined) return Effect.succeed(false)
    return this.#waits.unlessReady({ reason: "key", target, by: key.name }, key.renew(this.#keyVersion))
  }

  /** The attempt after its delay, unless another call has found meanwhile that its target is out. */
  #delayed(action: Sending): Effect.Effect<Attempt | undefined, CallFailure> {
    const { target, delay, probe } = action
    const sleep = ActiveTime.parked(Effect.sleep(Duration.millis(delay)))
    return Effect.flatMap(this.#waits.during({ reason: "backoff", target, delay }, sleep), () => {
      const out = Cool.outOf(MutableRef.get(this.chain.memory.cooldowns), target, this.now())
      return out === undefined || probe ? this.#enter(action) : this.advance({ _tag: "TakenAway" })
    })
  }

  /** The attempt, if the circuits of its target let it through. */
  #enter(action: Sending): Effect.Effect<Attempt | undefined, CallFailure> {
    const { admission } = this.chain
    if (admission === undefined || this.#permit !== undefined) return this.#take(action)
    const { check } = admission
    if (check === undefined) return this.#admit(action, admission)
    const { target } = action
    const { policy } = this.chain
    const left = Math.min(
      Duration.toMillis(policy.deadline) - this.#state.ledger.spent,
      this.#deadline - this.now()
    )
    // A policy from a JSON file may have its durations in words.
    const limit = Duration.millis(Math.min(Duration.toMillis(policy.limits.connect), Math.max(0, left)))
    const from = this.now()
    return Effect.flatMap(
      this.#waits.unlessReady({ reason: "health", target }, check(target, limit)),
      (refused) =>
        refused === undefined
          ? this.#admit(action, admission)
          : this.advance({ ...this.#refusal(refused), took: this.now() - from })
    )
  }

  #admit(action: Sending, admission: Permits.Admission): Effect.Effect<Attempt | undefined, CallFailure> {
    const { target, lastResort } = action
    const waited = this.#state.refused.has(target.id)
    const permit = waited ? undefined : admission.enterUnsafe(target, this, this.#fiber)
    if (permit !== undefined) {
      this.#permit = permit
      return this.#take(action)
    }
    return Effect.flatMap(
      admission.enter(target, { call: this, lastResort, waited }, (granted) => (this.#permit = granted)),
      (refused) => (refused === undefined ? this.#take(action) : this.advance(this.#refusal(refused)))
    )
  }

  /** The attempt, if the known limits of its target allow it soon, and with a key that is fresh. */
  #take(action: Sending): Effect.Effect<Attempt | undefined, CallFailure> {
    const { limiter, countsTokens } = this.chain
    const { target } = action
    const { info, key } = this.#targetOf(target)
    const ready = key?.ready
    const isFree = limiter === undefined || limiter.isFreeUnsafe(target)
    if (isFree && ready === undefined) return this.#begin(action)
    const made = Effect.suspend(() => this.#begin(action))
    const attempt =
      ready === undefined
        ? made
        : Effect.andThen(this.#waits.unlessReady({ reason: "key", target, by: key?.name }, ready), made)
    if (isFree) return attempt
    const outputTokens = countsTokens ? (OutputLimit.within(this.#state.outputLimit, info) ?? 0) : 0
    const tokens = countsTokens ? Conversation.estimate(this.#options.prompt) + outputTokens : 0
    const now = this.now()
    const { policy, memory } = this.chain
    const cooldowns = MutableRef.get(memory.cooldowns)
    const view = { now, cooldowns, targets: this.#targets, deadline: this.#deadline }
    const maxWait = Choice.queueTime(policy, this.#state, view, target)
    const acquired = this.#waits.inQueue(target, (onWait) =>
      ActiveTime.parked(limiter.acquire({ target, tokens, outputTokens, maxWait, onWait }))
    )
    return Effect.uninterruptibleMask((restore) =>
      // Its wait can be interrupted all the same; what it has granted cannot get lost here.
      Effect.matchEffect(acquired, {
        onFailure: ({ wait }) => {
          this.#settle(undefined, true)
          const failure = local(knownLimit, new RateLimit(), target)
          return restore(this.advance(this.#refusal({ wait, failure, byCircuit: false })))
        },
        onSuccess: (place) => {
          this.#place = place
          return restore(attempt)
        }
      })
    )
  }

  /** Gives back the place among the calls of the target. */
  #leave(usage: Usage | undefined): void {
    const place = this.#place
    if (place === undefined) return
    this.#place = undefined
    const used = usage && { inputTokens: usage.inputTokens.total, outputTokens: usage.outputTokens.total }
    const told = used === undefined ? place.release : Effect.andThen(place.settle(used), place.release)
    // Ends at once but for a store in the network, which nobody waits for.
    Effect.runForkWith(this.#fiber.context)(told)
  }

  /** Whether the circuits will not let an attempt through that is about to wait. */
  #foreseen(target: TargetRef): Effect.Effect<Event | undefined> {
    const { admission } = this.chain
    return admission === undefined || this.#permit !== undefined
      ? Effect.undefined
      : Effect.map(admission.foresee(target), (refused) =>
          refused === undefined ? undefined : this.#refusal(refused, false)
        )
  }

  #refusal({ wait, failure, byCircuit }: Permits.Refused, waited = true) {
    this.#endProbe()
    return { _tag: "PermitRefused", until: this.now() + wait, failure, waited, byCircuit } as const
  }

  #compact(failure: ProviderFailure): Effect.Effect<Attempt | undefined, CallFailure> {
    const { compact } = this.chain
    const before = this.#options.prompt
    if (compact === undefined) return this.advance({ _tag: "CompactionFailed" })
    const late = () => Effect.fail("too slow")
    return Effect.matchCauseEffect(timed(compact(before, failure), this.chain.policy.limits.total, late), {
      onFailure: (cause) =>
        Cause.hasInterrupts(cause) ? Effect.interrupt : this.advance({ _tag: "CompactionFailed" }),
      onSuccess: (after) => {
        this.#options = { ...this.#options, prompt: after }
        this.#isAsHad &&= after === before
        const freed = Conversation.estimate(before) - Conversation.estimate(after)
        return this.advance({ _tag: "Compacted", freed })
      }
    })
  }

  /** Reports a failed attempt and advances; `usage` is what it is known to have taken. */
  failed(
    attempt: Attempt,
    failure: ProviderFailure,
    commit: Commit,
    usage?: Usage
  ): Effect.Effect<Attempt | undefined, CallFailure> {
    return Effect.suspend(() => {
      const { reason, evidence, retryAfter } = failure
      const { ref } = attempt.target
      this.#firstFailure ??= reason._tag
      const spent = this.#spent(attempt, usage)
      const facts = { probedAt: this.#probedAt, conversation: this.#conversation, now: this.now() }
      this.chain.memory.failed(ref, failure, facts)
      const isProven = this.#landed(failure)
      this.#probedAt = undefined
      if (this.chain.policy.breaker === "inside") this.#settle(failure)
      const told = this.#publish({
        _tag: "AttemptFailed",
        ...this.#numbers(),
        target: ref,
        reason: reason._tag,
        rule: evidence.rule,
        status: evidence.status,
        retryAfter: retryAfter === undefined ? undefined : Duration.toMillis(retryAfter),
        elapsed: spent.elapsed
      })
      return Effect.andThen(told, this.advance({ _tag: "Failed", failure, commit, isProven, ...spent }))
    })
  }

  /**
   * Reports an answer that the output limit cut, and advances. With `undefined` it is to be delivered: report it with
   * {@link succeeded} then.
   */
  cut(
    attempt: Attempt,
    answer: {
      readonly commit: Commit
      readonly usage: Usage
      readonly inToolCall: boolean
      readonly characters: number
      readonly hasText: boolean
    }
  ): Effect.Effect<Attempt | undefined, CallFailure> {
    return Effect.suspend(() => {
      const { commit, usage, inToolCall, characters, hasText } = answer
      this.#answered(attempt)
      const event: Cut = {
        _tag: "Cut",
        commit,
        inToolCall,
        hasText,
        gain: usage.outputTokens.total ?? Math.ceil(characters / Conversation.charactersPerToken),
        input: usage.inputTokens.total,
        limit: OutputLimit.within(attempt.outputLimit, attempt.target.info),
        ...this.#spent(attempt, usage)
      }
      return this.advance(event)
    })
  }

  /** The first token of the current attempt, or a further one, came at `now`. */
  progressed(now: number): void {
    const flying = this.#flying
    if (flying === undefined) return
    flying.budget?.progressUnsafe(now)
    if (flying.hasProgress) return
    flying.hasProgress = true
    this.firstTokenAt = now
    this.chain.memory.progressed(flying.target, now)
  }

  /** Whether the headers of the current attempt's response have come. */
  get isHeard(): boolean {
    return this.#flying?.isHeard === true
  }

  /** The current attempt failed, or was given up without a failure. Whether that proves that its scope is out. */
  #landed(failure: ProviderFailure | undefined): boolean {
    const flying = this.#flying
    if (flying === undefined) return false
    this.#flying = undefined
    const { memory, policy } = this.chain
    memory.flying.delete(this.#call)
    flying.budget?.endUnsafe(this.#fiber, false)
    return (
      failure !== undefined && memory.proves(rowOf(policy, failure).cooldown, failure, flying, this.#call)
    )
  }

  /** The target of an attempt has shown that it works. */
  #answered({ target, startedAt, outputLimit }: Attempt): void {
    const now = this.now()
    this.#raised?.answered(target.ref.id, outputLimit, this.#range)
    this.#settle(undefined, false, now)
    const { memory } = this.chain
    memory.flying.delete(this.#call)
    this.#flying?.budget?.endUnsafe(this.#fiber, true, now)
    this.#flying = undefined
    memory.succeeded(target.ref, startedAt, {
      target: target.ref.id,
      conversation: this.#conversation,
      elapsed: now - startedAt,
      // Whoever waits for a whole answer compares targets by whole answers.
      firstToken:
        !this.#streams || this.firstTokenAt === undefined ? undefined : this.firstTokenAt - startedAt,
      now
    })
    this.#probedAt = undefined
  }

  #spent({ target, startedAt }: Attempt, usage: Usage | undefined): Spent {
    this.#leave(usage)
    return {
      elapsed: this.now() - startedAt,
      cost: usage === undefined ? 0 : (costOf(target.info.price, usage) ?? 0),
      tokens: (usage?.inputTokens.total ?? 0) + (usage?.outputTokens.total ?? 0)
    }
  }

  /** Reports how the text of an attempt was joined to what had been shown, if there is something to say. */
  joined({ target }: Attempt, { removed, kept, doubt }: Verdict): Effect.Effect<void> {
    const of = { ...this.#numbers(), target: target.ref }
    if (doubt !== undefined) return this.#publish({ _tag: "SeamUnsure", ...of, kept, doubt })
    return removed === 0 ? Effect.void : this.#publish({ _tag: "SeamRepaired", ...of, removed })
  }

  /**
   * Reports the answer: clears what covers its target. `usage` is its own; `undefined` for a cut one, which {@link cut}
   * has counted. That is done when this returns; the Effect tells of it, and gives what the call has cost in US
   * dollars, its failed attempts included as far as they are known; `undefined` where the cost of the answer is not.
   */
  succeeded(attempt: Attempt, usage: Usage | undefined): Effect.Effect<number | undefined> {
    this.#ended = true
    const { ref, info } = attempt.target
    const own = usage !== undefined ? costOf(info.price, usage) : info.price === undefined ? undefined : 0
    const costUsd = own === undefined ? undefined : own + this.#state.ledger.cost
    this.#leave(usage)
    if (usage !== undefined) this.#answered(attempt)
    // In any other order another model is no news.
    const isNews =
      attempt.startedAt >= this.chain.memory.servingSince &&
      (this.chain.order === Order.inOrder || this.#state.ledger.switches > 0)
    const news = isNews ? this.#announce(ref, this.#state.lastFailure) : undefined
    if (this.#isSilent) {
      return news === undefined ? Effect.succeed(costUsd) : Effect.as(news, costUsd)
    }
    const told = this.#publish({
      _tag: "CallSucceeded",
      ...this.#numbers(),
      target: ref,
      elapsed: this.now() - attempt.startedAt,
      waited: this.#waits.total(),
      recoveredFrom: this.#firstFailure,
      costUsd,
      inputTokens: usage?.inputTokens.total,
      outputTokens: usage?.outputTokens.total
    })
    return Effect.as(news === undefined ? told : Effect.andThen(news, told), costUsd)
  }

  /** US dollars that a call has cost which failed with this attempt; `undefined` where its price is not known. */
  costOfFailed({ target }: Attempt): number | undefined {
    return target.info.price === undefined ? undefined : this.#state.ledger.cost
  }

  /** Gives back what the call holds, and reports that nobody wants its answer any more if it has not ended. */
  readonly abandoned: Effect.Effect<void> = Effect.suspend(() => {
    this.#settle(undefined, true)
    this.#landed(undefined)
    this.#leave(undefined)
    this.#endProbe()
    return this.#ended ? Effect.void : this.#publish({ _tag: "CallAbandoned", ...this.#numbers() })
  })

  /** The attempt, unless another call has found meanwhile that its target is out: who answers from here on is news. */
  #begin(action: Sending): Effect.Effect<Attempt | undefined, CallFailure> {
    const cooldowns = MutableRef.get(this.chain.memory.cooldowns)
    if (cooldowns !== this.#cooldowns && !action.probe && Cool.outOf(cooldowns, action.target, this.now())) {
      this.#settle(undefined, true)
      this.#leave(undefined)
      return this.advance({ _tag: "TakenAway" })
    }
    const attempt = Effect.succeed(this.#attempt(action))
    const told = action._tag === "Attempt" ? undefined : eventOf(action, this.#numbers())
    const begun = this.#isSilent ? attempt : Effect.andThen(this.#sent(action), attempt)
    return told === undefined
      ? begun
      : this.#publish(told).pipe(Effect.andThen(this.#moved(action)), Effect.andThen(begun))
  }

  /** Publishes that the attempt is sent. */
  #sent({ target }: Sending): Effect.Effect<void> {
    const waited = this.#waits.take()
    const after = Call.wasCut(this.#state) ? undefined : this.#state.lastFailure?.reason._tag
    return this.#publish({ _tag: "AttemptStarted", ...this.#numbers(), target, waited, after })
  }

  /** Announces the change of model when an attempt goes to another target than the last one. */
  #moved(action: Sending): Effect.Effect<void> {
    if (!("from" in action) || action.from.id === action.target.id) return Effect.void
    const { from, target, failure } = action
    return (isChange(from, target) ? this.#announce(target, failure) : undefined) ?? Effect.void
  }

  #attempt(action: Sending): Attempt {
    this.#paid = false
    this.firstTokenAt = undefined
    const target = this.#targetOf(action.target)
    this.#keyVersion = target.key?.version ?? 0
    const { budget, memory } = this.chain
    const now = this.now()
    if (this.#state.ledger.attempts === 1) budget?.depositUnsafe(this.#fiber, now)
    const { ref } = target
    this.#flying = {
      target: ref,
      startedAt: now,
      hasProgress: false,
      isHeard: false,
      budget: budget?.beginUnsafe(this.#fiber, now)
    }
    memory.flying.set(this.#call, this.#flying)
    const attempt = attemptOf(action, target, this.#state, { isAsHad: this.#isAsHad, now })
    return this.#raised === undefined
      ? attempt
      : { ...attempt, outputLimit: this.#raised.at(ref.id, attempt.outputLimit, this.#range) }
  }

  /** The machine chooses among the targets of the snapshot, which are these. */
  #targetOf({ id }: TargetRef): Target {
    return this.chain.targets.find(({ ref }) => ref.id === id) ?? this.chain.targets[0]
  }

  #endProbe(): void {
    const { target } = this.#state
    if (this.#probedAt !== undefined && target !== undefined)
      this.chain.memory.unprobed(target, this.#probedAt)
    this.#probedAt = undefined
  }

  /**
   * One step of the machine on the chain as it is now. Synchronous, so that no other call comes between.
   * `opened` is the cooldown that it opened.
   */
  #decide(event: Event, now: number): { readonly action: Action; readonly opened: Cooldown | undefined } {
    const { policy, budget, memory } = this.chain
    // A key that has expired says nothing about its provider: to ask again with a new one is no retry.
    const isRenewed = event._tag === "KeyAsked" && event.renewed
    // Before a first attempt nobody asks the budget, whose answer would cost a look at the clock.
    const snapshot = this.#snapshot(now, event._tag === "Started" || isRenewed)
    const draw = this.#random.nextDoubleUnsafe()
    const [action, state] = Call.step(policy, this.#state, event, snapshot, draw)
    const left = this.#state.target
    this.#state = state
    // The permit of a series of attempts is kept until the call goes elsewhere, for whatever event.
    if (policy.breaker === "outside" && !staysAt(action, left)) this.#settle(state.lastFailure)
    if (isSending(action)) {
      const isFree = isRenewed || action.isFree
      if (!isFree && !this.#paid && snapshot.mayRetry) {
        budget?.withdrawUnsafe(this.#fiber)
        this.#paid = true
      }
      if (action.probe) this.#probedAt = now
      memory.sending(action, now)
    }
    const isOpened = action.cooldown !== undefined && memory.open(action.cooldown, now)
    this.#cooldowns = MutableRef.get(memory.cooldowns)
    return { action, opened: isOpened ? action.cooldown : undefined }
  }

  /** The chain as it is now. `isFree` says that the retry budget is not asked. */
  #snapshot(now: number, isFree: boolean): Call.Snapshot {
    const { dead, budget, memory, compact } = this.chain
    return {
      now,
      deadline: this.#deadline,
      targets: this.#targets,
      dead,
      cooldowns: MutableRef.get(memory.cooldowns),
      mayRetry: isFree || budget === undefined || this.#paid || budget.availableUnsafe(this.#fiber),
      canCompact: compact !== undefined,
      streaks: memory.streaks,
      answered: memory.answeredAt,
      flying: memory.flying
    }
  }

  /** Tells the circuits how the attempt ended: well without a failure; `silent`: they are told nothing. */
  #settle(failure: ProviderFailure | undefined, silent = false, now?: number): void {
    const permit = this.#permit
    if (permit === undefined) return
    this.#permit = undefined
    const circuit = failure === undefined ? undefined : rowOf(this.chain.policy, failure).circuit
    permit.settle(silent ? undefined : { failure, circuit }, this.#fiber, now ?? this.now())
  }

  /** One notice for each change of the model that answers, whichever call finds it. */
  #announce(target: TargetRef, failure: ProviderFailure | undefined): Effect.Effect<void> | undefined {
    const { log, serving: from } = this.chain.memory
    if (!isChange(from, target)) return undefined
    this.chain.memory.serving = target
    this.chain.memory.servingSince = this.now()
    const isBack = !isChange(target, this.chain.targets[0].ref)
    const change = { from, target, reason: isBack ? undefined : failure?.reason._tag }
    const { returned, switched } = this.chain.policy.notices
    const message = isBack ? returned(change) : switched(change)
    this.notices.push({ type: "notice", ...change, message })
    const isNamed = target.id === this.#named
    const line = isNamed
      ? undefined
      : isBack
        ? log.returned(from, target)
        : log.switched(from, target, failure)
    return warned(line, this.#publish({ _tag: "ModelChanged", ...this.#numbers(), ...change, message }))
  }

  /** The log line about a target that only a person can bring back, written when the call leaves it. */
  #refused(event: Event, action: Action): Warnings.Line | undefined {
    const hasFailed = event._tag === "Failed" || event._tag === "KeyAsked"
    const failure = this.#state.lastFailure
    if (!hasFailed || failure === undefined) return undefined
    if (!("from" in action) && action._tag !== "Wait") return undefined
    const next = "from" in action ? action.target : undefined
    const line = this.chain.memory.log.refused(failure, next)
    if (line !== undefined) this.#named = next?.id
    return line
  }

  #publishCooldown({ scope, target, until, failure }: Cooldown, now: number): Effect.Effect<void> {
    const length = until === Infinity ? undefined : until - now
    return this.#publish({ _tag: "CooldownOpened", scope, target, reason: failure.reason._tag, length })
  }

  #numbers(): Numbers {
    return { call: this.#call, attempt: this.#state.ledger.attempts }
  }

  #publish(event: ResilienceEvents.NoTime<CallEvent | CooldownOpened>): Effect.Effect<void> {
    return this.#events.publish({ ...event, at: this.#clock.currentTimeMillisUnsafe() })
  }
}

/** An attempt in flight, as the chain and its retry budget see it. */
interface Departed {
  readonly target: TargetRef
  readonly startedAt: number
  hasProgress: boolean
  isHeard: boolean
  readonly budget: RetryBudget.Flight | undefined
}

/** The effect, after the line where there is one. */
const warned = <A, E>(line: Warnings.Line | undefined, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  line === undefined ? effect : Effect.andThen(Warnings.write(line), effect)

type Started = Extract<Event, { readonly _tag: "Started" }>

/** Milliseconds between two looks of a call that waits for a cooldown. */
const wakeEvery = 1_000

const asleep = (millis: number): Effect.Effect<void> =>
  ActiveTime.parked(Effect.sleep(Duration.millis(millis)))
