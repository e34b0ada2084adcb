/**
 * Rules of the Messages API about the parameters of a request, its tools and its sizes.
 *
 * Every rule returns the message of the refusal. The status is 400 `invalid_request_error`. Rules about messages are in
 * `messageRules.ts`, rules about thinking in `thinkingRules.ts`.
 */
import type { Schema } from "effect"
import { duplicate, firstOf } from "../Rule.ts"
import type { Rule } from "../Rule.ts"
import type { Body, Placed } from "./body.ts"
import { knownFields } from "./body.ts"
import type { ModelRules } from "./models.ts"

export interface Input {
  readonly body: Body
  /** Rules of the model. `undefined` for an unknown model. */
  readonly model: ModelRules | undefined
  /** The value of the header `anthropic-version`. */
  readonly version: string
  readonly betas: ReadonlyArray<string>
  readonly tokens: number
  readonly window: number | undefined
  /** The organisation that owns the key. */
  readonly organisation: string
}

export type AnthropicRule = Rule<Input, string>

/** Returns every block of the messages. */
export const blocksOf = (body: Body): ReadonlyArray<Placed> => body.messages.flatMap(({ blocks }) => blocks)

const newVersion = "2026-10-21"
const maxCacheMarks = 4
const maxImageBytes = 5_242_880
const minThinkingBudget = 1_024
const toolName = "^[a-zA-Z0-9_-]{1,128}$"
const combinators = ["oneOf", "allOf", "anyOf"]

