/**
 * Tells the user when another model answers than before: one notice for each change, and one when the first model of
 * the chain is back. The texts can be replaced, in any language.
 */
import { Options } from "@outlast/resilience"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { whyNot } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"

const { is } = Options

export interface Change {
  /** The target that answered before. */
  readonly from: TargetRef
  readonly target: TargetRef
  /** The reason of the change; `undefined` when the first model is back. */
  readonly reason: ReasonTag | undefined
}

export interface Notices {
  /** `failure` is the one with the reason, without its target's secrets. */
  readonly switched: (change: Change, failure: ProviderFailure | undefined) => string
  readonly returned: (change: Change) => string
}

/** A change of model with its text. `Outlast.streamText` and the events report it. */
export interface Notice extends Change {
  readonly type: "notice"
  readonly message: string
}

export const defaults: Notices = {
  switched: ({ from, target }, failure) =>
    `Switched to ${target.model}${failure === undefined ? "" : `: ${from.model} ${whyNot(failure)}`}.`,
  returned: ({ target }) => `Back to ${target.model}.`
}

/** The checks of the fields of {@link Notices}. */
export const checks: Options.Checks<Notices> = {
  switched: is.required(is.fn("(change, failure) => text")),
  returned: is.required(is.fn("(change) => text"))
}

/** True when the model changed. A change of key or endpoint of the same model is not reported. */
export const isChange = (from: TargetRef, target: TargetRef): boolean =>
  from.provider !== target.provider || from.model !== target.model
