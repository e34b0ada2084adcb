/**
 * The most tokens that one answer may have, at the user's edge.
 *
 * `undefined` (the default) leaves it to the provider. It is lowered to what the model can do where that is
 * known.
 *
 * **Gotcha** A stream reads it when it runs, not when it is made: provide it around the running.
 *
 * **Example** (A short answer)
 *
 * ```ts
 * LanguageModel.generateText({ prompt }).pipe(Effect.provideService(OutputLimit.OutputLimit, 500))
 * ```
 */
import { Context } from "effect"
import type { ModelInfo } from "./ModelInfo.ts"

export const OutputLimit: Context.Reference<number | undefined> = Context.Reference<number | undefined>(
  "@outlast/agent/failover/OutputLimit",
  { defaultValue: () => undefined }
)

/** The limit for a model: never above its own. */
export const within = (limit: number | undefined, { maxOutputTokens }: ModelInfo): number | undefined =>
  limit === undefined || maxOutputTokens === undefined ? limit : Math.min(limit, maxOutputTokens)
