/**
 * One call of `Retry`: makes the attempts, and asks `RetryState` after each failure. Internal to `Retry`.
 *
 * The deadline is outside, then the attempts with their waits, then the circuit, then the retry budget's count of calls
 * in flight.
 */
import { Cause, Duration, Effect, Option, Random, Stream } from "effect"
import * as CircuitBreaker from "../breaker/CircuitBreaker.ts"
import { CircuitRefused } from "../breaker/CircuitRefused.ts"
import { AttemptOptions } from "../breaker/Circuits.ts"
import * as ErrorText from "../ErrorText.ts"
import * as MissingService from "../MissingService.ts"
import * as Check from "../Options.ts"
import * as ResilienceEvents from "../telemetry/ResilienceEvents.ts"
import * as Deadline from "./Deadline.ts"
import type { Flight } from "./RetryBudget.ts"
import { RetryBudget } from "./RetryBudget.ts"
import type { RetryEvent, Stopped } from "./RetryEvent.ts"
import { RetryFailed } from "./RetryFailed.ts"
import type { Ledger, Rules, Verdict } from "./RetryState.ts"
import { afterFailure, afterRefusal, start } from "./RetryState.ts"

const module = "Retry"
const stop: Verdict = { retry: false }

/** The options of a call, read and checked. */
export interface Settings extends Rules {
  readonly classify: (error: unknown) => Verdict
  readonly deadline: Duration.Duration | undefined
  readonly budget: boolean
  readonly breaker:
    | { readonly circuit: CircuitBreaker.Names; readonly classify: CircuitBreaker.Classify }
    | undefined
  readonly name: string | undefined
}

/** One call. The object also identifies the call to its circuit. */
interface Call {
  /** True when the attempt got through the circuit. */
  ran: boolean
  /** True when the call has paid into the retry budget. */
  paid: boolean
}

const verdictNoun = "a Verdict, for example Retry.again() or Retry.stop"

/** A classifier without types may return anything. */
const isVerdict = (value: unknown): value is Verdict =>
  typeof value === "object" && value !== null && "retry" in value && typeof value.retry === "boolean"

/** Returns the verdict of `classify`, or the defect it threw. */
const judged = (
  { classify: judge }: Settings,
  error: unknown
): Verdict | { readonly retry: undefined; readonly defect: unknown } => {
  try {
    const verdict = judge(error)
    // Checked here, so that a wrong return value also becomes a defect of the classifier.
    if (!isVerdict(verdict)) throw Check.wrongReturn(module, "classify", verdict, verdictNoun)
    return verdict.retry ? verdict : stop
  } catch (defect) {
    return { retry: undefined, defect }
  }
}

/** Waits and returns the ledger for the next attempt. Fails when there is none. */
const next = (
  settings: Settings,
  ledger: Ledger,
  cause: Cause.Cause<unknown>,
  { ran }: Call,
  started: boolean
): Effect.Effect<Ledger, RetryFailed<unknown>, RetryBudget> => {
  const failure = cause.reasons.find(Cause.isFailReason)
  /** Passes a cause with a defect on, with its failure wrapped as the type promises. */
  const broken = (cause: Cause.Cause<unknown>) => {
    const attempts = ledger.failed.total + 1
    return Effect.failCause(
      Cause.map(cause, (failure) => new RetryFailed({ failure, attempts, stopped: "not-retryable" }))
    )
  }
  // Next to a defect, a failure is not a reason to retry.
  if (failure === undefined || Cause.hasDies(cause)) return broken(cause)
  const { error } = failure
  const refused = !ran && error instanceof CircuitRefused ? error : undefined
  const verdict = refused === undefined ? judged(settings, error) : stop
  if (verdict.retry === undefined && verdict.defect instanceof Check.InvalidOption) {
    // A mistake in the program. Dies alone, because next to a failure the defect would be overlooked.
    verdict.defect.cause = error
    return Effect.die(verdict.defect)
  }
  if (verdict.retry === undefined) return broken(Cause.combine(cause, Cause.die(verdict.defect)))
  return Effect.gen(function* () {
    const left = Option.match(yield* Deadline.remaining, {
      onNone: () => Infinity,
      onSome: Duration.toMillis
    })
    const around = { left, draw: yield* Random.next }
    const decision =
      refused === undefined
        ? afterFailure(settings, ledger, error, verdict, started, around)
        : afterRefusal(settings, ledger, refused, around)
    const attempts = decision.ledger.failed.total
    const failed = (stopped: Stopped) => {
      const failure = attempts === 0 ? error : decision.ledger.failure
      if (refused === undefined) return new RetryFailed({ failure, attempts, stopped })
      return ErrorText.withoutStack(() => new RetryFailed({ failure, attempts, stopped, refused }))
    }
    const fail = (stopped: Stopped) =>
      Effect.andThen(
        publish(settings, { _tag: "RetriesExhausted", attempts, stopped }),
        Effect.fail(failed(stopped))
      )
    if (decision.stopped !== undefined) return yield* fail(decision.stopped)
    if (settings.budget && refused === undefined && !(yield* (yield* retryBudget).withdraw)) {
      return yield* fail("budget")
    }
    const { wait: delay, class: of, retryAfter } = decision
    yield* publish(settings, {
      _tag: "Retrying",
      attempt: attempts,
      delay,
      because: refused === undefined ? "failed" : "refused",
      ...(of === undefined ? {} : { class: of }),
      ...(retryAfter === undefined ? {} : { retryAfter })
    })
    yield* Effect.sleep(Duration.millis(delay))
    return decision.ledger
  })
}

