/**
 * Checks which tools and extensions are offered with the present configuration, by `Requirements.unmet`.
 *
 * A check has a time limit, and one that cannot be interrupted is abandoned. Values of variables are never shown, and
 * are removed from the output of checks. Unlike `Requirements.discover`, nothing is logged or published.
 */
import { Config, Effect, Exit, Fiber, Option } from "effect"
import { Requirements } from "@outlast/agent/guard"
import { Redaction } from "@outlast/agent/failure"
import type { Subject } from "./Findings.ts"
import { inWords, limit } from "./Limit.ts"

export interface Offer {
  readonly name: string
  readonly offered: boolean
  /** The reason for skipping it. Null when it is offered. */
  readonly reason: string | null
}

/** Number of concurrent checks. */
const concurrency = 8

/** Runs the checks. `secrets` are removed from the reasons. */
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
    // A check from an untyped module may return anything.
    if (typeof reason.value !== "string") {
      return Option.some("its check gave neither true, false nor a text")
    }
    const values = secretsOf(yield* Effect.forEach(requires.env ?? [], valueOf))
    return Option.some(Redaction.scrub(reason.value, maxReason, { values: [...values, ...secrets] }))
  })

/** Maximum length of a reason, in characters. */
const maxReason = 300

/** Returns the values that may be secrets. Shorter ones could be part of any word. */
export const secretsOf = (values: Iterable<string>): ReadonlyArray<string> =>
  Array.from(values, (value) => value.trim()).filter(({ length }) => length >= shortest)

const shortest = 6

/** Returns the value of a variable, or an empty string. */
export const valueOf = (name: string): Effect.Effect<string> =>
  Effect.orElseSucceed(Config.String(name), () => "")

const unmetInTime = (requires: Requirements.Requirements): Effect.Effect<Option.Option<string>> =>
  Effect.gen(function* () {
    // Runs in a detached fiber, because an uninterruptible check must not block the command.
    const fiber = yield* Effect.forkDetach(Requirements.unmet(requires))
    return yield* Fiber.await(fiber).pipe(
      Effect.map(
        Exit.match({ onSuccess: (offer) => offer, onFailure: () => Option.some("its check was interrupted") })
      ),
      Effect.timeoutOrElse({
        duration: limit,
        orElse: () => Effect.succeed(Option.some(`its check did not end within ${inWords}`))
      }),
      Effect.ensuring(Effect.sync(() => fiber.interruptUnsafe()))
    )
  })
