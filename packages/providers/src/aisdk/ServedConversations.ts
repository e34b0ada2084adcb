/**
 * Conversations that go on: a call converts only the messages that are new since the call before.
 *
 * The AI SDK makes new objects for all messages of each call. Here they are compared, field by field, with those of the
 * call before that began with the same text. A message that is the same stays the same object of effect/ai, by which the
 * call machine and `SpecPrompt` recognise what they have already done for it.
 *
 * Messages are compared with copies, because a program may change them in place. Only objects that are not plain, such as
 * bytes, are not copied: they are sent by reference.
 *
 * **Bounds.** {@link maxConversations} are kept, and the one that was used longest ago is dropped first. Short conversations
 * are not kept.
 */
import type { LanguageModelV4Message, LanguageModelV4Prompt } from "@ai-sdk/provider"
import { Prompt } from "effect/ai"
import { copied, isSame } from "./Copies.ts"
import * as ServedPrompt from "./ServedPrompt.ts"

/** Conversations to keep, for one model. */
const maxConversations = 32

/** Converting fewer messages costs less than looking for them. */
const shortest = 16

interface Kept {
  /** Copies of the messages. */
  readonly given: Array<LanguageModelV4Message>
  readonly made: Array<Prompt.Message>
}

export class ServedConversations {
  /** In the order of use. */
  readonly #kept = new Map<string, Kept>()

  decode(prompt: LanguageModelV4Prompt): Prompt.Prompt {
    const key = prompt.length < shortest ? undefined : keyOf(prompt)
    if (key === undefined) return ServedPrompt.decode(prompt)
    const kept = this.#kept.get(key) ?? { given: [], made: [] }
    const same = sameIn(prompt, kept.given)
    const rest = prompt.slice(same)
    const made = ServedPrompt.decode(rest).content
    // Nothing fails from here on.
    kept.given.length = same
    kept.made.length = same
    for (const message of rest) kept.given.push(copied(message))
    for (const message of made) kept.made.push(message)
    this.#kept.delete(key)
    this.#kept.set(key, kept)
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > maxConversations && oldest !== undefined) this.#kept.delete(oldest)
    return Prompt.fromMessages(kept.made.slice())
  }
}

/** The text with which a conversation begins. */
const keyOf = (prompt: LanguageModelV4Prompt): string | undefined => {
  const first = prompt.find(({ role }) => role !== "system")
  const part = first?.role === "user" ? first.content[0] : undefined
  return part?.type === "text" ? part.text : undefined
}

/** Number of messages at the beginning that are the same. */
const sameIn = (prompt: LanguageModelV4Prompt, before: Kept["given"]): number => {
  let same = 0
  for (; same < before.length; same++) {
    const a = prompt[same]
    const b = before[same]
    if (a === undefined || b === undefined || !isSameMessage(a, b)) break
  }
  return same
}

const isSameMessage = (a: LanguageModelV4Message, b: LanguageModelV4Message): boolean => {
  if (a.role !== b.role || !isSame(a.providerOptions, b.providerOptions)) return false
  if (typeof a.content === "string" || typeof b.content === "string") return a.content === b.content
  if (a.content.length !== b.content.length) return false
  for (let i = 0; i < a.content.length; i++) if (!isSamePart(a.content[i], b.content[i])) return false
  return true
}

type Part = Exclude<LanguageModelV4Message["content"], string>[number]

/** Names the fields of the usual parts: reading those of an unknown object takes ten times as long. */
const isSamePart = (a: Part | undefined, b: Part | undefined): boolean => {
  if (a === undefined || b === undefined || !isSame(a.providerOptions, b.providerOptions)) return false
  if (a.type === "text" && b.type === "text") return a.text === b.text
  if (a.type === "tool-call" && b.type === "tool-call") {
    return (
      a.toolCallId === b.toolCallId &&
      a.toolName === b.toolName &&
      a.providerExecuted === b.providerExecuted &&
      isSame(a.input, b.input)
    )
  }
  if (a.type === "tool-result" && b.type === "tool-result") {
    return a.toolCallId === b.toolCallId && a.toolName === b.toolName && isSame(a.output, b.output)
  }
  return isSame(a, b)
}
