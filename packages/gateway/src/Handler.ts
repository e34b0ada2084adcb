/**
 * Requests of callers: which wire format, what is refused, what goes on.
 *
 * Only a JSON body is read, up to {@link maxBody}. Of the headers of a request only {@link forwarded} go on: no key, no
 * cookie, nothing of the connection. No URL of a request is fetched here.
 */
import { ResilienceEvents } from "@outlast/resilience"
import { Cause, Clock, Context, Duration, Effect, Exit, Option, Tracer } from "effect"
import type { TargetRef } from "@outlast/agent/conversation"
import { AnswerIds, knows } from "./answer/AnswerIds.ts"
import * as Answering from "./answer/Answering.ts"
import * as Problems from "./answer/Problems.ts"
import * as Replies from "./answer/Replies.ts"
import * as Reply from "./answer/Reply.ts"
import { isFields, parse, text } from "./json/Json.ts"
import type { Routes } from "./Route.ts"
import type { GatewayAnswered } from "./telemetry/GatewayEvent.ts"
import { otherRoute } from "./telemetry/GatewayEvent.ts"
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

export interface Handler {
  readonly handle: (incoming: Incoming) => Promise<Reply.Reply>
  /** Ends all calls with an error of their format. */
  readonly interrupt: () => void
  /** The same, and refuses all calls from then on. */
  readonly end: () => void
}

export const make = (routes: Routes, services: Context.Context<never>): Handler => {
  /** Requests that have not ended. */
  let begun = 0
  const running = new Set<WireCall>()
  let hasEnded = false
  const ids = new AnswerIds()
  const events = Context.get(services, ResilienceEvents.ResilienceEvents)
  const publish = ResilienceEvents.publisher(events, Context.get(services, Clock.Clock))
  const told = (event: ResilienceEvents.NoTime<GatewayAnswered>): void => {
    if (events !== ResilienceEvents.nowhere) Effect.runForkWith(services)(publish<GatewayAnswered>(event))
  }
  /** Tells of a request that no vendor was asked for. */
  const turnedAway = (wire: Wire, status: number, route = otherRoute): void =>
    told({
      _tag: "GatewayAnswered",
      route,
      wire: wire.name,
      outcome: status < 500 ? "refused" : "failed",
      target: undefined,
      attempts: 0,
      switched: undefined,
      begun: undefined,
      elapsed: 0,
      costUsd: undefined
    })

  const interrupt = (): void => {
    for (const call of running) call.cut()
  }
  const end = (): void => {
    hasEnded = true
    interrupt()
  }

  const handle = async (incoming: Incoming): Promise<Reply.Reply> => {
    const wire = find(incoming.path)
    if (wire === undefined) return elsewhere(incoming, await Effect.runPromiseWith(services)(routes.names))
    const refused = (status: number, message: string, code?: string, headers?: Record<string, string>) => {
      turnedAway(wire, status)
      return Replies.problem(wire, Problems.own(wire, status, message, code), headers)
    }
    if (incoming.method !== "POST") return refused(405, "Use POST.", "method_not_allowed", { allow: "POST" })
    const type = incoming.header("content-type")?.split(";")[0]?.trim().toLowerCase()
    if (type !== "application/json") {
      return refused(415, "The content type must be application/json.", "unsupported_media_type")
    }
    if (begun >= maxCalls) {
      return refused(503, `The gateway already has ${maxCalls} calls.`, "too_many_calls", Replies.repeatable)
    }
    begun++
    const run = { isOwned: false }
    try {
      return await answered(wire, incoming, run)
    } finally {
      // A call that was made ends by itself, with its stream.
      if (!run.isOwned) begun--
    }
  }

  return { handle, interrupt, end }

  async function answered(wire: Wire, incoming: Incoming, run: { isOwned: boolean }): Promise<Reply.Reply> {
    const refused = (status: number, message: string, code?: string, route?: string) => {
      turnedAway(wire, status, route)
      return Replies.problem(wire, Problems.own(wire, status, message, code))
    }
    const given = await incoming.read(maxBody)
    if (given === undefined) {
      return refused(413, `The request has more than ${maxBody} bytes.`, "request_too_large")
    }
    const body = parse(given)
    if (!isFields(body)) return refused(400, "The body is not a JSON object.", "invalid_json")
    const model = text(body["model"])
    if (model === "") return refused(400, "The field model is missing.", "model_missing")
    const unserved = wire.unserved?.(body)
    if (unserved !== undefined) return refused(400, unserved, "not_supported")
    const maker = ids.makerOf(text(body["previous_response_id"]))
    if (maker === "shared") return refused(400, continued, "previous_response_not_found")
    const narrowed = narrowedOf(incoming)
    if (typeof narrowed === "string") return refused(400, narrowed, "invalid_header")
    const found = await Effect.runPromiseExitWith(services)(routes.find(model, wire, body))
    if (Exit.isFailure(found)) {
      const error = Option.getOrUndefined(Cause.findErrorOption(found.cause))
      return error === undefined
        ? refused(500, "The gateway failed.")
        : refused(error.status, error.message, error.code, error.name)
    }
    if (hasEnded) {
      turnedAway(wire, 503)
      return Replies.problem(wire, Problems.ofEnd(wire, { isCut: true }), Replies.repeatable)
    }
    const { name, route } = found.value
    let { calls } = found.value
    if (maker !== undefined) {
      const known = calls.only(knows(maker))
      if (known === undefined) return refused(400, removed(maker), "previous_response_not_found", name)
      calls = known
    }
    const since = Answering.nowOf(services)
    const call = new WireCall(wire, {
      text: given,
      body,
      headers: forwardedOf(incoming),
      parent: parentOf(incoming.header("traceparent")),
      flows: route.toolArguments === "flow",
      narrowed
    })
    run.isOwned = true
    running.add(call)
    return Answering.answer(calls, call, services, incoming.signal, (end) => {
      begun--
      running.delete(call)
      const { begunAt, costUsd, made, outcome, source } = end
      told({
        _tag: "GatewayAnswered",
        route: name,
        wire: wire.name,
        outcome,
        target: source?.target.id,
        attempts: call.attempts,
        switched: source === undefined ? undefined : call.switchedTo(source),
        begun: begunAt === undefined ? undefined : begunAt - since,
        elapsed: Answering.nowOf(services) - since,
        costUsd
      })
      if (made !== undefined) ids.add(made.id, made.by)
    })
  }
}

