/**
 * The conversation as it is sent: without what is ours, and with what was shown of a cut answer.
 */
import { charactersPerToken } from "../decide/Bounds.ts"
import { Prompt } from "effect/ai"
import { namespace } from "../../conversation/Answered.ts"
import { mapped } from "../../conversation/Unchanged.ts"
import * as WellFormed from "../../conversation/WellFormed.ts"

type Options = Readonly<Record<string, unknown>>

const isOurs = (options: Options): boolean => namespace in options

/** An unfinished piece of thinking that was shown and then repeated: it must never be sent. */
const isPartialThinking = (part: { readonly type: string; readonly options: Options }): boolean => {
  const ours = part.options[namespace]
  return part.type === "reasoning" && typeof ours === "object" && ours !== null && "partial" in ours
}

/** The messages as they leave: stripped, and well-formed. The same array where there is nothing to do. */
export const outgoing = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> =>
  mapped(strip(messages), (message) => [WellFormed.of(message)])

/** The messages without our options and without unfinished thinking. The same array where there is nothing to do. */
export const strip = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> =>
  messages.some(isTouched)
    ? messages.flatMap((message) => (isTouched(message) ? stripMessage(message) : [message]))
    : messages

const stripMessage = (message: Prompt.Message): ReadonlyArray<Prompt.Message> => {
  switch (message.role) {
    case "system":
      return [{ ...message, options: withoutOurs(message.options) }]
    case "user":
      return [{ ...message, options: withoutOurs(message.options), content: stripParts(message.content) }]
    case "assistant": {
      const content = stripParts(message.content)
      return content.length === 0 ? [] : [{ ...message, options: withoutOurs(message.options), content }]
    }
    case "tool":
      return [{ ...message, options: withoutOurs(message.options), content: stripParts(message.content) }]
  }
}

const stripParts = <P extends AnyPart>(parts: ReadonlyArray<P>): ReadonlyArray<P> =>
  parts
    .filter((part) => !isPartialThinking(part))
    .map((part) => (isOurs(part.options) ? { ...part, options: withoutOurs(part.options) } : part))

interface AnyPart {
  readonly type: string
  readonly options: Options
}

const isTouched = (message: Prompt.Message): boolean => {
  if (isOurs(message.options)) return true
  if (message.role === "system") return false
  const parts: ReadonlyArray<AnyPart> = message.content
  return parts.some((part) => isOurs(part.options))
}

const withoutOurs = <O extends Options>(options: O): O => {
  const { [namespace]: _ours, ...rest } = options
  // Options are open records: one key less is still an O.
  return rest as O
}

/**
 * The prompt that asks to go on after `partial`. The nudge is a user message: many models refuse a
 * conversation that ends with the assistant.
 */
export const continued = (prompt: Prompt.Prompt, partial: string, nudge: string): Prompt.Prompt =>
  Prompt.concat(
    prompt,
    Prompt.make([
      // Some providers refuse an assistant message of blanks; there is nothing in it to continue.
      ...(partial.trim() === ""
        ? []
        : [
            { role: "assistant" as const, content: [{ type: "text" as const, text: WellFormed.of(partial) }] }
          ]),
      { role: "user", content: [{ type: "text", text: WellFormed.of(nudge) }] }
    ])
  )

/** Tokens of the texts of a prompt, roughly. */
export const estimate = (prompt: Prompt.Prompt): number =>
  Math.ceil(texts(prompt).reduce((sum, text) => sum + text.length, 0) / charactersPerToken)

/** All texts of a prompt, for keeping them out of errors. */
export const texts = (prompt: Prompt.Prompt): ReadonlyArray<string> =>
  prompt.content.flatMap((message): ReadonlyArray<string> => {
    if (message.role === "system") return [message.content]
    const parts: ReadonlyArray<AnyPart & { text?: unknown; result?: unknown; params?: unknown }> =
      message.content
    return parts.flatMap((part) => {
      // What a call asks for is often most of what an agent writes.
      const text = part.text ?? part.result ?? part.params
      return text === undefined ? [] : [typeof text === "string" ? text : written(text)]
    })
  })

/** As JSON; what has none (a bigint, a cycle) cannot be sent either, and so cannot be echoed. */
const written = (value: unknown): string => {
  try {
    return JSON.stringify(value) ?? ""
  } catch {
    return ""
  }
}
