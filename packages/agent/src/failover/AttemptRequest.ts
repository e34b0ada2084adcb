/**
 * The request of an attempt: the options of the call, made fit for a target, and the way back.
 */
import { Effect, Redacted, Stream } from "effect"
import type { IdGenerator, LanguageModel, Response } from "effect/ai"
import * as Dialect from "../conversation/Dialect.ts"
import * as Portable from "../conversation/Portable.ts"
import * as ToolNames from "../conversation/ToolNames.ts"
import type { Wording } from "../conversation/Wording.ts"
import type { ProviderFailure } from "../failure/ProviderFailure.ts"
import type { Target } from "./Chain.ts"
import * as Conversation from "./Conversation.ts"
import * as OutputLimit from "./OutputLimit.ts"
import type { ProviderRequest } from "./ProviderModel.ts"

export interface AttemptRequest extends ProviderRequest {
  /** What tools are called at the target, where it does not take their names. */
  readonly names: ToolNames.ToolNames | undefined
}

/**
 * Does once what is the same for all attempts of a call, and once for each target what is not.
 *
 * A `previousResponseId` is known only to the target that issued it, and any attempt may go elsewhere: every
 * target gets the whole prompt, in the form that it takes. `wording` is what stands in for what it does not take;
 * default: English.
 */
export const requestOf = (
  options: LanguageModel.ProviderOptions,
  wording?: Wording
): ((target: Target, outputLimit: number | undefined) => AttemptRequest) => {
  const fitted = new Map<Target, Fitted>()
  const fittedFor = (target: Target): Fitted => {
    const known = fitted.get(target)
    if (known !== undefined) return known
    const made = fit(options, target, wording)
    fitted.set(target, made)
    return made
  }
  return (target, outputLimit) => ({
    ...options,
    ...fittedFor(target),
    previousResponseId: undefined,
    incrementalPrompt: undefined,
    key: target.key?.current,
    maxOutputTokens: OutputLimit.within(outputLimit, target.info)
  })
}

type Fitted = Pick<AttemptRequest, "prompt" | "tools" | "toolChoice" | "names">

const fit = (
  { prompt, tools, toolChoice }: LanguageModel.ProviderOptions,
  { ref, model }: Target,
  wording: Wording | undefined
): Fitted => {
  const dialect = model.info.dialect ?? Dialect.defaults
  const names = ToolNames.of(tools, dialect)
  const adapted = Conversation.strip(Portable.adapt(prompt, { ref, dialect, wording, names }))
  return {
    prompt: adapted,
    tools: names === undefined ? tools : ToolNames.offered(tools, names),
    toolChoice: names === undefined ? toolChoice : ToolNames.chosen(toolChoice, names),
    names
  }
}

/** The target's answer, its calls under the program's names. */
export const generateText = (
  { model }: Target,
  request: AttemptRequest
): Effect.Effect<Array<Response.PartEncoded>, ProviderFailure, IdGenerator.IdGenerator> => {
  const { names } = request
  const answer = model.generateText(request)
  return names === undefined
    ? answer
    : Effect.map(answer, (parts) => parts.map((part) => ToolNames.namedBack(part, names)))
}

/** The parts of the target's answer, its calls under the program's names. */
export const streamText = (
  { model }: Target,
  request: AttemptRequest
): Stream.Stream<Response.StreamPartEncoded, ProviderFailure, IdGenerator.IdGenerator> => {
  const { names } = request
  const answer = model.streamText(request)
  return names === undefined ? answer : Stream.map(answer, (part) => ToolNames.namedBack(part, names))
}

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
