/**
 * Rules of the Messages API about the messages: no empty content, the order of roles, ids, and exactly one result for
 * every tool use.
 */
import { duplicate, firstOf } from "../Rule.ts"
import type { Block, Placed, Turn } from "./body.ts"
import type { AnthropicRule } from "./rules.ts"
import { blocksOf } from "./rules.ts"

const id = "^[a-zA-Z0-9_-]+$"
const name = "^[a-zA-Z0-9_-]{1,128}$"

export const messageRules: ReadonlyArray<AnthropicRule> = [
  {
    name: "messages-empty",
    check: ({ body }) =>
      body.messages.length === 0 ? "messages: at least one message is required" : undefined
  },
  {
    name: "content-empty",
    check: ({ body }) =>
      firstOf(body.messages, ({ role, blocks, path }, i) =>
        blocks.length > 0 || (role === "assistant" && i === body.messages.length - 1)
          ? undefined
          : `${path}: all messages must have non-empty content except for the optional final assistant message`
      )
  },
  {
    name: "text-empty",
    check: ({ body }) =>
      blocksOf(body).some(({ block }) => block.type === "text" && block.text === "")
        ? "messages: text content blocks must be non-empty"
        : undefined
  },
  {
    name: "text-blank",
    check: ({ body }) =>
      body.messages.some(({ blocks }) => blocks.length > 0 && blocks.every(({ block }) => isBlank(block)))
        ? "messages: text content blocks must contain non-whitespace text"
        : undefined
  },
  {
    name: "system-empty",
    check: ({ body: { system } }) =>
      typeof system !== "string" && system?.some(({ text }) => text === "") === true
        ? "system: text content blocks must be non-empty"
        : undefined
  },
  {
    name: "block-role",
    check: ({ body }) =>
      firstOf(body.messages, ({ role, blocks }) =>
        firstOf(blocks, ({ block, path }) => {
          const allowed = roles[block.type]
          return allowed === undefined || allowed === role
            ? undefined
            : `${path}: \`${block.type}\` blocks can only be in \`${allowed}\` messages`
        })
      )
  },
  {
    name: "assistant-document",
    check: ({ body, version }) =>
      version !== "2026-10-21"
        ? undefined
        : firstOf(body.messages, ({ role, blocks }) =>
            firstOf(blocks, ({ block, path }) =>
              role === "assistant" && block.type === "document"
                ? `${path}: \`document\` blocks are not allowed in \`assistant\` messages`
                : undefined
            )
          )
  },
  {
    name: "user-citations",
    check: ({ body, version }) =>
      version !== "2026-10-21"
        ? undefined
        : firstOf(body.messages, ({ role, blocks }) =>
            firstOf(blocks, ({ block, path }) =>
              role === "user" && block.type === "text" && (block.citations ?? []).length > 0
                ? `${path}.text.citations: Extra inputs are not permitted`
                : undefined
            )
          )
  },
  {
    name: "system-model",
    check: ({ body, model }) =>
      model?.system === false && body.messages.some(({ role }) => role === "system")
        ? "role 'system' is not supported on this model"
        : undefined
  },
  {
    name: "system-follows",
    check: ({ body: { messages } }) =>
      firstOf(messages, ({ role, path }, i) =>
        role === "system" && messages[i - 1]?.role !== "user"
          ? `${path}: role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool result`
          : undefined
      )
  },
  {
    name: "system-precedes",
    check: ({ body: { messages } }) =>
      firstOf(messages, ({ role, path }, i) =>
        role === "system" && i < messages.length - 1 && messages[i + 1]?.role !== "assistant"
          ? `${path}: role 'system' must precede an 'assistant' message or end the array`
          : undefined
      )
  },
  {
    name: "tool-use-id",
    check: ({ body }) =>
      firstOf(blocksOf(body), ({ block, path }) => {
        const [field, value] =
          block.type === "tool_use"
            ? ["id", block.id]
            : block.type === "tool_result"
              ? ["tool_use_id", block.tool_use_id]
              : []
        return value === undefined || new RegExp(id).test(value)
          ? undefined
          : `${path}.${block.type}.${field}: String should match pattern '${id}'`
      })
  },
  {
    name: "tool-use-name",
    disputed: true,
    check: ({ body }) =>
      firstOf(blocksOf(body), ({ block, path }) =>
        block.type !== "tool_use" || new RegExp(name).test(block.name)
          ? undefined
          : `${path}.tool_use.name: String should match pattern '${name}'`
      )
  },
  {
    name: "tool-use-ids-unique",
    check: ({ body }) => {
      const uses = blocksOf(body).filter(({ block }) => block.type === "tool_use")
      const twice = duplicate(uses.map(({ block }) => useId(block)))
      const second = uses.findLast(({ block }) => useId(block) === twice)
      return second === undefined ? undefined : `${second.path}: \`tool_use\` ids must be unique`
    }
  },
  {
    name: "tool-result-orphan",
    check: ({ body: { turns } }) =>
      firstOf(turns, (turn, i) => {
        const before = turns[i - 1]
        const asked = before?.role === "assistant" ? usesOf(before) : []
        return firstOf(turn.blocks, ({ block, path }) =>
          block.type === "tool_result" && !asked.includes(block.tool_use_id)
            ? `${path}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${block.tool_use_id}. Each ` +
              "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            : undefined
        )
      })
  },
  {
    name: "tool-use-answered",
    check: ({ body: { turns } }) =>
      firstOf(turns, (turn, i) => {
        const after = turns[i + 1]
        const answered = after?.role === "user" ? leadingResults(after) : []
        const missing = turn.role === "assistant" ? usesOf(turn).filter((use) => !answered.includes(use)) : []
        return missing.length === 0
          ? undefined
          : `${turn.path}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ` +
              `${missing.join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in ` +
              "the next message."
      })
  },
  {
    name: "tool-result-single",
    check: ({ body: { turns } }) =>
      firstOf(turns, ({ blocks, path }) => {
        const twice = duplicate(
          blocks.flatMap(({ block }) => (block.type === "tool_result" ? [block.tool_use_id] : []))
        )
        return twice === undefined
          ? undefined
          : `${path}: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${twice}`
      })
  },
  {
    name: "prefill",
    check: ({ body, model }) =>
      model?.prefill === false && body.messages.at(-1)?.role === "assistant"
        ? "This model does not support assistant message prefill. The conversation must end with a user message."
        : undefined
  },
  {
    name: "prefill-whitespace",
    check: ({ body }) => {
      const last = body.messages.at(-1)
      const block = last?.role === "assistant" ? last.blocks.at(-1)?.block : undefined
      return block?.type === "text" && block.text !== block.text.trimEnd()
        ? "messages: final assistant content cannot end with trailing whitespace"
        : undefined
    }
  }
]

const roles: Partial<Record<Block["type"], Turn["role"]>> = {
  tool_use: "assistant",
  thinking: "assistant",
  redacted_thinking: "assistant",
  tool_result: "user"
}

const isBlank = (block: Block): boolean => block.type === "text" && block.text.trim() === ""

const useId = (block: Block): string => (block.type === "tool_use" ? block.id : "")

const usesOf = ({ blocks }: Turn): ReadonlyArray<string> =>
  blocks.flatMap(({ block }) => (block.type === "tool_use" ? [block.id] : []))

/** Returns the results before any other block. Later ones do not count. */
const leadingResults = ({ blocks }: Turn): ReadonlyArray<string> => {
  const end = blocks.findIndex(({ block }: Placed) => block.type !== "tool_result")
  return blocks
    .slice(0, end === -1 ? blocks.length : end)
    .flatMap(({ block }) => (block.type === "tool_result" ? [block.tool_use_id] : []))
}
