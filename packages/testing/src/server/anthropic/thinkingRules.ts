/**
 * Rules of the Messages API about thinking blocks in the history: no foreign and no edited blocks. Models that bind
 * blocks also refuse blocks after a changed prefix, and blocks made for another account.
 */
import { firstOf } from "../Rule.ts"
import type { Body, Placed } from "./body.ts"
import type { AnthropicRule } from "./rules.ts"
import { follows, isFor, isOf, prefixOf, verify } from "./signature.ts"

const dropBlockBeta = "thinking-binding-controls-2026-08-01"

export const thinkingRules: ReadonlyArray<AnthropicRule> = [
  {
    name: "thinking-signature",
    check: ({ body }) =>
      firstOf(body.messages, ({ blocks }) =>
        firstOf(blocks, ({ block, path }) =>
          block.type === "thinking" && verify(block.signature) === undefined
            ? `${path}: Invalid \`signature\` in \`thinking\` block`
            : undefined
        )
      )
  },
  {
    name: "thinking-edited",
    disputed: true,
    check: ({ body }) =>
      firstOf(body.messages, ({ blocks }) =>
        firstOf(blocks, ({ block, path }) => {
          if (block.type !== "thinking" || block.thinking === "") return undefined
          const signed = verify(block.signature)
          if (signed === undefined || isOf(signed, block.thinking)) return undefined
          return isLatest(body, path)
            ? `${path}: \`thinking\` or \`redacted_thinking\` blocks in the latest assistant message cannot be ` +
                "modified. These blocks must remain as they were in the original response."
            : `${path}: Invalid \`signature\` in \`thinking\` block`
        })
      )
  },
  {
    name: "thinking-first",
    disputed: true,
    check: ({ body }) => {
      const last = body.turns.findLastIndex(({ role }) => role === "assistant")
      const after = body.turns[last + 1]
      const inToolLoop = after?.blocks.some(({ block }) => block.type === "tool_result") ?? false
      const first = body.turns[last]?.blocks[0]
      return body.thinking?.type !== "enabled" || !inToolLoop || first === undefined || isThinking(first)
        ? undefined
        : `${first.path}.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${first.block.type}\`. ` +
            "When `thinking` is enabled, a final `assistant` message must start with a thinking block."
    }
  },
  {
    name: "thinking-account",
    check: ({ body, model, betas, organisation }) =>
      model?.accountBound !== true || dropsBlocks(body, betas)
        ? undefined
        : firstOf(body.messages, ({ blocks }) =>
            firstOf(blocks, ({ block, path }) => {
              const signed = block.type === "thinking" ? verify(block.signature) : undefined
              return signed === undefined || signed.model !== body.model || isFor(signed, organisation)
                ? undefined
                : `${path}: Invalid \`signature\` in \`thinking\` block`
            })
          )
  },
  {
    name: "thinking-bound",
    check: ({ body, model, betas }) =>
      model?.bound !== true || dropsBlocks(body, betas)
        ? undefined
        : firstOf(body.messages, ({ blocks }, at) =>
            firstOf(blocks, ({ block, path }) => {
              const signed = block.type === "thinking" ? verify(block.signature) : undefined
              // A block of another model is dropped silently.
              if (signed === undefined || signed.model !== body.model) return undefined
              return follows(signed, prefixOf(body, at))
                ? undefined
                : `${path}: Invalid \`signature\` in \`thinking\` block. The block is bound to a different ` +
                    "conversation. Remove the block, or set " +
                    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
            })
          )
  }
]

const isThinking = ({ block }: Placed): boolean =>
  block.type === "thinking" || block.type === "redacted_thinking"

const isLatest = (body: Body, path: string): boolean => {
  const latest = body.turns.findLast(({ role }) => role === "assistant")
  return latest?.blocks.some((placed) => placed.path === path) ?? false
}

const dropsBlocks = (body: Body, betas: ReadonlyArray<string>): boolean =>
  body.thinking?.block_binding?.prefix_mismatch_behavior === "drop_block" && betas.includes(dropBlockBeta)
