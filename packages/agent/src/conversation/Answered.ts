/**
 * The target that answered, and the cost: metadata under `outlast` on the first text part and the finish part of an
 * answer. The metadata of the text part becomes part of the conversation. It is removed before sending.
 */
import { Option, Schema } from "effect"
import type { Types } from "effect"
import type { Response } from "effect/ai"
import type { Price } from "./ModelInfo.ts"

/** Key of our metadata in parts and of our options in a prompt. */
export const namespace = "outlast"

export const Answered = Schema.Struct({
  /** Id of the first target in the chain. */
  requested: Schema.String,
  /** Id of the target that answered. */
  target: Schema.String,
  provider: Schema.String,
  model: Schema.String,
  /** Number of attempts of this call, including the successful one. */
  attempts: Schema.Finite,
  /** Reason why the call left the previous target: the tag of the failure's reason. Absent without a switch. */
  switched: Schema.optionalKey(Schema.String),
  /**
   * Cost in US dollars of the answer, and of failed attempts whose usage the provider reported. Absent when the price
   * or the usage of the answer is unknown.
   */
  costUsd: Schema.optionalKey(Schema.Finite)
})
export type Answered = typeof Answered.Type

/** Without the cost, which is known last. */
export type Unpriced = Omit<Answered, "costUsd">

/** The written form omits default values, because effect/ai checks every field of every part. */
type Written = Omit<Answered, "requested" | "attempts"> & Partial<Pick<Answered, "requested" | "attempts">>

/** Converts to the written form. The defaults are: the requested target answered, in one attempt. */
export const written = (answered: Unpriced & { readonly costUsd?: number | undefined }): Written => {
  const { requested, target, provider, model, attempts, switched, costUsd } = answered
  // Copies field by field: this runs twice per call, and a rest spread costs several times as much.
  const out: Types.Mutable<Written> = { target, provider, model }
  if (requested !== target) out.requested = requested
  if (attempts !== 1) out.attempts = attempts
  if (switched !== undefined) out.switched = switched
  if (costUsd !== undefined) out.costUsd = costUsd
  return out
}

/**
 * Reads the answering target from the `content` of a response or the parts of a stream. The last part with metadata
 * is used, because the finish part has the cost. `None` for an answer that did not come through Outlast.
 */
export const answeredBy = (
  parts: ReadonlyArray<{
    readonly type: string
    readonly metadata?: Readonly<Record<string, unknown>> | undefined
  }>
): Option.Option<Answered> => {
  for (let i = parts.length - 1; i >= 0; i--) {
    const found = decoded(parts[i]?.metadata?.[namespace])
    if (found !== undefined) return Option.some(found)
  }
  return Option.none()
}

/** Reads the written form by hand: `toAiSdk` does it in each call, and a schema takes ten times as long. */
const decoded = (metadata: unknown): Answered | undefined => {
  if (typeof metadata !== "object" || metadata === null) return undefined
  const { requested, target, provider, model, attempts = 1, switched, costUsd }: Given = metadata
  if (typeof target !== "string" || typeof provider !== "string" || typeof model !== "string")
    return undefined
  if (!isOptionalText(requested) || !isOptionalText(switched) || !isFiniteNumber(attempts)) return undefined
  if (costUsd !== undefined && !isFiniteNumber(costUsd)) return undefined
  return {
    requested: requested ?? target,
    target,
    provider,
    model,
    attempts,
    ...(switched === undefined ? undefined : { switched }),
    ...(costUsd === undefined ? undefined : { costUsd })
  }
}

type Given = { readonly [Field in keyof Answered]?: unknown }

const isOptionalText = (value: unknown): value is string | undefined =>
  value === undefined || typeof value === "string"

const isFiniteNumber = (value: unknown): value is number => Number.isFinite(value)

type Usage = Response.FinishPartEncoded["usage"]

/** Cost of a usage in US dollars; `undefined` when the price or the usage is unknown. */
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
