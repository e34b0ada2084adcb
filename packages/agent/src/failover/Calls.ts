/**
 * The calls of a chain on encoded parts, without effect/ai's `LanguageModel.make` around them: no schema, no tool handlers,
 * no span of its own. `Failover` is the same chain as a `LanguageModel`.
 *
 * For a program that has its own form of requests and answers, such as a gateway. Its targets read the request from
 * `ClientOptions`, and put what they received into the metadata of the parts.
 */
import { Effect } from "effect"
import type { Context, Scope, Stream } from "effect"
import type { IdGenerator, LanguageModel, Response } from "effect/ai"
import type { TargetRef } from "../conversation/TargetRef.ts"
import type { CallFailure } from "../failure/reasons/CallFailure.ts"
import type * as Chain from "./chain/Chain.ts"
import type { ChainError, NonEmpty, Services, Specs } from "./chain/Chain.ts"
import * as ChainOptions from "./ChainOptions.ts"
import { streamText } from "./call/StreamCall.ts"
import { generateText } from "./call/TextCall.ts"
import { make as makeTargets } from "./chain/Targets.ts"
import type { ProviderModel } from "./target/ProviderModel.ts"
import type { Targets } from "./chain/Targets.ts"

/** What one call allows less than the policy. */
export interface Narrowed {
  /** US dollars. Default: as the policy says. */
  readonly maxCost?: number | undefined
}

export interface Calls {
  /** A whole answer: its parts, the `finish` last. */
  readonly generateText: (
    options: LanguageModel.ProviderOptions,
    narrowed?: Narrowed
  ) => Effect.Effect<Array<Response.PartEncoded>, CallFailure, IdGenerator.IdGenerator>
  /** The parts of an answer as they come. Its last part is the `finish`, or the stream fails. */
  readonly streamText: (
    options: LanguageModel.ProviderOptions,
    narrowed?: Narrowed
  ) => Stream.Stream<Response.StreamPartEncoded, CallFailure, IdGenerator.IdGenerator>
  readonly targets: Context.Service.Shape<typeof Targets>
  /** The same chain, with these of its targets alone; `undefined` where it has none of them. */
  readonly only: (isMeant: (target: TargetRef, model: ProviderModel) => boolean) => Calls | undefined
}

/** Fails, and throws, as `Failover.make` does. Calls of the priority `background` use the same policy. */
export const make = <const S extends Specs, Class extends string>(
  chain: NonEmpty<S>,
  options: Omit<ChainOptions.Options<Class>, "background">
): Effect.Effect<Calls, ChainError, Services<S> | Scope.Scope> =>
  // A gateway has several chains of the same targets, and keeps each.
  Effect.map(ChainOptions.build<S, Class>(chain, options, false), ({ built }) => callsOf(built))

const callsOf = (chain: Chain.Chain): Calls => ({
  generateText: (request, narrowed) => generateText(within(chain, narrowed), request, (failure) => failure),
  streamText: (request, narrowed) =>
    streamText(
      within(chain, narrowed),
      request,
      (failure) => failure,
      // Only calls of declared tools are judged, unless the request says `deferred`.
      (mistake): CallFailure => {
        throw mistake
      }
    ),
  targets: makeTargets({
    ...chain,
    compacts: chain.compact !== undefined && chain.policy.maxCompactions > 0
  }),
  only: (isMeant) => {
    const [first, ...rest] = chain.targets.filter(({ model, ref }) => isMeant(ref, model))
    return first === undefined ? undefined : callsOf({ ...chain, targets: [first, ...rest] })
  }
})

/** The same chain, whose policy allows less. */
const within = (chain: Chain.Chain, { maxCost }: Narrowed = {}): Chain.Chain =>
  maxCost === undefined
    ? chain
    : { ...chain, policy: { ...chain.policy, maxCost: Math.min(maxCost, chain.policy.maxCost ?? Infinity) } }
