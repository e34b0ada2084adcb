/**
 * A wire format: what a request says, how the events of an answer become parts, and how parts become events again.
 *
 * The call machine works on parts. Each part of an answer carries the vendor's own events ({@link Carried}), and the
 * encoder writes these, unchanged, as long as one attempt makes the whole answer. Where a second attempt continues a cut
 * answer, the encoder changes the events so that the caller sees one answer: ids, indexes, sequence and usage.
 */
import type { TargetRef } from "@outlast/agent/conversation"
import type { Response } from "effect/ai"
import type { Wiring } from "@outlast/providers/internal"
import type { Fields } from "../json/Json.ts"
import type { Edits } from "../json/Splice.ts"
import type { Event } from "./Sse.ts"
import type { Translation } from "./Translation.ts"

export type Part = Response.StreamPartEncoded
export type Whole = Response.PartEncoded
export type Usage = Response.FinishPartEncoded["usage"]

/** An event of a vendor, parsed. */
export interface Received {
  readonly raw: string
  readonly name: string
  /** Empty for an event without an object, such as a comment or `[DONE]`. */
  readonly value: Fields
}

/** An attempt. Two of them may run at a time: what is known of one is never kept at the call. */
export interface Source {
  readonly target: TargetRef.TargetRef
  /** The headers of its response, once they have come. */
  headers: Headers | undefined
  /** Fields of the request that the target does not get; `undefined`: the target speaks the caller's format. */
  dropped: ReadonlyArray<string> | undefined
  /** Why it failed, by the tag of the reason; `undefined`: it did not, so far. */
  failed?: string
}

/** What a part carries. */
export interface Carried {
  /** The attempt that made the part. */
  readonly source: Source
  readonly events: ReadonlyArray<Received>
  /** The text of the events, if the part is a delta. For the finish of a whole answer, its body. */
  readonly text: string
}

/** What a request says, as far as the gateway must know. */
export interface Asked {
  readonly model: string
  readonly streams: boolean
  /** Who speaks last: after results a model may have nothing to add. */
  readonly last: "user" | "assistant" | "tool"
  /** The field of the output limit, and its tokens. */
  readonly limit: { readonly field: string; readonly tokens: number } | undefined
  /** An answer that is cut may be continued by another attempt. */
  readonly continues: boolean
}

/** How an answer is read. */
export interface Reading {
  /** The vendor was asked for usage that the caller did not ask for: it is read, and not shown. */
  readonly hidesUsage: boolean
  readonly asked: Asked
  readonly source: Source
  /** Arguments of tool calls are shown as they come. The answer then cannot be replaced any more. */
  readonly flows: boolean
}

/** Makes parts of the events of one attempt. Throws {@link RefusedEvent}. */
export interface Reader {
  /** The answer is complete, although events may follow. */
  readonly isComplete: boolean
  /** The `finish` was returned. */
  readonly isEnded: boolean
  readonly read: (event: Event) => ReadonlyArray<Part>
  /** The body has ended. Returns the finish of a complete answer. */
  readonly end: () => ReadonlyArray<Part>
}

/** What an answer of another format becomes. */
export interface Writing {
  /** Makes the ids of the answer unique. */
  readonly unique: string
  /** Seconds since 1970. */
  readonly created: number
  readonly model: string
  /** The request. */
  readonly body: Fields
  readonly calls: Translation["calls"]
  /** The arguments of a call as the model wrote them. */
  readonly written: (call: Response.ToolCallPartEncoded) => string
}

/**
 * Writes an answer of another format as a target of this one would. Its events ride on the parts, as those of a vendor do,
 * so that the encoder need not know. Gets parts in the order of `InOrder`. Ends of texts and of thinking need no events: the
 * encoder ends what is open.
 */
export interface Writer {
  readonly begin: () => ReadonlyArray<Fields>
  readonly part: (part: Part) => ReadonlyArray<Fields>
}

/** How requests and answers of the wire become those of others. */
export interface Translator {
  /** The first field that only a target of this wire can answer. Looks at no message. */
  readonly refuses: (body: Fields) => string | undefined
  /** Throws `Untranslatable`. */
  readonly translate: (body: Fields) => Translation
  /** Arguments of a call are an object. In the other wires they are a text, which the caller reads. */
  readonly hasObjects: boolean
  readonly writer: (writing: Writing) => Writer
  /** The body of a whole answer. */
  readonly body: (parts: ReadonlyArray<Whole>, writing: Writing) => Fields
}

