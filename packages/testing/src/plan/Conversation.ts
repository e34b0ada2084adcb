/**
 * A request's messages in the shape that a plan looks at, and the place in it at which an answer is due.
 *
 * The same shape is made from every wire format and from a `Prompt`. It has what decides about answers:
 * texts, tool calls and results. Reasoning and images are not in it.
 */
import type { Schema } from "effect"
import type { Answer } from "./Answer.ts"

export type Message =
  | { readonly role: "system" | "user"; readonly text: string }
  | { readonly role: "assistant"; readonly text: string; readonly toolCalls: ReadonlyArray<Call> }
  /** One result. Several stand one after another. */
  | { readonly role: "tool"; readonly id: string; readonly text: string }

export interface Call {
  readonly id: string
  readonly name: string
  readonly params: unknown
}

/** What an answer function sees: the conversation up to the point at which an answer is due. */
export interface Conversation {
  readonly messages: ReadonlyArray<Message>
  /** How many assistant turns are complete. */
  readonly turn: number
}

export type Answers = ReadonlyArray<Answer> | ((conversation: Conversation) => Answer | undefined)

/** The answer that is due, and how much of its text the conversation has already. */
export interface Due {
  readonly turn: number
  readonly answer: Answer | undefined
  readonly said: string
}

/**
 * Finds the answer that is due.
 *
 * Consecutive assistant messages are one turn. A turn without tool calls whose text only begins an answer was
 * cut: it is not counted, and what is due is the rest of that answer. So a retried request gets the same
 * answer, and a continuation or a prefill gets the remainder.
 */
export const due = (messages: ReadonlyArray<Message>, answers: Answers): Due => {
  const answerAt = (turn: number, end: number): Answer | undefined =>
    typeof answers === "function" ? answers({ messages: messages.slice(0, end), turn }) : answers[turn]

  let turn = 0
  let said = ""
  /** Where the turn that is due began: before what was said of it. */
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

/** Tokens of the messages and of what else is sent, roughly: four characters each. */
export const tokensOf = (messages: ReadonlyArray<Message>, tools?: Schema.Json): number => {
  const texts = messages.flatMap((message) => [
    message.text,
    ...(message.role === "assistant" ? message.toolCalls.map((call) => JSON.stringify(call)) : [])
  ])
  if (tools !== undefined) texts.push(JSON.stringify(tools))
  return Math.ceil(texts.reduce((sum, text) => sum + text.length, 0) / 4)
}
