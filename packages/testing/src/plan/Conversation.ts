/**
 * The messages of a request in the form that a plan reads, and the position at which an answer is due.
 *
 * Every wire format and `Prompt` are converted to this form. It has everything that selects answers: texts, tool calls
 * and results. Reasoning and images are left out.
 */
import type { Schema } from "effect"
import type { Answer } from "./Answer.ts"

export type Message =
  | { readonly role: "system" | "user"; readonly text: string }
  | { readonly role: "assistant"; readonly text: string; readonly toolCalls: ReadonlyArray<Call> }
  /** One tool result. Several results are separate messages. */
  | { readonly role: "tool"; readonly id: string; readonly text: string }

export interface Call {
  readonly id: string
  readonly name: string
  readonly params: unknown
}

/** Input of an answer function: the conversation up to the position at which an answer is due. */
export interface Conversation {
  readonly messages: ReadonlyArray<Message>
  /** Number of complete assistant turns. */
  readonly turn: number
}

export type Answers = ReadonlyArray<Answer> | ((conversation: Conversation) => Answer | undefined)

/** The answer that is due, and the part of its text that is already in the conversation. */
export interface Due {
  readonly turn: number
  readonly answer: Answer | undefined
  readonly said: string
}

/**
 * Finds the answer that is due.
 *
 * Consecutive assistant messages are one turn. A turn without tool calls whose text is a prefix of its answer was cut:
 * it does not count, and the rest of that answer is due. A retried request therefore gets the same answer, and a
 * continuation or a prefill gets the rest.
 */
export const due = (messages: ReadonlyArray<Message>, answers: Answers): Due => {
  const answerAt = (turn: number, end: number): Answer | undefined =>
    typeof answers === "function" ? answers({ messages: messages.slice(0, end), turn }) : answers[turn]

  let turn = 0
  let said = ""
  /** Start of the due turn, before its partial text. */
  let start = messages.length
  for (let i = 0; i < messages.length;) {
    if (messages[i]?.role !== "assistant") {
      i++
      continue
    }
    let text = said
    let called = false
    const from = said === "" ? i : start
    for (let message = messages[i]; message?.role === "assistant"; message = messages[++i]) {
      text += message.text
      called ||= message.toolCalls.length > 0
    }
    const answer = answerAt(turn, from)
    if (!called && answer !== undefined && onlyBegins(text, answer)) {
      said = text
      start = from
    } else {
      turn++
      said = ""
      start = messages.length
    }
  }
  return { turn, answer: answerAt(turn, said === "" ? messages.length : start), said }
}

const onlyBegins = (said: string, answer: Answer): boolean => {
  const text = answer.text ?? ""
  return text.startsWith(said) && (said.length < text.length || (answer.toolCalls ?? []).length > 0)
}

/** Estimates the tokens of the messages and tools: four characters each. */
export const tokensOf = (messages: ReadonlyArray<Message>, tools?: Schema.Json): number => {
  const texts = messages.flatMap((message) => [
    message.text,
    ...(message.role === "assistant" ? message.toolCalls.map((call) => JSON.stringify(call)) : [])
  ])
  if (tools !== undefined) texts.push(JSON.stringify(tools))
  return Math.ceil(texts.reduce((sum, text) => sum + text.length, 0) / 4)
}
