/**
 * Recorded answers of vendors, and requests to them. They are not part of the repository: where they are absent, there are none.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { WireName } from "./Vendor.ts"

const captures = join(import.meta.dirname, "../../../../shared/captures")
const folder = join(captures, "answers")
const filesIn = (folder: string): ReadonlyArray<string> => (existsSync(folder) ? readdirSync(folder) : [])

export const files: ReadonlyArray<string> = filesIn(folder)

/** Bodies of requests, by file. */
export const requests: ReadonlyArray<{ readonly file: string; readonly wire: WireName; readonly body: any }> =
  filesIn(join(captures, "requests")).flatMap((file) => {
    const wire = (["chat", "messages"] as const).find((wire) => file.startsWith(`${wire}--`))
    return wire === undefined
      ? []
      : [{ file, wire, body: JSON.parse(readFileSync(join(captures, "requests", file), "utf8")) }]
  })

export const textOf = (file: string): string => readFileSync(join(folder, file), "utf8")

/** JSON that the tests read. */
export const parse = (text: string): any => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const wireOf = (value: any): WireName | undefined => {
  if (value?.choices !== undefined) return "chat"
  if (value?.object === "response" || /^response\./.test(value?.type)) return "responses"
  if (value?.type === "message" || value?.type === "message_start") return "messages"
  return undefined
}

export const isError = (value: any): boolean => value?.error != null || value?.status === "failed"

/** Captures that are not one answer. */
export const leftOut: ReadonlySet<string> = new Set([
  // Its lines are not JSON.
  "openai-responses--parallel-tool-call-wrapper.1.chunks.txt",
  // Two answers in one stream.
  "anthropic--spliced-message-start.chunks.txt",
  // An error.
  "openai-responses--openai-error.1.chunks.txt"
])

export const linesOf = (file: string): ReadonlyArray<string> =>
  textOf(file)
    .split("\n")
    .filter((line) => line.trim() !== "")

/** Some captures hold the answers of several turns. */
export const turnsOf = (
  wire: WireName,
  lines: ReadonlyArray<string>
): ReadonlyArray<ReadonlyArray<string>> => {
  if (wire === "chat") return [lines.at(-1) === "[DONE]" ? lines : [...lines, "[DONE]"]]
  const turns: Array<Array<string>> = []
  const last = /"type":\s*"(?:message_stop|response\.(?:completed|incomplete))"/
  let isOver = true
  for (const line of lines) {
    if (isOver) turns.push([])
    turns.at(-1)?.push(line)
    isOver = last.test(line.slice(0, 60))
  }
  return turns
}
