/**
 * The attempts of one call that have ended, streamed or whole: each end is reported to `CallRun`, which returns what comes
 * next, and the last finish says what all of them have taken.
 */
import type { Effect } from "effect"
import type { Response } from "effect/ai"
import { namespace, written } from "../../conversation/Answered.ts"
import type { Usage } from "../../conversation/Usage.ts"
import { sum, unknown } from "../../conversation/Usage.ts"
import * as WindowFull from "../../conversation/WindowFull.ts"
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { isWrongObject } from "../../failure/reasons/ProviderFailure.ts"
import type { Commit } from "../decide/CallState.ts"
import type { Answer } from "./Answer.ts"
import type { Attempt } from "./Attempt.ts"
import type { Cut } from "./AttemptEnd.ts"
import type { CallRun } from "./CallRun.ts"
import * as ObjectAnswer from "./ObjectAnswer.ts"
import type { StreamPart } from "./PartKind.ts"
import type { View } from "./Shown.ts"

type Finish = Response.FinishPartEncoded
/** The next attempt; `undefined`: the cut answer is to be delivered as it is. */
type Next = Effect.Effect<Attempt | undefined, CallFailure>

export class EndedAttempts {
  readonly #run: CallRun
  /** Tokens of the attempts that failed or were cut, as far as they are known. */
  #spent: Usage | undefined
  #wrong: string | undefined

  constructor(run: CallRun) {
    this.#run = run
  }

  /** The text of an answer that is not the object that was asked for, if that is what failed last. */
  get wrong(): string | undefined {
    return this.#wrong
  }

  /** The attempt failed. `silent` are the milliseconds since its last part. */
  failed(attempt: Attempt, failure: ProviderFailure, commit: Commit, usage?: Usage, silent?: number): Next {
    if (usage !== undefined) this.#spent = sum(this.#spent, usage)
    if (!isWrongObject(failure)) this.#wrong = undefined
    return this.#run.failed(attempt, failure, commit, usage, silent)
  }

  /** The failure of an attempt that has answered with `text` where an object was asked for. */
  wrongObject({ target }: Attempt, problem: string, text: string): ProviderFailure {
    this.#wrong = text
    return ObjectAnswer.failure(problem, target.ref)
  }

  /** The answer of the attempt was cut. */
  cut(attempt: Attempt, { finish, inToolCall }: Cut, commit: Commit, { gained, text }: View): Next {
    const { usage } = finish
    const byWindow = WindowFull.isMarked(finish)
    this.#spent = sum(this.#spent, usage)
    const report = { commit, usage, inToolCall, characters: gained, hasText: !text.isBlank, byWindow }
    return this.#run.cut(attempt, report)
  }

  /** The finish of a complete answer, with who answered and what the call has taken. */
  finish({ answered }: Attempt, finish: Finish, costUsd: number | undefined): Finish {
    return this.#priced(answered, finish, sum(this.#spent, finish.usage), costUsd)
  }

  /** The rest of a cut answer, as `Answer.deliverCut` has it, with its finish. */
  delivered(
    answer: Answer,
    { answered }: Attempt,
    costUsd: number | undefined,
    refused?: Finish
  ): ReadonlyArray<StreamPart> {
    const { out, finish } = answer.deliverCut(refused)
    return [...out, this.#priced(answered, finish, this.#spent, costUsd)]
  }

  #priced(
    answered: Attempt["answered"],
    finish: Finish,
    usage: Usage | undefined,
    costUsd: number | undefined
  ): Finish {
    const ours = written({ requested: this.#run.requested, ...answered, costUsd })
    return { ...finish, usage: usage ?? unknown, metadata: { ...finish.metadata, [namespace]: ours } }
  }
}
