/**
 * Decodes the parts of a whole answer without a schema, where they are plainly right.
 *
 * effect/ai decodes each part by the schema of all parts, and checks every value in its metadata. {@link of} reads texts,
 * reasoning, finishes, response metadata, and calls that a program takes unchecked. It returns `undefined` for an answer
 * with any other part, and for anything unusual: then effect/ai decodes the answer, or words the error.
 * `PlainText.test.ts` compares both on generated answers.
 */
import { jsonDepth } from "../decide/Bounds.ts"
import { DateTime, Option } from "effect"
import { Response } from "effect/ai"

type Part = Response.Part<{}>

/**
 * The parts as effect/ai gives them; `undefined` leaves the answer to effect/ai. `isDeferred`: calls of the program's
 * tools are not checked.
 */
export const of = (parts: unknown, isDeferred: boolean): Array<Part> | undefined => {
  if (!Array.isArray(parts)) return undefined
  const content: Array<Part> = []
  for (const part of parts) {
    const made = typeof part === "object" && part !== null ? partOf(part, isDeferred) : undefined
    if (made === undefined) return undefined
    content.push(made)
  }
  return content
}

/** A part of a provider's answer, of which nothing is known. */
interface Given {
  readonly [field: string]: unknown
}

const partOf = (part: Given, isDeferred: boolean): Part | undefined => {
  const metadata = metadataOf(part)
  // Encoded parts have no mark.
  if (metadata === undefined || mark in part) return undefined
  switch (part["type"]) {
    case "text":
    case "reasoning": {
      const { type, text } = part
      return typeof text === "string" ? Response.makePart(type, { text, metadata }) : undefined
    }
    case "response-metadata":
      return responseMetadata(part, metadata)
    case "tool-call":
      return isDeferred ? toolCall(part, metadata) : undefined
    case "finish":
      return finish(part, metadata)
    default:
      return undefined
  }
}

const mark = "~effect/ai/Response/Part"

const responseMetadata = (part: Given, metadata: Metadata): Part | undefined => {
  const made: {
    id?: string | undefined
    modelId?: string | undefined
    timestamp?: DateTime.Utc | undefined
  } = {}
  for (const field of ["id", "modelId"] as const) {
    // A field that is there stays there, also without a value.
    if (!(field in part)) continue
    const value = part[field]
    if (value !== undefined && typeof value !== "string") return undefined
    made[field] = value
  }
  if ("timestamp" in part) {
    const { timestamp } = part
    if (timestamp !== undefined && typeof timestamp !== "string") return undefined
    const time = timestamp === undefined ? undefined : Option.getOrUndefined(DateTime.make(timestamp))
    if (timestamp !== undefined && time === undefined) return undefined
    made.timestamp = time && DateTime.toUtc(time)
  }
  // Only optional fields: a field without a value is allowed where the type has none.
  return Response.makePart("response-metadata", { ...made, metadata } as Parameters<
    typeof Response.makePart<"response-metadata">
  >[1])
}

/** A call that the program runs, or refuses, itself. effect/ai checks the arguments of a call that the provider ran. */
const toolCall = (part: Given, metadata: Metadata): Part | undefined => {
  const { id, name, params, providerExecuted = false } = part
  if (typeof id !== "string" || typeof name !== "string" || !("params" in part)) return undefined
  if (providerExecuted !== false || ("providerExecuted" in part && part["providerExecuted"] === undefined))
    return undefined
  // The empty toolkit has no calls. Calls that are not checked have any name.
  return Response.makePart("tool-call", { id, name, params, providerExecuted, metadata }) as unknown as Part
}

const reasons: ReadonlySet<unknown> = new Set(Response.FinishReason.literals)

const finish = (part: Given, metadata: Metadata): Part | undefined => {
  const { reason, usage } = part
  if (!reasons.has(reason) || !isObject(usage) || part["response"] !== undefined) return undefined
  const inputTokens = counts(usage["inputTokens"], inputs)
  const outputTokens = counts(usage["outputTokens"], outputs)
  if (inputTokens === undefined || outputTokens === undefined) return undefined
  const made = Object.assign(Object.create(Response.Usage.prototype), { inputTokens, outputTokens })
  const given = "response" in part ? { reason, usage: made, response: undefined } : { reason, usage: made }
  // All of its fields are checked above.
  return Response.makePart("finish", { ...given, metadata } as Parameters<
    typeof Response.makePart<"finish">
  >[1])
}

const inputs = ["uncached", "total", "cacheRead", "cacheWrite"] as const
const outputs = ["total", "text", "reasoning"] as const

const counts = (
  given: unknown,
  names: ReadonlyArray<string>
): Readonly<Record<string, unknown>> | undefined => {
  if (!isObject(given)) return undefined
  const out: Record<string, unknown> = {}
  for (const name of names) {
    if (!(name in given)) continue
    const value = given[name]
    if (value !== undefined && !Number.isSafeInteger(value)) return undefined
    out[name] = value
  }
  return out
}

type Metadata = Response.ProviderMetadata

/** The metadata of a part, where it is certainly JSON. */
const metadataOf = ({ metadata }: Given): Metadata | undefined => {
  if (metadata === undefined) return {}
  // A record of JSON is the metadata of a part.
  return isRecord(metadata) && isJson(metadata, 0) ? (metadata as Metadata) : undefined
}

const isJson = (value: unknown, depth: number): boolean => {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true
    case "number":
      return Number.isFinite(value)
    case "object": {
      if (value === null) return true
      if (depth === jsonDepth) return false
      if (Array.isArray(value)) return value.every((item) => isJson(item, depth + 1))
      return isRecord(value) && Object.values(value).every((item) => isJson(item, depth + 1))
    }
    default:
      return false
  }
}

const isObject = (value: unknown): value is Given => typeof value === "object" && value !== null

const isRecord = (value: unknown): value is Given =>
  isObject(value) && Object.getPrototypeOf(value) === Object.prototype
