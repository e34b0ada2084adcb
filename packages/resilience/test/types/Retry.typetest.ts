/** Checked by `tsc -b`; never run. */
import { Data, Duration, Effect } from "effect"
import type { Stream } from "effect"
import { Retry } from "@outlast/resilience"
import type { CircuitBreaker, RetryBudget, RetryEvent } from "@outlast/resilience"
import type { CircuitRefused } from "#resilience/breaker/CircuitRefused"

/** Exactly the same type, not only assignable. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(yes: Same<A, B>): boolean => yes

class Busy extends Data.TaggedError("Busy")<{ readonly wait: Duration.Duration }> {}
class Malformed extends Data.TaggedError("Malformed") {}
/** An error that states that it is retryable, and when. */
class Overloaded extends Data.TaggedError("Overloaded")<{ readonly retryAfter: Duration.Duration }> {
  readonly isRetryable = true
}
class Database {
  readonly name = "database"
}

declare const answer: Effect.Effect<string, Busy | Malformed, Database>
declare const told: Effect.Effect<string, Overloaded>
declare const lines: Stream.Stream<string, Busy | Malformed, Database>

// The parameter of `classify` has the error type of the effect, without an annotation.
export const classified: Effect.Effect<string, Retry.RetryFailed<Busy | Malformed>, Database> = answer.pipe(
  Retry.with({
    classify: (error) => (error._tag === "Busy" ? Retry.again({ retryAfter: error.wait }) : Retry.stop)
  })
)
export const classifiedStream: Stream.Stream<
  string,
  Retry.RetryFailed<Busy | Malformed>,
  Database
> = lines.pipe(
  Retry.withStream({ classify: (error) => (error._tag === "Busy" ? Retry.again() : Retry.stop) })
)

// Every failure has to be classified.
const onlyBusy = (error: Busy): Retry.Verdict => Retry.again({ retryAfter: error.wait })
answer.pipe(
  // @ts-expect-error: Malformed is not classified
  Retry.with({ classify: onlyBusy })
)
lines.pipe(
  // @ts-expect-error: Malformed is not classified
  Retry.withStream({ classify: onlyBusy })
)

// Without `classify` every error must have `isRetryable`.
export const said: Effect.Effect<string, Retry.RetryFailed<Overloaded>> = told.pipe(Retry.with())
export const saidWithOptions: Effect.Effect<string, Retry.RetryFailed<Overloaded>> = told.pipe(
  Retry.with({ attempts: 5 })
)
answer.pipe(
  // @ts-expect-error: neither Busy nor Malformed has isRetryable
  Retry.with()
)
lines.pipe(
  // @ts-expect-error: neither Busy nor Malformed has isRetryable
  Retry.withStream({ attempts: 5 })
)
Effect.fail("text").pipe(
  // @ts-expect-error: a string says nothing about itself
  Retry.with()
)

// A verdict against a retry cannot have a wait.
// @ts-expect-error: a failure that is not retried has no wait
export const stopWithWait: Retry.Verdict = { retry: false, retryAfter: "1 second" }
same<Retry.RetryFailed<Busy>["isRetryable"], false>(true)
declare const failed: Retry.RetryFailed<Overloaded>
// @ts-expect-error: attempts would multiply
export const retryable: Overloaded["isRetryable"] = failed.isRetryable
// A verdict must be an object: neither a boolean nor nothing.
// @ts-expect-error: a boolean has no wait and no class
answer.pipe(Retry.with({ classify: () => true }))

// Services are required exactly when options use them.
const classify = (_error: Busy | Malformed): Retry.Verdict => Retry.again()
type Of<T> = T extends Effect.Effect<infer _A, infer _E, infer R> ? R : never
type ErrorOf<T> = T extends Effect.Effect<infer _A, infer E, infer _R> ? E : never
const plain = answer.pipe(Retry.with({ classify }))
same<Of<typeof plain>, Database>(true)
const budgeted = answer.pipe(Retry.with({ classify, budget: true }))
same<Of<typeof budgeted>, Database | RetryBudget.RetryBudget>(true)
const unbudgeted = answer.pipe(Retry.with({ classify, budget: false }))
same<Of<typeof unbudgeted>, Database>(true)
const guarded = answer.pipe(Retry.with({ classify, breaker: { circuit: "a" } }))
same<Of<typeof guarded>, Database | CircuitBreaker.CircuitBreaker>(true)
same<ErrorOf<typeof guarded>, Retry.RetryFailed<Busy | Malformed | CircuitRefused>>(true)
same<ErrorOf<typeof plain>, Retry.RetryFailed<Busy | Malformed>>(true)
const both = told.pipe(Retry.with({ budget: true, breaker: { circuit: ["a", "b"], whenRefused: "wait" } }))
same<Of<typeof both>, RetryBudget.RetryBudget | CircuitBreaker.CircuitBreaker>(true)
const stream = lines.pipe(Retry.withStream({ classify, budget: true, breaker: { circuit: "a" } }))
same<
  typeof stream,
  Stream.Stream<
    string,
    Retry.RetryFailed<Busy | Malformed | CircuitRefused>,
    Database | RetryBudget.RetryBudget | CircuitBreaker.CircuitBreaker
  >
>(true)

// When options are only known at run time, the services they may use are required.
declare const configured: {
  readonly budget: boolean
  readonly breaker: Retry.Breaker | undefined
}
const perhaps = told.pipe(Retry.with(configured))
same<Of<typeof perhaps>, RetryBudget.RetryBudget | CircuitBreaker.CircuitBreaker>(true)
declare const anyOptions: Retry.Options<Busy | Malformed>
const loose = answer.pipe(Retry.with({ ...anyOptions, classify }))
same<Of<typeof loose>, Database | RetryBudget.RetryBudget | CircuitBreaker.CircuitBreaker>(true)

