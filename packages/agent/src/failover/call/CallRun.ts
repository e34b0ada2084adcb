/**
 * Runs one call: feeds `CallState` with events and carries out its actions, up to the next attempt.
 *
 * Text and streams share it. {@link CallRun.begin} and, behind an attempt, {@link CallRun.failed} or {@link CallRun.cut}
 * return the next attempt to make, or `undefined` when the cut answer is to be delivered as it is, or fail with the
 * failure of the call. {@link CallRun.succeeded} ends a call that is answered, {@link CallRun.abandoned} any other.
 *
 * **Composition.** `CallContext` has what does not change, `CallRequest` what is sent. `Lanes` has the attempts in flight:
 * for each, `CallAdmission` lets it go, and `CallOutcome` keeps it and records how it ended. `CallReport` tells of it. None of them decides what comes next, and
 * none of them calls this module.
 */
import { Duration, Effect, Fiber, MutableRef } from "effect"
import type { LanguageModel } from "effect/ai"
import { Tool } from "effect/ai"
import { costOf } from "../../conversation/Answered.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Usage } from "../../conversation/Usage.ts"
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import { ContextOverflow } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import type { Verdict } from "../../recovery/Seam.ts"
import type { Chain } from "../chain/Chain.ts"
import type { TargetLog } from "../chain/TargetLog.ts"
import type { AnswerEnd } from "../decide/AnswerEnd.ts"
import type { Action, CallState, Commit, Event } from "../decide/CallState.ts"
import * as Call from "../decide/CallState.ts"
import type { Cooldown, Cooldowns } from "../decide/Cooldown.ts"
import * as Cool from "../decide/Cooldown.ts"
import type { Notice } from "../decide/Notice.ts"
import type { MidStream } from "../decide/RecoveryPolicy.ts"
import type { Sending } from "../decide/Sending.ts"
import { isSending } from "../decide/Sending.ts"
import type { Attempt } from "./Attempt.ts"
import { attemptOf } from "./Attempt.ts"
import type { AttemptRequest } from "./AttemptRequest.ts"
import { CallContext } from "./CallContext.ts"
import type { CutAnswer } from "./CallOutcome.ts"
import { CallReport } from "./CallReport.ts"
import { CallRequest } from "./CallRequest.ts"
import { CallTrace } from "./CallTrace.ts"
import * as Conversation from "./Conversation.ts"
import { Lanes } from "./Lanes.ts"
import type { Surface } from "./Surface.ts"
import * as Waits from "./Waits.ts"

/** Id of the rule for an answer that fills the window before its end. */
const windowFull = "answer/window-full"

type Waiting = Extract<Action, { readonly _tag: "Wait" }>
type Next = Effect.Effect<Attempt | undefined, CallFailure>

export class CallRun {
  readonly chain: Chain
  readonly #context: CallContext
  readonly #request: CallRequest
  readonly #report: CallReport
  readonly #trace: CallTrace | undefined
  readonly #started: Extract<Event, { readonly _tag: "Started" }>
  readonly #lanes: Lanes
  #state: CallState = Call.initial
  /** The chain's cooldowns when the machine decided last. */
  #cooldowns: Cooldowns = Cool.empty
  /** Start of the last attempt, or of the last wait, in monotonic milliseconds. News since then may end a wait. */
  #since = 0
  /** Versions of the renewable keys of the last attempt at each target, by its id. Most calls have none. */
  #keyVersions: Map<string, number> | undefined
  #ended = false
  /** Fibers of attempts that outlived the wait for their first token. At most one for each attempt. */
  readonly #fibers: Array<Fiber.Fiber<unknown, unknown>> = []

