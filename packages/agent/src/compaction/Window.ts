/**
 * When a conversation is too long, in numbers: what a policy's shares of a window come to. Pure.
 */
import { Options as Check } from "@outlast/resilience"
import type { ContextOverflow } from "../failure/reasons/FailoverReason.ts"
import type { CompactionPolicy } from "./CompactionPolicy.ts"
import { isWindow } from "./ContextWindows.ts"

export interface Room {
  /** Tokens of input and output together. */
  readonly window: number
  /** Tokens that the answer may have. Default 0. */
  readonly outputLimit?: number | undefined
}

/** Tokens. */
export interface Bounds {
  readonly window: number
  /** From here on it is getting full. */
  readonly warn: number
  /** It must not have more. */
  readonly limit: number
  readonly downTo: number
}

/** Numbers in the tokens of the meter. */
export interface Sizes {
  readonly window: number
  readonly limit: number
  readonly downTo: number
  /** Tokens of a request beside its messages. */
  readonly fixed: number
  /** How many tokens of the provider one of the meter is. */
  readonly scale: number
  /** In the tokens of the provider. */
  readonly bounds: Bounds
}

/**
 * Acts at min(act, window - output limit - reserve); `downTo` is lower by the same share where the output limit makes
 * the limit lower. Throws an `InvalidOption` (a `RangeError`) for a window or an output limit that cannot be.
 */
export const boundsOf = (policy: CompactionPolicy, { window, outputLimit = 0 }: Room): Bounds => {
  Check.positiveInteger("Compaction", "window", window)
  Check.number("Compaction", "outputLimit", outputLimit, { min: 0 })
  const left = Math.floor(window - outputLimit - policy.reserve * window)
  Check.check(
    left > 0,
    "Compaction",
    "outputLimit",
    outputLimit,
    `below the window (${window}) and its reserve`
  )
  const limit = Math.min(Math.floor(policy.act * window), left)
  const downTo = Math.min(
    Math.floor(policy.downTo * window),
    Math.floor((limit * policy.downTo) / policy.act)
  )
  return { window, warn: Math.min(Math.floor(policy.warn * window), limit), limit, downTo }
}

/** The bounds in tokens of a meter that counts `counted` where there are `real`. */
export const sizesOf = (bounds: Bounds, fixed: number, counted: number, real: number): Sizes => {
  const scale = counted === 0 ? 1 : real / counted
  const own = (tokens: number): number => Math.floor(tokens / scale)
  const { window, limit, downTo } = bounds
  return { window: own(window), limit: own(limit), downTo: own(downTo), fixed, scale, bounds }
}

/** The room that is left where a provider has named a limit. It is never more than there was. */
export const within = (room: Room, limit: number | undefined): Room => {
  if (limit === undefined || limit >= room.window) return room
  // A smaller window than was thought may be all that there is: the answer gets half of it then.
  return { window: limit, outputLimit: Math.min(room.outputLimit ?? 0, Math.floor(limit / 2)) }
}

/** The bounds that a provider's refusal leaves, and the tokens that the conversation must have had. */
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
  // Without a number it is only known that there was too much.
  const real = input > 0 ? input : Math.max(counted, window)
  return {
    real,
    bounds: {
      ...bounds,
      limit: Math.min(bounds.limit, Math.floor(real * policy.act)),
      downTo: Math.min(bounds.downTo, Math.floor(real * policy.downTo))
    }
  }
}
