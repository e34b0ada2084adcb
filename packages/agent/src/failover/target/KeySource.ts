/**
 * The source of a key. The name is public, the value never leaves its `Redacted`.
 *
 * | source | is read | when the provider refuses it |
 * |---|---|---|
 * | {@link env}, {@link config} | once, when the layer is built | it cools; a rotated key needs a new layer |
 * | {@link value} | it is there | it cools |
 * | {@link refreshing} | when the layer is built, and whenever it expires or is refused | it is refreshed once, then cools |
 *
 * A source only describes how to load a key. A running chain holds the loaded key as a `LiveKey`.
 *
 * Names appear in events and errors. A key in place of its name throws an `InvalidOption` that does not quote it, and
 * so does a name that looks like a key.
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

/**
 * The function that supplies a key did not return one. The error omits the function's own message, which may contain
 * a secret.
 */
export class KeyError extends Schema.TaggedError<KeyError>("@outlast/agent/failover/KeyError")("KeyError", {
  /** Name of the key. */
  key: Schema.String,
  /**
   * Cause:
   *
   * - `failed`: the function failed or died
   * - `timeout`: it took longer than its limit
   * - `empty`: it returned an empty value
   */
  why: Schema.Literals(["failed", "timeout", "empty"]),
  /** Tag or class of the function's error, where it has one (`RequestError`), or the problem with its result. */
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

/** A key and its expiry. */
export interface Token {
  readonly value: Redacted.Redacted
  /** Unix time in milliseconds; absent, or `NaN`, for a key that does not expire. */
  readonly expiresAt?: number | undefined
}

/** The means to refresh a key. */
export interface Refresh {
  /** Loads the key. Fails after the time limit. */
  readonly load: Effect.Effect<Token, KeyError>
  /** Milliseconds before the expiry within which a key is refreshed before use. */
  readonly margin: number
}

export interface KeySource {
  /** Name in events and errors, for example `ANTHROPIC_API_KEY`. */
  readonly name: string
  /** Loads the key. Fails when there is none. */
  readonly load: Effect.Effect<Redacted.Redacted, Config.ConfigError | KeyError>
  /** Present only for a key that can be refreshed. */
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
  return { name: known, load: Effect.map(key, (value) => Options.redacted("KeySource.config", known, value)) }
}

/** A key that the program has already. Default name: `key`. */
export const value: {
  (key: Redacted.Redacted): KeySource
  (name: string, key: Redacted.Redacted): KeySource
} = (...args: readonly [Redacted.Redacted] | readonly [string, Redacted.Redacted]): KeySource => {
  const [name, key] = args.length === 1 ? [defaults.name, args[0]] : args
  if (!Redacted.isRedacted(key)) throw refused("KeySource.value", "key", "a Redacted", "Redacted.make(key)")
  const known = label("KeySource.value", "name", name)
  Options.redacted("KeySource.value", "key", key)
  // The value may be missing, for example from an unset variable. Such a key loads as empty.
  return { name: known, load: Effect.succeed(textOf(key) === undefined ? Redacted.make("") : key) }
}

/** Options of {@link refreshing}. */
export interface RefreshingOptions {
  /**
   * Returns the current key or a new one: exchanges a refresh token, asks a vault, or reads a file that another
   * program updates. A chain never runs it twice at the same time, even if several entries use this source, and
   * interrupts it at the time limit.
   */
  readonly load: Effect.Effect<Token, unknown>
  /** Time limit of one `load`. Default 30 seconds. */
  readonly timeout?: Duration.Input | undefined
  /** A key that expires within this time is refreshed before it is used. Default 1 minute. */
  readonly margin?: Duration.Input | undefined
}

export const defaults = { name: "key", timeout: "30 seconds", margin: "1 minute" } as const

const { is } = Options

const refreshingChecks: Options.Checks<RefreshingOptions> = {
  load: is.required((module, field, value) =>
    // A string here may be the key itself, so the error must not quote it.
    (typeof value === "string" ? is.secret(is.effect) : is.effect)(module, field, value)
  ),
  timeout: Kind.finiteDuration({ min: "1 millis" }),
  margin: Kind.finiteDuration()
}

/**
 * A key that a function supplies, for example an OAuth access token. The key is refreshed before it expires, if
 * `load` returns the expiry, and once when the provider refuses it.
 *
 * Throws an `InvalidOption` (a `RangeError`) for an option that is missing, unknown or not allowed, and for a name
 * that may be a key.
 */
export const refreshing = (name: string, options: RefreshingOptions): KeySource => {
  label("KeySource.refreshing", "name", name)
  if (typeof options !== "object" || options === null)
    throw refused("KeySource.refreshing", "options", "an object", "KeySource.refreshing(name, { load })")
  Options.fields("KeySource.refreshing", options, refreshingChecks)
  const timeout = Duration.fromInputUnsafe(options.timeout ?? defaults.timeout)
  const margin = Duration.toMillis(options.margin ?? defaults.margin)
  const attempt = Effect.matchCauseEffect(options.load, {
    // Treat a defect as a failure, and so an interruption from inside `load`.
    onFailure: (cause) => Effect.fail(new KeyError({ key: name, why: "failed", ...errorOf(cause) })),
    onSuccess: (token) => {
      const value: unknown = property(token, "value")
      if (Redacted.isRedacted(value)) Options.redacted("KeySource.refreshing", name, value)
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

/**
 * Returns the problem with a token's expiry. A small number is a time in seconds, unless the clock itself is near 0.
 */
const wrongExpiry = (expiresAt: unknown, now: number): string | undefined => {
  if (expiresAt === undefined) return undefined
  // `expires_at * 1_000` of a token without `expires_at` is NaN. Such a key does not expire.
  if (typeof expiresAt !== "number") return "its expiresAt is not a number"
  return expiresAt < inSeconds && now > inSeconds
    ? "its expiresAt is in seconds, not in milliseconds"
    : undefined
}

/** Numbers below this are seconds: 1973 in milliseconds, the year 5138 in seconds. */
const inSeconds = 1e11

/** Returns the text of a key; `undefined` if it was wiped or is not a string. */
const textOf = (key: Redacted.Redacted<unknown>): string | undefined => {
  try {
    const text = Redacted.value(key)
    return typeof text === "string" ? text : undefined
  } catch {
    return undefined
  }
}

/** Returns the tag or class name of an error. Other parts of the error may hold a secret. */
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

/**
 * Checks the option `keys` and returns its sources. Throws an `InvalidOption` for any other value, without quoting
 * it.
 */
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

/**
 * Checks a source, which may be written by hand. Throws an `InvalidOption` for a value that is not a source, and for
 * a name that may be a key.
 */
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

/** Checks the name of a source that is not a variable. Dots, dashes and blanks are allowed. */
const label = (module: string, field: string, name: unknown): string => {
  if (typeof name === "string" && /^[\p{L}\p{N}_][\p{L}\p{N} _.:/@~-]*$/u.test(name) && !mayBeKey(name))
    return name
  throw refused(module, field, "a short name, not a key", '"ANTHROPIC_API_KEY"')
}

const keysExample = 'keys: ["ANTHROPIC_API_KEY"]'
const keyExample = `${keysExample}, or KeySource.value("name", Redacted.make(key)) for a key that the program has`

/** Builds the error without the value, which may be a key. */
const refused = (module: string, field: string, allowed: string, instead: string): Options.InvalidOption =>
  new Options.InvalidOption(
    module,
    field,
    undefined,
    allowed,
    `${module}: ${field} must be ${allowed}. Write ${instead}.`
  )
