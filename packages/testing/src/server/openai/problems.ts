/** Rules that both APIs of OpenAI share, with their common messages. */
import type { Schema } from "effect"
import { firstOf } from "../Rule.ts"
import type { Misfit } from "../shape.ts"
import type { OpenAiError } from "./errors.ts"

export const type = "invalid_request_error"

const toolName = "^[a-zA-Z0-9_-]+$"
const maxNameLength = 64
const maxTools = 128

/** True for models that reason: the o series and everything from GPT-5 on. */
export const reasons = (model: string): boolean => /^(o\d|gpt-[5-9])/.test(model) && !model.includes("chat")

/** The error for a body that does not have the shape of a request. */
export const misshapen = ({ path, missing, expected }: Misfit, prefix = ""): OpenAiError => {
  const param = path.reduce(
    (place, name) => (/^\d+$/.test(name) ? `${place}[${name}]` : place === "" ? name : `${place}.${name}`),
    prefix
  )
  return missing
    ? { type, message: `Missing required parameter: '${param}'.`, param, code: "missing_required_parameter" }
    : { type, message: `Invalid type for '${param}': ${expected}.`, param, code: "invalid_type" }
}

export const unknownField = (
  body: Readonly<Record<string, unknown>>,
  known: ReadonlySet<string>
): OpenAiError | undefined => {
  const param = Object.keys(body).find((field) => !known.has(field))
  return param === undefined
    ? undefined
    : { type, message: `Unknown parameter: '${param}'.`, param, code: "unknown_parameter" }
}

export const tooManyTools = (tools: ReadonlyArray<unknown> = []): OpenAiError | undefined =>
  tools.length > maxTools
    ? {
        type,
        message:
          `Invalid 'tools': array too long. Expected an array with maximum length ${maxTools}, but got an ` +
          `array with length ${tools.length} instead.`,
        param: "tools",
        code: "array_above_max_length"
      }
    : undefined

export const badName = (param: string, name: string): OpenAiError | undefined => {
  if (name.length > maxNameLength) return tooLong(param, name, maxNameLength)
  return new RegExp(toolName).test(name)
    ? undefined
    : {
        type,
        message: `Invalid '${param}': string does not match pattern. Expected a string that matches the pattern '${toolName}'.`,
        param,
        code: "invalid_value"
      }
}

/** The error for a function marked strict whose schema cannot be strict. */
export const notStrict = (
  param: string,
  { name, parameters, strict }: FunctionTool
): OpenAiError | undefined => {
  const missing = strict === true && parameters !== undefined ? lax(parameters) : undefined
  return missing === undefined
    ? undefined
    : {
        type,
        message: `Invalid schema for function '${name}': ${missing}`,
        param,
        code: "invalid_function_parameters"
      }
}

export interface FunctionTool {
  readonly name: string
  readonly parameters?: Schema.JsonObject
  readonly strict?: boolean | null
}

/** The error for a sampling parameter other than its default. `null` counts as another value. */
export const sampled = (body: {
  readonly temperature?: number | null
  readonly top_p?: number | null
}): "temperature" | "top_p" | undefined =>
  (["temperature", "top_p"] as const).find((name) => isSet(body[name]) && body[name] !== 1)

export const looseStreamOptions = (body: {
  readonly stream?: boolean | null
  readonly stream_options?: unknown
}): OpenAiError | undefined =>
  isSet(body.stream_options) && body.stream !== true
    ? {
        type,
        message: "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        param: "stream_options"
      }
    : undefined

export const wrongPart = (
  param: string,
  partType: string,
  allowed: ReadonlyArray<string>
): OpenAiError | undefined =>
  allowed.includes(partType)
    ? undefined
    : {
        type,
        message:
          `Invalid value: '${partType}'. Supported values are: ` +
          `${allowed.map((name) => `'${name}'`).join(" and ")}.`,
        param,
        code: "invalid_value"
      }

export const isSet = (value: unknown): boolean => value !== undefined && value !== null

export const emptyArray = (param: string, minimum: number): OpenAiError => ({
  type,
  message: `Invalid '${param}': empty array. Expected an array with minimum length ${minimum}, but got an empty array instead.`,
  param,
  code: "empty_array"
})

export const tooLong = (param: string, value: string, maximum: number): OpenAiError => ({
  type,
  message:
    `Invalid '${param}': string too long. Expected a string with maximum length ${maximum}, but got a string ` +
    `with length ${value.length} instead.`,
  param,
  code: "string_above_max_length"
})

/** Returns the reason why a schema cannot be strict, or `undefined`. */
export const lax = (schema: Schema.Json, context: ReadonlyArray<string> = []): string | undefined => {
  if (typeof schema !== "object" || schema === null) return undefined
  const fields = new Map<string, Schema.Json>(Object.entries(schema))
  const place = `In context=(${context.map((name) => `'${name}'`).join(", ")})`
  if (fields.get("type") === "object") {
    if (fields.get("additionalProperties") !== false) {
      return `${place}, 'additionalProperties' is required to be supplied and to be false.`
    }
    const required = new Set(Object.values(fields.get("required") ?? []))
    const optional = Object.keys(fields.get("properties") ?? {}).find((name) => !required.has(name))
    if (optional !== undefined) {
      return `${place}, 'required' is required to be supplied and to be an array including every key in properties. Missing '${optional}'.`
    }
  }
  return firstOf(fields, ([name, value]) => lax(value, [...context, name]))
}
