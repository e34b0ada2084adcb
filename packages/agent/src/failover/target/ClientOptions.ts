/**
 * What a program asks of a target's client beside the options of effect/ai, in a form that only the client knows.
 *
 * The chain hands it on unread: every attempt of a call finds it in its context. It holds for one call. Calls that
 * Outlast makes on the way, such as those for a summary, do not have it.
 *
 * `toAiSdk` sets it: temperature, headers and provider options of one call of the AI SDK.
 */
import { Context } from "effect"

export const ClientOptions: Context.Reference<object | undefined> = Context.Reference<object | undefined>(
  "@outlast/agent/failover/target/ClientOptions",
  { defaultValue: () => undefined }
)
