/**
 * What a compaction service remembers of one conversation, as JSON of at most 2 KB.
 *
 * A run that goes on in another process restores it there, so that the limits of compaction and the learned token
 * counts hold over restarts. A prepared summary is not part of it: it is only in the memory of the service.
 */
import { Schema } from "effect"
import * as Calibration from "./Calibration.ts"
import { kinds } from "./Content.ts"

export const Memory = Schema.Struct({
  thrash: Schema.Struct({
    turn: Schema.Finite,
    last: Schema.optional(Schema.Finite),
    poor: Schema.Finite
  }),
  /** The learned error of the counter for the model of the conversation. */
  calibration: Schema.optional(
    Schema.Struct({
      model: Schema.String,
      errors: Schema.Array(Schema.Finite),
      /** The rows of the upper triangle, one after the other. */
      covariance: Schema.Array(Schema.Finite)
    })
  )
})
export type Memory = typeof Memory.Type

type Written = NonNullable<Memory["calibration"]>

/** Seven decimals are more than the reports of a provider justify, and short as JSON. */
const short = (n: number): number => Math.round(n * 1e7) / 1e7

export const written = (model: string, { errors, covariance }: Calibration.Calibration): Written => ({
  model,
  errors: errors.map(short),
  covariance: covariance.flatMap((row, i) => row.slice(i).map(short))
})

/** Reads a written calibration. One of another version, with other kinds of content, is discarded. */
export const read = ({ errors, covariance }: Written): Calibration.Calibration => {
  const n = kinds.length
  if (errors.length !== n || covariance.length !== (n * (n + 1)) / 2) return Calibration.initial
  const at = (i: number, j: number): number => {
    const [low, high] = i < j ? [i, j] : [j, i]
    return covariance[low * n - (low * (low - 1)) / 2 + high - low] ?? 0
  }
  return { errors, covariance: kinds.map((_, i) => kinds.map((_, j) => at(i, j))) }
}
