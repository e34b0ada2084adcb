/**
 * The circuits of a chain's targets: one for each endpoint, and one for each model at an endpoint, which counts
 * overloads. An attempt needs the permits of both or gets none.
 *
 * While both are closed a permit costs neither an Effect nor a scope. A health check of the user's own is asked before.
 */
import type { Fiber } from "effect"
import { Duration, Effect, Exit, Scope } from "effect"
import type { CircuitBreaker } from "@outlast/resilience"
import { CircuitRefused } from "@outlast/resilience"
import { Network, ServerError } from "../failure/FailoverReason.ts"
import type { ProviderFailure } from "../failure/ProviderFailure.ts"
import { local } from "../failure/ProviderFailure.ts"
import type { TargetRef } from "../failure/TargetRef.ts"

/** The circuits that an attempt at a target needs. */
export interface Circuits {
  readonly endpoint: string
  readonly model: string
}

/** The base URL, or the provider's name where there is none, and the model there. */
export const circuitsOf = (target: TargetRef): Circuits => {
  const found = known.get(target)
  if (found !== undefined) return found
  const { provider, model, endpoint } = target
  const place = endpoint === "" ? provider : endpoint
  const made = { endpoint: place, model: `${model}@${place}` }
  known.set(target, made)
  return made
}

/** Kept, because a name that is made anew for each attempt is hashed anew for each look at its circuit. */
const known = new WeakMap<TargetRef, Circuits>()

/** How an attempt ended; `circuit` is the one whose failure it is. */
export interface Ended {
  readonly failure: ProviderFailure | undefined
  readonly circuit: "endpoint" | "model" | undefined
}

export interface Permit {
  /** To be called once. `undefined`: the attempt says nothing. */
  readonly settle: (ended: Ended | undefined, fiber: AnyFiber) => void
}

/** Milliseconds until it is worth asking again, and why it was refused. */
export interface Refused {
  readonly wait: number
  readonly failure: ProviderFailure
  /** A circuit refused it, and not a health check or a limit. */
  readonly byCircuit: boolean
}

export interface Options {
  readonly breaker: CircuitBreaker.Service | undefined
  readonly circuitsOf: (target: TargetRef) => Circuits
  readonly isHealthy: ((target: TargetRef) => Effect.Effect<boolean>) | undefined
}

export interface Admission {
  /** The permit, if it can be had without waiting for anything. */
  readonly enterUnsafe: (target: TargetRef, call: unknown, fiber: AnyFiber) => Permit | undefined
  /** Hands the permit to `granted`, or says why there is none. */
  readonly enter: (
    target: TargetRef,
    options: Omit<CircuitBreaker.CallOptions, "classify">,
    granted: (permit: Permit) => void
  ) => Effect.Effect<Refused | undefined>
  /** Whether an attempt would be refused now. */
  readonly foresee: (target: TargetRef) => Effect.Effect<Refused | undefined>
}

type AnyFiber = Fiber.Fiber<unknown, unknown>

const succeeded: CircuitBreaker.Outcome = { counts: "success" }
const ignored: CircuitBreaker.Outcome = { counts: "ignored" }

/** When nobody knows when a circuit lets the next call through, it is asked again after so many milliseconds. */
export const askAgain = 1_000

