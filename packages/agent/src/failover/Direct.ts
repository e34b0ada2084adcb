/**
 * One target without any recovery: every failure reaches the program.
 *
 * Use it to compare with `Failover`, and in tests of a provider. Only the first key of the entry is used.
 */
import { Effect, Layer, Stream } from "effect"
import type { Scope } from "effect"
import { LanguageModel } from "effect/ai"
import type { Response } from "effect/ai"
import { costOf } from "../conversation/Answered.ts"
import { guardable } from "./CallGuard.ts"
import * as AttemptRequest from "./call/AttemptRequest.ts"
import { CallTrace } from "./call/CallTrace.ts"
import { fromFailure } from "../failure/reasons/CallFailed.ts"
import type { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import type { ChainError } from "./chain/Chain.ts"
import * as Chain from "./chain/Chain.ts"
import { inOrder } from "./decide/Order.ts"
import * as OutputLimit from "./decide/OutputLimit.ts"
import type { TargetSpec } from "./target/ProviderModel.ts"
import { interactive } from "./decide/RecoveryPolicy.ts"
import * as Surface from "./call/Surface.ts"
import * as UndeclaredTools from "./call/UndeclaredTools.ts"

/** A `LanguageModel` that sends every call once. Fails like `Failover.layer` when there is no key. */
export const layer = <E, R>(
  spec: TargetSpec<E, R>
): Layer.Layer<LanguageModel.LanguageModel, ChainError, Exclude<R, Scope.Scope>> =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.gen(function* () {
      Chain.isTarget("Direct", "target", spec)
      const {
        targets: [target]
      } = yield* Chain.build([spec], {
        policy: interactive,
        admission: undefined,
        budget: undefined,
        limiter: undefined,
        countsTokens: false,
        compact: undefined,
        order: inOrder,
        store: undefined,
        warnsOfBuilds: true
      })
      const model = yield* UndeclaredTools.make({
        generateText: (options) =>
          Effect.flatMap(begun(target, options), ({ attempt, made, trace }) =>
            AttemptRequest.generateText(target, made).pipe(
              Effect.mapError((failure) => AttemptRequest.failureAt(target, made, failure)),
              traced(trace, attempt, target),
              Effect.mapBoth({
                onFailure: (failure) => fromFailure("generateText", failure),
                onSuccess: (parts) => UndeclaredTools.inAnswer(parts, options)
              })
            )
          ),
        streamText: (options) =>
          Stream.unwrap(
            Effect.gen(function* () {
              const { format } = yield* Surface.taken
              const asked = format === undefined ? options : { ...options, responseFormat: format }
              const { attempt, made, trace } = yield* begun(target, asked)
              return AttemptRequest.streamText(target, made).pipe(
                Stream.mapError((failure) => AttemptRequest.failureAt(target, made, failure)),
                tracedStream(trace, attempt, target),
                Stream.mapError((failure) => fromFailure("streamText", failure))
              )
            })
          )
      })
      return guardable(model)
    })
  )

/** The request of a call, and its spans where the program has a tracer. */
const begun = (target: Chain.Target, options: LanguageModel.ProviderOptions) =>
  Effect.withFiber((fiber) => {
    const limit = fiber.getRef(OutputLimit.OutputLimit)
    const outputLimit = OutputLimit.range(limit, undefined).start
    const trace = CallTrace.of(fiber, options)
    const span = trace === undefined ? Effect.undefined : trace.begin({ target, outputLimit })
    return Effect.map(span, (span) => ({
      trace,
      attempt: { span },
      made: AttemptRequest.requestOf(options, target, { outputLimit, span })
    }))
  })

type Traced = Parameters<CallTrace["answered"]>[0]

const succeeded = (
  trace: CallTrace,
  attempt: Traced,
  { info, ref }: Chain.Target,
  finish: Response.FinishPartEncoded | undefined
): void => trace.succeeded(attempt, ref, finish && costOf(info.price, finish.usage))

const failed = (trace: CallTrace, attempt: Traced, failure: ProviderFailure): void => {
  trace.failed(attempt, failure)
  trace.gaveUp(failure)
}

const traced =
  (trace: CallTrace | undefined, attempt: Traced, target: Chain.Target) =>
  <R>(answer: Effect.Effect<Array<Response.PartEncoded>, ProviderFailure, R>): typeof answer =>
    trace === undefined
      ? answer
      : answer.pipe(
          Effect.tap((parts) =>
            Effect.sync(() =>
              succeeded(
                trace,
                attempt,
                target,
                parts.findLast((part) => part.type === "finish")
              )
            )
          ),
          Effect.tapError((failure) => Effect.sync(() => failed(trace, attempt, failure))),
          Effect.ensuring(Effect.sync(() => trace.abandoned()))
        )

/** The finish part ends the attempt: a consumer may stop reading there. */
const tracedStream =
  (trace: CallTrace | undefined, attempt: Traced, target: Chain.Target) =>
  <R>(parts: Stream.Stream<Response.StreamPartEncoded, ProviderFailure, R>): typeof parts =>
    trace === undefined
      ? parts
      : parts.pipe(
          Stream.map((part) => {
            if (part.type === "finish") succeeded(trace, attempt, target, part)
            return part
          }),
          Stream.onEnd(Effect.sync(() => succeeded(trace, attempt, target, undefined))),
          Stream.tapError((failure) => Effect.sync(() => failed(trace, attempt, failure))),
          Stream.ensuring(Effect.sync(() => trace.abandoned()))
        )
