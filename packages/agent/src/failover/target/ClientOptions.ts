/**
 * Options of a target's client that effect/ai does not have, in a form that only the client knows.
 *
 * The chain passes them on unread: every attempt of a call finds them in its context. They hold for one call. Calls
 * that Outlast makes itself, for example for a summary, do not get them.
 *
 * `toAiSdk` sets them: temperature, headers and provider options of one call of the AI SDK.
 */
import { Context } from "effect"

export const ClientOptions: Context.Reference<object | undefined> = Context.Reference<object | undefined>(
  "@outlast/agent/failover/target/ClientOptions",
  { defaultValue: () => undefined }
)
