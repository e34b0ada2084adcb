/**
 * The request of an attempt: the options of the call, made fit for a target.
 */
import { Effect, Redacted } from "effect"
import type { LanguageModel } from "effect/ai"
import type { ProviderFailure } from "../failure/ProviderFailure.ts"
import type { Target } from "./CallRun.ts"
import * as Conversation from "./Conversation.ts"
import * as OutputLimit from "./OutputLimit.ts"
import type { ProviderRequest } from "./ProviderModel.ts"

/**
 * Does once what is the same for all attempts of a call.
 *
 * A `previousResponseId` is known only to the target that issued it, and any attempt may go elsewhere: every
 * target gets the whole prompt.
 */
export const requestOf = (
  options: LanguageModel.ProviderOptions
): Effect.Effect<(target: Target) => ProviderRequest> =>
  Effect.map(OutputLimit.OutputLimit, (limit) => {
    const shared = {
      ...options,
      prompt: Conversation.strip(options.prompt),
      previousResponseId: undefined,
      incrementalPrompt: undefined
    }
    return ({ key, model }) => ({ ...shared, key, maxOutputTokens: OutputLimit.within(limit, model.info) })
  })

/** A failure of this request at this target, without the key and without echoes of the prompt. */
export const failureAt = (
  { ref }: Target,
  { key, prompt }: ProviderRequest,
  failure: ProviderFailure
): ProviderFailure =>
  failure.at(ref, {
    values: key === undefined ? [] : [Redacted.value(key)],
    // What was thinking and what was said by tools may be echoed, too: all texts count.
    prompt: failure.detail === "" ? [] : Conversation.texts(prompt)
  })
