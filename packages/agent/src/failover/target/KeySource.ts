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
 * Names are shown in events and errors, so a key where its name belongs throws an `InvalidOption` that does not quote
 * it. A name that looks like a key is refused, too.
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
import { Cause, Clock, Config, Duration, Effect, Redacted, Schema } from "effect"
import { Options } from "@outlast/resilience"
import { mayBeKey } from "../../secrets/KeyForm.ts"
import { holds, property } from "../../failure/facts/Looking.ts"
import * as Kind from "../../options/Kind.ts"
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
  /** The tag or the class of what the function failed with, where it has one (`RequestError`), or what was wrong. */
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
  /** Unix time in milliseconds; absent, or `NaN`, for a key that does not expire. */
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

/**
 * A key in the configuration, by default an environment variable. Read once, when the layer is built.
 *
 * Throws an `InvalidOption` unless `name` is the name of a variable (`[A-Za-z_][A-Za-z0-9_]*`).
 */
export const env = (name: string): KeySource => {
  const known = variable("KeySource.env", "name", name)
  return { name: known, load: Config.Redacted(known) }
}

/** A key anywhere in the configuration. Read once, when the layer is built. */
export const config = (name: string, key: Config.Config<Redacted.Redacted>): KeySource => {
  const known = label("KeySource.config", "name", name)
  if (!Config.isConfig(key)) throw refused("KeySource.config", "key", "a Config", 'Config.Redacted("NAME")')
  return { name: known, load: key }
}

/** A key that is already there. Default of the name: `key`. */
export const value: {
  (key: Redacted.Redacted): KeySource
  (name: string, key: Redacted.Redacted): KeySource
} = (...args: readonly [Redacted.Redacted] | readonly [string, Redacted.Redacted]): KeySource => {
  const [name, key] = args.length === 1 ? [defaults.name, args[0]] : args
  if (!Redacted.isRedacted(key)) throw refused("KeySource.value", "key", "a Redacted", "Redacted.make(key)")
  const known = label("KeySource.value", "name", name)
  // A variable that is not set, for example.
  return { name: known, load: Effect.succeed(textOf(key) === undefined ? Redacted.make("") : key) }
}

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

export const defaults = { name: "key", timeout: "30 seconds", margin: "1 minute" } as const

const { is } = Options

const refreshingChecks: Options.Checks<RefreshingOptions> = {
  load: is.required((module, field, value) =>
    // A text may be the key.
    (typeof value === "string" ? is.secret(is.effect) : is.effect)(module, field, value)
  ),
  timeout: Kind.finiteDuration({ min: "1 millis" }),
  margin: Kind.finiteDuration()
}

/**
 * A key that a function gives, for example an OAuth access token. It is refreshed before it expires, where `load`
 * says when that is, and once when the provider refuses it.
 *
 * Throws an `InvalidOption` (a `RangeError`) for an option that is missing, unknown or not allowed, and for a name that
 * may be a key.
 */
export const refreshing = (name: string, options: RefreshingOptions): KeySource => {
  label("KeySource.refreshing", "name", name)
  if (typeof options !== "object" || options === null)
    throw refused("KeySource.refreshing", "options", "an object", "KeySource.refreshing(name, { load })")
  Options.fields("KeySource.refreshing", options, refreshingChecks)
  const timeout = Duration.fromInputUnsafe(options.timeout ?? defaults.timeout)
  const margin = Duration.toMillis(options.margin ?? defaults.margin)
  const attempt = Effect.matchCauseEffect(options.load, {
    // A defect is a failure like any other, and so is an interruption that is none of ours.
    onFailure: (cause) => Effect.fail(new KeyError({ key: name, why: "failed", ...errorOf(cause) })),
    onSuccess: (token) => {
      const value: unknown = property(token, "value")
      const text = Redacted.isRedacted(value) ? textOf(value) : undefined
      if (text === undefined)
        return Effect.fail(new KeyError({ key: name, why: "failed", error: "its value is not a Redacted" }))
      if (text.trim() === "") return Effect.fail(new KeyError({ key: name, why: "empty" }))
      return Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const error = wrongExpiry(property(token, "expiresAt"), now)
        return error === undefined
          ? Effect.succeed(token)
          : Effect.fail(new KeyError({ key: name, why: "failed", error }))
      })
    }
  })
  const load = timed(attempt, timeout, () => Effect.fail(new KeyError({ key: name, why: "timeout" })))
  return { name, load: Effect.map(load, (token) => token.value), refresh: { load, margin } }
}

