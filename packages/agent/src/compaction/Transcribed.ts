/**
 * Writes messages as text for the summariser. Each is framed as data: its text cannot pass for an instruction or
 * close the frame. Each is shortened to its limit. Pure.
 *
 * Thinking is left out, because only results matter. Files are mentioned by name.
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
  /** Tokens of the entry with its frame. */
  readonly tokens: number
}

/** Escapes everything that looks like one of our frames. */
const tame = (text: string): string =>
  text.replace(/<(\/?(?:transcript|message|summary|summaries)\b)/gi, "&lt;$1")

const message = ({ role, body }: Pick<Entry, "role" | "body">): string =>
  `<message role="${role}">\n${tame(body)}\n</message>`

export const transcript = (entries: ReadonlyArray<Entry>): string =>
  `<transcript>\n${entries.map(message).join("\n")}\n</transcript>`

export const summaries = (texts: ReadonlyArray<string>): string =>
  texts.map((text, i) => `<summary part="${i + 1}">\n${tame(text)}\n</summary>`).join("\n")

/** Makes the text of a model safe inside a frame. */
export const summary = (text: string): string => tame(text.trim())

/** Tokens of a text as a user message. */
export const tokensOf = (text: string, meter: Meter): number => meter.message(said(text))

export const said = (text: string): Prompt.UserMessage =>
  Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text })] })

export interface Room {
  readonly meter: Meter
  /** Maximum tokens of one message. */
  readonly perEntry: number
  /** Window of the summariser, in tokens. */
  readonly window: number
  readonly policy: CompactionPolicy
}

/** Converts messages to entries, each within its limit. */
export const entries = (messages: ReadonlyArray<Prompt.Message>, room: Room): ReadonlyArray<Entry> =>
  messages.map((message) => entry(message, room))

const entry = (message: Prompt.Message, { meter, perEntry, window, policy }: Room): Entry => {
  const { role } = message
  const own = meter.message(message)
  const omitted = own > policy.messages.omitAbove * window
  const body = omitted ? policy.wording.omitted({ role, tokens: own }) : bodyOf(message)
  return sized(role, body, policy.messages.maxCharacters, perEntry, meter)
}

/** Creates an entry within the limits. A longer text keeps its beginning and end. */
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

/** The whole message as text. */
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
