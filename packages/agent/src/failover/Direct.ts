/**
 * One target without any recovery: every failure reaches the program.
 *
 * Use it to compare with `Failover`, and in tests of a provider. Only the first key of the entry is used.
 */
import { Effect, Layer, Stream } from "effect"
import type { Scope } from "effect"
import { LanguageModel } from "effect/ai"
import { guardable } from "./CallGuard.ts"
import * as AttemptRequest from "./call/AttemptRequest.ts"
import { fromFailure } from "../failure/reasons/CallFailed.ts"
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
        store: undefined
      })
      const requestFor = (
        options: LanguageModel.ProviderOptions,
        limit: number | OutputLimit.Range | undefined
      ) =>
        AttemptRequest.requestOf(options, target, { outputLimit: OutputLimit.range(limit, undefined).start })
      const model = yield* UndeclaredTools.make({
        generateText: (options) =>
          Effect.flatMap(OutputLimit.OutputLimit, (limit) => {
            const made = requestFor(options, limit)
            return Effect.mapBoth(AttemptRequest.generateText(target, made), {
              onFailure: (failure) =>
                fromFailure("generateText", AttemptRequest.failureAt(target, made, failure)),
              onSuccess: (parts) => UndeclaredTools.inAnswer(parts, options)
            })
          }),
        streamText: (options) =>
          Stream.unwrap(
            Effect.gen(function* () {
              const limit = yield* OutputLimit.OutputLimit
              const { format } = yield* Surface.taken
              const asked = format === undefined ? options : { ...options, responseFormat: format }
              const made = requestFor(asked, limit)
              return Stream.mapError(AttemptRequest.streamText(target, made), (failure) =>
                fromFailure("streamText", AttemptRequest.failureAt(target, made, failure))
              )
            })
          )
      })
      return guardable(model)
    })
  )
