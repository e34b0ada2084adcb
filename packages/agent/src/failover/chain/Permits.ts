/**
 * The circuits of a chain's targets: one for each endpoint, and one for each model at an endpoint, which counts
 * overloads. An attempt needs the permits of both or gets none.
 *
 * While both are closed a permit costs neither an Effect nor a scope. The user's own health check runs before.
 */
import type { Fiber } from "effect"
import { Cause, Duration, Effect, Exit, Scope } from "effect"
import type { CircuitBreaker, CircuitRefused } from "@outlast/resilience"
import { InvalidOption } from "@outlast/resilience"
import { Network, ServerError } from "../../failure/reasons/FailoverReason.ts"
import type { CircuitOut, ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { briefly, local, unhealthy } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import { timed } from "../target/Timed.ts"

/** Names of the circuits that an attempt at a target needs. */
export interface Circuits {
  readonly endpoint: string
  readonly model: string
}

/** Names the circuits: the base URL (or the provider's name if there is none), and the model there. */
export const circuitsOf = (target: TargetRef): Circuits => {
  const found = known.get(target)
  if (found !== undefined) return found
  const { provider, model, endpoint } = target
  const place = endpoint === "" ? provider : endpoint
  const made = { endpoint: place, model: `${model}@${place}` }
  known.set(target, made)
  return made
}

/** Cache of the names. A new string per attempt would be hashed again for each look-up of its circuit. */
const known = new WeakMap<TargetRef, Circuits>()

/** Outcome of an attempt. `circuit` is the circuit that counts a failure. */
export interface Ended {
  readonly failure: ProviderFailure | undefined
  readonly circuit: "endpoint" | "model" | undefined
}

export interface Permit {
  /**
   * Reports the outcome of the attempt. Call it once. `now` is in monotonic milliseconds. `undefined`: no outcome
   * that a circuit should count.
   */
  readonly settle: (ended: Ended | undefined, fiber: AnyFiber, now: number) => void
}

/** A refusal: its reason, and the milliseconds until it is worth asking again. */
export interface Refused {
  readonly wait: number
  readonly failure: ProviderFailure
  /** True when a circuit refused the attempt, false for a health check or a limit. */
  readonly byCircuit: boolean
}

export interface Options {
  readonly breaker: CircuitBreaker.Service | undefined
  readonly circuitsOf: (target: TargetRef) => Circuits
  readonly isHealthy: ((target: TargetRef) => Effect.Effect<boolean>) | undefined
}

export interface Admission {
  /** Runs the user's own health check; `undefined` when there is none. */
  readonly check:
    | ((target: TargetRef, limit: Duration.Duration) => Effect.Effect<Refused | undefined>)
    | undefined
  /** Returns a permit if no wait is needed. */
  readonly enterUnsafe: (target: TargetRef, call: unknown, fiber: AnyFiber) => Permit | undefined
  /** Gives the permit to `granted`, or returns the refusal. */
  readonly enter: (
    target: TargetRef,
    options: Omit<CircuitBreaker.CallOptions, "classify">,
    granted: (permit: Permit) => void
  ) => Effect.Effect<Refused | undefined>
  /**
   * Returns the refusal that an attempt would get now. When several circuits refuse, the one that refuses longest
   * counts.
   */
  readonly foresee: (target: TargetRef) => Effect.Effect<Refused | undefined>
  /** The circuits of a target that are not closed. */
  readonly circuits: (target: TargetRef) => Effect.Effect<ReadonlyArray<CircuitBreaker.Status>>
  /** Closes the circuits of these targets. Isolated circuits stay isolated. */
  readonly close: (targets: ReadonlyArray<TargetRef>) => Effect.Effect<Closed>
}

/** Names of the circuits that an operator closed, and of the isolated ones that were left as they are. */
export interface Closed {
  readonly closed: ReadonlyArray<string>
  readonly isolated: ReadonlyArray<string>
}

type AnyFiber = Fiber.Fiber<unknown, unknown>

const succeeded: CircuitBreaker.Outcome = { counts: "success" }
const ignored: CircuitBreaker.Outcome = { counts: "ignored" }

/** Milliseconds until a circuit is asked again when its next opening time is unknown. */
export const askAgain = 1_000

/** Milliseconds without health checks for a target whose check did not answer in time. */
const uncheckedFor = 60_000

// -----------------------------------------------------------------------------
// Health check
// -----------------------------------------------------------------------------

/**
 * Runs the user's own health check within `limit`. A check that fails, dies, is interrupted or times out does not
 * count. Returning a value that is not an Effect is an error in the program.
 */
const checking = (isHealthy: NonNullable<Options["isHealthy"]>): NonNullable<Admission["check"]> => {
  // End of the pause by target id, in monotonic milliseconds. Bounded by the targets of the chain.
  const uncheckedUntil = new Map<string, number>()
  return (target, limit) =>
    Effect.clockWith((clock) => {
      const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
      if (now() < (uncheckedUntil.get(target.id) ?? -Infinity)) return Effect.undefined
      const check = Effect.map(
        Effect.suspend(() => isHealthy(target)),
        (healthy) => (healthy ? undefined : unhealthyAt(target))
      )
      const late = () =>
        Effect.sync(() => {
          uncheckedUntil.set(target.id, now() + uncheckedFor)
          return undefined
        })
      return Effect.catchCause(timed(check, limit, late), (cause) => {
        const error = Cause.squash(cause)
        return error instanceof InvalidOption ? Effect.die(error) : Effect.undefined
      })
    })
}

const unhealthyAt = (target: TargetRef): Refused => ({
  wait: askAgain,
  failure: local(unhealthy, new Network(), target),
  byCircuit: false
})

// -----------------------------------------------------------------------------
// Outcomes and refusals
// -----------------------------------------------------------------------------

/** The circuits of a chain. */
interface Own extends Pick<Options, "circuitsOf"> {
  readonly breaker: CircuitBreaker.Service
  /**
   * The last failure that each circuit counted, used as the reason of its refusals. Bounded by the number of circuits.
   */
  readonly causes: Map<string, ProviderFailure>
}

/** Outcome for the circuit `name`, which is that of the endpoint or of the model. Notes a failure that it counts. */
const outcomeOf = (
  { causes }: Own,
  name: string,
  of: Ended["circuit"],
  ended: Ended | undefined
): CircuitBreaker.Outcome => {
  if (ended === undefined) return ignored
  const { failure } = ended
  if (failure === undefined) return succeeded
  if (ended.circuit !== of) return ignored
  causes.set(name, failure)
  return { counts: "failure", retryAfter: failure.retryAfter, what: briefly(failure) }
}

/** The fields of a refusal that are used here. */
type Refusing = Pick<CircuitRefused.CircuitRefused, "circuit" | "reason" | "retryAfter" | "lastFailure">

const refusedBy = (
  { causes }: Own,
  target: TargetRef,
  { circuit, reason, retryAfter, lastFailure }: Refusing
): Refused => {
  const wait =
    reason === "isolated" ? Infinity : retryAfter === undefined ? askAgain : Duration.toMillis(retryAfter)
  const by: CircuitOut = { circuit, reason, lastFailure }
  // Failures counted by another process or another chain are not known here.
  const cause = causes.get(circuit) ?? local("circuit/open", new ServerError(), target)
  return { wait, failure: cause.refusedBy(by, target), byCircuit: reason !== "isolated" }
}

// -----------------------------------------------------------------------------
// Permits
// -----------------------------------------------------------------------------

const enterUnsafe = (own: Own, target: TargetRef, call: unknown, fiber: AnyFiber): Permit | undefined => {
  const { endpoint, model } = own.circuitsOf(target)
  const leaveEndpoint = own.breaker.enterUnsafe(endpoint, fiber, call)
  if (leaveEndpoint === undefined) return undefined
  const leaveModel = own.breaker.enterUnsafe(model, fiber, call)
  if (leaveModel === undefined) {
    leaveEndpoint(ignored, fiber)
    return undefined
  }
  return {
    settle: (ended, by, now) => {
      leaveEndpoint(outcomeOf(own, endpoint, "endpoint", ended), by, now)
      leaveModel(outcomeOf(own, model, "model", ended), by, now)
    }
  }
}

const enter = (
  own: Own,
  target: TargetRef,
  options: Omit<CircuitBreaker.CallOptions, "classify">,
  granted: (permit: Permit) => void
): Effect.Effect<Refused | undefined> => {
  const { breaker } = own
  const { endpoint, model } = own.circuitsOf(target)
  return Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Scope.make(), (scope) =>
      restore(Effect.all([breaker.acquire(endpoint, options), breaker.acquire(model, options)])).pipe(
        Scope.provide(scope),
        Effect.map(([ofEndpoint, ofModel]): Refused | undefined => {
          const settle: Permit["settle"] = (ended, fiber) => {
            const told = tell(ofEndpoint, outcomeOf(own, endpoint, "endpoint", ended)).pipe(
              Effect.andThen(tell(ofModel, outcomeOf(own, model, "model", ended))),
              Effect.ensuring(Scope.close(scope, Exit.void))
            )
            // Run in the background, because a store in the network may be slow. Without one it ends at once.
            Effect.runForkWith(fiber.context)(told)
          }
          granted({ settle })
          return undefined
        }),
        Effect.catch((error) => Effect.as(Scope.close(scope, Exit.void), refusedBy(own, target, error))),
        Effect.onInterrupt(() => Scope.close(scope, Exit.void))
      )
    )
  )
}

