/**
 * One streamed call: attempts until one reaches its complete finish, shown to the consumer as one answer.
 *
 * What may be shown is `StreamGate`'s matter; here are the time limits and the way from one attempt to the
 * next. The limit for the first token covers the opening of the stream; the limit between tokens counts only
 * while we wait for the provider, never while the consumer is busy.
 */
import { Cause, Duration, Effect, Pull, Stream } from "effect"
import type { IdGenerator, LanguageModel, Response } from "effect/ai"
import type { CallFailure } from "../failure/CallFailure.ts"
import * as Classifier from "../failure/Classifier.ts"
import { Network, ServerError, Timeout } from "../failure/FailoverReason.ts"
import type { ProviderFailure } from "../failure/ProviderFailure.ts"
import { local } from "../failure/ProviderFailure.ts"
import { failureAt, requestOf } from "./AttemptRequest.ts"
import type { Attempt } from "./CallRun.ts"
import type { Chain } from "./CallRun.ts"
import { CallRun } from "./CallRun.ts"
import * as Conversation from "./Conversation.ts"
import type { ProviderRequest } from "./ProviderModel.ts"
import { StreamGate } from "./StreamGate.ts"

type Part = Response.StreamPartEncoded
type Parts<E> = Stream.Stream<Part, E, IdGenerator.IdGenerator>

/** The parts of one answer, whatever number of attempts it takes. */
export const streamText = (chain: Chain, options: LanguageModel.ProviderOptions): Parts<CallFailure> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const run = yield* CallRun.make(chain)
      const request = yield* requestOf(options)
      const gate = new StreamGate(run.requested)
      const from = (attempt: Attempt): Parts<CallFailure> => {
        const made = continuing(chain, gate, request(attempt.target))
        return attemptStream(run, gate, attempt, made).pipe(
          Stream.catch((failure) =>
            Stream.unwrap(
              Effect.map(run.failed(attempt, failureAt(attempt.target, made, failure), gate.commit), from)
            )
          )
        )
      }
      return from(yield* run.advance({ _tag: "Started" }))
    })
  )

/** The request, with what the consumer has already seen of the answer. */
const continuing = ({ policy }: Chain, gate: StreamGate, request: ProviderRequest): ProviderRequest =>
  gate.text === ""
    ? request
    : { ...request, prompt: Conversation.continued(request.prompt, gate.text, policy.nudge) }

/** One attempt. Fails where the provider fails, falls silent, or ends without a complete finish. */
const attemptStream = (
  run: CallRun,
  gate: StreamGate,
  attempt: Attempt,
  request: ProviderRequest
): Parts<ProviderFailure> => {
  const { ref, model } = attempt.target
  const { limits } = run.chain.policy
  const firstToken = Duration.toMillis(model.info.reasoning === true ? limits.firstTokenReasoning : limits.firstToken)
  const idle = Duration.toMillis(model.info.reasoning === true ? limits.idleReasoning : limits.idle)

  return Stream.transformPull(model.streamText(request), (pull) =>
    Effect.sync(() => {
      gate.begin(attempt.answered)
      let begun = false
      // Milliseconds waited for the provider since it last sent something.
      let silent = 0

      const failed = (part: NonNullable<StreamGate["failed"]>): ProviderFailure =>
        part.type === "finish"
          ? local("stream/finish-error", new ServerError(), ref)
          : Classifier.failureOf(part.error)

      const next: Pull.Pull<readonly [Part, ...Array<Part>], ProviderFailure, void, IdGenerator.IdGenerator> =
        Effect.suspend(() => {
          if (gate.failed !== undefined) return Effect.fail(failed(gate.failed))
          if (gate.finish !== undefined) return Cause.done()
          const phase = begun ? "idle" : "first-token"
          const waitedFrom = run.now()
          return pull.pipe(
            Effect.timeoutOrElse({
              duration: Math.max(0, (begun ? idle : firstToken) - silent),
              orElse: () =>
                Effect.fail(local(`limit/${phase}`, new Timeout({ phase, local: true }), ref))
            }),
            Pull.catchDone(() => Effect.fail(local("stream/cut", new Network(), ref))),
            Effect.flatMap((parts) => {
              gate.alive = false
              const out = gate.push(parts)
              if (gate.alive) {
                begun = true
                silent = 0
              } else silent += run.now() - waitedFrom
              return gate.finish === undefined ? shown(out) : finished(out, gate.finish)
            })
          )
        })

      const shown = (out: ReadonlyArray<Part>): typeof next => {
        const [head, ...tail] = out
        return head === undefined ? next : Effect.succeed([head, ...tail])
      }

      const finished = (out: ReadonlyArray<Part>, finish: Response.FinishPartEncoded): typeof next =>
        Effect.flatMap(run.succeeded(attempt, finish), (costUsd) => shown([...out, gate.priced(finish, costUsd)]))

      return next
    })
  )
}
