/**
 * The providers of this package, in the order in which doctor and the documents list them.
 *
 * It loads all of them: a program that needs one imports that one.
 */
import { Effect } from "effect"
import { Chain } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { registered as aiSdk } from "./AiSdk.ts"
import { registered as anthropic } from "./Anthropic.ts"
import { registered as google } from "./Google.ts"
import { registered as openAi } from "./OpenAi.ts"
import { registered as openAiCompatible } from "./OpenAiCompatible.ts"
import type { Provider } from "./Provider.ts"

export type { Constructor, Provider, Usual } from "./Provider.ts"

/** Every provider. */
export const providers: ReadonlyArray<Provider> = [anthropic, openAi, google, openAiCompatible, aiSdk]

/** The variables of the keys of all providers, each once. */
export const keys: ReadonlyArray<string> = [...new Set(providers.flatMap(({ keys }) => keys))]

/**
 * A chain from whatever keys the machine has: the usual model of each provider whose key is set. Fails with the
 * `ChainError` of `Chain.detect`, which names all keys, when none is.
 *
 * **Example** (A program for any of the providers)
 *
 * ```ts
 * const Model = Layer.unwrap(Effect.map(Registry.detect, (chain) => Failover.layer(chain)))
 * ```
 */
export const detect: Effect.Effect<
  readonly [ProviderModel.TargetSpec, ...Array<ProviderModel.TargetSpec>],
  Chain.ChainError
> = Effect.suspend(() => {
  const [first, ...rest] = providers.flatMap(({ usual }) =>
    usual === undefined ? [] : [usual.target(usual.model)]
  )
  return first === undefined ? Effect.die("No provider has a usual model.") : Chain.detect([first, ...rest])
})
