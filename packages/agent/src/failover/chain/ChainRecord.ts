/**
 * The record that a `ChainStore` keeps for one scope: its last cooldown with its streak, and the time up to which
 * cooldowns are cleared. Pure.
 *
 * **Times** are Unix milliseconds, because a store outlives the process. Reading converts them to monotonic
 * milliseconds. A cooldown never gets longer that way: the rest is at most its whole length, no matter how the wall
 * clock changed. Processes on several machines need synchronized clocks. A cooldown may end earlier or later
 * elsewhere by their difference.
 *
 * **Two writers** never undo each other. `join` merges two records and is commutative and idempotent. `fence` is the
 * time before which cooldowns are over: because of a success, a reset, or the next cooldown. When two cooldowns
 * opened independently, the one that ends later wins, because a server may have named its end. The other one is
 * dropped, so a success that began between them ends both.
 *
 * **The JSON** is versioned and holds no secret: a `ProviderFailure` is written by its schema.
 */
import { Option, Schema } from "effect"
import { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { Entry } from "../decide/Cooldown.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface Stored {
  readonly since: number
  /** `Infinity`: until it is reset. */
  readonly until: number
  readonly streak: number
  readonly named: boolean
  readonly looks: boolean
  readonly failure: ProviderFailure
}

export interface ChainRecord {
  /** Unix milliseconds. Cooldowns that opened earlier are over. 0: no fence. */
  readonly fence: number
  readonly cooldown: Stored | undefined
}

export const empty: ChainRecord = { fence: 0, cooldown: undefined }

/** Wall clock and monotonic clock at the same moment, in milliseconds. */
export interface Now {
  readonly wall: number
  readonly monotonic: number
}

/**
 * Milliseconds after which the record of a dead key expires: 30 days. Otherwise a store would grow with every key
 * that was ever replaced.
 */
const forever = 30 * 24 * 60 * 60 * 1_000

// -----------------------------------------------------------------------------
// Joining
// -----------------------------------------------------------------------------

/** Merges two records of the same scope. */
export const join = (a: ChainRecord, b: ChainRecord): ChainRecord => {
  const fence = Math.max(a.fence, b.fence)
  const [one, other] = [a.cooldown, b.cooldown].filter(
    (cooldown) => cooldown !== undefined && cooldown.since >= fence
  )
  if (one === undefined || other === undefined) return { fence, cooldown: one }
  const otherHolds = other.until === one.until ? other.since > one.since : other.until > one.until
  return { fence, cooldown: otherHolds ? other : one }
}

/** True when both records are equal. */
export const isSame = (a: ChainRecord, b: ChainRecord): boolean =>
  a.fence === b.fence && isSameCooldown(a.cooldown, b.cooldown)

export const isSameCooldown = (a: Stored | undefined, b: Stored | undefined): boolean =>
  a?.since === b?.since && a?.until === b?.until

/** Milliseconds after the end of a cooldown until its record may go, as `pacing.forgetAfter` of the shipped policies. */
const quiet = 24 * 60 * 60 * 1_000

/** True when the record can be deleted: its streak has expired, and no older cooldown can come back. */
export const isForgotten = ({ fence, cooldown }: ChainRecord, wall: number): boolean => {
  if (cooldown === undefined) return fence + quiet < wall
  return cooldown.until === Infinity ? cooldown.since + forever < wall : cooldown.until + quiet < wall
}

// -----------------------------------------------------------------------------
// From and to cooldowns
// -----------------------------------------------------------------------------

/** Returns the record after a cooldown opened here. Older cooldowns of its scope are over. */
export const opened = (known: ChainRecord, entry: Entry, now: Now): ChainRecord => {
  const fence = Math.max(known.fence, afterKnown(known))
  const { until, streak, named, looks, failure } = entry
  // A wall clock that was set back must not put it before the fence, or other processes would ignore it.
  const since = Math.max(Math.floor(entry.since + now.wall - now.monotonic), fence)
  return {
    fence,
    cooldown: { since, until: since + Math.floor(until - entry.since), streak, named, looks, failure }
  }
}

/** Returns the record after a clear by an attempt or a reset that began at `startedAt` (monotonic milliseconds). */
export const cleared = (known: ChainRecord, startedAt: number, now: Now): ChainRecord => {
  const afterStart = Math.floor(startedAt + now.wall - now.monotonic) + 1
  return { fence: Math.max(known.fence, afterKnown(known), afterStart), cooldown: undefined }
}

const afterKnown = ({ cooldown }: ChainRecord): number => (cooldown === undefined ? 0 : cooldown.since + 1)

/** Converts the times of a cooldown to the monotonic clock. The rest is at most its whole length. */
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
          /** `null`: until it is reset. */
          until: Schema.NullOr(Schema.Finite),
          streak: Schema.Finite,
          named: Schema.Boolean,
          /** Missing in records of earlier versions. */
          looks: Schema.optionalKey(Schema.Boolean),
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

/**
 * Decodes a record. Returns `broken` when it cannot be read, `newer` when a later version of this package wrote it.
 */
export const decode = (json: string): ChainRecord | "broken" | "newer" => {
  const read = Option.getOrUndefined(decodeJson(json))
  if (read !== undefined) {
    const { fence, cooldown } = read
    return {
      fence,
      cooldown:
        cooldown === undefined
          ? undefined
          : { ...cooldown, until: cooldown.until ?? Infinity, looks: cooldown.looks ?? false }
    }
  }
  return (Option.getOrUndefined(decodeVersion(json))?.v ?? 0) > version ? "newer" : "broken"
}
