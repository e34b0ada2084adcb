/**
 * Collects the facts of a summary without a model: number of messages, the user's requests, names of the called
 * tools. Pure.
 */
import type { Prompt } from "effect/ai"
import type { CompactionPolicy } from "./CompactionPolicy.ts"
import type { Bones } from "./CompactionWording.ts"
import * as Marks from "./Marks.ts"
import * as Transcribed from "./Transcribed.ts"

export const of = (
  messages: ReadonlyArray<Prompt.Message>,
  required: ReadonlyArray<string>,
  rules: CompactionPolicy["plain"]
): Bones => {
  const said = messages.filter((message) => Marks.summaryOf(message) === undefined)
  const earlier = messages.findLast((message) => (Marks.summaryOf(message)?.messages ?? 0) > 0)
  const tools = new Map<string, number>()
  for (const message of said) {
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      if (part.type === "tool-call") tools.set(part.name, (tools.get(part.name) ?? 0) + 1)
    }
  }
  return {
    user: countOf(said, "user"),
    assistant: countOf(said, "assistant"),
    tool: countOf(said, "tool"),
    requests: requestsOf(said, rules),
    tools: [...tools].sort(([, a], [, b]) => b - a).slice(0, maxTools),
    required,
    earlier:
      earlier === undefined || rules.earlier === 0
        ? undefined
        : beginning(Transcribed.bodyOf(earlier), rules.earlier)
  }
}

/** Number of tools that are named, the most frequently called first. */
const maxTools = 20

const countOf = (messages: ReadonlyArray<Prompt.Message>, role: Prompt.Message["role"]): number =>
  messages.filter((message) => message.role === role).length

/** The first line of each of the first user messages. */
const requestsOf = (
  messages: ReadonlyArray<Prompt.Message>,
  { requests, characters }: CompactionPolicy["plain"]
): ReadonlyArray<string> => {
  const lines: Array<string> = []
  for (const message of messages) {
    if (lines.length >= requests) break
    if (message.role !== "user") continue
    const line = Transcribed.summary(Transcribed.bodyOf(message)).split("\n", 1)[0] ?? ""
    if (line !== "") lines.push(beginning(line, characters))
  }
  return lines
}

const beginning = (text: string, characters: number): string =>
  text.length <= characters ? text : `${text.slice(0, characters).replace(/[\ud800-\udbff]$/, "")}…`