const tell = (permit: CircuitBreaker.Permit, outcome: CircuitBreaker.Outcome): Effect.Effect<void> =>
  outcome.counts === "success"
    ? permit.succeed
    : outcome.counts === "failure"
      ? permit.fail(outcome)
      : permit.ignore

// -----------------------------------------------------------------------------
// State
// -----------------------------------------------------------------------------

/** Returns the circuits of a target that are not closed, and whether each would let the next call through. */
const notClosed = ({ breaker, circuitsOf }: Own, target: TargetRef) => {
  const { endpoint, model } = circuitsOf(target)
  const names = [...new Set([endpoint, model])]
  return Effect.map(
    Effect.forEach(names, (name) => Effect.zip(breaker.state(name), breaker.available(name))),
    (all) =>
      all.flatMap(([status, isAvailable]) => {
        const { phase } = status
        return phase === "closed" ? [] : [{ status, phase, isAvailable }]
      })
  )
}

const foresee = (own: Own, target: TargetRef): Effect.Effect<Refused | undefined> =>
  Effect.map(notClosed(own, target), (all) =>
    all
      .filter(({ isAvailable }) => !isAvailable)
      .map(({ status, phase }) => refusedBy(own, target, { ...status, reason: phase }))
      .reduce<Refused | undefined>(
        (longest, one) => (longest === undefined || one.wait > longest.wait ? one : longest),
        undefined
      )
  )