const elsewhere = ({ header, method, path }: Incoming, names: ReadonlyArray<string>): Reply.Reply => {
  const isRead = method === "HEAD" || method === "GET"
  const name = nameOf(path)
  // Claude Code looks whether somebody is there.
  if (name === "" && isRead) return { status: 204, headers: {}, body: undefined }
  const isAnthropics = header("anthropic-version") !== undefined
  if (name === "/models" && isRead) return Reply.json(modelsOf(names, isAnthropics))
  const wire = isAnthropics ? messages : chat
  const served = wires.map((wire) => `POST /v1${wire.path}`).join(", ")
  const [, why = "Nothing is served at this path."] = unserved.find(([path]) => path.test(name)) ?? []
  const message = `${why} Served: ${served}, GET /v1/models.`
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

/** Paths of the vendors that are not served, and why. */
const unserved: ReadonlyArray<readonly [path: RegExp, why: string]> = [
  [
    /^\/responses\/./,
    "The gateway keeps no responses. A stored one is at its vendor, under the key that made it: ask there."
  ],
  [
    /^\/(?:files|uploads|vector_stores|batches|messages\/batches|conversations)(?:\/|$)/,
    "What is stored at a vendor belongs to one key: ask there. Requests to the gateway have all that they need in their body."
  ]
]

const removed = (maker: TargetRef.TargetRef): string =>
  `The previous response is known to ${maker.provider} with the key ${maker.key}, which this route does not have. Send its output as input instead.`

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
const forwarded = /^(?:anthropic|openai)-[a-z0-9-]+$/

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
