/**
 * Where a key comes from. The name is public, the value never leaves its `Redacted`.
 */
import type { Redacted } from "effect"
import { Config, Effect } from "effect"

export interface KeySource {
  /** Shown in events and errors, for example `ANTHROPIC_API_KEY`. */
  readonly name: string
  /** Fails when the key is not there. */
  readonly load: Effect.Effect<Redacted.Redacted, Config.ConfigError>
}

/** A key in the configuration, by default an environment variable. Read once, when the layer is built. */
export const env = (name: string): KeySource => ({ name, load: Config.Redacted(name) })

/** A key that is already there. */
export const value = (name: string, key: Redacted.Redacted): KeySource => ({
  name,
  load: Effect.succeed(key)
})