/** What is wrong with the time of a token. A small number is a time in seconds, unless the clock itself is near 0. */
const wrongExpiry = (expiresAt: unknown, now: number): string | undefined => {
  if (expiresAt === undefined) return undefined
  // `expires_at * 1_000` of a token without `expires_at` is NaN, which is a number here: such a key does not expire.
  if (typeof expiresAt !== "number") return "its expiresAt is not a number"
  return expiresAt < inSeconds && now > inSeconds
    ? "its expiresAt is in seconds, not in milliseconds"
    : undefined
}

/** 1973 in milliseconds, the year 5138 in seconds. */
const inSeconds = 1e11

/** The text of a key; `undefined` if it was wiped or is not a string. */
const textOf = (key: Redacted.Redacted<unknown>): string | undefined => {
  try {
    const text = Redacted.value(key)
    return typeof text === "string" ? text : undefined
  } catch {
    return undefined
  }
}

/** A name, if it is one: whatever else stands in an error may be a secret. */
const errorOf = (cause: Cause.Cause<unknown>): { readonly error?: string } => {
  const error = Cause.squash(cause)
  for (const name of [property(error, "_tag"), property(error, "name")]) {
    if (typeof name === "string" && /^[A-Za-z][\w/@.-]{0,99}$/.test(name)) return { error: name }
  }
  return {}
}

// -----------------------------------------------------------------------------
// Names
// -----------------------------------------------------------------------------

/** The sources of an option `keys`. Throws an `InvalidOption` for what is none, without quoting it. */
export const fromOption = (module: string, keys: unknown): ReadonlyArray<KeySource> => {
  if (!Array.isArray(keys)) throw refused(module, "keys", "a list", keysExample)
  if (keys.length === 0)
    throw refused(module, "keys", "a list with at least one key", `${keysExample}, or leave it out`)
  return Array.from(keys, (key: unknown, i) => {
    const field = `keys[${i}]`
    const first = keys.indexOf(key)
    if (first >= 0 && first < i) {
      const named = typeof key === "string" ? variable(module, field, key) : checked(module, field, key).name
      const message = `${module}: ${field} names the key ${named} twice: it is keys[${first}] already. Name each key once.`
      throw new Options.InvalidOption(module, field, undefined, "another key", message)
    }
    if (typeof key !== "string") return checked(module, field, key)
    return env(variable(module, field, key))
  })
}

/** A source that may be written by hand. Throws an `InvalidOption` for what is none, and for a name that may be a key. */
export const checked = (module: string, field: string, key: unknown): KeySource => {
  if (!isSource(key)) throw refused(module, field, "the name of a variable or a KeySource", keyExample)
  label(module, `${field}.name`, key.name)
  return key
}

const isSource = (key: unknown): key is KeySource =>
  typeof property(key, "name") === "string" && holds(Effect.isEffect, property(key, "load"))

const variable = (module: string, field: string, name: unknown): string => {
  if (typeof name === "string" && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !mayBeKey(name)) return name
  throw refused(module, field, "the name of an environment variable, not a key", keyExample)
}

/** The name of a source that is not a variable: it may have dots, dashes and blanks. */
const label = (module: string, field: string, name: unknown): string => {
  if (typeof name === "string" && /^[\p{L}\p{N}_][\p{L}\p{N} _.:/@~-]*$/u.test(name) && !mayBeKey(name))
    return name
  throw refused(module, field, "a short name, not a key", '"ANTHROPIC_API_KEY"')
}

const keysExample = 'keys: ["ANTHROPIC_API_KEY"]'
const keyExample = `${keysExample}, or KeySource.value("name", Redacted.make(key)) for a key that the program has`

/** Does not show the value, which may be a key. */
const refused = (module: string, field: string, allowed: string, instead: string): Options.InvalidOption =>
  new Options.InvalidOption(
    module,
    field,
    undefined,
    allowed,
    `${module}: ${field} must be ${allowed}. Write ${instead}.`
  )
