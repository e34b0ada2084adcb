/**
 * What is shown of the texts or the thinking of an attempt: all of it, what it adds to the answer that it continues
 * (`Seam`), or only the object in it (`ObjectText`). Deltas are held as long as that is undecided.
 */
import { ObjectText } from "../../conversation/ObjectText.ts"
import * as Seam from "../../recovery/Seam.ts"
import type { Delta } from "./PartKind.ts"

export type DeltaFilter =
  | { readonly _tag: "All" }
  | {
      readonly _tag: "Added"
      readonly type: Delta["type"]
      readonly seam: Seam.Seam
      /** The last delta that is held, with the metadata of all held ones. */
      readonly held: Delta | undefined
    }
  | {
      readonly _tag: "Object"
      readonly object: ObjectText
      /** The last delta. */
      readonly last: Delta | undefined
    }

export interface Passed {
  readonly filter: DeltaFilter
  readonly delta: Delta | undefined
  /** How the answer was continued, if that has been decided here. */
  readonly verdict: Seam.Verdict | undefined
}

export const all: DeltaFilter = { _tag: "All" }

/** For texts, or thinking, that continue `text`. */
export const added = (type: Delta["type"], text: string): DeltaFilter => ({
  _tag: "Added",
  type,
  seam: Seam.make(text),
  held: undefined
})

/** For texts that are to be an object. */
export const object = (): DeltaFilter => ({ _tag: "Object", object: new ObjectText(), last: undefined })

/** Passes a delta on, or holds it. */
export const push = (filter: DeltaFilter, delta: Delta): Passed => {
  if (filter._tag === "Added" && filter.type === delta.type) {
    const metadata = { ...filter.held?.metadata, ...delta.metadata }
    const held = Object.keys(metadata).length === 0 ? delta : { ...delta, metadata }
    return passed(filter.type, Seam.push(filter.seam, delta.delta), held)
  }
  if (filter._tag === "Object" && delta.type === "text-delta") {
    const { object } = filter
    const shown = { ...delta, delta: object.push(delta.delta) }
    return { filter: { _tag: "Object", object, last: delta }, delta: shown, verdict: undefined }
  }
  return { filter, delta, verdict: undefined }
}

/** Decides about what is held: something else comes. `undefined`: nothing was held. */
export const end = (filter: DeltaFilter): Passed | undefined =>
  filter._tag === "Added" && filter.held !== undefined
    ? passed(filter.type, Seam.end(filter.seam), filter.held)
    : undefined

/** As {@link end}, and the object is over. */
export const endAll = (filter: DeltaFilter): Passed | undefined => {
  if (filter._tag !== "Object") return end(filter)
  const { object, last } = filter
  const rest = object.end()
  // The metadata of the last delta has been shown with it.
  const delta = last === undefined || rest === "" ? undefined : { type: last.type, id: last.id, delta: rest }
  return { filter: all, delta, verdict: undefined }
}

const passed = (type: Delta["type"], { seam, text, verdict }: Seam.Pushed, held: Delta): Passed =>
  verdict === undefined
    ? { filter: { _tag: "Added", type, seam, held }, delta: undefined, verdict }
    : { filter: all, delta: { ...held, delta: text }, verdict }
