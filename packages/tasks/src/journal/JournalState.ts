/**
 * Decides what becomes of a tool call, from the kind of its effect and what the journal knows. Pure.
 *
 * **States of an effect.** Without a record it has not begun. With a record it has begun, and whether it has happened is
 * known only to a reply that was never stored: it is in doubt. An `idempotent` effect runs again with its key. An effect
 * that may happen `once` runs again only if `reconcile`, or a person, says that it has not happened.
 */
import type { EffectRecord } from "../state/TaskState.ts"

/**
 * - `none`: changes nothing outside, so it may run again
 * - `idempotent`: has the same effect however often it runs with one key
 * - `once`: must not run again after it has begun
 */
export type Effects = "none" | "idempotent" | "once"

/**
 * The kind of an effect: the safer of the tool's declaration now, and of the one under which it `began`. A tool that is
 * gone cannot say what its effect was.
 */
export const safer = (
  declared: Effects,
  isGone: boolean,
  began: { readonly kind?: "idempotent" | "once" | undefined } | undefined
): Effects => {
  if (began === undefined) return declared
  if (isGone || declared === "once") return "once"
  return began.kind ?? "once"
}

/** Knowledge of the journal about a call, before the call runs. */
export type Known =
  /** This attempt has written its intent. */
  | { readonly _tag: "New" }
  /** An earlier attempt has begun it, here or elsewhere, and its handler does not run in this process. */
  | { readonly _tag: "Begun"; readonly record: EffectRecord }
  /** A person has decided that it has not happened. */
  | { readonly _tag: "DidNot" }

export type Decision =
  /** Runs the handler. `takesOver`: the record is another holder's, and becomes this one's first. */
  | { readonly _tag: "Run"; readonly takesOver: boolean }
  /** Asks `reconcile`. */
  | { readonly _tag: "Ask"; readonly record: EffectRecord }
  /** Waits for a person. */
  | { readonly _tag: "Stop"; readonly record: EffectRecord }

/** This attempt at an effect. */
export interface Attempt {
  /** Counts from 1. A person has decided that every earlier one has not happened. */
  readonly attempt: number
  /** The start of this process. */
  readonly boot: string
  /** True when this process may have forgotten handlers that it began. */
  readonly hasForgotten: boolean
}

/**
 * What a record says to an attempt whose handler does not run in this process. A record of this process without a handler
 * was written by a step that was interrupted before its handler began.
 */
export const knownOf = (
  record: EffectRecord | undefined,
  { attempt, boot, hasForgotten }: Attempt
): Known => {
  if (record === undefined) return { _tag: "New" }
  if (record.attempt < attempt) return { _tag: "DidNot" }
  return record.boot === boot && !hasForgotten ? { _tag: "New" } : { _tag: "Begun", record }
}

export const decide = (kind: "idempotent" | "once", known: Known, canReconcile: boolean): Decision => {
  if (known._tag === "New") return { _tag: "Run", takesOver: false }
  if (known._tag === "DidNot" || kind === "idempotent") return { _tag: "Run", takesOver: true }
  return canReconcile ? { _tag: "Ask", record: known.record } : { _tag: "Stop", record: known.record }
}

/** The answer of `reconcile`, as a decision. `Happened` is the caller's: its result is the reply. */
export const reconciled = (answer: "DidNot" | "Unknown", record: EffectRecord): Decision =>
  answer === "DidNot" ? { _tag: "Run", takesOver: true } : { _tag: "Stop", record }
