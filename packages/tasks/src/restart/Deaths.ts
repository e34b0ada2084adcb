/**
 * Decides how a task begins again whose process has died. Pure.
 *
 * A process that dies takes all its tasks with it, and any of them may be the cause. So each task counts the deaths since
 * its last recorded step. From the second death on it is a suspect: it begins alone, with nothing beside it in its
 * worker, until a step of it is recorded. A step whose process dies while it is alone is the cause, and is condemned.
 */
import { Duration, Schema } from "effect"

export const Deaths = Schema.Struct({
  /** The processes that died since the last recorded step, by their boots. */
  boots: Schema.Array(Schema.String),
  /** True while the process that has the task carries out nothing else. */
  alone: Schema.Boolean,
  /** The step that it carries out alone. Absent before its next step begins. */
  step: Schema.optional(Schema.String)
})
export type Deaths = typeof Deaths.Type

export const none: Deaths = { boots: [], alone: false }

/** Deaths at one step that make a task a suspect. */
const suspectAt = 2

export type Verdict =
  | { readonly _tag: "Free" }
  /** Begins alone. */
  | { readonly _tag: "Suspect" }
  /** Its process died while it was alone. Without a `step`, that was before its next step began. */
  | { readonly _tag: "Condemned"; readonly step: string | undefined }

/** Judges a task that begins again. `died`: the process that had it, if that one has died. */
export const judge = (
  { boots, alone, step }: Deaths,
  died: string | undefined
): { readonly boots: ReadonlyArray<string>; readonly verdict: Verdict } => {
  const all = died === undefined ? boots : [...boots, died]
  if (died !== undefined && alone) return { boots: all, verdict: { _tag: "Condemned", step } }
  return { boots: all, verdict: { _tag: all.length < suspectAt ? "Free" : "Suspect" } }
}

/**
 * How long a suspect may be alone. It grows with each death, so that a step is condemned in the end that takes long to
 * kill its process, and a long step that kills nothing does not hold up the others.
 */
export const alone = (deaths: number): Duration.Duration => Duration.seconds(10 * 2 ** (deaths - suspectAt))
