/**
 * What became of one file: whether its edits get anywhere.
 *
 * An edit **goes back** when it brings a text that was there before, **does nothing** when it brings the text that is
 * there, and **churns** when it replaces what the agent itself has just written, with no look at the result between.
 * A check that fails as before after an edit counts as well. Each adds to `fruitless`; a check that tells something
 * else clears it. New text in new places costs nothing, however often. Pure; a history is of bounded size.
 *
 * **What it does not do.** It knows no content, only hashes, and of each file the last {@link remembered} texts.
 */
import type { FileEdit } from "./FileEdit.ts"

export interface FileHistory {
  /** Texts that were there, newest last. */
  readonly texts: ReadonlyArray<number>
  readonly fruitless: number
}

export const none: FileHistory = { texts: [], fruitless: 0 }

/** Texts of a file that are remembered. */
export const remembered = 12

/** What an edit may be worth: something that goes back is worse than none. */
const worth = { back: 1.5, nothing: 1, churn: 1 }

/**
 * `looked`: something else was called since the last edit. `learned`: something new was told. Then what goes back may be
 * an experiment and counts half, and what does nothing may be a routine.
 */
export const edited = (
  history: FileHistory,
  edit: FileEdit,
  looked: boolean,
  learned: boolean
): FileHistory => {
  const { after } = edit
  if (after === undefined) return history
  const last = history.texts.at(-1)
  const before = edit.before ?? last
  const ours = before !== undefined && history.texts.includes(before)
  const fruitless =
    before === after
      ? learned
        ? 0
        : worth.nothing
      : ours && history.texts.includes(after)
        ? worth.back * (learned ? 0.5 : 1)
        : ours && !looked && !edit.adds
          ? worth.churn
          : 0
  return { texts: textsAfter(history.texts, before, after), fruitless: history.fruitless + fruitless }
}

/** Newest last, each once. */
const textsAfter = (
  texts: ReadonlyArray<number>,
  before: number | undefined,
  after: number
): ReadonlyArray<number> => {
  // Of most files one edit is known.
  if (texts.length === 0) return before === undefined || before === after ? [after] : [before, after]
  const kept = texts.filter((text) => text !== after && text !== before)
  if (before !== undefined) kept.push(before)
  if (after !== before) kept.push(after)
  return kept.length > remembered ? kept.slice(-remembered) : kept
}

/** A check after an edit failed as it had before. */
export const unchanged = (history: FileHistory, weight: number): FileHistory => ({
  ...history,
  fruitless: history.fruitless + weight
})

/** A check told something new. */
export const progressed = (history: FileHistory): FileHistory =>
  history.fruitless === 0 ? history : { ...history, fruitless: 0 }
