/**
 * Calls again what failed, as often, as late and as long as makes sense.
 *
 * One combinator that puts the policies in their right order: deadline outside; then classify, attempts, wait and
 * retry budget for each failure; the circuit inside, so that it sees every attempt.
 *
 * **What happens after a failure.** It is classified. Unless it does not pass by itself, its attempts are used up, the
 * wait is longer than allowed or than what is left of the deadline, or the budget is empty, the call waits and is made
 * again. Otherwise it fails with {@link RetryFailed}, which has the last failure, the attempts, and why they ended.
 * Defects and interruptions leave as they came, at once.
 *
 * **When the circuit refuses**, nothing was called, so it is no attempt and costs no budget. The call fails, or waits
 * until the circuit lets it through (`whenRefused: "wait"`), for as long as the deadline allows: set one. Refusals of
 * another breaker inside are failures like others.
 *
 * **How it composes.** A time limit for each attempt goes on the effect, inside. Do not put one retry around another:
 * attempts multiply (`RetryFailed` says that it is not retryable for that reason). The nearest `Deadline` always
 * holds. See `docs/composition.md`.
 *
 * **What it does not do.** It does not interrupt an attempt that takes long, it does not choose between providers, and
 * it repeats a stream only before its first element.
 *
 * **Example** (Three attempts behind a circuit)
 *
 * ```ts
 * fetchAnswer.pipe(
 *   Effect.timeout("10 seconds"),
 *   Retry.with({
 *     classify: (error) => (error._tag === "Busy" ? Retry.again({ retryAfter: error.wait }) : Retry.stop),
 *     deadline: "1 minute",
 *     breaker: { circuit: "https://api.example.com" }
 *   })
 * )
 * ```
 */
import { Cause, Clock, Data, Duration, Effect, Exit, Option, Random, Stream } from "effect"
import * as CircuitBreaker from "../breaker/CircuitBreaker.ts"
import { CircuitRefused } from "../breaker/CircuitRefused.ts"
import * as Check from "../Options.ts"
import * as Refusal from "../Refusal.ts"
import * as ResilienceEvents from "../telemetry/ResilienceEvents.ts"
import * as AttemptLimits from "./AttemptLimits.ts"
import * as Backoff from "./Backoff.ts"
import * as Deadline from "./Deadline.ts"
import { RetryBudget } from "./RetryBudget.ts"
import type { RetryEvent, Stopped } from "./RetryEvent.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** What to do about a failure. */
export type Verdict =
  | { readonly retry: false }
  | {
      readonly retry: true
      /** For limits by class. Default: "failure". */
      readonly class?: string | undefined
      /** When the server wants to be asked again. 0 is now; what is no duration counts as nothing said. */
      readonly retryAfter?: Duration.Input | undefined
    }

/** It would fail again. */
export const stop: Verdict = { retry: false }

/** It may pass. */
export const again = (
  options: { readonly class?: string | undefined; readonly retryAfter?: Duration.Input | undefined } = {}
): Verdict => ({ retry: true, ...options })

/** An error that says for itself whether another attempt makes sense. */
export interface SaysRetryable {
  readonly isRetryable: boolean
  readonly retryAfter?: Duration.Input | undefined
}

/** Does what the error says: the default. */
export const classify = (error: SaysRetryable): Verdict =>
  error.isRetryable ? again({ retryAfter: error.retryAfter }) : stop

/** A circuit around each attempt. */
export interface Breaker {
  readonly circuit: CircuitBreaker.Names
  /** What an attempt counts as for the circuit. Default: failures that pass count, with their `retryAfter`, and so do defects. */
  readonly classify?: CircuitBreaker.Classify | undefined
  /** Default "fail". "wait" waits as long as the deadline allows: without one, for ever. */
  readonly whenRefused?: "fail" | "wait" | undefined
}

/** `Budget` and `Around` are what `budget` and `breaker` are known to be: they decide which services are needed. */
export interface Options<
  E,
  Budget extends boolean = boolean,
  Around extends Breaker | undefined = Breaker | undefined
