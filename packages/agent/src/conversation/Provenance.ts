/**
 * The target that made a part of a conversation: metadata under `outlast` on each part of an answer that may contain
 * something only its model understands, e.g. a signature, an item id, encrypted thinking.
 *
 * effect/ai copies the metadata of an answer into the options of the conversation. It is stored with the conversation
 * and comes back with the next call. It is removed before sending. It contains the name of the key, never its value.
 */
import { Predicate } from "effect"
import type { Types } from "effect"
import type { Response } from "effect/ai"
import { namespace } from "./Answered.ts"
import type { TargetRef } from "./TargetRef.ts"

// A type instead of an interface, because it must be JSON.
export type Provenance = {
  readonly provider: string
  readonly model: string
  /** Absent for a model without network. */
  readonly endpoint?: string
  /** Name of the key; absent when none is needed. */
  readonly key?: string
  /**
   * True when the signatures of the attempt are invalid in this conversation. Either the attempt continued a cut
   * answer: it saw a nudge that the conversation does not contain, and its text may be merged with that of another
   * attempt. Or it binds its thinking to what it saw, which differs from the conversation.
   */
  readonly continued?: boolean
}

/** Metadata for the parts that this target makes. */
export const of = ({ provider, model, endpoint, key }: TargetRef): Provenance => {
  const out: Types.Mutable<Provenance> = { provider, model }
  // Empty fields are omitted, because effect/ai checks every field of every part.
  if (endpoint !== "") out.endpoint = endpoint
  if (key !== "") out.key = key
  return out
}

/** Like {@link of}, for an attempt whose signatures are invalid in the conversation. */
export const apart = (ref: TargetRef): Provenance => ({ ...of(ref), continued: true })

/** Reads the maker of a part from its options; `undefined` for a part that did not come through Outlast. */
export const read = (options: Readonly<Record<string, unknown>>): Provenance | undefined => {
  const ours = options[namespace]
  if (!Predicate.isObject(ours)) return undefined
  // No schema here, because this runs for each part of each attempt.
  const { provider, model, endpoint, key, continued } = ours as Partial<Record<string, unknown>>
  if (typeof provider !== "string" || typeof model !== "string") return undefined
  return {
    provider,
    model,
    endpoint: typeof endpoint === "string" ? endpoint : "",
    key: typeof key === "string" ? key : "",
    continued: continued === true
  }
}

/** Adds the maker to the metadata of a part, for the types that a conversation keeps. */
export const sign = <
  P extends { readonly type: string; readonly metadata?: Response.ProviderMetadata | undefined }
>(
  part: P,
  maker: Provenance
): P => (kept.has(part.type) ? { ...part, metadata: { ...part.metadata, [namespace]: { ...maker } } } : part)

// Metadata of an approval request is not kept; of a block, only that of its start.
const kept = new Set([
  "text",
  "text-start",
  "reasoning",
  "reasoning-start",
  "tool-call",
  "tool-result",
  "file"
])

/** The metadata under `outlast` that a part already has. */
export const signed = ({
  metadata
}: {
  readonly metadata?: Response.ProviderMetadata | undefined
}): object | undefined => {
  const ours = metadata?.[namespace]
  return typeof ours === "object" && ours !== null ? ours : undefined
}
