/**
 * The name of a target: one (provider, model, key, endpoint) that a call can be sent to.
 *
 * It is safe to print: `key` is the name of the credential (an environment variable), never its value.
 */
import { Schema } from "effect"

export const TargetRef = Schema.Struct({
  /** Unique in a chain, for example `anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY`. */
  id: Schema.String,
  provider: Schema.String,
  model: Schema.String,
  /** The base URL without query and trailing slash; empty for a model without network. */
  endpoint: Schema.String,
  /** The name of the credential, for example `ANTHROPIC_API_KEY`; empty where none is needed. */
  key: Schema.String
})
export type TargetRef = typeof TargetRef.Type

/** The id under which a target appears in events, errors and summaries. */
export const idOf = (ref: {
  readonly provider: string
  readonly model: string
  readonly key: string
}): string => `${ref.provider}/${ref.model}${ref.key === "" ? "" : `#${ref.key}`}`
