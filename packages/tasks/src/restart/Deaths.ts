/**
 * Decides how a task begins again whose process has died. Pure.
 *
 * A process that dies takes all its tasks with it, and any of them may be the cause. So each task counts the deaths since
 * its last recorded step. From the second death on it is a suspect: it begins alone, with nothing beside it in its
 * worker, until a step of it is recorded. A step whose process dies three times while it is alone is the cause, and is
 * condemned. Once would be too little: a machine or a person may end the process of an innocent step.
 */
import { Duration, Schema } from "effect"

export const Deaths = Schema.Struct({
  /** The processes that died since the last recorded step, by their boots. */
  boots: Schema.Array(Schema.String),
  /** How many of them died while the task was alone. */
  lonely: Schema.Int,
  /** True while the process that has the task carries out nothing else. */
  alone: Schema.Boolean,
  /** The step that it carries out alone. Absent before its next step begins. */
  step: Schema.optional(Schema.String)
})
export type Deaths = typeof Deaths.Type

export const none: Deaths = { boots: [], lonely: 0, alone: false }

/** Deaths at one step that make a task a suspect. */
const suspectAt = 2
/** Deaths alone that condemn a step. */
const condemnedAt = 3

export type Verdict =
  | { readonly _tag: "Free" }
  /** Begins alone. */
  | { readonly _tag: "Suspect" }
  /** Its processes died while it was alone. Without a `step`, that was before its next step began. */
  | { readonly _tag: "Condemned"; readonly step: string | undefined }

/** Judges a task that begins again. `died`: the process that had it, if that one has died. */
export const judge = (
  { boots, lonely, alone, step }: Deaths,
  died: string | undefined
): Pick<Deaths, "boots" | "lonely"> & { readonly verdict: Verdict } => {
  if (died === undefined) return { boots, lonely, verdict: verdictOf(boots.length) }
  const all = { boots: [...boots, died], lonely: alone ? lonely + 1 : lonely }
  const isProven = alone && all.lonely >= condemnedAt
  return { ...all, verdict: isProven ? { _tag: "Condemned", step } : verdictOf(all.boots.length) }
}

const verdictOf = (deaths: number): Verdict => ({ _tag: deaths < suspectAt ? "Free" : "Suspect" })

/**
 * How long a suspect may be alone. It grows with each death, so that a step is condemned in the end that takes long to
 * kill its process, and a long step that kills nothing does not hold up the others.
 */
export const alone = (deaths: number): Duration.Duration => Duration.seconds(10 * 2 ** (deaths - suspectAt))
