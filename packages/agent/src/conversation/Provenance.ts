/**
 * Who made a part of a conversation: metadata under `outlast` on each part of an answer that may carry something
 * only its maker understands, a signature, an item id, encrypted thinking.
 *
 * effect/ai folds the metadata of an answer into the options of the conversation, so it travels with the
 * conversation wherever the program keeps it, and comes back with the next call. It is taken off before sending.
 * It names the key, never its value.
 */
import { Predicate } from "effect"
import type { Types } from "effect"
import type { Response } from "effect/ai"
import { namespace } from "./Answered.ts"
import type { TargetRef } from "./TargetRef.ts"

// A type, not an interface: it must be JSON.
export type Provenance = {
  readonly provider: string
  readonly model: string
  /** None for a model without network. */
  readonly endpoint?: string
  /** The name of the key; none where none is needed. */
  readonly key?: string
  /**
   * Nothing that the attempt signed holds in the conversation. It went on with a cut answer: it saw a message that
   * asked it to, which the conversation does not have, and its text may stand in one block with that of another
   * attempt. Or it binds its thinking to what it saw, and that was more or less than the conversation has.
   */
  readonly continued?: boolean
}

/** What is written into the parts that this target makes. */
export const of = ({ provider, model, endpoint, key }: TargetRef): Provenance => {
  const out: Types.Mutable<Provenance> = { provider, model }
  // What is empty is not written: effect/ai checks every field of every part.
  if (endpoint !== "") out.endpoint = endpoint
  if (key !== "") out.key = key
  return out
}

/** {@link of}, where nothing that the target signs holds in the conversation. */
export const apart = (ref: TargetRef): Provenance => ({ ...of(ref), continued: true })

/** The maker that the options of a part name; `undefined` for a part that did not come through Outlast. */
export const read = (options: Readonly<Record<string, unknown>>): Provenance | undefined => {
  const ours = options[namespace]
  if (!Predicate.isObject(ours)) return undefined
  // Not a schema: this is read for each part of each attempt.
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

/** The part with its maker in its metadata, if it is of a kind that a conversation keeps. */
export const sign = <
  P extends { readonly type: string; readonly metadata?: Response.ProviderMetadata | undefined }
>(
  part: P,
  maker: Provenance
): P => (kept.has(part.type) ? { ...part, metadata: { ...part.metadata, [namespace]: { ...maker } } } : part)

// The metadata of an approval request does not reach the conversation; of a block, that of the start does.
const kept = new Set([
  "text",
  "text-start",
  "reasoning",
  "reasoning-start",
  "tool-call",
  "tool-result",
  "file"
])

/** What is written in a part already. */
export const signed = ({
  metadata
}: {
  readonly metadata?: Response.ProviderMetadata | undefined
}): object | undefined => {
  const ours = metadata?.[namespace]
  return typeof ours === "object" && ours !== null ? ours : undefined
}
