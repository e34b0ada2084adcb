/** An attempt for a whole answer in a race: a fiber that ends with the answer. */
import { Effect, Exit, Fiber, Option } from "effect"
import type { IdGenerator, Response } from "effect/ai"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { Attempt } from "./Attempt.ts"
import type { AttemptEnd } from "./AttemptEnd.ts"
import * as End from "./AttemptEnd.ts"
import * as AttemptRequest from "./AttemptRequest.ts"
import type { CallRun } from "./CallRun.ts"
import { isCallOfProgram } from "./PartKind.ts"
import type { Problem, Runner } from "./Race.ts"
import { StillRunning } from "./StreamedAnswer.ts"
import type { StreamedAnswer } from "./StreamedAnswer.ts"

export type Parts = Array<Response.PartEncoded>

/** An attempt for a whole answer. */
export interface Asked {
  readonly attempt: Attempt
  readonly request: AttemptRequest.AttemptRequest
  /** `undefined`: the answer is requested whole. */
  readonly streamed: StreamedAnswer | undefined
  readonly answer: Effect.Effect<Parts, ProviderFailure | StillRunning, IdGenerator.IdGenerator>
}

/** How the answer of an attempt ends. */
export const endOf = (
  run: CallRun,
  { attempt, streamed }: Pick<Asked, "attempt" | "streamed">,
  parts: Parts,
  finish: Response.FinishPartEncoded
): AttemptEnd => {
  const judge = run.judge(attempt)
  for (const part of parts) judge.saw(part)
  const hasCall = parts.some(isCallOfProgram)
  return End.of(finish, { judge, hasCall, lacksCall: streamed?.lacksCall ?? false })
}

export class WholeRunner implements Runner {
  readonly asked: Asked
  readonly #run: CallRun
  readonly #fiber: Fiber.Fiber<Parts, ProviderFailure | StillRunning>

  constructor(run: CallRun, asked: Asked, fiber: Fiber.Fiber<Parts, ProviderFailure | StillRunning>) {
    this.#run = run
    this.asked = asked
    this.#fiber = fiber
  }

  get attempt(): Attempt {
    return this.asked.attempt
  }

  /** How the attempt ends. */
  get exit(): Effect.Effect<Exit.Exit<Parts, ProviderFailure | StillRunning>> {
    return Fiber.await(this.#fiber)
  }

  get isHeard(): boolean {
    return this.#isAnswering || this.#fiber.pollUnsafe() !== undefined
  }

  get heard(): Effect.Effect<void> {
    const { streamed } = this.asked
    const ended = Effect.asVoid(this.exit)
    return streamed === undefined ? ended : Effect.raceFirst(ended, streamed.answers)
  }

  get problem(): Effect.Effect<Problem | undefined> {
    const { attempt, request } = this.asked
    const exit = this.#fiber.pollUnsafe()
    const located = (failure: ProviderFailure): ProviderFailure =>
      AttemptRequest.failureAt(attempt.target, request, failure)
    if (this.#isAnswering || exit === undefined) return Effect.undefined
    if (Exit.isFailure(exit)) {
      const failure = Option.getOrUndefined(Exit.findErrorOption(exit))
      // A defect ends the call.
      return failure === undefined || failure instanceof StillRunning
        ? Effect.undefined
        : Effect.succeed({ failure: located(failure) })
    }
    const finish = exit.value.findLast((part) => part.type === "finish")
    const end = finish && endOf(this.#run, this.asked, exit.value, finish)
    return end?._tag !== "Failed"
      ? Effect.undefined
      : Effect.map(End.failureOf(end, attempt.target.ref, "answer"), (failure) => ({
          failure: located(failure),
          usage: End.usageOf(end)
        }))
  }

  get close(): Effect.Effect<void> {
    return Effect.asVoid(Fiber.interrupt(this.#fiber))
  }

  get #isAnswering(): boolean {
    return this.asked.streamed?.isAnswering === true
  }
}