/** Writes the events of one call for the caller. */
export interface Encoder {
  /** The id of an answer that more than one attempt has made: no vendor knows it. */
  readonly sharedId: string | undefined
  readonly part: (part: Part) => string
  /** The call has failed in the middle of the answer: the wire's own error. */
  readonly failed: (problem: Problem) => string
}

/** A failure in words for the caller. */
export interface Problem {
  readonly status: number
  /** The name of the kind of error in the wire. */
  readonly type: string
  readonly code: string | undefined
  readonly message: string
}

export interface Wire {
  readonly name: Wiring.WireName | "count_tokens" | "embeddings"
  /** The format that a target must speak. */
  readonly speaks: Wiring.WireName
  /** Answers of different models do not replace each other: only targets of the first model are asked. */
  readonly isBound: boolean
  /** The path at a vendor, behind the base URL. */
  readonly path: string
  /** The wire's name, for people. */
  readonly title: string
  /** Begins an event that keeps a connection open and means nothing. */
  readonly keepAlive: string
  readonly asked: (body: Fields) => Asked
  /** Why a request cannot be served at all; `undefined`: it can. */
  readonly unserved?: (body: Fields) => string | undefined
  /** Takes out what an earlier answer of the gateway holds and no vendor would take back. */
  readonly withoutCuts: (body: Fields) => Edits
  /** The change of a request that makes a stream tell its usage; `undefined` where it does so anyway. */
  readonly asksUsage?: (body: Fields) => Edits | undefined
  /** The field of the conversation. */
  readonly turns: "messages" | "input"
  readonly reader: (reading: Reading) => Reader
  /** The parts of a whole answer; `undefined` where the body is none. */
  readonly whole: (body: Fields) => Array<Whole> | undefined
  readonly encoder: () => Encoder
  /** `undefined`: only targets that speak the format are asked. */
  readonly translator: Translator | undefined
  /** The type of an error by its status, and the body. */
  readonly typeOf: (status: number) => string
  readonly errorBody: (problem: Problem) => Fields
  /** Headers that a vendor needs and a caller may have left out. */
  readonly headers: Readonly<Record<string, string>>
}

/** An event of a stream is an error. */
export class RefusedEvent extends Error {
  override readonly name = "RefusedEvent"
  readonly data: string
  constructor(data: string) {
    super("")
    this.data = data
  }
}

const key = "outlastWire"

/** The metadata of a part that carries events. Parts of `Calls` pass no schema: the value is not copied. */
export const carrying = (
  source: Source,
  events: ReadonlyArray<Received>,
  text = ""
): Response.ProviderMetadata => {
  const carried: Carried = { source, events, text }
  // Not JSON, and never written: only `carriedBy` reads it.
  return { [key]: carried } as unknown as Response.ProviderMetadata
}

/** What a part carries; `undefined` for a part that the call machine made itself. */
export const carriedBy = ({ metadata }: Pick<Part, "metadata">): Carried | undefined =>
  // Only `carrying` writes this key.
  (metadata as { readonly [key]?: Carried } | undefined)?.[key]

/** True unless the call machine has changed the text of the part. */
export const isAsCarried = (part: Part, { text }: Carried): boolean =>
  (part.type !== "text-delta" && part.type !== "reasoning-delta") || part.delta === text

/** Marks a call of a tool as one that is shown as it comes: as one that a provider runs. */
export const flowing = (flows: boolean): { readonly providerExecuted?: true } =>
  flows ? { providerExecuted: true } : {}

/** Events that are no content: shown in their order, and never by themselves. */
export const frame = (source: Source, events: ReadonlyArray<Received>): Part => ({
  type: "response-metadata",
  metadata: carrying(source, events)
})

/** Server-sent events of a value. */
export const written = (value: unknown, name = ""): string =>
  `${name === "" ? "" : `event: ${name}\n`}data: ${JSON.stringify(value)}\n\n`

export const received = ({ name, raw }: Event, value: Fields): Received => ({ name, raw, value })
