/**
 * One target without any recovery: every failure is the program's.
 *
 * For comparing with `Failover`, and for tests of a provider. The first key of the entry is used.
 */
import { Effect, Layer, Stream } from "effect"
import type { Scope } from "effect"
import { LanguageModel } from "effect/ai"
import { failureAt, requestOf } from "./AttemptRequest.ts"
import { fromFailure } from "./CallFailed.ts"
import type { ChainError } from "./Chain.ts"
import * as Chain from "./Chain.ts"
import type { TargetSpec } from "./ProviderModel.ts"
import { interactive } from "./RecoveryPolicy.ts"

/** A `LanguageModel` that sends every call once. Fails as `Failover.layer` does when there is no key. */
export const layer = <E, R>(
  spec: TargetSpec<E, R>
): Layer.Layer<LanguageModel.LanguageModel, ChainError, Exclude<R, Scope.Scope>> =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.gen(function* () {
      const {
        targets: [target]
      } = yield* Chain.build([spec], interactive)
      return yield* LanguageModel.make({
        generateText: (options) =>
          Effect.flatMap(requestOf(options), (request) => {
            const made = request(target)
            return Effect.mapError(target.model.generateText(made), (failure) =>
              fromFailure("generateText", failureAt(target, made, failure))
            )
          }),
        streamText: (options) =>
          Stream.unwrap(
            Effect.map(requestOf(options), (request) => {
              const made = request(target)
              return Stream.mapError(target.model.streamText(made), (failure) =>
                fromFailure("streamText", failureAt(target, made, failure))
              )
            })
          )
      })
    })
  )