// Limits may name the classes that `classify` returns, and "failure".
const limited = answer.pipe(
  Retry.with({
    classify: (error) =>
      error._tag === "Busy" ? Retry.again({ class: "RateLimit" }) : Retry.again({ class: "Server" }),
    attemptsPerClass: { RateLimit: 5, Server: 2, failure: 1 }
  })
)
same<ErrorOf<typeof limited>, Retry.RetryFailed<Busy | Malformed>>(true)
const limitedRate = () => Retry.again({ class: "RateLimit" })
// @ts-expect-error: it gives "RateLimit"
answer.pipe(Retry.with({ classify: limitedRate, attemptsPerClass: { RateLimt: 5 } }))
// @ts-expect-error: it gives no class
lines.pipe(Retry.withStream({ classify: () => Retry.again(), attemptsPerClass: { RateLimit: 5 } }))
told.pipe(
  Retry.with({
    // @ts-expect-error: without `classify` there are no classes
    attemptsPerClass: { RateLimit: 5 }
  })
)
told.pipe(Retry.with({ attemptsPerClass: { failure: 5 } }))
// When the class is any string, so are the limits.
answer.pipe(Retry.with({ classify, attemptsPerClass: { RateLimit: 5 } }))
declare const reason: { readonly name: string }
answer.pipe(
  Retry.with({
    classify: () => Retry.again({ class: reason.name }),
    attemptsPerClass: { RateLimit: 5 }
  })
)

// An effect that cannot fail, without a circuit, still cannot fail.
declare const sure: Effect.Effect<string>
declare const sureLines: Stream.Stream<string>
export const surely: Effect.Effect<string> = sure.pipe(Retry.with({ attempts: 2 }))
export const surelyLines: Stream.Stream<string> = sureLines.pipe(Retry.withStream({ attempts: 2 }))
const guardedSure = sure.pipe(Retry.with({ breaker: { circuit: "a" } }))
same<ErrorOf<typeof guardedSure>, Retry.RetryFailed<CircuitRefused>>(true)

// Generic code gets the error type of its effect.
export const wrapped = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  self.pipe(Retry.with({ classify: () => Retry.again(), attempts: 2 }))
const unwrapped = wrapped(answer)
same<ErrorOf<typeof unwrapped>, Retry.RetryFailed<Busy | Malformed>>(true)

// The effect or the stream can be the first argument, with the same types.
const firstClassified = Retry.with(answer, {
  classify: (error) => (error._tag === "Busy" ? Retry.again({ retryAfter: error.wait }) : Retry.stop),
  budget: true,
  breaker: { circuit: "a" }
})
same<
  typeof firstClassified,
  Effect.Effect<
    string,
    Retry.RetryFailed<Busy | Malformed | CircuitRefused>,
    Database | RetryBudget.RetryBudget | CircuitBreaker.CircuitBreaker
  >
>(true)
export const firstTold: Effect.Effect<string, Retry.RetryFailed<Overloaded>> = Retry.with(told, {
  attempts: 2
})
const firstLines = Retry.withStream(lines, {
  classify: (error) => (error._tag === "Busy" ? Retry.again() : Retry.stop)
})
same<typeof firstLines, Stream.Stream<string, Retry.RetryFailed<Busy | Malformed>, Database>>(true)
// @ts-expect-error: Malformed is not classified
Retry.with(answer, { classify: onlyBusy })
// @ts-expect-error: neither Busy nor Malformed has isRetryable
Retry.with(answer, { attempts: 2 })

// The breaker's classifier needs no annotation.
told.pipe(
  Retry.with({
    breaker: {
      circuit: "a",
      classify: (exit) => (exit._tag === "Success" ? { counts: "success" } : { counts: "failure" })
    }
  })
)

// The refusal that ended a call is available next to its failure.
same<(typeof failed)["refused"], CircuitRefused | undefined>(true)

// An unknown option does not compile.
// @ts-expect-error: it is called attempts
answer.pipe(Retry.with({ classify, attemps: 5 }))
// @ts-expect-error: it is called attempts
told.pipe(Retry.with({ times: 5 }))
// @ts-expect-error: a circuit that refuses makes a call wait or fail
told.pipe(Retry.with({ breaker: { circuit: "a", whenRefused: "retry" } }))

// The original failure is available by tag, with its type.
export const caught: Effect.Effect<string, never, Database> = plain.pipe(
  Effect.catchTag("RetryFailed", ({ failure, attempts }) =>
    Effect.succeed(`${failure._tag} after ${attempts}`)
  )
)
export const caughtRefusal: Effect.Effect<string, never, Database | CircuitBreaker.CircuitBreaker> =
  guarded.pipe(
    Effect.catchTag("RetryFailed", ({ failure }) => {
      switch (failure._tag) {
        case "Busy":
          return Effect.succeed(Duration.format(failure.wait))
        case "Malformed":
          return Effect.succeed("")
        case "CircuitRefused":
          return Effect.succeed(failure.circuit)
      }
    })
  )
plain.pipe(
  // @ts-expect-error: what the effect failed with is inside
  Effect.catchTag("Busy", () => Effect.succeed(""))
)

// A program can switch over every reason for stopping.
export const stoppedBy = (stopped: RetryEvent.Stopped): number => {
  switch (stopped) {
    case "not-retryable":
    case "attempts":
    case "deadline":
    case "retry-after":
    case "budget":
    case "refused":
    case "started":
      return 1
  }
}