/** `undefined` where nothing is to be asked. */
export const make = ({ breaker, circuitsOf, isHealthy }: Options): Admission | undefined => {
  if (breaker === undefined && isHealthy === undefined) return undefined
  // The last failure that each circuit counted: what a refusal is about. As many as there are circuits.
  const causes = new Map<string, ProviderFailure>()

  const outcomeOf = (
    circuit: string,
    of: Ended["circuit"],
    ended: Ended | undefined
  ): CircuitBreaker.Outcome => {
    if (ended === undefined) return ignored
    const { failure } = ended
    if (failure === undefined) return succeeded
    if (ended.circuit !== of) return ignored
    causes.set(circuit, failure)
    return { counts: "failure", retryAfter: failure.retryAfter }
  }

  const refused = (target: TargetRef, error: CircuitRefused.CircuitRefused): Refused => {
    const cause = causes.get(error.circuit)
    const wait =
      error.reason === "isolated"
        ? Infinity
        : error.retryAfter === undefined
          ? askAgain
          : Duration.toMillis(error.retryAfter)
    const failure =
      cause === undefined
        ? local("circuit/open", new ServerError(), target, error.message)
        : cause.at(target, { values: [], prompt: [] })
    return { wait, failure, byCircuit: error.reason !== "isolated" }
  }

  const checked = (target: TargetRef): Effect.Effect<Refused | undefined> =>
    isHealthy === undefined
      ? Effect.undefined
      : Effect.map(isHealthy(target), (healthy) =>
          healthy
            ? undefined
            : {
                wait: askAgain,
                failure: local("preflight/unhealthy", new Network(), target),
                byCircuit: false
              }
        )

  const enter: Admission["enter"] = (target, options, granted) =>
    Effect.flatMap(checked(target), (unhealthy) => {
      if (unhealthy !== undefined) return Effect.succeed(unhealthy)
      if (breaker === undefined) return Effect.undefined
      const { endpoint, model } = circuitsOf(target)
      return Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(Scope.make(), (scope) =>
          restore(Effect.all([breaker.acquire(endpoint, options), breaker.acquire(model, options)])).pipe(
            Scope.provide(scope),
            Effect.map(([ofEndpoint, ofModel]): Refused | undefined => {
              const settle: Permit["settle"] = (ended, fiber) => {
                const tell = (permit: CircuitBreaker.Permit, outcome: CircuitBreaker.Outcome) =>
                  outcome.counts === "success"
                    ? permit.succeed
                    : outcome.counts === "failure"
                      ? permit.fail(outcome)
                      : permit.ignore
                const told = tell(ofEndpoint, outcomeOf(endpoint, "endpoint", ended)).pipe(
                  Effect.andThen(tell(ofModel, outcomeOf(model, "model", ended))),
                  Effect.ensuring(Scope.close(scope, Exit.void))
                )
                // Ends at once but for a store in the network, which nobody waits for.
                Effect.runForkWith(fiber.context)(told)
              }
              granted({ settle })
              return undefined
            }),
            Effect.catch((error) => Effect.as(Scope.close(scope, Exit.void), refused(target, error))),
            Effect.onInterrupt(() => Scope.close(scope, Exit.void))
          )
        )
      )
    })

  return {
    enterUnsafe: (target, call, fiber) => {
      if (breaker === undefined || isHealthy !== undefined) return undefined
      const { endpoint, model } = circuitsOf(target)
      const leaveEndpoint = breaker.enterUnsafe(endpoint, fiber, call)
      if (leaveEndpoint === undefined) return undefined
      const leaveModel = breaker.enterUnsafe(model, fiber, call)
      if (leaveModel === undefined) {
        leaveEndpoint(ignored, fiber)
        return undefined
      }
      return {
        settle: (ended, by) => {
          leaveEndpoint(outcomeOf(endpoint, "endpoint", ended), by)
          leaveModel(outcomeOf(model, "model", ended), by)
        }
      }
    },
    enter,
    foresee: (target) => {
      if (breaker === undefined) return Effect.undefined
      const { endpoint, model } = circuitsOf(target)
      return Effect.flatMap(breaker.available([endpoint, model]), (available) =>
        available
          ? Effect.undefined
          : Effect.map(
              Effect.all([breaker.state(endpoint), breaker.state(model)]),
              (states): Refused | undefined => {
                const shut = states.find(({ phase }) => phase !== "closed")
                if (shut === undefined) return undefined
                const { circuit, phase, retryAfter } = shut
                const reason = phase === "closed" ? "open" : phase
                return refused(target, new CircuitRefused.CircuitRefused({ circuit, reason, retryAfter }))
              }
            )
      )
    }
  }
}
