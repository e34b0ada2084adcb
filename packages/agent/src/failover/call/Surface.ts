/**
 * What the consumer of a streamed call understands beside the parts of an answer. `LanguageModel.streamText` has a
 * closed set of parts; `Outlast.streamText` sets this around it, and reads notices and rewinds off the metadata.
 *
 * It is for one call. The tools of that call run inside the same stream, and may ask models themselves: those streams
 * have consumers of their own, who would take an answer that begins anew for more of the same one.
 */
import { Context, Effect, Stream } from "effect"
import type { Response } from "effect/ai"
import { namespace } from "../../conversation/Answered.ts"
import type { Notice } from "../decide/Notice.ts"
import type { ObjectFormat } from "./ObjectAnswer.ts"
import type { MidStream } from "../decide/RecoveryPolicy.ts"

export interface Surface {
  /** It can be told that what it has seen is void, and hears of changes of model. */
  readonly rewindable: boolean
  /** Instead of the policy's. */
  readonly midStream: MidStream | undefined
  /** The answer is to be an object: `LanguageModel.streamText` cannot ask for one. */
  readonly format?: ObjectFormat | undefined
}

/** A consumer of `LanguageModel`, which knows parts of answers only. */
export const closed: Surface = { rewindable: false, midStream: undefined }

/** Until a call has taken it. */
interface Offer {
  surface: Surface
}

const Offered: Context.Reference<Offer> = Context.Reference<Offer>("@outlast/agent/failover/call/Surface", {
  defaultValue: () => ({ surface: closed })
})

/** Each run of the stream has this consumer: the first call that is streamed in it, and no other. */
export const offered =
  (surface: Surface) =>
  <A, E, R>(stream: Stream.Stream<A, E, R>): Stream.Stream<A, E, R> =>
    Stream.provideServiceEffect(
      stream,
      Offered,
      Effect.sync((): Offer => ({ surface }))
    )

/** The consumer of the call that asks. */
export const taken: Effect.Effect<Surface> = Effect.map(Offered, (offer) => {
  const { surface } = offer
  offer.surface = closed
  return surface
})

/** All text and thinking of this answer that came before is void: another attempt begins anew. */
export interface Rewind {
  readonly type: "rewind"
  /** Characters of text that are taken back. */
  readonly characters: number
}

type Carrier = Response.ResponseMetadataPartEncoded

/** A part of a closed set that carries what is not of it. */
export const carrier = (said: Notice | Rewind): Carrier => ({
  type: "response-metadata",
  id: undefined,
  modelId: undefined,
  timestamp: undefined,
  // Metadata is JSON, which has no undefined.
  metadata: { [namespace]: { [key]: JSON.parse(JSON.stringify(said)) } }
})

const key = "said"

/** What a part carries; `undefined` for the parts of an answer. */
export const carriedBy = (part: {
  readonly type: string
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}): Notice | Rewind | undefined => {
  if (part.type !== "response-metadata") return undefined
  const ours = part.metadata?.[namespace]
  return typeof ours === "object" && ours !== null && key in ours
    ? // Only `carrier` writes this, and it writes nothing else.
      (ours[key] as Notice | Rewind)
    : undefined
}