> {
  /** Which failures pass. Default: {@link classify}, if every error has `isRetryable`. */
  readonly classify?: ((error: E) => Verdict) | undefined
  /** Attempts of the call, with the first, whatever their class. Default 3, or the most that a class may have. */
  readonly attempts?: number | undefined
  /** Attempts that may end in a class of failure, with the first. Default: only the limit of the call. */
  readonly attemptsPerClass?: { readonly [Class in string]?: number } | undefined
  /** Default: `Backoff.exponential()`. */
  readonly backoff?: Backoff.Backoff | undefined
  /** How a server's wait counts. Default "minimum": at least that. */
  readonly retryAfter?: Backoff.HintRule["retryAfter"] | undefined
  /** A server that wants to be left alone for longer is not called again. Default 60 seconds. */
  readonly maxRetryAfter?: Duration.Input | undefined
  /** A server's wait is lengthened by up to this share of itself. Default 0.1. */
  readonly retryAfterJitter?: number | undefined
  /** So long after the call began, and later, no further attempt begins. Default: only the `Deadline` around it. */
  readonly deadline?: Duration.Input | undefined
  /** Retries take from the `RetryBudget` of the environment. Default false. */
  readonly budget?: Budget | undefined
  /** A circuit around each attempt, of the `CircuitBreaker` of the environment. Default: none. */
  readonly breaker?: Around | undefined
  /** For events. */
  readonly name?: string | undefined
}

export const defaults = { attempts: 3, budget: false, whenRefused: "fail" } as const

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

/** All that could be done was done. Its message says nothing of the failure; that is the `cause`. */
export class RetryFailed<E> extends Data.TaggedError("RetryFailed")<{
  /** What the last attempt failed with, or the refusal of the circuit that came instead of one. */
  readonly failure: unknown
  /** Attempts that were made; refusals of a circuit are none. */
  readonly attempts: number
  readonly stopped: Stopped
}> {
  declare readonly failure: E
  /** The call was already made as often as it should be. */
  readonly isRetryable = false
  /** The last failure, for who prints causes. */
  override readonly cause: E
  /** Without an attempt nothing was called: a breaker around this does not count it. */
  declare readonly [Refusal.mark]?: true

  constructor(fields: { readonly failure: E; readonly attempts: number; readonly stopped: Stopped }) {
    super(fields)
    this.cause = fields.failure
    if (fields.attempts === 0) this[Refusal.mark] = true
  }

  override get message(): string {
    const attempts = this.attempts === 1 ? "1 attempt" : `${this.attempts} attempts`
    return `Gave up after ${attempts}: ${why[this.stopped]}.`
  }
}

const why: Readonly<Record<Stopped, string>> = {
  "not-retryable": "the failure does not pass by itself",
  attempts: "no more are allowed",
  deadline: "there is no time for another one before the deadline",
  "retry-after": "the server asks for a longer wait than is allowed",
  budget: "the retry budget is empty",
  refused: "a circuit does not let the call through",
  started: "the stream had begun and cannot be made again"
}

// -----------------------------------------------------------------------------
// Combinators
// -----------------------------------------------------------------------------

/** The services that the options ask for, or may ask for. */
export type Services<Budget extends boolean, Around extends Breaker | undefined> =
  | (true extends Budget ? RetryBudget : never)
  | ([Around] extends [undefined] ? never : CircuitBreaker.CircuitBreaker)

/** The failures that the options add. */
export type Refusals<Around extends Breaker | undefined> = [Around] extends [undefined]
  ? never
  : CircuitRefused

/** Every error says for itself whether it passes. */
type Unclassified<Budget extends boolean, Around extends Breaker | undefined> = Options<
  never,
  Budget,
  Around
> & { readonly classify?: undefined }

type Classified<E, Budget extends boolean, Around extends Breaker | undefined> = Options<
  E,
  Budget,
  Around
> & {
  readonly classify: (error: E) => Verdict
}

