/** Simulates the usage that a provider with a known tokenizer would report. Counts are compared with it. */
import type { Prompt } from "effect/ai"
import { Tool } from "effect/ai"
import { countTokens as cl100k } from "gpt-tokenizer/encoding/cl100k_base"
import { countTokens as o200k } from "gpt-tokenizer/encoding/o200k_base"
import { countTokens as r50k } from "gpt-tokenizer/encoding/r50k_base"

/** Remembers counts: the tests count the same texts with many settings. */
const remembering = (count: (text: string) => number) => {
  const known = new Map<string, number>()
  return (text: string): number => {
    const tokens = known.get(text) ?? count(text)
    known.set(text, tokens)
    return tokens
  }
}

export const tokenizers = { o200k: remembering(o200k), cl100k: remembering(cl100k), r50k: remembering(r50k) }

/**
 * Counts images by Anthropic's rule, without scaling to the longest side. A document counts as one page. A URL counts
 * as the default of `TokenCounter`, so that it does not affect learning.
 */
const bySize = ({ mediaType, data }: Prompt.FilePart): number => {
  if (data instanceof URL) return 1_600
  if (mediaType === "application/pdf") return 2_000
  const bytes = typeof data === "string" ? Buffer.from(data, "base64") : data
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  return Math.min(1_600, Math.ceil((view.getUint32(16) * view.getUint32(20)) / 750))
}

/** A provider with a tokenizer, frames around messages, and `hidden` tokens of its own per request. */
export const provider = (count: (text: string) => number, hidden: number, image = bySize) => {
  const known = new WeakMap<Prompt.Message, number>()
  const json = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value))
  const result = ({ result, modelOutput }: Prompt.ToolResultPart): number =>
    modelOutput === undefined
      ? count(json(result))
      : modelOutput.reduce((sum, one) => sum + (one.type === "text" ? count(one.text) : image(one)), 0)
  const part = (part: Prompt.Part): number => {
    switch (part.type) {
      case "text":
      case "reasoning":
        return count(part.text)
      case "file":
        return image(part)
      case "tool-call":
        return 9 + count(part.name) + count(json(part.params)) + count(part.id)
      case "tool-result":
        return 5 + result(part) + count(part.id)
      default:
        return 0
    }
  }
  const message = (message: Prompt.Message): number => {
    const parts: ReadonlyArray<Prompt.Part> = message.role === "system" ? [] : message.content
    const own = message.role === "system" ? count(message.content) : 0
    return parts.reduce((sum, one) => sum + part(one), 4 + own)
  }
  return (prompt: Prompt.Prompt, tools: ReadonlyArray<Tool.Any>): number => {
    let tokens = hidden
    for (const one of prompt.content) {
      const counted = known.get(one) ?? message(one)
      known.set(one, counted)
      tokens += counted
    }
    for (const tool of tools) {
      const schema = {
        name: tool.name,
        about: Tool.getDescription(tool),
        parameters: Tool.getJsonSchema(tool)
      }
      tokens += 12 + count(JSON.stringify(schema, null, 1))
    }
    return tokens
  }
}
export type Provider = ReturnType<typeof provider>
