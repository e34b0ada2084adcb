/**
 * Requests of callers: which wire format, what is refused, what goes on.
 *
 * Only a JSON body is read, up to {@link maxBody}. Of the headers of a request only {@link forwarded} go on: no key, no
 * cookie, nothing of the connection. No URL of a request is fetched here.
 */
import { Cause, Duration, Effect, Exit, Option, Tracer } from "effect"
import type { Context } from "effect"
import * as Answering from "./answer/Answering.ts"
import * as Problems from "./answer/Problems.ts"
import * as Replies from "./answer/Replies.ts"
import { isFields, parse, text } from "./json/Json.ts"
import type { Routes } from "./Route.ts"
import type { Narrowed } from "./target/WireCall.ts"
import { WireCall } from "./target/WireCall.ts"
import { chat } from "./wire/chat/Chat.ts"
import { embeddings } from "./wire/chat/Embeddings.ts"
import { countTokens } from "./wire/messages/CountTokens.ts"
import { messages } from "./wire/messages/Messages.ts"
import { responses } from "./wire/responses/Responses.ts"
import type { Wire } from "./wire/Wire.ts"

/** A request, of a `fetch` or of a server. */
export interface Incoming {
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly header: (name: string) => string | undefined
  /** Names of the headers, in lower case. */
  readonly names: () => Iterable<string>
  /** The body; `undefined` above so many bytes. */
  readonly read: (maxBytes: number) => Promise<string | undefined>
  /** Aborts when the caller has left. */
  readonly signal: AbortSignal
}

/** Bytes of a request, at most. Anthropic takes no more. */
const maxBody = 32 * 1024 * 1024

/** Calls at a time, at most. */
const maxCalls = 2_000

const wires: ReadonlyArray<Wire> = [chat, responses, messages, countTokens, embeddings]

/** The path without its version and its trailing slash. */
const nameOf = (path: string): string => path.replace(/\/+$/, "").replace(/^\/v1(?=\/)/, "")

const find = (path: string): Wire | undefined => {
  const name = nameOf(path)
  return wires.find((wire) => wire.path === name)
}

/** The wire format of a path; Chat Completions for a path of none. */
export const wireAt = (path: string): Wire => find(path) ?? chat

/** True for a path that has a meaning here. */
export const isServed = (path: string): boolean =>
  find(path) !== undefined || ["", "/models"].includes(nameOf(path))

export const make = (
  routes: Routes,
  services: Context.Context<never>
): ((incoming: Incoming) => Promise<Response>) => {
  let running = 0
  const shared = new Set<string>()
  return async (incoming) => {
    const wire = find(incoming.path)
    if (wire === undefined) return elsewhere(incoming, await Effect.runPromiseWith(services)(routes.names))
    const refused = (status: number, message: string, code?: string, headers?: Record<string, string>) =>
      Replies.problem(wire, Problems.own(wire, status, message, code), headers)
    if (incoming.method !== "POST") return refused(405, "Use POST.", "method_not_allowed", { allow: "POST" })
    const type = incoming.header("content-type")?.split(";")[0]?.trim().toLowerCase()
    if (type !== "application/json") {
      return refused(415, "The content type must be application/json.", "unsupported_media_type")
    }
    if (running >= maxCalls) {
      return refused(503, `The gateway already has ${maxCalls} calls.`, "too_many_calls", {
        "retry-after": "1"
      })
    }
    running++
    const run = { isOwned: false }
    try {
      return await answered(wire, incoming, run)
    } finally {
      // A call that was made ends by itself, with its stream.
      if (!run.isOwned) running--
    }
  }

  async function answered(wire: Wire, incoming: Incoming, run: { isOwned: boolean }): Promise<Response> {
    const refused = (status: number, message: string, code?: string) =>
      Replies.problem(wire, Problems.own(wire, status, message, code))
    const given = await incoming.read(maxBody)
    if (given === undefined) {
      return refused(413, `The request has more than ${maxBody} bytes.`, "request_too_large")
    }
    const body = parse(given)
    if (!isFields(body)) return refused(400, "The body is not a JSON object.", "invalid_json")
    const model = text(body["model"])
    if (model === "") return refused(400, "The field model is missing.", "model_missing")
    if (shared.has(text(body["previous_response_id"])))
      return refused(400, continued, "previous_response_not_found")
    const narrowed = narrowedOf(incoming)
    if (typeof narrowed === "string") return refused(400, narrowed, "invalid_header")
    const found = await Effect.runPromiseExitWith(services)(routes.find(model, wire, body))
    if (Exit.isFailure(found)) {
      const error = Option.getOrUndefined(Cause.findErrorOption(found.cause))
      if (error?._tag === "NoRoute") return refused(error.status, error.message, error.code)
      return refused(502, error?.message ?? "The gateway failed.", "no_target")
    }
    const call = new WireCall(wire, {
      text: given,
      body,
      headers: forwardedOf(incoming),
      parent: parentOf(incoming.header("traceparent")),
      flows: found.value.route.toolArguments === "flow",
      narrowed
    })
    run.isOwned = true
    return Answering.answer(found.value.calls, call, services, incoming.signal, (sharedId) => {
      running--
      if (sharedId === undefined) return
      shared.add(sharedId)
      const [oldest] = shared
      if (shared.size > maxShared && oldest !== undefined) shared.delete(oldest)
    })
  }
}

