/**
 * Moves roles to positions that the target accepts. A misplaced system message becomes a user message. A call follows
 * a user message. Where required, the last message is the user's.
 */
import { Prompt } from "effect/ai"
import type { Destination } from "./Parts.ts"
import { isLocalCall } from "./Parts.ts"
import { mapped, same } from "./Unchanged.ts"

type Messages = ReadonlyArray<Prompt.Message>

/**
 * Returns the messages in accepted positions; the same array when nothing changes. `begins` is false for messages that
 * continue others. The end is for {@link ended}.
 */
export const fit = (messages: Messages, to: Destination, begins = true): Messages =>
  alternating(calling(systems(messages, to, begins), to, begins), to, begins)

const user = (text: string): Prompt.UserMessage =>
  Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text })] })

const systems = (messages: Messages, { dialect, wording }: Destination, begins: boolean): Messages => {
  if (dialect.system === "anywhere") return messages
  const own = messages.findIndex(({ role }) => role !== "system")
  const first = !begins ? 0 : own === -1 ? messages.length : own
  // Fast path: most conversations have system messages only at the beginning.
  if (!messages.some(({ role }, i) => role === "system" && i >= first)) return messages
  return mapped(messages, (message, i) => {
    if (message.role !== "system" || i < first) return [message]
    const next = messages[i + 1]
    // The previous message is from the user, or has become a user message.
    const between = messages[i - 1]?.role !== "assistant" && (next === undefined || next.role === "assistant")
    return [dialect.system === "between" && between ? message : user(wording.system(message.content))]
  })
}

const calling = (messages: Messages, { dialect, wording }: Destination, begins: boolean): Messages => {
  if (!dialect.callsFollowUser || !messages.some(({ role }) => role === "assistant")) return messages
  const out: Array<Prompt.Message> = []
  for (const message of messages) {
    const before = out.at(-1)
    if (message.role !== "assistant" || before?.role !== "assistant") out.push(message)
    else {
      const content = [...before.content, ...message.content]
      out[out.length - 1] = { ...before, options: { ...before.options, ...message.options }, content }
    }
  }
  const first = out.findIndex(({ role }) => role !== "system")
  const opening = begins ? out[first] : undefined
  if (opening?.role === "assistant" && opening.content.some(isLocalCall)) {
    out.splice(first, 0, user(wording.beginning))
  }
  return same(out, messages) ? messages : out
}

/**
 * Merges consecutive messages of one role. Each tool result stays a separate message, and so does a message before
 * another one if it has options for the target.
 */
const alternating = (messages: Messages, { dialect, wording }: Destination, begins: boolean): Messages => {
  if (!dialect.alternates) return messages
  const first = messages.findIndex(({ role }) => role !== "system")
  const opens = begins && messages[first]?.role === "assistant"
  if (!opens && !messages.some(({ role }, i) => role !== "tool" && role === messages[i - 1]?.role))
    return messages
  const out: Array<Prompt.Message> = []
  messages.forEach((message, i) => {
    if (opens && i === first) out.push(user(wording.beginning))
    const both = joined(out.at(-1), message, dialect)
    if (both === undefined) out.push(message)
    else out[out.length - 1] = both
  })
  return same(out, messages) ? messages : out
}

/** Merges two messages of one role; `undefined` when they must stay separate. */
const joined = (
  before: Prompt.Message | undefined,
  message: Prompt.Message,
  { namespaces }: Destination["dialect"]
): Prompt.Message | undefined => {
  // Check before anything is allocated: this runs for each message of each attempt.
  if (before?.role !== message.role || message.role === "tool") return undefined
  // A mark for the cache stands at the end of its message: merged, the mark would also cover the next message.
  if (namespaces.some((name) => before.options[name] !== undefined)) return undefined
  const options = { ...before.options, ...message.options }
  if (before.role === "system" && message.role === "system") {
    return { ...before, options, content: `${before.content}\n\n${message.content}` }
  }
  if (before.role === "user" && message.role === "user") {
    return { ...before, options, content: [...before.content, ...message.content] }
  }
  if (before.role === "assistant" && message.role === "assistant") {
    return { ...before, options, content: [...before.content, ...message.content] }
  }
  return undefined
}

/** Returns the messages with an accepted end. `prefilled` is true when the caller began the answer. */
export const ended = (messages: Messages, to: Destination, prefilled: boolean): Messages => {
  const { dialect, wording } = to
  const last = messages.at(-1)
  if (last?.role !== "assistant" || dialect.ending === "any") return messages
  // The target paused while its own tools run: return the message unchanged.
  const paused =
    last.content.at(-1)?.type !== "text" &&
    last.content.some((part) => part.type === "tool-call" && part.providerExecuted)
  if (!paused && (dialect.ending === "user" || !prefilled)) return [...messages, user(wording.goOn)]
  return dialect.ending === "prefill" ? trimmed(messages, last) : messages
}

/** The beginning of an answer without trailing white space. */
const trimmed = (messages: Messages, last: Prompt.AssistantMessage): Messages => {
  const part = last.content.at(-1)
  const text = part?.type === "text" ? part.text.trimEnd() : undefined
  if (part?.type !== "text" || text === undefined || text === part.text) return messages
  return [...messages.slice(0, -1), { ...last, content: [...last.content.slice(0, -1), { ...part, text }] }]
}
