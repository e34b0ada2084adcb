/**
 * Converts the shares of a policy into token limits for a window. Pure.
 */
import { Options as Check } from "@outlast/resilience"
import type { ContextOverflow } from "../failure/reasons/FailoverReason.ts"
import type { CompactionPolicy } from "./CompactionPolicy.ts"
import { isWindow } from "./ContextWindows.ts"

export interface Room {
  /** Tokens of input and output together. */
  readonly window: number
  /** Tokens reserved for the answer. Default 0. */
  readonly outputLimit?: number | undefined
  /**
   * True when `window` is the model's own, so that the whole output limit must stay free. False for a window given
   * by hand, of which at most `policy.maxAnswer` (20 %) is kept for the answer. Default: true when `ContextWindows`
   * knows no larger window of the model.
   */
  readonly modelWindow?: boolean | undefined
}

/** Limits of a window, in tokens. */
export interface Bounds {
  readonly window: number
  /** Size from which the conversation is filling. */
  readonly warn: number
  /** Maximum size of the conversation. */
  readonly limit: number
  readonly downTo: number
  /** How the limit was computed, e.g. `the window of 30,000, less 6,000 for the answer and 600 in reserve`. */
  readonly arithmetic: string
}

/** The bounds in tokens of the meter. */
export interface Sizes {
  readonly window: number
  readonly limit: number
  readonly downTo: number
  /** Tokens of a request without its messages: the tool schemas. */
  readonly fixed: number
  /** Provider tokens per meter token. */
  readonly scale: number
  /** The bounds in tokens of the provider. */
  readonly bounds: Bounds
}

/**
 * Limits for a window: the limit is min(act, window - answer - reserve). The answer gets the output limit, but at
 * most `maxAnswer` of a window given by hand. When the answer lowers the limit, `downTo` falls by the same share.
 * Throws an `InvalidOption` (a `RangeError`) for an impossible window or output limit.
 */
export const boundsOf = (policy: CompactionPolicy, room: Room): Bounds => {
  const { window, outputLimit = 0, modelWindow = false } = room
  Check.positiveInteger("Compaction", "window", window)
  Check.number("Compaction", "outputLimit", outputLimit, { min: 0 })
  const answer = modelWindow ? outputLimit : Math.min(outputLimit, Math.floor(policy.maxAnswer * window))
  const left = Math.floor(window - answer - policy.reserve * window)
  Check.check(
    left > 0,
    "Compaction",
    modelWindow ? "outputLimit" : "window",
    modelWindow ? outputLimit : window,
    modelWindow ? `below the window (${window}) and its reserve` : "large enough for an answer and a reserve"
  )
  const acting = Math.floor(policy.act * window)
  const limit = Math.min(acting, left)
  const downTo = Math.min(
    Math.floor(policy.downTo * window),
    Math.floor((limit * policy.downTo) / policy.act)
  )
  const arithmetic =
    acting <= left
      ? `${percent(policy.act)} of the window of ${count(window)}`
      : `the window of ${count(window)}, less ${count(answer)} for the answer and ${count(window - answer - left)} in reserve`
  return { window, warn: Math.min(Math.floor(policy.warn * window), limit), limit, downTo, arithmetic }
}

/** Runs in every turn, so it avoids the slow `toLocaleString`. */
const count = (n: number): string => String(n).replace(/\B(?=(?:\d{3})+(?!\d))/g, ",")
const percent = (share: number): string => `${count(Math.round(share * 1_000) / 10)} %`

/** Scales the bounds to the tokens of a meter that counts `counted` instead of `real`. */
export const sizesOf = (bounds: Bounds, fixed: number, counted: number, real: number): Sizes => {
  const scale = counted === 0 ? 1 : real / counted
  const own = (tokens: number): number => Math.floor(tokens / scale)
  const { window, limit, downTo } = bounds
  return { window: own(window), limit: own(limit), downTo: own(downTo), fixed, scale, bounds }
}

/** Reduces the room to the limit that a provider named. Never increases it. */
export const within = (room: Room, limit: number | undefined): Room => {
  if (limit === undefined || limit >= room.window) return room
  // The output limit may exceed this smaller window. The answer then gets half of it.
  return {
    window: limit,
    outputLimit: Math.min(room.outputLimit ?? 0, Math.floor(limit / 2)),
    modelWindow: true
  }
}

/** The bounds after a rejection, and the number of tokens that the conversation must have had. */
export const refused = (
  policy: CompactionPolicy,
  room: Room,
  { limit: named, requested, output }: Pick<ContextOverflow, "limit" | "requested" | "output">,
  counted: number
): { readonly bounds: Bounds; readonly real: number } => {
  const limit = named !== undefined && isWindow(named) ? named : undefined
  const bounds = boundsOf(policy, within(room, limit))
  const { window } = bounds
  const input = requested === undefined ? 0 : requested - (output ?? 0)
  // Without a reported size, only the lower bound is known.
  const real = input > 0 ? input : Math.max(counted, window)
  const rejected = Math.floor(real * policy.act)
  return {
    real,
    bounds: {
      ...bounds,
      limit: Math.min(bounds.limit, rejected),
      arithmetic:
        rejected < bounds.limit
          ? `${percent(policy.act)} of the ${count(real)} that the provider rejected`
          : bounds.arithmetic,
      downTo: Math.min(bounds.downTo, Math.floor(real * policy.downTo))
    }
  }
}