const elsewhere = ({ header, method, path }: Incoming, names: ReadonlyArray<string>): Response => {
  const isRead = method === "HEAD" || method === "GET"
  const name = nameOf(path)
  // Claude Code looks whether somebody is there.
  if (name === "" && isRead) return new Response(null, { status: 204 })
  const isAnthropics = header("anthropic-version") !== undefined
  if (name === "/models" && isRead) return Response.json(modelsOf(names, isAnthropics))
  const wire = isAnthropics ? messages : chat
  const served = wires.map((wire) => `POST /v1${wire.path}`).join(", ")
  const message = `Nothing is served at this path. Served: ${served}, GET /v1/models.`
  return Replies.problem(wire, Problems.own(wire, 404, message, "not_found"))
}

/** The list of models, as the vendor that the caller speaks to would write it. */
const modelsOf = (names: ReadonlyArray<string>, isAnthropics: boolean): object =>
  isAnthropics
    ? {
        data: names.map((id) => ({
          type: "model",
          id,
          display_name: id,
          created_at: new Date(0).toISOString()
        })),
        has_more: false,
        first_id: names[0] ?? null,
        last_id: names.at(-1) ?? null
      }
    : { object: "list", data: names.map((id) => ({ id, object: "model", created: 0, owned_by: "outlast" })) }

/** Ids of answers that more than one attempt has made, to remember. */
const maxShared = 10_000

const continued =
  "The previous response was continued by another attempt after a cut, or made by a model of another format, so no vendor knows its id. Send its output as input instead."

/** What the caller allows less than the route; a text says which header is wrong. */
const narrowedOf = ({ header }: Incoming): Narrowed | string => {
  const [seconds, dollars, priority] = ["timeout", "max-cost", "priority"].map((name) =>
    header(`x-outlast-${name}`)
  )
  const isPositive = (value: string) => /^\d{1,9}(?:\.\d{1,9})?$/.test(value) && Number(value) > 0
  if (seconds !== undefined && !isPositive(seconds))
    return "x-outlast-timeout must be a number of seconds above 0."
  if (dollars !== undefined && !isPositive(dollars)) return "x-outlast-max-cost must be US dollars above 0."
  if (priority !== undefined && priority !== "interactive" && priority !== "background") {
    return "x-outlast-priority must be interactive or background."
  }
  return {
    timeout: seconds === undefined ? undefined : Duration.seconds(Number(seconds)),
    maxCost: dollars === undefined ? undefined : Number(dollars),
    priority
  }
}

/** Headers that go on to a vendor. */
const forwarded = /^(?:anthropic-[a-z0-9-]+|openai-[a-z0-9-]+|idempotency-key)$/

const forwardedOf = ({ header, names }: Incoming): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Array.from(names())
      .filter((name) => forwarded.test(name))
      .map((name) => [name, header(name) ?? ""])
  )

/** The span in a `traceparent` of W3C. */
const parentOf = (header: string | undefined): Tracer.ExternalSpan | undefined => {
  const found = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(header?.trim() ?? "")
  const [, traceId, spanId, flags] = found ?? []
  if (traceId === undefined || spanId === undefined) return undefined
  return Tracer.externalSpan({ traceId, spanId, sampled: (Number.parseInt(flags ?? "0", 16) & 1) === 1 })
}
