/**
 * Responses of the gateway: errors of a wire, and the headers of answers.
 */
import { Answered } from "@outlast/agent"
import type { CallFailure } from "@outlast/agent"
import { Option } from "effect"
import type { WireCall } from "../target/WireCall.ts"
import type { Part, Problem, Source, Wire } from "../wire/Wire.ts"
import * as Problems from "./Problems.ts"
import * as Reply from "./Reply.ts"

/**
 * The response for a problem. Clients of both vendors repeat 408, 409, 429 and 5xx by themselves unless they are told not
 * to: the gateway has already made every retry.
 */
export const problem = (
  wire: Pick<Wire, "errorBody">,
  problem: Problem,
  headers: Readonly<Record<string, string>> = {}
): Reply.Reply =>
  Reply.json(wire.errorBody(problem), problem.status, { "x-should-retry": "false", ...headers })

/** Headers of an error of a request that no vendor was asked for, and that may be sent again. */
export const repeatable = { "x-should-retry": "true", "retry-after": "1" } as const

/** The response to a call that ended without an answer and without a failure of its own. */
export const ended = (call: WireCall, id: string): Reply.Reply =>
  problem(call.wire, Problems.ofEnd(call.wire, call), {
    "x-outlast-call": id,
    ...(call.isCut ? repeatable : undefined)
  })

/** The response to a failed call of which nothing was sent. */
export const failed = (call: WireCall, id: string, failure: CallFailure.CallFailure): Reply.Reply => {
  const seconds = Problems.retryAfter(failure)
  const headers = {
    ...own(call, id),
    ...(seconds === undefined ? undefined : { "retry-after": String(seconds) })
  }
  const { refusal } = call
  if (refusal !== undefined && failure._tag === "ProviderFailure") {
    const { body, source, status } = refusal
    const type = { "content-type": "application/json", "x-should-retry": "false" }
    return { status, headers: { ...vendorHeaders(source), ...headers, ...type }, body }
  }
  return problem(call.wire, Problems.ofFailure(call.wire, failure), headers)
}

/** Headers of an answer: the vendor's own, and ours. */
export const headersOf = (
  call: WireCall,
  id: string,
  source: Source | undefined,
  contentType: string
): Record<string, string> => ({
  ...vendorHeaders(source),
  ...own(call, id, source),
  "content-type": contentType
})

/** What was not known when the headers of a stream went: the cost, and what `sent` says otherwise. May be empty. */
export const comment = (
  call: WireCall,
  id: string,
  sent: Reply.Reply["headers"],
  source: Source | undefined,
  finish: Part | undefined
): string => {
  const cost = finish && Option.getOrUndefined(Answered.answeredBy([finish]))?.costUsd
  const lines = Object.entries({ "x-outlast-cost": cost?.toFixed(6), ...own(call, id, source) })
    .filter(([name, value]) => value !== undefined && value !== sent[name])
    .map(([name, value]) => `: ${name}: ${value}\n`)
  return lines.length === 0 ? "" : `${lines.join("")}\n`
}

const own = (call: WireCall, id: string, source?: Source): Record<string, string> => {
  const switched = source === undefined ? undefined : call.switchedTo(source)
  const dropped = source?.dropped ?? []
  return {
    "x-outlast-call": id,
    "x-outlast-attempts": String(call.attempts),
    ...(source === undefined ? undefined : { "x-outlast-target": encoded(source.target.id) }),
    ...(switched === undefined ? undefined : { "x-outlast-switched": switched }),
    ...(dropped.length === 0 ? undefined : { "x-outlast-dropped": dropped.map(encoded).join(",") })
  }
}

/** A header carries Latin-1 only. */
const encoded = (name: string): string => name.replaceAll(/[^\x21-\x7e]/g, encodeURIComponent)

/** Request ids and limits. Cookies, lengths and headers of the connection stay behind. */
const passed = /^(?:(?:x-)?request-id|(?:openai|anthropic|x-ratelimit|x-groq|apim)-[a-z0-9-]+)$/

const vendorHeaders = (source: Source | undefined): Record<string, string> =>
  Object.fromEntries([...(source?.headers ?? [])].filter(([name]) => passed.test(name)))
