/**
 * The user messages that tell a model how to go on after a failure. All of them can be replaced, in any language.
 *
 * A text is fixed, so that nothing of an error reaches the model. A function may say what happened in our own words;
 * the provider's sentence is never among them.
 */
import { Options } from "@outlast/resilience"
import type { ReasonTag } from "../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import { local, whatHappened } from "../failure/reasons/ProviderFailure.ts"
import * as Kind from "../options/Kind.ts"

const { is } = Options

export interface NudgeContext {
  /** Why the attempt before did not end well; `undefined` for an answer that the output limit cut. */
  readonly reason: ReasonTag | undefined
  /** The same in plain words, for example "the provider is overloaded". */
  readonly inWords: string
  /** The attempt that is about to begin, from 2. */
  readonly attempt: number
}

export type Nudge = string | ((context: NudgeContext) => string)

export interface Nudges {
  /** Go on with an answer whose stream broke. */
  readonly interrupted: Nudge
  /** Go on with an answer that the output limit cut. */
  readonly cut: Nudge
  /** Make a tool call again that the output limit cut, and that was not run. */
  readonly cutInToolCall: Nudge
  /** Answer again with an object that fits its schema. Without it the request is repeated as it was. */
  readonly wrongObject?: Nudge | undefined
}

export const defaults: Nudges = {
  interrupted:
    "Your answer was interrupted. Go on exactly where it stops, in the same language and form. Repeat nothing, explain nothing.",
  cut: "Your answer reached the output limit. Go on exactly where it stops, in the same language and form. Repeat nothing, explain nothing.",
  cutInToolCall:
    "Your answer reached the output limit inside a tool call, which was not run. Go on, and make that call again with shorter arguments, or in several calls.",
  wrongObject: ({ inWords }) =>
    `An earlier answer to this could not be used: ${inWords}. Answer with nothing but JSON that fits the schema.`
}

/** A text, or a function that gives one. */
export const check: Options.Check = Kind.where(
  (value) => typeof value === "function" || (typeof value === "string" && value.trim() !== ""),
  "a text, or a function (context) => text"
)

/** The checks of the fields of {@link Nudges}. */
export const checks: Options.Checks<Nudges> = {
  interrupted: is.required(check),
  cut: is.required(check),
  cutInToolCall: is.required(check),
  wrongObject: check
}

/** The text of a nudge. */
export const textOf = (nudge: Nudge, failure: ProviderFailure | undefined, attempt: number): string =>
  typeof nudge === "string"
    ? nudge
    : nudge({
        reason: failure?.reason._tag,
        // Of the reason alone: evidence and detail may hold the provider's words.
        inWords:
          failure === undefined
            ? "the answer reached the output limit"
            : whatHappened(local("", failure.reason, undefined)),
        attempt
      })