const close = ({ breaker, circuitsOf }: Own, targets: ReadonlyArray<TargetRef>): Effect.Effect<Closed> =>
  Effect.gen(function* () {
    const names = new Set(targets.map(circuitsOf).flatMap(({ endpoint, model }) => [endpoint, model]))
    const known = (yield* breaker.list).filter(({ circuit }) => names.has(circuit))
    // Reset closed circuits too, so that they forget the failures they counted.
    for (const { circuit } of known) yield* breaker.reset(circuit)
    const namesOf = (isMeant: (phase: CircuitBreaker.Status["phase"]) => boolean) =>
      known.flatMap(({ circuit, phase }) => (isMeant(phase) ? [circuit] : []))
    return {
      closed: namesOf((phase) => phase === "open" || phase === "half-open"),
      isolated: namesOf((phase) => phase === "isolated")
    }
  })

// -----------------------------------------------------------------------------
// Making
// -----------------------------------------------------------------------------

/** Returns `undefined` when there are neither circuits nor a health check. */
export const make = ({ breaker, circuitsOf, isHealthy }: Options): Admission | undefined => {
  const check = isHealthy && checking(isHealthy)
  if (breaker === undefined) return check && { check, ...noCircuits }
  const own: Own = { breaker, circuitsOf, causes: new Map() }
  return {
    check,
    enterUnsafe: (target, call, fiber) => enterUnsafe(own, target, call, fiber),
    enter: (target, options, granted) => Effect.suspend(() => enter(own, target, options, granted)),
    foresee: (target) => foresee(own, target),
    circuits: (target) => Effect.map(notClosed(own, target), (all) => all.map(({ status }) => status)),
    close: (targets) => close(own, targets)
  }
}

const noCircuits: Omit<Admission, "check"> = {
  enterUnsafe: () => ({ settle: () => {} }),
  enter: () => Effect.undefined,
  foresee: () => Effect.undefined,
  circuits: () => Effect.succeed([]),
  close: () => Effect.succeed({ closed: [], isolated: [] })
}