type Unnamed<Event> = Event extends RetryEvent ? Omit<Event, "at" | "name"> : never

const publish = ({ name }: Settings, event: Unnamed<RetryEvent>): Effect.Effect<void> =>
  ResilienceEvents.publishNow<RetryEvent>(name === undefined ? event : { ...event, name })

/** Publishes `RetrySucceeded`, unless the first attempt succeeded. */
const succeeded = (settings: Settings, { failed }: Ledger): Effect.Effect<void> =>
  failed.total === 0 ? Effect.void : publish(settings, { _tag: "RetrySucceeded", attempts: failed.total + 1 })

const retryBudget = MissingService.get(RetryBudget, "RetryBudget", "RetryBudget.layer()")

/** Runs `f` with the budget, in one step. */
const withBudget = <A, E, R>(f: (budget: RetryBudget["Service"]) => Effect.Effect<A, E, R>) =>
  MissingService.use(RetryBudget, "RetryBudget", "RetryBudget.layer()", f)

const pay = withBudget(({ deposit }) => deposit)

/** `RetryBudget.track` for a stream, which succeeds when it ends. */
const tracked = (self: Stream.Stream<unknown, unknown, unknown>) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const { beginUnsafe } = yield* RetryBudget
      const end = (flight: Flight, hasSucceeded: boolean) =>
        Effect.withFiber((fiber) => Effect.sync(() => flight.endUnsafe(fiber, hasSucceeded)))
      const flight = yield* Effect.acquireRelease(
        Effect.withFiber((fiber) => Effect.sync(() => beginUnsafe(fiber))),
        (flight) => end(flight, false)
      )
      return Stream.onEnd(self, end(flight, true))
    })
  )

/** A call pays when its first attempt runs. A call that the circuit refuses is not traffic. */
const owes = ({ budget }: Settings, one: Call): boolean => {
  if (!budget || one.paid) return false
  one.paid = true
  return true
}

/** For calls without a circuit, which need no state of their own. */
const free: Call = { ran: true, paid: true }

/** Makes the attempts of one call. */
export const call = (settings: Settings, attempted: Effect.Effect<unknown, unknown, unknown>) => {
  const { breaker, budget, deadline } = settings
  const self = budget ? withBudget(({ track }) => track(attempted)) : attempted
  const paying = budget
    ? withBudget(({ deposit, track }) => Effect.andThen(deposit, track(attempted)))
    : attempted
  const attempt = (one: Call): Effect.Effect<unknown, unknown, unknown> => {
    if (breaker === undefined) return self
    one.ran = false
    const run = Effect.suspend(() => {
      one.ran = true
      return owes(settings, one) ? paying : self
    })
    return CircuitBreaker.execute(breaker.circuit, new AttemptOptions(breaker.classify, one))(run)
  }
  const attempts = (
    ledger: Ledger,
    one: Call,
    first: Effect.Effect<unknown, unknown, unknown>
  ): Effect.Effect<unknown, unknown, unknown> =>
    Effect.catchCause(
      ledger.failed.total === 0 ? first : Effect.tap(first, succeeded(settings, ledger)),
      (cause) =>
        Effect.flatMap(next(settings, ledger, cause, one, false), (after) =>
          attempts(after, one, attempt(one))
        )
    )
  const all =
    breaker === undefined
      ? attempts(start, free, paying)
      : Effect.suspend(() => {
          const one: Call = { ran: false, paid: false }
          return attempts(start, one, attempt(one))
        })
  return deadline === undefined ? all : Deadline.within(all, deadline)
}

/** Like {@link call}, for a stream. */
export const streamCall = (settings: Settings, attempted: Stream.Stream<unknown, unknown, unknown>) => {
  const { breaker, budget, deadline } = settings
  const self = budget ? tracked(attempted) : attempted
  const attempt = (one: Call): Stream.Stream<unknown, unknown, unknown> => {
    one.ran = breaker === undefined
    const run = Stream.suspend(() => {
      one.ran = true
      return owes(settings, one) ? Stream.unwrap(Effect.as(pay, self)) : self
    })
    return breaker === undefined
      ? run
      : CircuitBreaker.executeStream(breaker.circuit, { classify: breaker.classify, call: one })(run)
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
  const all = Stream.suspend(() => attempts(start, { ran: false, paid: false }))
  if (deadline === undefined) return all
  return Stream.unwrap(
    Effect.map(Deadline.within(Deadline.Deadline, deadline), (own) =>
      Stream.provideService(all, Deadline.Deadline, own)
    )
  )
}