export const parameterRules: ReadonlyArray<AnthropicRule> = [
  {
    name: "beta",
    check: ({ betas }) => {
      const unknown = betas.find((beta) => !/^[a-z0-9-]+-\d{4}-?\d{2}-?\d{2}$/.test(beta))
      return unknown === undefined
        ? undefined
        : `Unexpected value(s) \`${unknown}\` for the \`anthropic-beta\` header.`
    }
  },
  {
    name: "unknown-field",
    check: ({ body }) => {
      const unknown = Object.keys(body.raw).find((field) => !knownFields.has(field))
      return unknown === undefined ? undefined : `${unknown}: Extra inputs are not permitted`
    }
  },
  {
    name: "max-tokens",
    check: ({ body, model }) =>
      model === undefined || body.max_tokens <= model.maxOutput
        ? undefined
        : `max_tokens: ${body.max_tokens} > ${model.maxOutput}, which is the maximum allowed number of output ` +
          `tokens for ${body.model}`
  },
  {
    name: "sampling-version",
    check: ({ body, version }) => {
      const field = sampled(body)[0]
      return version === newVersion && field !== undefined
        ? `${field}: Extra inputs are not permitted`
        : undefined
    }
  },
  {
    name: "sampling-model",
    check: ({ body, model }) => {
      const field = sampled(body).find((name) => name === "top_k" || body[name] !== 1)
      return model?.sampling === "no" && field !== undefined
        ? `\`${field}\` is deprecated for this model.`
        : undefined
    }
  },
  {
    name: "sampling-one",
    check: ({ body, model }) =>
      model?.sampling === "one" && body.temperature !== undefined && body.top_p !== undefined
        ? "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        : undefined
  },
  {
    name: "sampling-thinking",
    check: ({ body }) =>
      thinks(body) && body.temperature !== undefined && body.temperature !== 1
        ? "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode."
        : undefined
  },
  {
    name: "thinking-budget",
    check: ({ body: { thinking, max_tokens } }) => {
      if (thinking?.type !== "enabled") return undefined
      if (thinking.budget_tokens === undefined) return "thinking.enabled.budget_tokens: Field required"
      if (thinking.budget_tokens < minThinkingBudget) {
        return `thinking.enabled.budget_tokens: Input should be greater than or equal to ${minThinkingBudget}`
      }
      return max_tokens > thinking.budget_tokens
        ? undefined
        : "`max_tokens` must be greater than `thinking.budget_tokens`."
    }
  },
  {
    name: "thinking-kind",
    check: ({ body: { thinking }, model }) =>
      thinking === undefined ||
      thinking.type === "disabled" ||
      model === undefined ||
      model.thinking.includes(thinking.type)
        ? undefined
        : `\`thinking.type.${thinking.type}\` is not supported for this model`
  },
  {
    name: "thinking-disabled",
    check: ({ body: { thinking, output_config }, model }) => {
      if (thinking?.type !== "disabled" || model === undefined) return undefined
      if (model.disabled === "no") return "`thinking.type.disabled` is not supported for this model"
      const effort = output_config?.effort
      return model.disabled === "effort" && (effort === "xhigh" || effort === "max")
        ? `effort '${effort}' is not supported when thinking is disabled`
        : undefined
    }
  },
  {
    name: "between-tools-effort",
    check: ({ body: { thinking, output_config } }) => {
      const effort = output_config?.effort
      return thinking?.type === "between_tools" && (effort === "xhigh" || effort === "max")
        ? `effort '${effort}' is not supported when thinking is between_tools`
        : undefined
    }
  },
  {
    name: "forced-tool-thinking",
    check: ({ body }) =>
      forced(body) && body.thinking?.type === "enabled"
        ? "Thinking may not be enabled when tool_choice forces tool use."
        : undefined
  },
  {
    name: "forced-tool-model",
    check: ({ body, model }) =>
      forced(body) && model?.forcedTools === false
        ? `tool_choice: '${body.tool_choice?.type}' is not supported on this model`
        : undefined
  },
  {
    name: "output-schema",
    check: ({ body }) =>
      body.output_config?.format === undefined || closed(body.output_config.format.schema)
        ? undefined
        : "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
  },
  {
    name: "tool-name",
    check: ({ body }) =>
      firstOf(body.tools ?? [], ({ name }, i) =>
        new RegExp(toolName).test(name)
          ? undefined
          : `tools.${i}.custom.name: String should match pattern '${toolName}'`
      )
  },
  {
    name: "tool-names-unique",
    check: ({ body }) =>
      duplicate((body.tools ?? []).map(({ name }) => name)) === undefined
        ? undefined
        : "tools: Tool names must be unique."
  },
  {
    name: "tool-schema",
    check: ({ body }) =>
      firstOf(body.tools ?? [], ({ type, input_schema }, i) => {
        if (type !== undefined && type !== "custom") return undefined
        const place = `tools.${i}.custom.input_schema`
        if (input_schema === undefined) return `${place}: Field required`
        if (input_schema["type"] === undefined) return `${place}.type: Field required`
        if (input_schema["type"] !== "object") return `${place}.type: Input should be 'object'`
        return combinators.some((keyword) => keyword in input_schema)
          ? `${place}: input_schema does not support oneOf, allOf, or anyOf at the top level`
          : undefined
      })
  },
  {
    name: "tools-defined",
    disputed: true,
    check: ({ body }) =>
      body.tools === undefined &&
      blocksOf(body).some(({ block }) => block.type === "tool_use" || block.type === "tool_result")
        ? "Requests which include `tool_use` or `tool_result` blocks must define tools."
        : undefined
  },
  {
    name: "cache-control-count",
    check: ({ body }) => {
      const marked = [
        ...blocksOf(body).map(({ block }) => block),
        ...(body.tools ?? []),
        ...(typeof body.system === "string" ? [] : (body.system ?? [])),
        body
      ].filter(({ cache_control }) => cache_control !== undefined && cache_control !== null).length
      return marked > maxCacheMarks
        ? `A maximum of ${maxCacheMarks} blocks with cache_control may be provided. Found ${marked}.`
        : undefined
    }
  },
  {
    name: "cache-control-empty",
    check: ({ body }) =>
      firstOf(blocksOf(body), ({ block, path }) =>
        block.type === "text" && block.text === "" && isSet(block.cache_control)
          ? `${path}.text: cache_control cannot be set for empty text blocks`
          : undefined
      )
  },
  {
    name: "cache-control-thinking",
    check: ({ body }) =>
      firstOf(blocksOf(body), ({ block, path }) =>
        (block.type === "thinking" || block.type === "redacted_thinking") && isSet(block.cache_control)
          ? `${path}.${block.type}.cache_control: Extra inputs are not permitted`
          : undefined
      )
  },
  {
    name: "image-size",
    check: ({ body }) =>
      firstOf(blocksOf(body), ({ block, path }) => {
        if (block.type !== "image" || block.source.type !== "base64") return undefined
        const bytes = Math.floor((block.source.data.length * 3) / 4)
        return bytes > maxImageBytes
          ? `${path}.image.source.base64: image exceeds 5 MB maximum: ${bytes} bytes > ${maxImageBytes} bytes`
          : undefined
      })
  },
  {
    name: "window",
    check: ({ tokens, window }) =>
      window !== undefined && tokens > window
        ? `prompt is too long: ${tokens} tokens > ${window} maximum`
        : undefined
  }
]

const isSet = (value: unknown): boolean => value !== undefined && value !== null

const sampled = (body: Body) =>
  (["temperature", "top_p", "top_k"] as const).filter((name) => body[name] !== undefined)

const thinks = ({ thinking }: Body): boolean => thinking !== undefined && thinking.type !== "disabled"

const forced = ({ tool_choice }: Body): boolean => tool_choice?.type === "any" || tool_choice?.type === "tool"

/** True when every object schema inside forbids additional properties. */
const closed = (schema: Schema.Json): boolean => {
  if (typeof schema !== "object" || schema === null) return true
  const fields = new Map<string, Schema.Json>(Object.entries(schema))
  if (fields.get("type") === "object" && fields.get("additionalProperties") !== false) return false
  return [...fields.values()].every(closed)
}
