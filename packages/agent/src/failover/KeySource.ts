/**
 * Where a key comes from. The name is public, the value never leaves its `Redacted`.
 *
 * | source | is read | when the provider refuses it |
 * |---|---|---|
 * | {@link env}, {@link config} | once, when the layer is built | it cools; a rotated key needs a new layer |
 * | {@link value} | it is there | it cools |
 * | {@link refreshing} | when the layer is built, and whenever it expires or is refused | it is refreshed once, then cools |
 *
 * A source is a recipe. What a chain holds of it while it runs is a `LiveKey`.
 *
 * **Example** (An OAuth token that is refreshed a minute before it expires)
 *
 * ```ts
 * KeySource.refreshing("CLAUDE_OAUTH", {
 *   load: Effect.map(exchangeRefreshToken, ({ access_token, expires_at }) => ({
 *     value: Redacted.make(access_token),
 *     expiresAt: expires_at * 1_000
 *   }))
 * })
 * ```
 */
import type { Duration } from "effect"
import { Cause, Config, Effect, Redacted, Schema } from "effect"
import * as Options from "@outlast/resilience/Options"
import { property } from "../failure/Looking.ts"
import { timed } from "./Timed.ts"

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

/** A function that gives a key gave none. It says nothing of what that function said, which may be secret. */
export class KeyError extends Schema.TaggedError<KeyError>("@outlast/agent/failover/KeyError")("KeyError", {
  /** The name of the key. */
  key: Schema.String,
  /**
   * - `failed`: the function failed or died
   * - `timeout`: it took longer than its limit
   * - `empty`: it gave an empty value
   */
  why: Schema.Literals(["failed", "timeout", "empty"]),
  /** The tag or the class of what the function failed with, where it has one: `RequestError`. */
  error: Schema.optionalKey(Schema.String)
}) {
  override get message(): string {
    const { key, why, error } = this
    switch (why) {
      case "failed": {
        const by = error === undefined ? "" : ` (${error})`
        return `The key ${key} could not be refreshed${by}. Check its load function, or sign in again.`
      }
      case "timeout":
        return `The key ${key} was not refreshed in time. Check that its server can be reached, or raise the timeout.`
      case "empty":
        return `The key ${key} was refreshed to an empty value. Check its load function, or sign in again.`
    }
  }
}

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** A key and how long it holds. */
export interface Token {
  readonly value: Redacted.Redacted
  /** Unix time in milliseconds; absent for a key that does not expire. */
  readonly expiresAt?: number | undefined
}

/** How to get a key that changes. */
export interface Refresh {
  /** Fails after the time limit. */
  readonly load: Effect.Effect<Token, KeyError>
  /** Milliseconds before it expires in which a key is refreshed before it is used. */
  readonly margin: number
}

export interface KeySource {
  /** Shown in events and errors, for example `ANTHROPIC_API_KEY`. */
  readonly name: string
  /** Fails when the key is not there. */
  readonly load: Effect.Effect<Redacted.Redacted, Config.ConfigError | KeyError>
  /** Only of a key that can be refreshed. */
  readonly refresh?: Refresh | undefined
}

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** A key in the configuration, by default an environment variable. Read once, when the layer is built. */
export const env = (name: string): KeySource => config(name, Config.Redacted(name))

/** A key anywhere in the configuration. Read once, when the layer is built. */
export const config = (name: string, key: Config.Config<Redacted.Redacted>): KeySource => ({
  name,
  load: key
})

/** A key that is already there. */
export const value = (name: string, key: Redacted.Redacted): KeySource => ({
  name,
  load: Effect.succeed(key)
})

/** How {@link refreshing} gets a key. */
export interface RefreshingOptions {
  /**
   * Gives the key as it is now, or a new one: exchanges a refresh token, asks a vault, reads a file that another
   * program keeps fresh. A chain never runs it twice at the same time, whatever number of its entries have this
   * source, and interrupts it at the time limit.
   */
  readonly load: Effect.Effect<Token, unknown>
  /** The time limit of one `load`. Default 30 seconds. */
  readonly timeout?: Duration.Input | undefined
  /** A key that expires within this time is refreshed before it is used. Default 1 minute. */
  readonly margin?: Duration.Input | undefined
}

export const defaults = { timeout: "30 seconds", margin: "1 minute" } as const

/**
 * A key that a function gives, for example an OAuth access token. It is refreshed before it expires, where `load`
 * says when that is, and once when the provider refuses it.
 *
 * Throws an `InvalidOption` (a `RangeError`) for a duration out of range.
 */
export const refreshing = (name: string, options: RefreshingOptions): KeySource => {
  const timeout = Options.duration("KeySource.refreshing", "timeout", options.timeout ?? defaults.timeout, {
    min: "1 millis"
  })
  const margin = Options.millis("KeySource.refreshing", "margin", options.margin ?? defaults.margin)
  const attempt = Effect.matchCauseEffect(options.load, {
    // A defect is a failure like any other, and so is an interruption that is none of ours.
    onFailure: (cause) => Effect.fail(new KeyError({ key: name, why: "failed", ...errorOf(cause) })),
    onSuccess: (token) =>
      isEmpty(token.value) ? Effect.fail(new KeyError({ key: name, why: "empty" })) : Effect.succeed(token)
  })
  const load = timed(attempt, timeout, () => Effect.fail(new KeyError({ key: name, why: "timeout" })))
  return { name, load: Effect.map(load, (token) => token.value), refresh: { load, margin } }
}

const isEmpty = (key: Redacted.Redacted): boolean => Redacted.value(key) === ""

/** A name, if it is one: whatever else stands in an error may be a secret. */
const errorOf = (cause: Cause.Cause<unknown>): { readonly error?: string } => {
  const error = Cause.squash(cause)
  for (const name of [property(error, "_tag"), property(error, "name")]) {
    if (typeof name === "string" && /^[A-Za-z][\w/@.-]{0,99}$/.test(name)) return { error: name }
  }
  return {}
}
