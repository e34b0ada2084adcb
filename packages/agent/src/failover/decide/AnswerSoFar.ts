/**
 * The answer of a call so far: none, a partial one that a failure broke off, or one that the output limit or the window
 * cut. Part of `CallState`. Pure.
 *
 * Text that is kept is continued by further attempts. A failure may ask for a new beginning instead (`anew`): the text is
 * then void, but only once an attempt that begins again has ended ({@link begun}).
 */
import type { Commit, Cut, Failed } from "./CallModel.ts"

interface Text {
  /** True when the consumer has seen text. */
  readonly seen: boolean
  /** True when the next attempt begins the answer again. */
  readonly anew: boolean
}

export interface Partial extends Text {
  readonly _tag: "Partial"
}

export interface CutAnswer extends Text {
  readonly _tag: "Cut"
  /** True when its text is continued; false when an attempt is to replace it. */
  readonly continued: boolean
  /** True when it has text, which is delivered if no attempt gives a better one. */
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

export type Answer = { readonly _tag: "None" } | Partial | CutAnswer

export const none: Answer = { _tag: "None" }

export const isSeen = (answer: Answer): boolean => answer._tag !== "None" && answer.seen

/** True when the next attempt begins an answer again of which there is text. */
export const isAnew = (answer: Answer): boolean => answer._tag !== "None" && answer.anew

/** True when the attempt in flight, or the next one, continues the text so far. */
export const isContinuing = (answer: Answer): boolean =>
  answer._tag !== "None" && !answer.anew && (answer._tag === "Partial" || answer.continued)

/** True when there is text of a cut answer, which is better than none. */
export const hasText = (answer: Answer): boolean => answer._tag === "Cut" && answer.hasText

/**
 * The answer before an attempt that has really been sent, and has ended. If the attempt began the answer again, the text
 * is void. A cut answer stays until another one replaces it, because a repeat with a raised limit may fail.
 */
export const begun = (answer: Answer, event: Failed | Cut): Answer => {
  if (answer._tag === "None" || !answer.anew) return answer
  if (answer._tag === "Partial") return none
  if (event._tag === "Cut") return { ...answer, seen: false, anew: false, continued: false }
  return answer.raise !== undefined && event.commit !== "text" ? answer : none
}

/**
 * The answer after a failed attempt. `keptText`: the window cut the answer, and its parts are kept; true when they have
 * text that can be continued. `restarts`: text that the consumer has seen is to be begun again.
 */
export const failed = (
  answer: Answer,
  commit: Commit,
  { keptText, continues }: { readonly keptText: boolean | undefined; readonly continues: boolean },
  restarts: boolean
): Answer => {
  const seen = isSeen(answer) || commit === "text"
  const text: Text = { seen, anew: isAnew(answer) || (seen && restarts) }
  const keeps = commit === "text" || (keptText === true && continues)
  if (answer._tag !== "Cut" && keptText === undefined)
    return keeps || answer._tag === "Partial" ? { _tag: "Partial", ...text } : none
  const before = answer._tag === "Cut" ? answer : undefined
  return {
    _tag: "Cut",
    ...text,
    continued: (before?.continued ?? answer._tag === "Partial") || keeps,
    hasText: before?.hasText === true || keptText === true,
    raise: keptText === undefined ? before?.raise : undefined
  }
}

/** The answer after one that the output limit cut. */
export const cut = (answer: Answer, event: Cut): CutAnswer => ({
  _tag: "Cut",
  seen: isSeen(answer) || event.commit === "text",
  anew: isAnew(answer),
  continued: answer._tag === "Partial" || (answer._tag === "Cut" && answer.continued),
  hasText: hasText(answer) || event.hasText,
  raise: undefined
})
