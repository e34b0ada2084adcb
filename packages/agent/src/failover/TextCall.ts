/**
 * One call for a whole answer, text or object: attempts until one is complete.
 */
import { Effect } from "effect"
import type { IdGenerator, LanguageModel, Response } from "effect/ai"
import type { CallFailure } from "../failure/CallFailure.ts"
import { Format, ServerError, Timeout } from "../failure/FailoverReason.ts"
import type { ProviderFailure } from "../failure/ProviderFailure.ts"
import { local } from "../failure/ProviderFailure.ts"
import { namespace } from "./Answered.ts"
import type { Answered } from "./Answered.ts"
import type { Attempt, Chain } from "./CallRun.ts"
import { CallRun } from "./CallRun.ts"
import type { ProviderRequest } from "./ProviderModel.ts"
import { timed } from "./Timed.ts"
import { failureAt, requestOf } from "./AttemptRequest.ts"

type Parts = Array<Response.PartEncoded>

/** The parts of the first complete answer, with who answered in their metadata. */
export const generateText = (
  chain: Chain,
  options: LanguageModel.ProviderOptions
): Effect.Effect<Parts, CallFailure, IdGenerator.IdGenerator> =>
  Effect.flatMap(CallRun.make(chain), (run) =>
    Effect.flatMap(requestOf(options), (request) => {
      const attempted = (attempt: Attempt): Effect.Effect<Parts, CallFailure, IdGenerator.IdGenerator> => {
        const made = request(attempt.target)
        return Effect.matchEffect(answerOf(chain, attempt, made), {
          onSuccess: (answer) => deliver(run, attempt, answer),
          onFailure: ({ failure, usage }) =>
            Effect.flatMap(
              run.failed(attempt, failureAt(attempt.target, made, failure), "nothing", usage),
              attempted
            )
        })
      }
      return Effect.onInterrupt(
        Effect.flatMap(run.advance({ _tag: "Started" }), attempted),
        () => run.abandoned
      )
    })
  )

/** A complete answer. */
interface Answer {
  readonly parts: Parts
  readonly finish: Response.FinishPartEncoded
}

/** Why there is none, and what the attempt took, where the provider said it. */
interface NoAnswer {
  readonly failure: ProviderFailure
  readonly usage?: Response.FinishPartEncoded["usage"]
}

const answerOf = (
  { policy }: Chain,
  { target }: Attempt,
  request: ProviderRequest
): Effect.Effect<Answer, NoAnswer, IdGenerator.IdGenerator> =>
  timed(target.model.generateText(request), policy.limits.total, () =>
    Effect.fail(local("limit/total", new Timeout({ phase: "total", local: true }), target.ref))
  ).pipe(
    Effect.matchEffect({
      onFailure: (failure) => Effect.fail({ failure }),
      onSuccess: (parts): Effect.Effect<Answer, NoAnswer> => {
        const finish = parts.findLast((part) => part.type === "finish")
        if (finish === undefined) {
          return Effect.fail({
            failure: local("answer/no-finish", new Format({ side: "response" }), target.ref)
          })
        }
        return finish.reason === "error"
          ? Effect.fail({
              failure: local("answer/finish-error", new ServerError(), target.ref),
              usage: finish.usage
            })
          : Effect.succeed({ parts, finish })
      }
    })
  )

const deliver = (run: CallRun, attempt: Attempt, { parts, finish }: Answer): Effect.Effect<Parts> =>
  Effect.map(run.succeeded(attempt, finish), (costUsd) => {
    const answered: Answered = {
      requested: run.requested,
      ...attempt.answered,
      ...(costUsd === undefined ? {} : { costUsd })
    }
    const first = parts.find((part) => part.type === "text")
    return parts.map((part) =>
      part === first || part === finish
        ? { ...part, metadata: { ...part.metadata, [namespace]: answered } }
        : part
    )
  })
