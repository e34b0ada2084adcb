/**
 * Brings answers whose meaning is clear into the form that the clients read: complete bodies, and single events of a
 * stream. Pure.
 *
 * The clients reject a whole answer for one field of a wrong type, and read no field beside the standard ones. Each kind
 * of change has a name, for the event `AnswerRepaired`:
 *
 * - `usage`: counts that are no counts (text, negative, above all numbers) are left out, and fractions are cut.
 * - `call`: the legacy `function_call`, arguments as an object or as a text, no arguments, a missing type.
 * - `duplicate`: an item of Responses or a streamed call of Chat Completions that comes twice. The client would give its
 *   copy another id. `RepeatedCalls` drops the repeated calls of other protocols.
 * - `finish`: a second status field (`native_finish_reason`) is more precise than the finish reason.
 * - `item`: items and annotations of Responses that are not OpenAI's are completed, or left out.
 *
 * An answer without such a field passes unchanged. So does an answer whose meaning is unclear.
 *
 * **Limits.** Paths of other protocols pass unchanged.
 */
import * as Chat from "./Chat.ts"
import type { Fields, Note } from "./Fields.ts"
import { isFields, parsed } from "./Fields.ts"
import * as Gemini from "./Gemini.ts"
import * as Messages from "./Messages.ts"
import * as Responses from "./Responses.ts"

export interface AnswerForm {
  /** The text of a complete body, as it is or changed. */
  readonly whole: (text: string) => string
  /**
   * The data of an event, as it is or changed; `undefined` for an event that the client must not see. Data are Latin-1,
   * one character for each byte.
   */
  readonly event: (data: string) => string | undefined
}

/** Objects are changed in place. */
interface Protocol {
  readonly whole: (body: Fields) => void
  /** Returns false for an event to leave out. */
  readonly event: (event: Fields) => boolean
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
      const value = parsed(text)
      if (!isFields(value)) return text
      isChanged = false
      protocol.whole(value)
      return isChanged ? JSON.stringify(value) : text
    },
    event: (data) => {
      if (!mayDiffer(data)) return data
      const value = parsed(Buffer.from(data, "latin1").toString())
      if (!isFields(value)) return data
      isChanged = false
      if (!protocol.event(value)) return undefined
      return isChanged ? Buffer.from(JSON.stringify(value)).toString("latin1") : data
    }
  }
}

const protocolOf = (
  url: string,
  body: unknown,
  note: Note
): readonly [Protocol, (data: string) => boolean] | undefined => {
  const path = (URL.canParse(url) ? new URL(url).pathname : url).replace(/\/+$/, "")
  if (path.endsWith("/chat/completions")) return [new Chat.Chat(note), Chat.mayDiffer]
  if (path.endsWith("/messages") || /:(?:streamR|r)awPredict$/.test(path)) {
    return [new Messages.Messages(note), Messages.mayDiffer]
  }
  if (path.endsWith("/responses")) return [new Responses.Responses(note, offersOf(body)), Responses.mayDiffer]
  if (/:(?:g|streamG)enerateContent$/.test(path)) return [new Gemini.Gemini(note), Gemini.mayDiffer]
  return undefined
}

/** True for the name of a tool in the request. */
const offersOf =
  (body: unknown) =>
  (name: string): boolean =>
    typeof body !== "string" || body.includes(`"name":${JSON.stringify(name)}`)
