/**
 * Whether tools and extensions are offered as the configuration is now, with `Requirements.unmet`.
 *
 * A check has a time limit; one that cannot be interrupted is left behind. It says nothing of the value of a variable,
 * and what a check says is freed of them.
 *
 * Unlike `Requirements.discover` it logs and publishes nothing: the report says it.
 */
import { Config, Effect, Exit, Fiber, Option, identity } from "effect"
import { Requirements } from "@outlast/agent/guard"
import { Redaction } from "@outlast/agent/failure"
import type { Subject } from "./Findings.ts"
import { inWords, limit } from "./Limit.ts"

export interface Offer {
  readonly name: string
  readonly offered: boolean
  /** Why it is skipped; null if it is not. */
  readonly reason: string | null
}

/** Checks that run at the same time. */
const concurrency = 8

/** None of `secrets` stands in a reason. */
export const examine = (
  subjects: ReadonlyArray<Subject>,
  secrets: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<Offer>> =>
  Effect.forEach(
    subjects,
    ({ name, requires }) =>
      Effect.map(reasonOf(requires, secrets), (reason): Offer => ({
        name,
        offered: Option.isNone(reason),
        reason: Option.getOrNull(reason)
      })),
    { concurrency }
  )

const reasonOf = (
  requires: Requirements.Requirements,
  secrets: ReadonlyArray<string>
): Effect.Effect<Option.Option<string>> =>
  Effect.gen(function* () {
    const reason = yield* unmetInTime(requires)
    if (Option.isNone(reason)) return reason
    // The check of a module that nobody has type-checked may give anything.
    if (typeof reason.value !== "string") {
      return Option.some("its check gave neither true, false nor a text")
    }
    const values = secretsOf(yield* Effect.forEach(requires.env ?? [], valueOf))
    return Option.some(Redaction.scrub(reason.value, maxReason, { values: [...values, ...secrets] }))
  })

/** Characters of a reason. */
const maxReason = 300

/** Of the values of variables those that may be secrets: a shorter one may be a part of any word. */
export const secretsOf = (values: Iterable<string>): ReadonlyArray<string> =>
  Array.from(values, (value) => value.trim()).filter(({ length }) => length >= shortest)

const shortest = 6

/** The value of a variable; empty if it is not set. */
export const valueOf = (name: string): Effect.Effect<string> =>
  Effect.orElseSucceed(Config.String(name), () => "")

const unmetInTime = (requires: Requirements.Requirements): Effect.Effect<Option.Option<string>> =>
  Effect.gen(function* () {
    // In a fiber of its own: nobody waits for one that cannot be interrupted.
    const fiber = yield* Effect.forkDetach(Requirements.unmet(requires))
    return yield* Fiber.await(fiber).pipe(
      Effect.map(
        Exit.match({ onSuccess: identity, onFailure: () => Option.some("its check was interrupted") })
      ),
      Effect.timeoutOrElse({
        duration: limit,
        orElse: () => Effect.succeed(Option.some(`its check did not end within ${inWords}`))
      }),
      Effect.ensuring(Effect.sync(() => fiber.interruptUnsafe()))
    )
  })
