/**
 * The answer of a call so far: none, a partial one that a failure broke off, or one that the output limit or the window
 * cut. Part of `CallState`. Pure.
 *
 * Text that is kept is continued by further attempts. A failure may ask for a new beginning instead (`anew`): the text is
 * then void, but only once an attempt that begins again has ended.
 */
import type { Cut, Failed } from "./CallModel.ts"

interface Fields {
  /** True when the consumer has seen text. */
  readonly seen: boolean
  /** True when the next attempt begins the answer again. */
  readonly anew: boolean
  /** True when its text is continued; false when there is none, or an attempt is to replace it. */
  readonly continued: boolean
  /** True when it is a cut answer with text, which is delivered if no attempt gives a better one. */
  readonly hasText: boolean
  /** The raised output limit, until an attempt shows that the provider accepts it. */
  readonly raise: Raise | undefined
}

/** A raised output limit that no provider has accepted yet. */
export interface Raise {
  /** The limit before the raise, in tokens. */
  readonly from: number
  /** The cut answer that was the reason for the raise. */
  readonly cut: Cut
}

interface None extends Fields {
  readonly _tag: "None"
  readonly seen: false
  readonly anew: false
  readonly continued: false
  readonly hasText: false
  readonly raise: undefined
}

interface Partial extends Fields {
  readonly _tag: "Partial"
  readonly continued: true
  readonly hasText: false
  readonly raise: undefined
}

export interface CutAnswer extends Fields {
  readonly _tag: "Cut"
}

export type Answer = None | Partial | CutAnswer

const nothing = { hasText: false, raise: undefined } as const

export const none: Answer = { _tag: "None", ...nothing, seen: false, anew: false, continued: false }

export const isSeen = ({ seen }: Answer): boolean => seen

/** True when the next attempt begins an answer again of which there is text. */
export const isAnew = ({ anew }: Answer): boolean => anew

/** True when the attempt in flight, or the next one, continues the text so far. */
export const isContinuing = ({ anew, continued }: Answer): boolean => continued && !anew

/** The answer after a failed attempt. `restarts`: text that the consumer has seen is to be begun again. */
export const failed = (
  before: Answer,
  { commit, keptText }: Pick<Failed, "commit" | "keptText">,
  { structured, restarts }: { readonly structured: boolean; readonly restarts: boolean }
): Answer => {
  const seen = before.seen || commit === "text"
  const anew = before.anew || (seen && restarts)
  // An object is never continued.
  const continued = before.continued || commit === "text" || (keptText === true && !structured)
  if (keptText === undefined && before._tag !== "Cut")
    return continued ? { _tag: "Partial", ...nothing, seen, anew, continued } : none
  return {
    _tag: "Cut",
    seen,
    anew,
    continued,
    hasText: before.hasText || keptText === true,
    raise: keptText === undefined ? before.raise : undefined
  }
}

/**
 * What a failed attempt has kept of the answer before it. If the attempt began the answer again, the text is void. A cut
 * answer stays where its repeat with a raised limit has shown no text.
 */
export const kept = (before: Answer, { commit }: Pick<Failed, "commit">): Answer =>
  !before.anew || (before.raise !== undefined && commit !== "text") ? before : none

/** The answer after one that the output limit cut. What an answer that was begun again has shown is void. */
export const cut = (before: Answer, { commit, hasText }: Pick<Cut, "commit" | "hasText">): CutAnswer => {
  const { continued, seen } = before.anew ? none : before
  return {
    _tag: "Cut",
    seen: seen || commit === "text",
    anew: false,
    continued,
    hasText: before.hasText || hasText,
    raise: undefined
  }
}