  constructor(
    chain: Chain,
    options: LanguageModel.ProviderOptions,
    surface: Surface,
    streams: boolean,
    fiber: Fiber.Fiber<unknown, unknown>
  ) {
    this.chain = chain
    const context = new CallContext(chain, options, streams, fiber)
    this.#context = context
    this.#request = new CallRequest(context, options)
    this.#trace = CallTrace.of(fiber, options)
    this.#report = new CallReport(context, this.#trace)
    this.#lanes = new Lanes(context, this.#report.waits)
    this.#started = {
      _tag: "Started",
      rewindable: surface.rewindable,
      providerTools: options.tools.some(isRunByProvider),
      midStream: surface.midStream,
      structured: options.responseFormat.type === "json",
      outputLimit: context.raised?.range(context.range) ?? context.range
    }
  }

  // ---------------------------------------------------------------------------
  // Read by those who make the attempts
  // ---------------------------------------------------------------------------

  /** The id of the target that stands first. */
  get requested(): string {
    return this.chain.targets[0].ref.id
  }

  /** Returns `CallState.midStreamAtMost` for this call. */
  get midStream(): MidStream {
    return Call.midStreamAtMost(this.chain.policy, this.#started)
  }

  /** Monotonic milliseconds. */
  now(): number {
    return this.#context.now()
  }

  /** Monotonic milliseconds without those in which the event loop stood still: the time of limits. */
  awake(now = this.now()): number {
    return now - this.#context.lost
  }

  /** True once the headers of the attempt's response have come. */
  isHeard(attempt: Pick<Attempt, "target">): boolean {
    return this.#lanes.of(attempt).outcome.isHeard
  }

  /** Milliseconds without content after which the attempt that was begun last is late, at the earliest. */
  lateAfter({ target }: Pick<Attempt, "target">): number {
    return this.chain.hedges === undefined || this.chain.targets.length === 1
      ? Infinity
      : Call.lateAfter(this.chain.policy, this.#state, target.info)
  }

  /** Milliseconds within which the target of the attempt usually begins to answer this prompt. 0: nothing is known. */
  usual({ target }: Pick<Attempt, "target">, of: keyof TargetLog["times"]): number {
    const times = this.chain.memory.targetLogs.get(target.ref.id)?.times[of]
    return times?.usual(Conversation.estimate(this.#request.prompt)) ?? 0
  }

  /** Judges the answer of an attempt. */
  judge(attempt: Attempt): AnswerEnd {
    return this.#request.judge(attempt)
  }

  /** Returns the request of an attempt; `partial` is the answer so far. */
  request(attempt: Attempt, partial: string): AttemptRequest {
    return this.#request.of(attempt, partial, {
      heard: (headers) => {
        this.#lanes.of(attempt).outcome.heard()
        this.chain.limiter?.learnUnsafe(attempt.target.ref, headers)
      },
      repeated: () => this.#report.repeated(attempt),
      repaired: (repair) => this.#report.repaired(attempt, repair)
    })
  }

  /** US dollars that a call has cost which failed with this attempt; `undefined` where its price is not known. */
  costOfFailed({ target }: Attempt): number | undefined {
    return target.info.price === undefined ? undefined : this.#state.made.cost
  }

  /** Changes of model that the consumer has not been told of. Later calls return only newer ones. */
  takeNotices(): ReadonlyArray<Notice> {
    return this.#report.takeNotices()
  }

  // ---------------------------------------------------------------------------
  // Told by those who make the attempts
  // ---------------------------------------------------------------------------

  /** The first attempt. Reading it begins the call: read it where {@link abandoned} is already in place. */
  get begin(): Effect.Effect<Attempt, CallFailure> {
    // The machine delivers only answers that were cut: there is none yet.
    return this.#advance(this.#started) as Effect.Effect<Attempt, CallFailure>
  }

  /** The first token of the attempt, or a further one, came at `now`. */
  progressed(attempt: Pick<Attempt, "target">, now: number): void {
    this.#lanes.of(attempt).outcome.progressed(now)
  }

  /** The first part of the attempt's answer has come. The Effect, if there is one, tells of a change of model. */
  answers(attempt: Attempt): Effect.Effect<void> | undefined {
    return this.#report.answers(attempt)
  }

  /**
   * The attempt failed; `usage` is what it is known to have taken, and `silent` are the milliseconds since its last part.
   * Returns the next attempt.
   */
  failed(attempt: Attempt, failure: ProviderFailure, commit: Commit, usage?: Usage, silent?: number): Next {
    return Effect.suspend(() => {
      this.#trace?.failed(attempt, failure)
      const { lane, ...beside } = this.#lanes.landed(attempt)
      const event = lane.outcome.failed(attempt, failure, commit, usage, { silent, ...beside })
      return after(this.#report.failed(attempt, event), this.#fed(event, attempt.startedAt))
    })
  }

  /**
   * The first token of the attempt is late. Returns the attempt that hedges it; `undefined`: no other one is made now. An
   * interruption leaves the late attempt alone.
   */
  late(): Next {
    return Effect.suspend(() => {
      const inputTokens = Conversation.estimate(this.#request.prompt)
      const mayHedge = this.chain.hedges?.isLeft === true
      const hedge = this.#advance({ _tag: "Late", inputTokens, mayHedge })
      return Effect.onInterrupt(hedge, () =>
        Effect.suspend(() => (this.#lanes.isHedged ? this.#told({ _tag: "TakenAway" }) : Effect.void))
      )
    })
  }

  /** The other one of two attempts has sent content first: this one was aborted. */
  overtaken(attempt: Attempt): Effect.Effect<void> {
    return Effect.suspend(() => {
      const inputTokens = Conversation.estimate(this.#request.prompt)
      const { lane, isLate = false } = this.#lanes.landed(attempt)
      const event = lane.outcome.overtaken(attempt, { isLate, inputTokens })
      this.#trace?.overtaken(attempt)
      return after(
        this.#report.overtaken(attempt, this.#lanes.current.target, event),
        this.#told(event, attempt.startedAt)
      )
    })
  }

  /**
   * The output limit cut the answer, or the window did. Returns the next attempt; `undefined`: deliver it, and report
   * {@link succeeded}.
   */
  cut(attempt: Attempt, answer: CutAnswer): Next {
    return Effect.suspend(() => {
      if (answer.byWindow) {
        const failure = local(windowFull, new ContextOverflow({}), attempt.target.ref)
        this.#trace?.failed(attempt, failure)
        const event = this.#lanes.current.outcome.failed(attempt, failure, answer.commit, answer.usage, {
          keptText: answer.hasText
        })
        return after(this.#report.failed(attempt, event), this.#fed(event))
      }
      this.#trace?.answered(attempt)
      const event = this.#lanes.current.outcome.cut(attempt, answer)
      return after(this.#report.attemptEnded(attempt.target.ref), this.#fed(event))
    })
  }

  /** Reports how the text of an attempt was joined to what had been shown, if there is something to say. */
  joined(attempt: Attempt, verdict: Verdict): Effect.Effect<void> {
    return this.#report.joined(attempt, verdict) ?? Effect.void
  }

  /**
   * The call is answered. `usage` is the answer's own; `undefined` for a cut one, which {@link cut} has counted. When this
   * returns, the target is recorded as working. The Effect publishes that, and returns the cost of the call in US dollars,
   * failed attempts included as far as they are known; `undefined` where the cost of the answer is not known.
   */
  succeeded(attempt: Attempt, usage: Usage | undefined): Effect.Effect<number | undefined> {
    this.#ended = true
    const { price } = attempt.target.info
    const own = usage !== undefined ? costOf(price, usage) : price === undefined ? undefined : 0
    const costUsd = own === undefined ? undefined : own + this.#state.made.cost
    this.#lanes.current.outcome.succeeded(attempt, usage)
    this.#request.answered(attempt.target.ref)
    this.#trace?.succeeded(attempt, attempt.target.ref, costUsd)
    const told = this.#report.succeeded(attempt, usage, {
      costUsd,
      firstToken: this.#lanes.current.outcome.firstToken
    })
    return told === undefined ? Effect.succeed(costUsd) : Effect.as(told, costUsd)
  }

  /** An attempt goes on in a fiber, which the call interrupts if it ends before it. */
  goesOn(fiber: Fiber.Fiber<unknown, unknown>): void {
    this.#fibers.push(fiber)
  }

  /** Gives back what the call holds, and reports that its answer is not wanted any more if it has not ended. */
  readonly abandoned: Effect.Effect<void> = Effect.suspend(() =>
    this.#fibers.length === 0
      ? this.#leave()
      : Effect.andThen(
          Fiber.interruptAll(this.#fibers),
          Effect.suspend(() => this.#leave())
        )
  )

  #leave(): Effect.Effect<void> {
    this.#lanes.abandoned()
    if (!this.#ended) this.#trace?.abandoned()
    return (this.#ended ? undefined : this.#report.abandoned()) ?? Effect.void
  }

  // ---------------------------------------------------------------------------
  // The machine
  // ---------------------------------------------------------------------------

  /** Feeds the machine at once with an event behind which the call goes on as it is. The Effect tells of it. */
  #told(event: Event, since?: number): Effect.Effect<void> {
    const now = this.now()
    const { action, opened } = this.#decide(event, now, since)
    return this.#report.decided(this.#state, event, action, opened, now) ?? Effect.void
  }

  /** Feeds the machine when the Effect runs. */
  #fed(event: Event, since?: number): Next {
    return Effect.suspend(() => this.#advance(event, since))
  }

  /** Feeds the machine and carries out its actions up to the next attempt. */
  #advance(event: Event, since?: number): Next {
    const now = this.now()
    const { action, opened } = this.#decide(event, now, since)
    const told = this.#report.decided(this.#state, event, action, opened, now)
    return after(told, this.#carryOut(action))
  }

  /**
   * One step of the machine on the chain as it is now. Synchronous, so that no other call comes between.
   * `opened` is the cooldown that it opened.
   */
  #decide(
    event: Event,
    now: number,
    since = this.#since
  ): { readonly action: Action; readonly opened: Cooldown | undefined } {
    const { policy, memory } = this.chain
    if (event._tag === "PermitRefused" || event._tag === "TakenAway") this.#lanes.notSent()
    // An expired key is no failure of its provider: asking again with a new one is no retry.
    const isRenewed = event._tag === "KeyAsked" && event.renewed
    // A first attempt needs no budget, and asking it costs a look at the clock.
    const isFree = event._tag === "Started" || isRenewed
    const isFull = event._tag === "Failed" && event.keptText !== undefined
    const snapshot = this.#context.snapshot(now, isFree || this.#lanes.current.outcome.mayRetry, isFull)
    const [action, state] = Call.step(policy, this.#state, event, snapshot, this.#context.draw())
    this.#state = state
    if (isSending(action)) {
      if (action.hedges !== undefined) this.#lanes.hedge(action.isCounted === true)
      if (!isRenewed && !action.isFree && snapshot.mayRetry) this.#lanes.current.outcome.pay()
      if (action.probe) this.#lanes.current.outcome.probes(action.target, now)
      memory.sending(action, now)
    }
    const { cooldown } = action
    // A failure of an attempt that an operator's reset overtook says nothing about the target since.
    const isStale = cooldown !== undefined && this.#resetSince(since).has(cooldown.target.id)
    const opened = isStale ? undefined : cooldown
    if (opened !== undefined) memory.open(opened, now)
    this.#cooldowns = MutableRef.get(memory.cooldowns)
    if (!isOfAttempt(event)) this.#since = now
    return { action, opened }
  }

  #carryOut(action: Action): Next {
    switch (action._tag) {
      case "GiveUp":
        this.#ended = true
        this.#trace?.gaveUp(action.failure)
        return Effect.fail(action.failure)
      case "Await":
      case "Deliver":
        return Effect.undefined
      case "Wait":
        return Effect.flatMap(this.#waited(action), (event) => this.#advance(event))
      case "Compact":
        return Effect.flatMap(this.#request.compact(action.failure), (event) => this.#advance(event))
      case "LeaveOut": {
        const { part, target, failure } = action
        const { dropped, left } = this.#request.leaveOut(target, part, failure)
        const told = this.#report.leftOut(target, part, dropped)
        return after(told, this.#fed({ _tag: "LeftOut", part, dropped, left }))
      }
      case "RenewKey":
        return Effect.flatMap(this.#renewed(action.target), (renewed) =>
          this.#advance({ _tag: "KeyAsked", renewed })
        )
      default:
        return action.delay === 0
          ? this.#enter(action)
          : Effect.flatMap(this.#lanes.current.admission.foresee(action.target), (refused) =>
              refused === undefined ? this.#delayed(action) : this.#advance(refused)
            )
    }
  }

  /** Waits for the retry budget, or while all targets are out. */
  #waited(action: Waiting): Effect.Effect<Event> {
    return Effect.suspend(() => {
      const since = this.#since
      const { until, soonest, forBudget } = action
      const delay = Math.max(
        0,
        Call.waitsUntil(this.chain.policy, this.#state, until, this.#asIf()) - this.now()
      )
      const wait = forBudget ? Waits.forBudget(soonest.target, delay) : Waits.untilBack(soonest, delay)
      const back = new Set<string>()
      const sleep = forBudget
        ? this.#queued(until, since)
        : Effect.as(
            soonest.refused ? this.#refused(soonest, delay, since, back) : this.#sleep(until, since),
            undefined
          )
      return Effect.map(this.#report.waits.during(wait, sleep), (to): Event => ({
        _tag: "Woke",
        early: Math.max(0, until - this.now()),
        to,
        reset: new Set([...back, ...this.#resetSince(since)])
      }))
    })
  }

  #sleep(until: number, since: number): Effect.Effect<boolean> {
    return Waits.asleepUntil(until, this.#context, () => this.#mayWake(since))
  }

  /**
   * Sleeps after a refusal. A circuit lets calls that wait for it through one by one. An operator may close it before:
   * its target is then added to `back`.
   */
  #refused(
    { target, failure }: Waiting["soonest"],
    delay: number,
    since: number,
    back: Set<string>
  ): Effect.Effect<unknown> {
    const { admission } = this.chain
    const isOpen = failure.circuit?.reason === "open" && admission !== undefined
    const reset = this.chain.memory.resets.until(since, () => this.#isReset(since))
    if (!isOpen) return Waits.asleepUnless(delay, reset)
    // A circuit that is closed at the breaker itself is no reset of this chain.
    const isClosed = Effect.map(admission.foresee(target), (refusal) => {
      if (refusal === undefined) back.add(target.id)
      return refusal === undefined
    })
    const every = Duration.toMillis(this.chain.policy.pacing.lookEvery)
    return Waits.asleepUnless(delay, Effect.raceFirst(reset, Waits.looking(every, isClosed)))
  }

  #queued(until: number, since: number): Effect.Effect<TargetRef | undefined> {
    const { policy } = this.chain
    return this.#lanes.current.outcome.queued(until, {
      mayGo: (target) => {
        const state = Call.afterReset(this.#state, this.#resetSince(since))
        return Call.mayRelease(policy, state, this.#asIf(), target)
      },
      mayHope: () => Call.mayHope(policy, this.#state, this.#asIf())
    })
  }

  /** The chain as it is now, as if the retry budget had a token. */
  #asIf(): Call.Snapshot {
    return this.#context.snapshot(this.now(), true)
  }

  /** True when a target is back `since`, and this call may go on before its wait is over. */
  #mayWake(
    since: number,
    reset = this.#resetSince(since),
    answeredAt: Pick<ReadonlyMap<string, number>, "get"> = this.chain.memory.answeredAt
  ): boolean {
    const snapshot = this.#context.snapshot(this.now(), this.#lanes.current.outcome.mayRetry)
    const state = Call.afterReset(this.#state, reset)
    const isBack = ({ id }: TargetRef) => reset.has(id) || (answeredAt.get(id) ?? 0) > since
    return Call.mayWake(this.chain.policy, state, snapshot, isBack)
  }

  /** True when an operator has brought back a target `since` to which the call may go. */
  #isReset(since: number): boolean {
    const reset = this.#resetSince(since)
    return reset.size > 0 && this.#mayWake(since, reset, none)
  }

  /** Targets that an operator brought back since then. */
  #resetSince(since: number): Call.Reset {
    return this.chain.memory.resets.since(since)
  }

  #renewed(target: TargetRef): Effect.Effect<boolean> {
    const { key } = this.#context.targetOf(target)
    if (key?.renew === undefined) return Effect.succeed(false)
    const wait = { reason: "key", target, by: key.name } as const
    return this.#report.waits.unlessReady(wait, key.renew(this.#keyVersions?.get(target.id) ?? 0))
  }

  // ---------------------------------------------------------------------------
  // The next attempt
  // ---------------------------------------------------------------------------

  /**
   * The attempt after its delay, unless another call has found meanwhile that its target is out, or that another one
   * answers, or an operator has brought targets back.
   */
  #delayed(action: Sending): Next {
    const { target, delay } = action
    const wait = { reason: "backoff", target, delay } as const
    return Effect.suspend(() => {
      const since = this.#since
      const until = this.now() + delay
      const reset = this.chain.memory.resets.until(since, () => this.#isReset(since))
      // A call that returns to a target waits for any of those that failed: an answer to another call ends that.
      const isReturn = "from" in action && action.from.id !== target.id
      const sleep = isReturn ? this.#sleep(until, since) : Waits.asleepUnless(delay, reset)
      return Effect.flatMap(this.#report.waits.during(wait, sleep), (isBack) => {
        const early = isBack ? Math.max(0, until - this.now()) : 0
        return isBack || this.#isTakenAway(action)
          ? this.#advance({ _tag: "TakenAway", early, reset: this.#resetSince(since) })
          : this.#enter(action)
      })
    })
  }

  /** The attempt, if all that it needs lets it go. */
  #enter(action: Sending): Next {
    const { prompt } = this.#request
    const admitted = this.#lanes.current.admission.enter({ action, state: this.#state, prompt })
    return admitted === true
      ? this.#begin(action)
      : Effect.flatMap(admitted, (refused) =>
          refused === undefined ? this.#begin(action) : this.#advance(refused)
        )
  }

  /** The attempt, unless another call has found meanwhile that its target is out. From here on it is in flight. */
  #begin(action: Sending): Next {
    const { memory } = this.chain
    if (MutableRef.get(memory.cooldowns) !== this.#cooldowns && this.#isTakenAway(action)) {
      this.#lanes.current.admission.giveBack()
      return this.#fed({ _tag: "TakenAway" })
    }
    const made = this.#attempt(action)
    const attempt =
      this.#trace === undefined
        ? Effect.succeed(made)
        : Effect.map(this.#trace.begin(made), (span): Attempt => ({ ...made, span }))
    const recalled = this.#request.recall(made.target.ref)
    const sent = after(this.#report.sent(action), attempt)
    return recalled === undefined ? sent : after(this.#report.recalled(made, recalled), sent)
  }

  /** True when a cooldown keeps the attempt from its target. A probe passes one that the machine knew of. */
  #isTakenAway({ target, probe }: Sending): boolean {
    const now = this.now()
    const out = Cool.outOf(MutableRef.get(this.chain.memory.cooldowns), target, now)
    return out !== undefined && !(probe && Cool.outOf(this.#cooldowns, target, now)?.until === out.until)
  }

  #attempt(action: Sending): Attempt {
    const { raised, range } = this.#context
    const target = this.#context.targetOf(action.target)
    const now = this.now()
    this.#since = now
    const isFirst = Call.attemptsOf(this.#state) === 1
    if (isFirst) this.chain.hedges?.pay()
    const lane = this.#lanes.current
    lane.target = target.ref
    lane.startedAt = now
    if (target.renewable && target.key !== undefined) {
      this.#keyVersions = (this.#keyVersions ?? new Map()).set(target.ref.id, target.key.version)
    }
    lane.outcome.begin(target.ref, isFirst, now)
    return attemptOf(action, target, this.#state, { isAsHad: this.#request.isAsHad, now, raised, range })
  }
}

const isRunByProvider = (tool: Tool.Any): boolean => Tool.isProviderDefined(tool) && !tool.requiresHandler

/** True for an event while an attempt is in flight, or at its end. No wait begins with it. */
const isOfAttempt = ({ _tag }: Event): boolean =>
  _tag === "Failed" || _tag === "Cut" || _tag === "Late" || _tag === "Overtaken"

/** Backoffs and refusals are not ended by answers to other calls. */
const none: ReadonlyMap<string, number> = new Map()

/** The effect, after what is to be told where there is something. */
const after = <A, E>(
  told: Effect.Effect<void> | undefined,
  effect: Effect.Effect<A, E>
): Effect.Effect<A, E> => (told === undefined ? effect : Effect.andThen(told, effect))
