/**
 * A trace: the tool calls of a run, one JSON object a line, `{ "turn", "tool", "arguments", "result", "failed" }`. Pure.
 *
 * `turn` and `failed` may be left out: each call is then a turn of its own, and went well.
 */
import type { LoopDetector } from "@outlast/agent/guard"
import { Predicate, Result } from "effect"

/** What is wrong with a line, with what is expected. Never echoes the line: it may hold secrets. */
export type Problem = string

const fields = '"turn", "tool", "arguments", "result" and "failed"'

/** Reads a line, the call with this index. */
export const parse = (line: string, index: number): Result.Result<LoopDetector.Observation, Problem> => {
  let json: unknown
  try {
    json = JSON.parse(line)
  } catch {
    return Result.fail(`is not JSON. Expected one object a line, with the fields ${fields}.`)
  }
  if (!Predicate.isObject(json) || Array.isArray(json)) {
    return Result.fail(`is no object. Expected one with the fields ${fields}.`)
  }
  const { turn = index, tool, arguments: args = {}, result = null, failed = false }: Fields = json
  if (typeof turn !== "number" || !Number.isInteger(turn)) return wrong("turn", "a whole number")
  if (typeof tool !== "string" || tool === "") return wrong("tool", "the name of a tool")
  if (typeof failed !== "boolean") return wrong("failed", "true or false")
  return Result.succeed({ turn, tool, arguments: args, result, failed })
}

interface Fields {
  readonly turn?: unknown
  readonly tool?: unknown
  readonly arguments?: unknown
  readonly result?: unknown
  readonly failed?: unknown
}

const wrong = (field: string, expected: string): Result.Result<never, Problem> =>
  Result.fail(`has a wrong "${field}". Expected ${expected}.`)
