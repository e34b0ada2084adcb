/**
 * What a `ChainStore` keeps of one scope: its last cooldown with its streak, and how far it has been cleared. Pure.
 *
 * **Times** are Unix milliseconds, because a store outlives the process. Read back they become monotonic again, and
 * a cooldown never gets longer by that: what is left of it is never more than its whole length, whatever happened to
 * the wall clock meanwhile. Processes on several machines need clocks that agree; by how much they differ, by so much
 * a cooldown may end earlier or later elsewhere.
 *
 * **Two writers** never undo each other: `join` of what one knows and what the other wrote holds what both know, in
 * whatever order and however often it is done. `fence` says up to when cooldowns are over: by a success, a reset, or
 * because the next one has opened. Of two that opened without knowledge of each other the one that ends later holds,
 * since a server may have named its end; the other is forgotten, so a success that began between them ends both.
 *
 * **As JSON** it is versioned, and holds nothing secret: a `ProviderFailure` as its schema writes it.
 */
import { Option, Schema } from "effect"
import { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { Entry } from "../decide/Cooldown.ts"
import { quiet } from "../decide/Cooldown.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface Stored {
  readonly since: number
  /** Infinity: until it is reset. */
  readonly until: number
  readonly streak: number
  readonly named: boolean
  readonly failure: ProviderFailure
}

export interface ChainRecord {
  /** Cooldowns that opened before it are over. 0: none. */
  readonly fence: number
  readonly cooldown: Stored | undefined
}

export const empty: ChainRecord = { fence: 0, cooldown: undefined }

/** Both clocks at one moment, in milliseconds. */
export interface Now {
  readonly wall: number
  readonly monotonic: number
}

/** A dead key is forgotten so long after it died: a store must not grow with every key that was ever replaced. */
const forever = 30 * 24 * 60 * 60 * 1_000

// -----------------------------------------------------------------------------
// Joining
// -----------------------------------------------------------------------------

/** What both know. */
export const join = (a: ChainRecord, b: ChainRecord): ChainRecord => {
  const fence = Math.max(a.fence, b.fence)
  const [one, other] = [a.cooldown, b.cooldown].filter(
    (cooldown) => cooldown !== undefined && cooldown.since >= fence
  )
  if (one === undefined || other === undefined) return { fence, cooldown: one }
  const otherHolds = other.until === one.until ? other.since > one.since : other.until > one.until
  return { fence, cooldown: otherHolds ? other : one }
}

/** Whether there is nothing in one that is not in the other. */
export const isSame = (a: ChainRecord, b: ChainRecord): boolean =>
  a.fence === b.fence && isSameCooldown(a.cooldown, b.cooldown)

export const isSameCooldown = (a: Stored | undefined, b: Stored | undefined): boolean =>
  a?.since === b?.since && a?.until === b?.until

/** Whether nobody needs it any more: its streak is forgotten, and no older cooldown can come back. */
export const isForgotten = ({ fence, cooldown }: ChainRecord, wall: number): boolean => {
  if (cooldown === undefined) return fence + quiet < wall
  return cooldown.until === Infinity ? cooldown.since + forever < wall : cooldown.until + quiet < wall
}

// -----------------------------------------------------------------------------
// From and to cooldowns
// -----------------------------------------------------------------------------

/** A cooldown opened here: what was known of its scope is over. */
export const opened = (known: ChainRecord, entry: Entry, now: Now): ChainRecord => {
  const fence = Math.max(known.fence, afterKnown(known))
  const { until, streak, named, failure } = entry
  // Not before the fence even if the wall clock was set back, or others would take it for over.
  const since = Math.max(Math.floor(entry.since + now.wall - now.monotonic), fence)
  return {
    fence,
    cooldown: { since, until: since + Math.floor(until - entry.since), streak, named, failure }
  }
}

/** It was cleared here by what began at `startedAt` (monotonic), or by hand. */
export const cleared = (known: ChainRecord, startedAt: number, now: Now): ChainRecord => {
  const afterStart = Math.floor(startedAt + now.wall - now.monotonic) + 1
  return { fence: Math.max(known.fence, afterKnown(known), afterStart), cooldown: undefined }
}

const afterKnown = ({ cooldown }: ChainRecord): number => (cooldown === undefined ? 0 : cooldown.since + 1)

/** The times of a cooldown on the monotonic clock. What is left is at most its whole length. */
export const timesOf = ({ since, until }: Stored, now: Now): Pick<Entry, "since" | "until"> => {
  const age = Math.max(0, now.wall - since)
  return { since: now.monotonic - age, until: now.monotonic - age + (until - since) }
}

// -----------------------------------------------------------------------------
// As JSON
// -----------------------------------------------------------------------------

const version = 1

const Json = Schema.fromJsonString(
  Schema.toCodecJson(
    Schema.Struct({
      v: Schema.Literal(version),
      fence: Schema.Finite,
      cooldown: Schema.optional(
        Schema.Struct({
          since: Schema.Finite,
          /** null: until it is reset. */
          until: Schema.NullOr(Schema.Finite),
          streak: Schema.Finite,
          named: Schema.Boolean,
          failure: ProviderFailure
        })
      )
    })
  )
)
const encodeJson = Schema.encodeSync(Json)
const decodeJson = Schema.decodeOption(Json)
const decodeVersion = Schema.decodeOption(Schema.fromJsonString(Schema.Struct({ v: Schema.Finite })))

export const encode = ({ fence, cooldown }: ChainRecord): string =>
  encodeJson({
    v: version,
    fence,
    ...(cooldown === undefined
      ? {}
      : { cooldown: { ...cooldown, until: cooldown.until === Infinity ? null : cooldown.until } })
  })

/** The record, or why it cannot be read: it is broken, or a newer version of this package wrote it. */
export const decode = (json: string): ChainRecord | "broken" | "newer" => {
  const read = Option.getOrUndefined(decodeJson(json))
  if (read !== undefined) {
    const { fence, cooldown } = read
    return {
      fence,
      cooldown: cooldown === undefined ? undefined : { ...cooldown, until: cooldown.until ?? Infinity }
    }
  }
  return (Option.getOrUndefined(decodeVersion(json))?.v ?? 0) > version ? "newer" : "broken"
}