interface With {
  <E, const Budget extends boolean = false, const Around extends Breaker | undefined = undefined>(
    options: Classified<E, Budget, Around>
  ): <A, R>(
    self: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, RetryFailed<E | Refusals<Around>>, R | Services<Budget, Around>>
  <const Budget extends boolean = false, const Around extends Breaker | undefined = undefined>(
    options?: Unclassified<Budget, Around>
  ): <A, E extends SaysRetryable, R>(
    self: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, RetryFailed<E | Refusals<Around>>, R | Services<Budget, Around>>
}

interface WithStream {
  <E, const Budget extends boolean = false, const Around extends Breaker | undefined = undefined>(
    options: Classified<E, Budget, Around>
  ): <A, R>(
    self: Stream.Stream<A, E, R>
  ) => Stream.Stream<A, RetryFailed<E | Refusals<Around>>, R | Services<Budget, Around>>
  <const Budget extends boolean = false, const Around extends Breaker | undefined = undefined>(
    options?: Unclassified<Budget, Around>
  ): <A, E extends SaysRetryable, R>(
    self: Stream.Stream<A, E, R>
  ) => Stream.Stream<A, RetryFailed<E | Refusals<Around>>, R | Services<Budget, Around>>
}

/**
 * Retries an effect. Its failures become {@link RetryFailed}; `Effect.catchTag("RetryFailed", ({ failure }) => …)`
 * has the original.
 *
 * Throws an `InvalidOption`, a `RangeError`, for an option out of its range.
 */
// The overloads say what E must be; inside, an error is whatever `classify` takes.
const retryEffect = ((options: Options<unknown> = {}) => {
  const settings = read(options)
  return (self: Effect.Effect<unknown, unknown, unknown>) => call(settings, self)
}) as With

/**
 * Retries a stream that fails before its first element; one that fails later has `stopped: "started"`. Otherwise as
 * `with`. For the circuit, an attempt lasts until the stream ends.
 */
// As above.
export const withStream = ((options: Options<unknown> = {}) => {
  const settings = read(options)
  return (self: Stream.Stream<unknown, unknown, unknown>) => streamCall(settings, self)
}) as WithStream

export { retryEffect as with }

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

const module = "Retry"

interface Settings {
  readonly classify: (error: unknown) => Verdict
  readonly limits: AttemptLimits.AttemptLimits
  readonly backoff: Backoff.Backoff
  readonly hint: Backoff.HintRule
  readonly deadline: Duration.Duration | undefined
  readonly budget: boolean
  readonly breaker: (Breaker & { readonly classify: CircuitBreaker.Classify }) | undefined
  readonly name: string | undefined
}

const read = (options: Options<unknown>): Settings => {
  const { attemptsPerClass = {}, backoff = Backoff.exponential(), deadline } = options
  const own = Object.entries(attemptsPerClass).flatMap(([name, limit]) =>
    limit === undefined ? [] : [Check.positiveInteger(module, `attemptsPerClass.${name}`, limit)]
  )
  const attempts = options.attempts ?? Math.max(defaults.attempts, ...own)
  // The overloads see to it that without `classify` every error says so itself.
  const judge = options.classify ?? (classify as (error: unknown) => Verdict)
  Backoff.validate(backoff, "Retry: backoff")
  return {
    classify: judge,
    limits: { perClass: attemptsPerClass, pooled: Check.positiveInteger(module, "attempts", attempts) },
    backoff,
    hint: {
      retryAfter: options.retryAfter ?? Backoff.hintDefaults.retryAfter,
      maxRetryAfter: Check.duration(
        module,
        "maxRetryAfter",
        options.maxRetryAfter ?? Backoff.hintDefaults.maxRetryAfter,
        { max: Backoff.maxDuration }
      ),
      retryAfterJitter: Check.share(
        module,
        "retryAfterJitter",
        options.retryAfterJitter ?? Backoff.hintDefaults.retryAfterJitter
      )
    },
    deadline: deadline === undefined ? undefined : Check.duration(module, "deadline", deadline),
    budget: options.budget ?? defaults.budget,
    breaker: options.breaker && {
      ...options.breaker,
      classify: options.breaker.classify ?? forCircuit(judge)
    },
    name: options.name
  }
}

/** What would fail again says nothing about who is called; what passes does, and when it wants to be asked again. */
const forCircuit =
  (judge: (error: unknown) => Verdict): CircuitBreaker.Classify =>
  (exit) => {
    const outcome = CircuitBreaker.classify(exit)
    if (outcome.counts !== "failure" || Exit.isSuccess(exit) || Cause.hasDies(exit.cause)) return outcome
    const failure = exit.cause.reasons.find(Cause.isFailReason)
    const verdict = failure === undefined ? stop : judge(failure.error)
    return verdict.retry
      ? { counts: "failure", retryAfter: verdict.retryAfter ?? outcome.retryAfter }
      : { counts: "ignored" }
  }

/** What one call has spent so far. */
interface Ledger {
  /** Attempts that failed, by class. */
  readonly failed: AttemptLimits.State
  /** Refusals of the circuit in a row. */
  readonly refusals: number
  /** The last wait of the formula, for decorrelated jitter. */
  readonly previous: number | undefined
}

const start: Ledger = { failed: AttemptLimits.initial, refusals: 0, previous: undefined }

/** Identifies the call to its circuit, and says whether an attempt got through it. */
interface Call {
  ran: boolean
}

/** What a decision needs from outside. */
interface Surroundings {
  /** Milliseconds to the deadline. */
  readonly left: number
  /** Of chance, in [0, 1). */
  readonly draw: number
}

type Decision =
  | { readonly stopped: Stopped; readonly ledger: Ledger }
  | {
      readonly stopped: undefined
      readonly ledger: Ledger
      /** Milliseconds. */
      readonly wait: number
      readonly class?: string | undefined
    }

/** What follows a failed attempt; `started`: of a stream that had begun. */
const afterFailure = (
  { limits, backoff, hint }: Settings,
  before: Ledger,
  verdict: Verdict,
  started: boolean,
  { left, draw }: Surroundings
): Decision => {
  const name = (verdict.retry ? verdict.class : undefined) ?? "failure"
  const [limit, failed] = AttemptLimits.next(limits, before.failed, name)
  const ledger: Ledger = { ...before, failed, refusals: 0 }
  if (!verdict.retry) return { stopped: "not-retryable", ledger }
  if (started) return { stopped: "started", ledger }
  if (limit._tag === "Denied") return { stopped: "attempts", ledger }
  const delay = Backoff.delay(backoff, failed.total, before.previous, draw)
  const wait = Backoff.withHint(hint, delay, millisOf(verdict.retryAfter), draw)
  if (wait._tag === "TooLong") return { stopped: "retry-after", ledger }
  if (wait.millis >= left) return { stopped: "deadline", ledger }
  return {
    stopped: undefined,
    ledger: { ...ledger, previous: delay },
    wait: wait.millis,
    class: verdict.class
  }
}

/** What follows a refusal of the circuit, which is no attempt. */
const afterRefusal = (
  { backoff, breaker }: Settings,
  before: Ledger,
  { retryAfter }: CircuitRefused,
  { left, draw }: Surroundings
): Decision => {
  const refusals = before.refusals + 1
  const ledger: Ledger = { ...before, refusals }
  if ((breaker?.whenRefused ?? defaults.whenRefused) === "fail") return { stopped: "refused", ledger }
  const wait =
    retryAfter === undefined
      ? Backoff.delay(backoff, refusals, undefined, draw)
      : // Timers cut fractions off, and would wake it just before it is let through.
        Math.ceil(Duration.toMillis(retryAfter))
  return wait >= left ? { stopped: "deadline", ledger } : { stopped: undefined, ledger, wait }
}

/** A server's wait in milliseconds. Nonsense from a server must not become a defect of ours. */
const millisOf = (retryAfter: Duration.Input | undefined): number | undefined => {
  if (retryAfter === undefined || Number.isNaN(retryAfter)) return undefined
  return Option.getOrUndefined(
    Option.map(Duration.fromInput(retryAfter), (said) => Math.max(0, Duration.toMillis(said)))
  )
}

/** Waits, if there is to be another attempt, and gives the ledger for it. Otherwise fails. */
const next = (
  settings: Settings,
  ledger: Ledger,
  cause: Cause.Cause<unknown>,
  { ran }: Call,
  started: boolean
): Effect.Effect<Ledger, RetryFailed<unknown>, RetryBudget> => {
  const failure = cause.reasons.find(Cause.isFailReason)
  if (failure === undefined || Cause.hasDies(cause)) {
    // Beside a defect a failure is nothing to go by, but its type is still promised.
    const attempts = ledger.failed.total + 1
    return Effect.failCause(
      Cause.map(cause, (failure) => new RetryFailed({ failure, attempts, stopped: "not-retryable" }))
    )
  }
  const { error } = failure
  const refused = !ran && error instanceof CircuitRefused
  return Effect.gen(function* () {
    const left = Option.match(yield* Deadline.remaining, {
      onNone: () => Infinity,
      onSome: Duration.toMillis
    })
    const around = { left, draw: yield* Random.next }
    const decision = refused
      ? afterRefusal(settings, ledger, error, around)
      : afterFailure(settings, ledger, settings.classify(error), started, around)
    const attempts = decision.ledger.failed.total
    const fail = (stopped: Stopped) =>
      Effect.andThen(
        publish(settings, { _tag: "RetriesExhausted", attempts, stopped }),
        Effect.fail(new RetryFailed({ failure: error, attempts, stopped }))
      )
    if (decision.stopped !== undefined) return yield* fail(decision.stopped)
    if (settings.budget && !refused && !(yield* (yield* RetryBudget).withdraw)) return yield* fail("budget")
    const { wait: delay, class: of } = decision
    yield* publish(settings, {
      _tag: "Retrying",
      attempt: attempts,
      delay,
      because: refused ? "refused" : "failed",
      ...(of === undefined ? {} : { class: of })
    })
    yield* Effect.sleep(Duration.millis(delay))
    return decision.ledger
  })
}

type Unstamped<Event> = Event extends unknown ? Omit<Event, "at" | "name"> : never

const publish = ({ name }: Settings, event: Unstamped<RetryEvent>): Effect.Effect<void> =>
  Effect.flatMap(Clock.currentTimeMillis, (at) =>
    ResilienceEvents.publish({ ...event, at, ...(name === undefined ? {} : { name }) })
  )

/** Says so, if it was not the first attempt. */
const succeeded = (settings: Settings, { failed }: Ledger): Effect.Effect<void> =>
  failed.total === 0 ? Effect.void : publish(settings, { _tag: "RetrySucceeded", attempts: failed.total + 1 })

const call = (settings: Settings, self: Effect.Effect<unknown, unknown, unknown>) => {
  const { breaker, budget, deadline } = settings
  const attempt = (one: Call): Effect.Effect<unknown, unknown, unknown> => {
    if (breaker === undefined) return self
    one.ran = false
    const run = Effect.suspend(() => {
      one.ran = true
      return self
    })
    return CircuitBreaker.execute(breaker.circuit, { classify: breaker.classify, call: one })(run)
  }
  const attempts = (ledger: Ledger, one: Call): Effect.Effect<unknown, unknown, unknown> =>
    Effect.catchCause(
      ledger.failed.total === 0 ? attempt(one) : Effect.tap(attempt(one), succeeded(settings, ledger)),
      (cause) => Effect.flatMap(next(settings, ledger, cause, one, false), (after) => attempts(after, one))
    )
  const all =
    breaker === undefined
      ? attempts(start, { ran: true })
      : Effect.suspend(() => attempts(start, { ran: false }))
  const counted = budget
    ? Effect.andThen(
        Effect.flatMap(RetryBudget, ({ deposit }) => deposit),
        all
      )
    : all
  return deadline === undefined ? counted : Deadline.within(counted, deadline)
}

const streamCall = (settings: Settings, self: Stream.Stream<unknown, unknown, unknown>) => {
  const { breaker, budget, deadline } = settings
  const attempt = (one: Call): Stream.Stream<unknown, unknown, unknown> => {
    if (breaker === undefined) return self
    one.ran = false
    const run = Stream.suspend(() => {
      one.ran = true
      return self
    })
    return CircuitBreaker.executeStream(breaker.circuit, { classify: breaker.classify, call: one })(run)
  }
  const attempts = (ledger: Ledger, one: Call): Stream.Stream<unknown, unknown, unknown> =>
    Stream.suspend(() => {
      let started = false
      const begin = Effect.sync(() => {
        started = true
      })
      return attempt(one).pipe(
        Stream.onFirst(() => begin),
        Stream.onEnd(succeeded(settings, ledger)),
        Stream.catchCause((cause) =>
          Stream.unwrap(
            Effect.map(next(settings, ledger, cause, one, started), (after) => attempts(after, one))
          )
        )
      )
    })
  return Stream.unwrap(
    Effect.gen(function* () {
      if (budget) yield* (yield* RetryBudget).deposit
      const all = attempts(start, { ran: breaker === undefined })
      if (deadline === undefined) return all
      const own = yield* Deadline.within(Deadline.Deadline, deadline)
      return Stream.provideService(all, Deadline.Deadline, own)
    })
  )
}
