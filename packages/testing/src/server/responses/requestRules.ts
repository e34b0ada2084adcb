/** Rules of the Responses API about the fields of a request. */
import * as Problems from "../openai/problems.ts"
import { isSet, lax, reasons, type } from "../openai/problems.ts"
import { firstOf } from "../Rule.ts"
import { knownFields, textOf } from "./body.ts"
import type { Body } from "./body.ts"
import type { ResponsesRule } from "./Input.ts"

const minOutputTokens = 16

/** Fields of Chat Completions, and their names in this API. */
const moved: Readonly<Record<string, string | undefined>> = {
  max_completion_tokens: "max_output_tokens",
  max_tokens: "max_output_tokens",
  messages: "input",
  reasoning_effort: "reasoning.effort",
  response_format: "text.format"
}

export const requestRules: ReadonlyArray<ResponsesRule> = [
  {
    name: "moved-field",
    check: ({ body }) => {
      const param = Object.keys(body.raw).find((field) => moved[field] !== undefined)
      return param === undefined
        ? undefined
        : {
            type,
            message: `Unsupported parameter: '${param}'. In the Responses API, this parameter has moved to '${moved[param]}'. Try again with the new parameter.`,
            param,
            code: "unsupported_parameter"
          }
    }
  },
  { name: "unknown-field", check: ({ body }) => Problems.unknownField(body.raw, knownFields) },
  {
    name: "input-missing",
    check: ({ body }) =>
      body.input.length > 0 || isSet(body.previous_response_id) || isSet(body.conversation)
        ? undefined
        : {
            type,
            message:
              'One of "input" or "previous_response_id" or "prompt" or "conversation_id" must be provided.',
            param: "input",
            code: "missing_required_parameter"
          }
  },
  {
    name: "previous-or-conversation",
    check: ({ body }) =>
      isSet(body.previous_response_id) && isSet(body.conversation)
        ? {
            type,
            message:
              "Mutually exclusive parameters. You may only provide one of: 'previous_response_id', 'conversation'.",
            param: "previous_response_id",
            code: "mutually_exclusive_parameters"
          }
        : undefined
  },
  {
    name: "previous-response",
    check: ({ body }) =>
      body.previous === undefined
        ? {
            type,
            message: `Previous response with id '${body.previous_response_id}' not found.`,
            param: "previous_response_id",
            code: "previous_response_not_found"
          }
        : undefined
  },
  {
    name: "conversation",
    check: ({ body: { conversation } }) =>
      isSet(conversation)
        ? {
            status: 404,
            type,
            message: `Conversation with id '${typeof conversation === "string" ? conversation : ""}' not found.`,
            param: "conversation"
          }
        : undefined
  },
  { name: "tools-count", check: ({ body }) => Problems.tooManyTools(body.tools) },
  {
    name: "tool-name",
    check: ({ body }) =>
      firstOf(functionsOf(body), ({ name, place }) => Problems.badName(`${place}.name`, name))
  },
  {
    name: "tool-strict",
    check: ({ body }) =>
      firstOf(functionsOf(body), (tool) => Problems.notStrict(`${tool.place}.parameters`, tool))
  },
  {
    name: "tool-choice",
    check: ({ body }) => {
      const choice = body.tool_choice
      if (typeof choice !== "object" || choice.type !== "function") return undefined
      return functionsOf(body).some(({ name }) => name === choice.name)
        ? undefined
        : {
            type,
            message: `Tool choice 'function' not found in 'tools' parameter.`,
            param: "tool_choice"
          }
    }
  },
  {
    name: "max-output-tokens",
    check: ({ body: { max_output_tokens: limit } }) =>
      typeof limit === "number" && limit < minOutputTokens
        ? {
            type,
            message: `Invalid 'max_output_tokens': integer below minimum value. Expected a value >= ${minOutputTokens}, but got ${limit} instead.`,
            param: "max_output_tokens",
            code: "integer_below_min_value"
          }
        : undefined
  },
  {
    name: "sampling",
    check: ({ body }) => {
      const param = Problems.sampled(body)
      return param === undefined || !reasons(body.model) || body.reasoning?.effort === "none"
        ? undefined
        : { type, message: `Unsupported parameter: '${param}' is not supported with this model.`, param }
    }
  },
  {
    name: "reasoning",
    check: ({ body }) =>
      isSet(body.reasoning?.effort) && !reasons(body.model)
        ? {
            type,
            message: "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            param: "reasoning.effort",
            code: "unsupported_parameter"
          }
        : undefined
  },
  {
    name: "include-encrypted",
    check: ({ body }) =>
      body.include?.includes("reasoning.encrypted_content") === true && !reasons(body.model)
        ? { type, message: "Encrypted content is not supported with this model.", param: "include" }
        : undefined
  },
  { name: "stream-options", check: ({ body }) => Problems.looseStreamOptions(body) },
  {
    name: "format-strict",
    check: ({ body: { text } }) => {
      const format = text?.format
      if (format?.type !== "json_schema" || format.strict !== true) return undefined
      const missing = lax(format.schema)
      return missing === undefined
        ? undefined
        : {
            type,
            message: `Invalid schema for response_format '${format.name}': ${missing}`,
            param: "text.format.schema",
            code: "invalid_json_schema"
          }
    }
  },
  {
    name: "format-word",
    check: ({ body: { text, items } }) =>
      text?.format?.type !== "json_object" ||
      items.some(({ item }) => item.type === "message" && /json/i.test(textOf(item.content)))
        ? undefined
        : {
            type,
            message:
              "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.",
            param: "input"
          }
  },
  {
    name: "window",
    check: ({ body, tokens, window }) =>
      window !== undefined && tokens > window && body.truncation !== "auto"
        ? {
            type,
            message:
              "Your input exceeds the context window of this model. Please adjust your input and try again.",
            param: "input",
            code: "context_length_exceeded"
          }
        : undefined
  }
]

const functionsOf = ({ tools = [] }: Body) =>
  tools.flatMap(({ type, name = "", parameters, strict = null }, i) =>
    type === "function"
      ? [
          {
            name,
            strict,
            ...(isSet(parameters) ? { parameters: parameters ?? {} } : {}),
            place: `tools[${i}]`
          }
        ]
      : []
  )
