/**
 * Messages as text for the summariser: framed as data, so that nothing in them can pass for an instruction or close
 * the frame, and each no longer than it may be. Pure.
 *
 * Thinking is left out: it is the way, not the result. Files are named.
 */
import { Prompt } from "effect/ai"
import type { CompactionPolicy } from "./CompactionPolicy.ts"
import { resultText, shortened } from "./Trim.ts"
import type { Meter } from "./TokenCounter.ts"
import { written } from "./TokenCounter.ts"

/** A message as the summariser sees it. */
export interface Entry {
  readonly role: string
  readonly body: string
  /** With its frame. */
  readonly tokens: number
}

/** Nothing that looks like a frame of ours. */
const tame = (text: string): string =>
  text.replace(/<(\/?(?:transcript|message|summary|summaries)\b)/gi, "&lt;$1")

const message = ({ role, body }: Pick<Entry, "role" | "body">): string =>
  `<message role="${role}">\n${tame(body)}\n</message>`

export const transcript = (entries: ReadonlyArray<Entry>): string =>
  `<transcript>\n${entries.map(message).join("\n")}\n</transcript>`

export const summaries = (texts: ReadonlyArray<string>): string =>
  texts.map((text, i) => `<summary part="${i + 1}">\n${tame(text)}\n</summary>`).join("\n")

/** What a model wrote, harmless inside of a frame. */
export const summary = (text: string): string => tame(text.trim())

/** Tokens of a text that the user says. */
export const tokensOf = (text: string, meter: Meter): number => meter.message(said(text))

export const said = (text: string): Prompt.UserMessage =>
  Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text })] })

export interface Room {
  readonly meter: Meter
  /** Tokens that one message may have at most. */
  readonly perEntry: number
  /** Of the summariser, in tokens. */
  readonly window: number
  readonly policy: CompactionPolicy
}

/** The messages as entries, each within its room. */
export const entries = (messages: ReadonlyArray<Prompt.Message>, room: Room): ReadonlyArray<Entry> =>
  messages.map((message) => entry(message, room))

const entry = (message: Prompt.Message, { meter, perEntry, window, policy }: Room): Entry => {
  const { role } = message
  const own = meter.message(message)
  const omitted = own > policy.messages.omitAbove * window
  const body = omitted ? policy.wording.omitted({ role, tokens: own }) : bodyOf(message)
  return sized(role, body, policy.messages.maxCharacters, perEntry, meter)
}

/** The entry of at most so many characters and tokens: beginning and end of a longer one. */
export const sized = (
  role: string,
  body: string,
  maxCharacters: number,
  maxTokens: number,
  meter: Meter
): Entry => {
  const entryOf = (body: string): Entry => ({ role, body, tokens: tokensOf(message({ role, body }), meter) })
  let room = maxCharacters
  let made = entryOf(body.length > room ? shortened(body, room, " […] ") : body)
  while (made.tokens > maxTokens && room > 0) {
    room = Math.floor(Math.min(room, made.body.length) * Math.min(0.9, maxTokens / made.tokens))
    made = entryOf(shortened(body, room, " […] "))
  }
  return made
}

/** All that the message says, in words. */
export const bodyOf = (message: Prompt.Message): string => {
  if (message.role === "system") return message.content
  const parts: ReadonlyArray<Prompt.Part> = message.content
  return parts
    .map(partOf)
    .filter((text) => text !== "")
    .join("\n")
}

const partOf = (part: Prompt.Part): string => {
  switch (part.type) {
    case "text":
      return part.text
    case "file":
      return `[File ${part.fileName ?? ""}, ${part.mediaType}]`
    case "tool-call":
      return `[Calls ${part.name} with ${written(part.params)}]`
    case "tool-result":
      return `[${part.isFailure ? "Failure" : "Result"} of ${part.name}: ${resultText(part)}]`
    case "reasoning":
    case "tool-approval-request":
    case "tool-approval-response":
      return ""
  }
}
