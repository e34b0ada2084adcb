/**
 * User messages that tell a model how to continue after a failure. Each can be replaced, in any language.
 *
 * A plain text contains nothing of an error. A function gets a description in our own words; the provider's error
 * text is never passed to the model.
 */
import { Options } from "@outlast/resilience"
import type { ReasonTag } from "../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import { local, whatHappened } from "../failure/reasons/ProviderFailure.ts"
import * as Kind from "../options/Kind.ts"

const { is } = Options

export interface NudgeContext {
  /** Reason why the previous attempt failed; `undefined` for an answer that the output limit cut. */
  readonly reason: ReasonTag | undefined
  /** The reason in plain words, e.g. "the provider is overloaded". */
  readonly inWords: string
  /** Number of the attempt that is about to begin, from 2. */
  readonly attempt: number
}

export type Nudge = string | ((context: NudgeContext) => string)

export interface Nudges {
  /** Continue an answer whose stream broke. */
  readonly interrupted: Nudge
  /** Continue an answer that the output limit cut. */
  readonly cut: Nudge
  /** Repeat a tool call that the output limit cut, and that was not run. */
  readonly cutInToolCall: Nudge
  /** Answer again with an object that matches the schema. Without this nudge the request is repeated unchanged. */
  readonly wrongObject?: Nudge | undefined
  /**
   * Make a tool call again that the provider could not use, for example because of invalid JSON. Without this nudge the
   * request is repeated unchanged.
   */
  readonly wrongCall?: Nudge | undefined
}

export const defaults: Nudges = {
  interrupted:
    "Your answer was interrupted. Go on exactly where it stops, in the same language and form. Repeat nothing, explain nothing.",
  cut: "Your answer reached the output limit. Go on exactly where it stops, in the same language and form. Repeat nothing, explain nothing.",
  cutInToolCall:
    "Your answer reached the output limit inside a tool call, which was not run. Go on, and make that call again with shorter arguments, or in several calls.",
  wrongObject: ({ inWords }) =>
    `An earlier answer to this could not be used: ${inWords}. Answer with nothing but JSON that fits the schema.`,
  wrongCall: ({ inWords }) =>
    `An earlier answer to this could not be used: ${inWords}. Call only the tools that are offered, with arguments in valid JSON that fit their parameters.`
}

/** A text, or a function that returns one. */
export const check: Options.Check = Kind.where(
  (value) => typeof value === "function" || (typeof value === "string" && value.trim() !== ""),
  "a text, or a function (context) => text"
)

/** Checks of the fields of {@link Nudges}. */
export const checks: Options.Checks<Nudges> = {
  interrupted: is.required(check),
  cut: is.required(check),
  cutInToolCall: is.required(check),
  wrongObject: check,
  wrongCall: check
}

/** Returns the text of a nudge. */
export const textOf = (nudge: Nudge, failure: ProviderFailure | undefined, attempt: number): string =>
  typeof nudge === "string"
    ? nudge
    : nudge({
        reason: failure?.reason._tag,
        // Uses only the reason: evidence and detail may contain the provider's words.
        inWords:
          failure === undefined
            ? "the answer reached the output limit"
            : whatHappened(local(failure.evidence.rule, failure.reason, undefined)),
        attempt
      })
