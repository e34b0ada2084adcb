/**
 * Which target answered, and what it cost: metadata under `outlast` on the first text part and on the finish
 * part of an answer. The text part's metadata lands in the conversation; it is stripped before sending.
 */
import { Option, Schema } from "effect"
import type { Types } from "effect"
import type { Response } from "effect/ai"
import type { Price } from "./ModelInfo.ts"

/** The key of our metadata in parts and of our options in a prompt. */
export const namespace = "outlast"

export const Answered = Schema.Struct({
  /** The id of the target that stands first in the chain. */
  requested: Schema.String,
  /** The id of the target that answered. */
  target: Schema.String,
  provider: Schema.String,
  model: Schema.String,
  /** Attempts of this call, the successful one included. */
  attempts: Schema.Finite,
  /** Why the call left the target before, where it did: the tag of the failure's reason. */
  switched: Schema.optionalKey(Schema.String),
  /**
   * US dollars for the answer and for failed attempts whose usage the provider named; absent where the price or the
   * usage of the answer is not known.
   */
  costUsd: Schema.optionalKey(Schema.Finite)
})
export type Answered = typeof Answered.Type

/** Without the cost, which is known last. */
export type Unpriced = Omit<Answered, "costUsd">

/** As it is written: what goes without saying is left out, because effect/ai checks every field of every part. */
const Written = Schema.Struct({
  ...Answered.fields,
  requested: Schema.optionalKey(Schema.String),
  attempts: Schema.optionalKey(Schema.Finite)
})

const decode = Schema.decodeUnknownOption(Written)

/** What is written into metadata: the target is the one that was asked for, in one attempt, unless it says so. */
export const written = (
  answered: Unpriced & { readonly costUsd?: number | undefined }
): typeof Written.Type => {
  const { requested, target, provider, model, attempts, switched, costUsd } = answered
  // Field by field: it is done twice in each call, and a rest of an object costs several times as much.
  const out: Types.Mutable<typeof Written.Type> = { target, provider, model }
  if (requested !== target) out.requested = requested
  if (attempts !== 1) out.attempts = attempts
  if (switched !== undefined) out.switched = switched
  if (costUsd !== undefined) out.costUsd = costUsd
  return out
}

/**
 * Who answered: give it the `content` of a response, or the parts of a stream. The last part that knows
 * wins, because the finish part knows the cost. `None` for an answer that did not come through Outlast.
 */
export const answeredBy = (
  parts: ReadonlyArray<{
    readonly type: string
    readonly metadata?: Readonly<Record<string, unknown>> | undefined
  }>
): Option.Option<Answered> => {
  for (let i = parts.length - 1; i >= 0; i--) {
    const found = decode(parts[i]?.metadata?.[namespace])
    if (Option.isSome(found)) {
      return Option.some({ requested: found.value.target, attempts: 1, ...found.value })
    }
  }
  return Option.none()
}

type Usage = Response.FinishPartEncoded["usage"]

/** US dollars for a usage at a price; `undefined` where either is not known. */
export const costOf = (price: Price | undefined, usage: Usage): number | undefined => {
  const { inputTokens, outputTokens } = usage
  if (price === undefined || (inputTokens.total === undefined && outputTokens.total === undefined))
    return undefined
  const read = inputTokens.cacheRead ?? 0
  const written = inputTokens.cacheWrite ?? 0
  const fresh = inputTokens.uncached ?? Math.max(0, (inputTokens.total ?? 0) - read - written)
  const perMillion =
    fresh * price.input +
    read * (price.cacheRead ?? price.input) +
    written * (price.cacheWrite ?? price.input) +
    (outputTokens.total ?? 0) * price.output
  return perMillion / 1_000_000
}
