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
import { failureAt, requestOf } from "./AttemptRequest.ts"

type Parts = Array<Response.PartEncoded>

/** The parts of the first complete answer, with who answered in their metadata. */
export const generateText = (
  chain: Chain,
  options: LanguageModel.ProviderOptions
): Effect.Effect<Parts, CallFailure, IdGenerator.IdGenerator> =>
  Effect.gen(function* () {
    const run = yield* CallRun.make(chain)
    const request = yield* requestOf(options)
    let attempt = yield* run.advance({ _tag: "Started" })
    for (;;) {
      const made = request(attempt.target)
      const result = yield* Effect.result(answerOf(chain, attempt, made))
      if (result._tag === "Success") return yield* deliver(run, attempt, result.success)
      attempt = yield* run.failed(attempt, failureAt(attempt.target, made, result.failure), "nothing")
    }
  })

/** A complete answer. */
interface Answer {
  readonly parts: Parts
  readonly finish: Response.FinishPartEncoded
}

const answerOf = (
  { policy }: Chain,
  { target }: Attempt,
  request: ProviderRequest
): Effect.Effect<Answer, ProviderFailure, IdGenerator.IdGenerator> =>
  target.model.generateText(request).pipe(
    Effect.timeoutOrElse({
      duration: policy.limits.total,
      orElse: () => Effect.fail(local("limit/total", new Timeout({ phase: "total", local: true }), target.ref))
    }),
    Effect.flatMap((parts) => {
      const finish = parts.findLast((part) => part.type === "finish")
      if (finish === undefined) {
        return Effect.fail(local("answer/no-finish", new Format({ side: "response" }), target.ref))
      }
      return finish.reason === "error"
        ? Effect.fail(local("answer/finish-error", new ServerError(), target.ref))
        : Effect.succeed({ parts, finish })
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
