/**
 * The providers of this package, in the order in which doctor and the documents list them.
 *
 * It loads all of them: a program that needs one imports that one.
 */
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
