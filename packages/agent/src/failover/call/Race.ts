/**
 * Reads the streams of one or two attempts of a call until one of them has content or has ended.
 *
 * Nothing of either is shown meanwhile: the parts that have come are kept ({@link Runner.parts}). They are few, because
 * they have no content, and the limit for the first token ends both. The late attempt wins where both have content at the
 * same time: its target stands first.
 */
import type { Cause } from "effect"
import { Effect, Exit, Queue } from "effect"
import type { Response } from "effect/ai"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import * as End from "./AttemptEnd.ts"
import type { StreamPart } from "./PartKind.ts"
import { isProgress } from "./PartKind.ts"
import type { StreamAttempt } from "./StreamAttempt.ts"
import * as Attempts from "./StreamAttempt.ts"

/** An attempt, its parts that were read here, and how its stream has ended. */
export interface Runner {
  readonly opened: StreamAttempt
  readonly parts: Array<StreamPart>
  end: Effect.Effect<never, ProviderFailure | Cause.Done> | undefined
}

export type Outcome =
  | { readonly _tag: "Answers"; readonly runner: Runner; readonly other: Runner }
  | {
      readonly _tag: "Failed"
      readonly runner: Runner
      readonly failure: ProviderFailure
      readonly other: Runner
    }

export const runner = (opened: StreamAttempt): Runner => ({ opened, parts: [], end: undefined })

/** Reads the attempt until it has content or has ended. */
export const heard = (runner: Runner): Effect.Effect<void> =>
  Effect.flatMap(come(runner), () => {
    read(runner)
    return runner.end !== undefined || runner.parts.some(isEnough) ? Effect.void : heard(runner)
  })

/** Runs until one of the two attempts answers or fails. */
export const run = (late: Runner, hedge: Runner): Effect.Effect<Outcome> =>
  Effect.flatMap(
    Effect.raceFirst(come(late), come(hedge)),
    () => decided(late, hedge) ?? decided(hedge, late) ?? run(late, hedge)
  )

/** Completes when something has come of the attempt, or it has ended. */
const come = ({ opened: { ready, run, silence } }: Runner): Effect.Effect<unknown> =>
  Effect.suspend(() => {
    // What was read without content has not ended the wait.
    silence.wait(run.awake())
    return Effect.exit(Queue.peek(ready))
  })

/** Content, or the end of the answer. */
const isEnough = (part: StreamPart): boolean => isProgress(part) || part.type === "error"

/** Reads what has come. */
const read = (runner: Runner): void => {
  const { opened, parts } = runner
  for (;;) {
    const next = Queue.takeUnsafe(opened.ready)
    if (next === undefined) return
    if (Exit.isFailure(next)) {
      runner.end = Effect.failCause(next.cause)
      return
    }
    if (next.value !== Attempts.late) parts.push(...next.value)
  }
}

/** Reads what has come. Returns the outcome that it decides. */
const decided = (runner: Runner, other: Runner): Effect.Effect<Outcome> | undefined => {
  read(runner)
  const { opened, parts } = runner
  const { ref } = opened.attempt.target
  const failed = (failure: ProviderFailure): Outcome => ({ _tag: "Failed", runner, failure, other })
  const answers: Outcome = { _tag: "Answers", runner, other }
  for (const part of parts) {
    // An answer without content may be a failed one, for example a refusal.
    const end = part.type === "finish" ? endOf(opened, parts, part) : undefined
    if (end?._tag === "Failed") return Effect.map(End.failureOf(end, ref, "stream"), failed)
    if (isProgress(part)) return Effect.succeed(answers)
    if (part.type === "error") {
      const end = { _tag: "Failed", part, problem: undefined } as const
      return Effect.map(End.failureOf(end, ref, "stream"), failed)
    }
  }
  return (
    runner.end &&
    Effect.catch(runner.end, (failure) => Effect.succeed(failed(Attempts.endOf(opened, failure))))
  )
}

/** How an answer without content has ended. */
const endOf = (
  { attempt, run }: StreamAttempt,
  parts: ReadonlyArray<StreamPart>,
  finish: Response.FinishPartEncoded
): End.AttemptEnd => {
  const judge = run.judge(attempt)
  for (const part of parts) judge.saw(part)
  return End.of(finish, { judge, hasCall: false, lacksCall: false })
}
