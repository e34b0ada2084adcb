/**
 * The interface of a wire format.
 *
 * A wire format is pure. It reads a request as a conversation, or refuses it as the real API would, and it encodes
 * answers and errors as bodies. Sockets, time, keys and plans belong to the server.
 */
import type { Schema } from "effect"
import type { Request, Speech, WireError } from "../plan/FaultPlan.ts"

/** An HTTP request whose body has arrived. Header names are lower-cased. */
interface HttpRequest {
  /** The path below the base of the wire format. */
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface ReadOptions {
  /** True when disputed rules apply too: rules on which reports about the real API disagree. */
  readonly strict: boolean
  /** The known models. `undefined` accepts every name. */
  readonly models: ReadonlyArray<string> | undefined
  /** Returns the context window of a model in tokens, if one is set. */
  readonly window: (model: string) => number | undefined
  /** The organisation that owns the key of the request. */
  readonly organisation: string
  /** Returns the items that the API has stored for that organisation under an id. */
  readonly kept: (id: string) => Kept | undefined
}

/** Items of a conversation, in the format of the request. */
export type Kept = ReadonlyArray<Schema.Json>

/** A request that the real API would refuse. */
export interface Refusal {
  readonly refused: true
  /** Name of the rule that refused the request. */
  readonly rule: string
  readonly status: number
  readonly message: string
  readonly body: (requestId: string) => Schema.Json
}

/** Input of an encoder besides the answer. */
export interface Context {
  /** Number of the request at this server, from 0. Ids are derived from it. */
  readonly index: number
  readonly requestId: string
  /** Milliseconds since the epoch. */
  readonly now: number
  /** The organisation that owns the key of the request. */
  readonly organisation: string
}

/** The pieces of a streamed answer: everything before the first delta, one piece per delta, and the end. */
export interface Frames {
  readonly head: string
  readonly deltas: ReadonlyArray<string>
  /** The end of the message, or the error that ends the answer. Not sent when the answer just breaks off. */
  readonly tail: string
}

/** A request that the real API would accept, and the encoding of its answer. */
export interface Accepted extends Omit<Request, "provider" | "key"> {
  readonly refused: false
  readonly answer: (speech: Speech, context: Context) => Schema.Json
  readonly stream: (speech: Speech, context: Context) => Frames
  /** Returns the items that the API stores of a complete answer, by id. Absent when the API stores nothing. */
  readonly keeps?: (speech: Speech, context: Context) => ReadonlyMap<string, Kept>
}

export interface Wire {
  readonly provider: "anthropic" | "openai" | "google"
  /** The base URL of clients, as a path: `/anthropic/v1`. Wire formats of one provider share it. */
  readonly base: string
  /** Paths below the base, for messages: `/messages`. */
  readonly paths: ReadonlyArray<string>
  readonly serves: (request: Pick<HttpRequest, "path" | "query">) => boolean
  /** Returns the model in a path, for an API whose paths contain the model. */
  readonly modelIn?: (path: string) => string | undefined
  readonly key: (request: Pick<HttpRequest, "headers" | "query">) => string | undefined
  /** Refuses a missing or wrong key. */
  readonly refuseKey: (key: string | undefined) => Refusal
  readonly read: (request: HttpRequest, options: ReadOptions) => Accepted | Refusal
  /** Headers of every response of the API itself. */
  readonly headers: (context: Context) => Readonly<Record<string, string>>
  /** The provider's own body for an error. A string is HTML from the edge network. Headers come from the plan. */
  readonly error: (
    status: number,
    error: WireError | undefined,
    requestId: string,
    headers: Readonly<Record<string, string>>
  ) => Schema.Json
  readonly keepAlive: string
}

/** A page that an edge network sends instead of an answer. */
export const edgePage = (status: number, text: string): string =>
  `<!DOCTYPE html>\n<html><head><title>${status}: ${text}</title></head>` +
  `<body><h1>${text}</h1><p>Error code ${status}</p></body></html>\n`

/** Statuses that come from the edge network, before the API, without JSON. */
export const edgeStatuses: Readonly<Record<number, string | undefined>> = {
  502: "Bad gateway",
  520: "Web server is returning an unknown error",
  522: "Connection timed out",
  524: "A timeout occurred"
}
