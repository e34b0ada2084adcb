/**
 * The last things that were done: what a check may be about, and whether the same is done again. Pure, of bounded size.
 *
 * **What it does not do.** What a shell or a notebook carries out is not among them: nobody knows what it was.
 */
import * as Nature from "./ToolNature.ts"

type Leaves = ReadonlyArray<ReadonlyArray<number>>

/** Something done. */
export interface Act {
  /** Calls of the run until then. */
  readonly calls: number
  /** Which call it was. */
  readonly id: number
  /** It is known to change something: no click, and nothing that goes on by itself. */
  readonly isDeed: boolean
  readonly family: string
  /** What it was asked, text by text. */
  readonly leaves: Leaves
}

/** Oldest first, at most {@link most}. */
export type Acts = ReadonlyArray<Act>

/** Things done that are remembered, and of each the first words that a check may ask about. */
const most = 8

/** With one more. */
export const add = (acts: Acts, act: Act): Acts => {
  const from = acts.length < most ? 0 : 1
  const after = new Array<Act>(acts.length + 1 - from)
  for (let i = from; i < acts.length; i++) after[i - from] = acts[i] ?? act
  after[after.length - 1] = act
  return after
}

/** Whether anything was done since the run had so many calls. */
export const any = (acts: Acts, calls: number): boolean => (acts.at(-1)?.calls ?? 0) > calls

/** How much was done since: what had been done just before, and nothing else; 0 if anything else was done. */
export const again = (acts: Acts, calls: number): number => {
  let since = 0
  while (since < acts.length && (acts.at(-1 - since)?.calls ?? 0) > calls) since++
  if (2 * since > acts.length) return 0
  for (let i = 1; i <= since; i++) {
    const act = acts.at(-i)
    if (act?.isDeed !== true || act.id !== acts.at(-i - since)?.id) return 0
  }
  return since
}

/** What was done since with the thing that a check asks about, or, where it asks about nothing, with tools like it. */
export const upon = (acts: Acts, calls: number, check: string, leaves: Leaves): number => {
  if (!any(acts, calls)) return 0
  const since = acts.filter((act) => act.calls > calls)
  if (since.some((act) => isAbout(act, leaves))) return 1
  const family = leaves.length === 0 ? Nature.family(check) : ""
  return family !== "" && since.some((act) => act.family === family) ? 0.75 : 0
}

/** One of its first words is asked about. */
const isAbout = (act: Act, leaves: Leaves): boolean => {
  let words = 0
  for (const leaf of act.leaves) {
    for (const word of leaf) {
      if (words++ === most) return false
      if (leaves.some((asked) => asked.includes(word))) return true
    }
  }
  return false
}
