/**
 * Two attempts of one call at the same time: one whose first content is late, and one that hedges it.
 *
 * The first attempt with content goes on, and the other one is aborted. An attempt that ends without content leaves the
 * other one alone. Where both have content, the late one goes on: its target stands first. Nothing of either is shown
 * before. Streams (`StreamRunner`) and whole answers (`WholeRunner`) race by the same rules.
 */
import { Effect } from "effect"
import type { Usage } from "../../conversation/Usage.ts"
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { Attempt } from "./Attempt.ts"
import type { CallRun } from "./CallRun.ts"
import type { EndedAttempts } from "./EndedAttempts.ts"

/** An attempt under way. */
export interface Runner {
  readonly attempt: Attempt
  /** True once content has come, or the attempt has ended. Reads what has come. */
  readonly isHeard: boolean
  /** Completes when {@link isHeard} is true. */
  readonly heard: Effect.Effect<void>
  /** Why the attempt does not answer, once it is heard; `undefined` when it does. */
  readonly problem: Effect.Effect<Problem | undefined>
  /** Aborts the request. */
  readonly close: Effect.Effect<void>
}

export interface Problem {
  readonly failure: ProviderFailure
  /** What the attempt has taken, where its finish came. */
  readonly usage?: Usage | undefined
}

/** The call that makes the attempts. */
interface Caller<R, S> {
  readonly run: CallRun
  readonly ended: EndedAttempts
  /** Sends an attempt. */
  readonly open: (attempt: Attempt) => Effect.Effect<R, never, S>
}

/** The attempt that goes on: the late one where no other one is made. */
export const race = <R extends Runner, S>(
  late: R,
  { ended, open, run }: Caller<R, S>
): Effect.Effect<R, CallFailure, S> =>
  Effect.gen(function* () {
    // Content that comes before the other attempt has begun makes that unnecessary.
    const next = yield* Effect.raceFirst(run.late(), Effect.as(late.heard, undefined))
    if (next === undefined) return late
    const hedge = yield* open(next)
    yield* Effect.raceFirst(late.heard, hedge.heard)
    const [runner, other] = late.isHeard ? [late, hedge] : [hedge, late]
    const problem = yield* runner.problem
    if (problem === undefined) {
      yield* other.close
      yield* run.overtaken(other.attempt)
      return runner
    }
    yield* runner.close
    yield* ended.failed(runner.attempt, problem.failure, "nothing", problem.usage)
    return other
  })
