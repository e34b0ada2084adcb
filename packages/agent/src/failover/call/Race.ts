/**
 * Reads the streams of two attempts of one call until one of them has content or has failed.
 *
 * Nothing of either is shown meanwhile: the parts that have come are kept ({@link Runner.parts}). They are few, because
 * they have no content, and the limit for the first token ends both. The late attempt wins where both have content at the
 * same time: its target stands first.
 */
import type { Cause } from "effect"
import { Effect, Exit, Queue } from "effect"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import * as End from "./AttemptEnd.ts"
import type { StreamPart } from "./PartKind.ts"
import { isProgress } from "./PartKind.ts"
import type { StreamAttempt } from "./StreamAttempt.ts"
import * as Attempts from "./StreamAttempt.ts"

/** One of the two attempts, and its parts that were read in the race. */
export interface Runner {
  readonly opened: StreamAttempt
  readonly parts: ReadonlyArray<StreamPart>
}

export type Outcome =
  | { readonly _tag: "Answers"; readonly runner: Runner; readonly other: Runner }
  | {
      readonly _tag: "Failed"
      readonly runner: Runner
      readonly failure: ProviderFailure
      readonly other: Runner
    }

/** Completes when something has come of the attempt, or it has ended. */
export const heard = ({ ready }: StreamAttempt): Effect.Effect<void> =>
  Effect.asVoid(Effect.exit(Queue.peek(ready)))

/** Runs until one of the two attempts answers or fails. */
export const run = (late: StreamAttempt, hedge: StreamAttempt): Effect.Effect<Outcome> => {
  const first: Reading = { opened: late, parts: [], end: undefined }
  const second: Reading = { opened: hedge, parts: [], end: undefined }
  const rest: Effect.Effect<Outcome> = Effect.flatMap(
    Effect.raceFirst(heard(late), heard(hedge)),
    () => read(first, second) ?? read(second, first) ?? rest
  )
  return rest
}

interface Reading extends Runner {
  readonly parts: Array<StreamPart>
  end: Effect.Effect<never, ProviderFailure | Cause.Done> | undefined
}

/** Reads what has come. Returns the outcome that it decides. */
const read = (runner: Reading, other: Reading): Effect.Effect<Outcome> | undefined => {
  const { opened, parts } = runner
  for (;;) {
    const next = Queue.takeUnsafe(opened.ready)
    if (next === undefined) break
    if (Exit.isFailure(next)) {
      runner.end = Effect.failCause(next.cause)
      break
    }
    if (next.value !== Attempts.late) parts.push(...next.value)
  }
  const failed = (failure: ProviderFailure): Outcome => ({ _tag: "Failed", runner, failure, other })
  for (const part of parts) {
    if (isProgress(part)) return Effect.succeed({ _tag: "Answers", runner, other })
    if (part.type === "error") {
      const end = { _tag: "Failed", part, problem: undefined } as const
      return Effect.map(End.failureOf(end, opened.attempt.target.ref, "stream"), failed)
    }
  }
  return (
    runner.end &&
    Effect.catch(runner.end, (failure) => Effect.succeed(failed(Attempts.endOf(opened, failure))))
  )
}
