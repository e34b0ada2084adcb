/** Rules of Chat Completions. Every rule returns the error. The status is 400. */
import { firstOf } from "../Rule.ts"
import type { Rule } from "../Rule.ts"
import type { Body, ChatMessage } from "./body.ts"
import { knownFields, textOf } from "./body.ts"
import type { OpenAiError } from "./errors.ts"
import * as Problems from "./problems.ts"
import { emptyArray, isSet, lax, reasons, tooLong, type } from "./problems.ts"

interface Input {
  readonly body: Body
  readonly tokens: number
  readonly window: number | undefined
}

export type OpenAiRule = Rule<Input, OpenAiError>

const maxIdLength = 40

/** True for models that refuse function tools together with reasoning on this endpoint. */
const refusesTools = ({ model, reasoning_effort }: Body): boolean => {
  if (reasoning_effort === "none") return false
  // GPT-5.6 reasons by default, and refuses tools even without an effort in the request.
  return /^gpt-5\.6/.test(model) || (reasoning_effort !== undefined && /^gpt-(5\.[4-9]|[6-9])/.test(model))
}

export const rules: ReadonlyArray<OpenAiRule> = [
  {
    name: "unknown-field",
    check: ({ body }) => Problems.unknownField(body.raw, knownFields)
  },
  {
    name: "messages-empty",
    check: ({ body }) => (body.messages.length === 0 ? emptyArray("messages", 1) : undefined)
  },
  {
    name: "tools-empty",
    check: ({ body }) => (body.tools?.length === 0 ? emptyArray("tools", 1) : undefined)
  },
  {
    name: "tools-count",
    check: ({ body }) => Problems.tooManyTools(body.tools)
  },
  {
    name: "tool-name",
    check: ({ body }) =>
      firstOf(body.tools ?? [], ({ function: { name } }, i) =>
        Problems.badName(`tools[${i}].function.name`, name)
      )
  },
  {
    name: "tool-strict",
    check: ({ body }) =>
      firstOf(body.tools ?? [], (tool, i) =>
        Problems.notStrict(`tools[${i}].function.parameters`, tool.function)
      )
  },
  {
    name: "tools-reasoning",
    check: ({ body }) =>
      (body.tools ?? []).length > 0 && refusesTools(body)
        ? {
            type,
            message:
              `Function tools with reasoning_effort are not supported for ${body.model} in /v1/chat/completions. ` +
              "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
            param: "reasoning_effort"
          }
        : undefined
  },
  {
    name: "max-tokens",
    check: ({ body }) =>
      body.max_tokens !== undefined && reasons(body.model)
        ? {
            type,
            message:
              "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            param: "max_tokens",
            code: "unsupported_parameter"
          }
        : undefined
  },
  {
    name: "sampling",
    check: ({ body }) => {
      const param = Problems.sampled(body)
      return param === undefined || !reasons(body.model) || body.reasoning_effort === "none"
        ? undefined
        : {
            type,
            message: `Unsupported value: '${param}' does not support ${body[param]} with this model. Only the default (1) value is supported.`,
            param,
            code: "unsupported_value"
          }
    }
  },
  {
    name: "stream-options",
    check: ({ body }) => Problems.looseStreamOptions(body)
  },
  {
    name: "response-format-strict",
    check: ({ body: { response_format: format } }) => {
      if (format?.type !== "json_schema" || format.json_schema.strict !== true) return undefined
      const missing = lax(format.json_schema.schema ?? {})
      return missing === undefined
        ? undefined
        : {
            type,
            message: `Invalid schema for response_format '${format.json_schema.name}': ${missing}`,
            param: "response_format"
          }
    }
  },
  {
    name: "response-format-word",
    check: ({ body: { response_format, messages } }) =>
      response_format?.type !== "json_object" || messages.some(({ content }) => /json/i.test(textOf(content)))
        ? undefined
        : {
            type,
            message:
              "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            param: "messages"
          }
  },
  {
    name: "content-parts",
    check: ({ body }) =>
      firstOf(body.messages, ({ role, content }, i) => {
        if (typeof content === "string") return undefined
        const allowed = partTypes[role]
        return firstOf(content ?? [], (part, j) =>
          Problems.wrongPart(`messages[${i}].content[${j}].type`, part.type, allowed)
        )
      })
  },
  {
    name: "file-name",
    check: ({ body }) =>
      firstOf(body.messages, ({ content }, i) =>
        firstOf(typeof content === "string" ? [] : (content ?? []), (part, j) =>
          part.type === "file" && part.file.file_data !== undefined && part.file.filename === undefined
            ? {
                type,
                message: `Missing required parameter: 'messages[${i}].content[${j}].file.filename'.`,
                param: `messages[${i}].content[${j}].file.filename`,
                code: "missing_required_parameter"
              }
            : undefined
        )
      )
  },
  {
    name: "assistant-empty",
    check: ({ body }) =>
      firstOf(body.messages, (message, i) =>
        message.role === "assistant" && !isSet(message.content) && (message.tool_calls ?? []).length === 0
          ? {
              type,
              message: "Invalid value for 'content': expected a string, got null.",
              param: `messages.[${i}].content`
            }
          : undefined
      )
  },
  {
    name: "tool-calls-empty",
    check: ({ body }) =>
      firstOf(body.messages, (message, i) =>
        message.role === "assistant" && message.tool_calls?.length === 0
          ? emptyArray(`messages[${i}].tool_calls`, 1)
          : undefined
      )
  },
  {
    name: "tool-call-id",
    check: ({ body }) =>
      firstOf(body.messages, (message, i) => {
        if (message.role === "tool" && message.tool_call_id.length > maxIdLength) {
          return tooLong(`messages[${i}].tool_call_id`, message.tool_call_id, maxIdLength)
        }
        return firstOf(callsOf(message), (id, j) =>
          id.length > maxIdLength ? tooLong(`messages[${i}].tool_calls[${j}].id`, id, maxIdLength) : undefined
        )
      })
  },
  {
    name: "tool-call-name",
    disputed: true,
    check: ({ body }) =>
      firstOf(body.messages, (message, i) =>
        firstOf(message.role === "assistant" ? (message.tool_calls ?? []) : [], (call, j) =>
          Problems.badName(`messages[${i}].tool_calls[${j}].function.name`, call.function.name)
        )
      )
  },
  {
    name: "tool-message-orphan",
    check: ({ body: { messages } }) =>
      firstOf(messages, (message, i) => {
        if (message.role !== "tool") return undefined
        const asked = messages.slice(0, i).findLast(({ role }) => role !== "tool")
        return asked !== undefined && callsOf(asked).includes(message.tool_call_id)
          ? undefined
          : {
              type,
              // The misspelling is OpenAI's.
              message:
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
              param: `messages.[${i}].role`
            }
      })
  },
  {
    name: "tool-calls-answered",
    check: ({ body: { messages } }) =>
      firstOf(messages, (message, i) => {
        const end = messages.findIndex(({ role }, j) => j > i && role !== "tool")
        const answers = messages
          .slice(i + 1, end === -1 ? messages.length : end)
          .flatMap((answer) => (answer.role === "tool" ? [answer.tool_call_id] : []))
        const missing = callsOf(message).filter((id) => !answers.includes(id))
        return missing.length === 0
          ? undefined
          : {
              type,
              message:
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each " +
                `'tool_call_id'. The following tool_call_ids did not have response messages: ${missing.join(", ")}`,
              param: `messages.[${end === -1 ? messages.length : end}].role`
            }
      })
  },
  {
    name: "window",
    check: ({ tokens, window }) =>
      window !== undefined && tokens > window
        ? {
            type,
            message:
              `This model's maximum context length is ${window} tokens. However, your messages resulted in ` +
              `${tokens} tokens. Please reduce the length of the messages.`,
            param: "messages",
            code: "context_length_exceeded"
          }
        : undefined
  }
]

const partTypes: Record<ChatMessage["role"], ReadonlyArray<string>> = {
  system: ["text"],
  developer: ["text"],
  user: ["text", "image_url", "input_audio", "file"],
  assistant: ["text", "refusal"],
  tool: ["text"]
}

const callsOf = (message: ChatMessage): ReadonlyArray<string> =>
  message.role === "assistant" ? (message.tool_calls ?? []).map(({ id }) => id) : []
