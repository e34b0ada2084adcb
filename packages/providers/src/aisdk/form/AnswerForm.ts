/**
 * Brings answers whose meaning is clear into the form that the clients read: complete bodies, and single events of a
 * stream. Pure.
 *
 * The clients reject a whole answer for one field of a wrong type, and read no field beside the standard ones. Each kind
 * of change has a name, for the event `AnswerRepaired`:
 *
 * - `usage`: counts that are no counts (text, negative, above all numbers) are left out, and fractions are cut.
 * - `call`: the legacy `function_call`, arguments as an object or as a text, no arguments, a missing type.
 * - `duplicate`: an item of Responses, a streamed call of Chat Completions, or arguments that come twice.
 *   `RepeatedCalls` drops the repeated calls of other protocols.
 * - `finish`: a second status field (`native_finish_reason`) is more precise than the finish reason.
 * - `item`: items and annotations of Responses that are not OpenAI's are completed, or left out. Text and items that
 *   come only at their end are announced first, as the client expects. So is an answer that comes complete in place of a
 *   stream, and the reverse. A call or choice of Chat Completions gets its index.
 *
 * An answer without such a field passes unchanged. So does an answer whose meaning is unclear.
 *
 * **Limits.** Paths of other protocols pass unchanged.
 */
import * as Chat from "./Chat.ts"
import type { Fields, Note } from "./Fields.ts"
import { isFields, objects, parsed } from "./Fields.ts"
import * as Gemini from "./Gemini.ts"
import * as Messages from "./Messages.ts"
import * as Responses from "./Responses.ts"

export interface AnswerForm {
  /** The text of a complete body, as it is or changed. */
  readonly whole: (text: string) => string
  /**
   * The data of an event, as it is or changed; `undefined` for an event that the client must not see; a list that ends
   * with it after events that the server left out. Data are Latin-1, one character for each byte.
   */
  readonly event: (data: string) => string | ReadonlyArray<string> | undefined
}

/** Objects are changed in place. */
interface Protocol {
  readonly whole: (body: Fields) => void
  /** Returns false for an event to leave out, and a list of events to insert before it. */
  readonly event: (event: Fields) => boolean | ReadonlyArray<Fields>
  /** The complete body that these events of a stream add up to, if they do. */
  readonly joined?: (events: ReadonlyArray<Fields>) => Fields | undefined
}

/** Leaves everything as it is. */
export const none: AnswerForm = { whole: (text) => text, event: (data) => data }

/** The form for the answer to a request with this `body`. `note` is called for each change. */
export const of = (url: string, body: unknown, note: Note): AnswerForm | undefined => {
  let isChanged = false
  const noted: Note = (repair) => {
    isChanged = true
    note(repair)
  }
  const [protocol, mayDiffer] = protocolOf(url, body, noted) ?? []
  if (protocol === undefined || mayDiffer === undefined) return undefined
  return {
    whole: (text) => {
      const given = parsed(text)
      const value = given === undefined ? joined(text, protocol) : given
      if (!isFields(value)) return text
      if (value !== given) noted("item")
      else isChanged = false
      protocol.whole(value)
      return isChanged ? JSON.stringify(value) : text
    },
    event: (data) => {
      if (!mayDiffer(data)) return data
      const value = parsed(Buffer.from(data, "latin1").toString())
      if (!isFields(value)) return data
      isChanged = false
      const kept = protocol.event(value)
      if (kept === false) return undefined
      const formed = isChanged ? encoded(value) : data
      return kept === true ? formed : [...kept.map(encoded), formed]
    }
  }
}

const encoded = (event: Fields): string => Buffer.from(JSON.stringify(event)).toString("latin1")

/** The answer in a body of events, or of an object with events behind it. An error among them is the answer. */
const joined = (text: string, protocol: Protocol): Fields | undefined => {
  const [head = "", ...data] = text.split(/^data:/m)
  const events = objects(
    [head, ...data.map((block) => block.split(/^(?:event|id|retry)?:/m)[0])].map((block) =>
      parsed(block ?? "")
    )
  )
  return events.find(({ error }) => isFields(error)) ?? protocol.joined?.(events)
}

const protocolOf = (
  url: string,
  body: unknown,
  note: Note
): readonly [Protocol, (data: string) => boolean] | undefined => {
  const path = (URL.canParse(url) ? new URL(url).pathname : url).replace(/\/+$/, "")
  if (path.endsWith("/chat/completions")) {
    const chat = new Chat.Chat(note)
    return [chat, (data) => chat.mayDiffer(data)]
  }
  if (path.endsWith("/messages") || /:(?:streamR|r)awPredict$/.test(path)) {
    const messages = new Messages.Messages(note)
    return [messages, (data) => messages.mayDiffer(data)]
  }
  if (path.endsWith("/responses")) {
    const responses = new Responses.Responses(note, offersOf(body))
    return [responses, (data) => responses.mayDiffer(data)]
  }
  if (/:(?:g|streamG)enerateContent$/.test(path)) return [new Gemini.Gemini(note), Gemini.mayDiffer]
  return undefined
}

/** True for the name of a tool in the request. */
const offersOf =
  (body: unknown) =>
  (name: string): boolean =>
    typeof body !== "string" || body.includes(`"name":${JSON.stringify(name)}`)
