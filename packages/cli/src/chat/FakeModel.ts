/**
 * The fake model of the chat: its answers as a pure function of the conversation.
 *
 * It answers by keywords of the last message: a joke, the time (by a tool), a long piece of code, files that it reads
 * one by one, or a slow count. Everything else gets an answer that lists these.
 */
import type { FaultPlan } from "@outlast/testing"

type Conversation = Parameters<Extract<FaultPlan.FaultPlan["answers"], Function>>[0]
type Message = Conversation["messages"][number]

/** Tokens of the window of each fake model: small, so that a few files fill it. */
export const window = 30_000

/** Tokens of the long piece of code: more than the output limit of 8,000 with which s11 begins. */
const codeTokens = 8_400

const verbs = ["parse", "read", "send", "merge", "sort", "check", "split", "store", "draw", "count", "find"]
const nouns = [
  "order",
  "cart",
  "price",
  "route",
  "user",
  "date",
  "file",
  "page",
  "stock",
  "tax",
  "key",
  "map",
  "row"
]

/** Lines that differ, so that the guard does not see a model that repeats itself. */
const codeLine = (n: number): string => {
  const word = (words: ReadonlyArray<string>, by: number) => words[(n * by + (n >> 3)) % words.length] ?? ""
  return `export const ${word(verbs, 3)}_${n} = (${word(nouns, 5)}) => ${word(verbs, 7)}(${word(nouns, 4)}, ${n * n})\n`
}

/** One character is one token: see `chunk`. */
const code = (() => {
  let text = ""
  for (let n = 1; text.length < codeTokens; n++) text += codeLine(n)
  return text
})()

const topics = {
  code: /long.*\bcode\b|\bcode\b.*long/i,
  files: /\bread\b.*\bfiles?\b/i,
  count: /\bcount to (\d{1,7})\b/i,
  time: /\btime\b/i,
  joke: /\bjoke\b/i,
  greeting: /^(hello|hi|hey)\b/i
} as const

/** The numbers up to a limit, as words of one text. */
const numbers = (limit: number): string =>
  Array.from({ length: Math.min(limit, maxCount) }, (_, n) => n + 1).join(" ")

const maxCount = 10_000

const about = (text: string): FaultPlan.Answer => {
  if (topics.code.test(text)) return { text: code, chunk: 1 }
  if (topics.files.test(text)) return { toolCalls: [{ name: "list_files", params: {} }] }
  const count = topics.count.exec(text)?.[1]
  if (count !== undefined) return { text: numbers(Number(count)) }
  if (topics.time.test(text)) return { toolCalls: [{ name: "current_time", params: {} }] }
  if (topics.joke.test(text)) {
    return { text: "Why did the agent retry? It wanted to outlast the joke." }
  }
  if (topics.greeting.test(text)) return { text: "Hello! What shall we break today?" }
  return {
    text: "I am a fake model with fixed answers. Ask me for a joke, for the time, to read many files, to generate a very long piece of code, or to count to 100 (slowly: press Ctrl-C)."
  }
}

/** The name of the tool that gave a result. */
const toolOf = (messages: ReadonlyArray<Message>, id: string): string | undefined =>
  messages
    .flatMap((message) => (message.role === "assistant" ? message.toolCalls : []))
    .findLast((call) => call.id === id)?.name

/** The file that a result of `list_files` or `read_file` names as the next one. */
const nextFile = /\(next: ([^\s()"\\]+)\)/

const afterTool = (messages: ReadonlyArray<Message>, id: string, text: string): FaultPlan.Answer => {
  if (toolOf(messages, id) === "current_time") return { text: `It is ${text.replaceAll('"', "")}.` }
  const next = nextFile.exec(text)?.[1]
  return next === undefined
    ? { text: "I have read all files. Nothing in them is unusual." }
    : { toolCalls: [{ name: "read_file", params: { path: next } }] }
}

/** The begin of the prompt with which compaction asks for a summary. */
const asksForSummary = (messages: ReadonlyArray<Message>): boolean =>
  messages[0]?.role === "system" && messages[0].text.startsWith("You write summaries")

export const answers = ({ messages }: Conversation): FaultPlan.Answer => {
  const last = messages.at(-1)
  if (asksForSummary(messages)) {
    return { text: "The user asked for files to be read. Some of them were read, one by one." }
  }
  if (last?.role === "tool") return afterTool(messages, last.id, last.text)
  return about(messages.findLast(({ role }) => role === "user")?.text ?? "")
}

/** Milliseconds before each word. A count is slow in any case, so that it can be cancelled. */
export const paceOf = (messages: ReadonlyArray<Message>, usual: number): number => {
  const text = messages.findLast(({ role }) => role === "user")?.text ?? ""
  if (topics.code.test(text)) return 0
  return topics.count.test(text) ? 50 : usual
}

/** Number of files in the folder of the fake model. */
export const files = 12

/** Characters of each file. Four are one token. */
const fileLength = 12_000

/** A log file of the folder that the fake model reads, by its number from 1. */
export const file = (n: number): { readonly name: string; readonly content: string } => {
  const day = String(n).padStart(2, "0")
  const line = (i: number) =>
    `2026-11-${day}T08:${String(i % 60).padStart(2, "0")}:00Z request ${n * 1_000 + i} answered 200\n`
  let content = ""
  for (let i = 0; content.length < fileLength; i++) content += line(i)
  return { name: `day-${day}.log`, content }
}
