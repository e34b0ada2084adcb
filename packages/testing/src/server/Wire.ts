/**
 * What the server must know about a wire format.
 *
 * A wire format is pure: it reads a request to a conversation or refuses it as the real API would, and it
 * turns speeches and errors into bodies. Sockets, time, keys and plans are the server's.
 */
import type { Schema } from "effect"
import type { Request, Speech, WireError } from "../FaultPlan.ts"

/** An HTTP request whose body has arrived. Names of headers are lower-cased. */
interface HttpRequest {
  /** Below the base of the wire format. */
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface ReadOptions {
  /** Whether rules on which reports about the real API disagree are applied too. */
  readonly strict: boolean
  /** The known models; `undefined` accepts every name. */
  readonly models: ReadonlyArray<string> | undefined
  /** The context window of a model in tokens, where one is set. */
  readonly window: (model: string) => number | undefined
  /** To whom the key of the request belongs. */
  readonly organisation: string
  /** What the API has kept for that organisation under an id. */
  readonly kept: (id: string) => Kept | undefined
}

/** Items of a conversation, in the form in which they are sent. */
export type Kept = ReadonlyArray<Schema.Json>

/** A request that the real API would refuse. */
export interface Refusal {
  readonly refused: true
  /** The rule that refused it. */
  readonly rule: string
  readonly status: number
  readonly message: string
  readonly body: (requestId: string) => Schema.Json
}

/** What an encoder must be told. */
export interface Context {
  /** The number of the request at this server, from 0: ids are made from it. */
  readonly index: number
  readonly requestId: string
  /** Milliseconds since the epoch. */
  readonly now: number
  /** To whom the key of the request belongs. */
  readonly organisation: string
}

/** The pieces of a streamed answer: what comes before the first delta, one piece per delta, the end. */
export interface Frames {
  readonly head: string
  readonly deltas: ReadonlyArray<string>
  /** The end of the message, or the error with which the speech ends; not sent when it just breaks off. */
  readonly tail: string
}

/** A request that the real API would take, and how it is answered. */
export interface Accepted extends Omit<Request, "provider" | "key"> {
  readonly refused: false
  readonly answer: (speech: Speech, context: Context) => Schema.Json
  readonly stream: (speech: Speech, context: Context) => Frames
  /** What the API keeps of an answer that was given to its end, by id. Absent where it keeps nothing. */
  readonly keeps?: (speech: Speech, context: Context) => ReadonlyMap<string, Kept>
}

export interface Wire {
  readonly provider: "anthropic" | "openai" | "google"
  /** What clients call the base URL, as a path: `/anthropic/v1`. Wire formats of one provider share it. */
  readonly base: string
  /** Below the base, for a reader: `/messages`. */
  readonly paths: ReadonlyArray<string>
  readonly serves: (request: Pick<HttpRequest, "path" | "query">) => boolean
  /** The model that a path names, where paths name models. */
  readonly modelIn?: (path: string) => string | undefined
  readonly key: (request: Pick<HttpRequest, "headers" | "query">) => string | undefined
  /** Refuses a key that is missing or wrong. */
  readonly refuseKey: (key: string | undefined) => Refusal
  readonly read: (request: HttpRequest, options: ReadOptions) => Accepted | Refusal
  /** Headers of every response of the API proper. */
  readonly headers: (context: Context) => Readonly<Record<string, string>>
  /** The provider's own body for an error; a string is HTML from the edge. Headers are the plan's. */
  readonly error: (
    status: number,
    error: WireError | undefined,
    requestId: string,
    headers: Readonly<Record<string, string>>
  ) => Schema.Json
  readonly keepAlive: string
}

/** A page as an edge network sends it in place of an answer. */
export const edgePage = (status: number, text: string): string =>
  `<!DOCTYPE html>\n<html><head><title>${status}: ${text}</title></head>` +
  `<body><h1>${text}</h1><p>Error code ${status}</p></body></html>\n`

/** Statuses that come from the edge, before the API, and have no JSON. */
export const edgeStatuses: Readonly<Record<number, string | undefined>> = {
  502: "Bad gateway",
  520: "Web server is returning an unknown error",
  522: "Connection timed out",
  524: "A timeout occurred"
}
