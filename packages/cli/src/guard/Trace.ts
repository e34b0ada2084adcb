/**
 * A trace: the tool calls of a run, one JSON object per line, `{ "turn", "tool", "arguments", "result", "failed" }`.
 * Pure.
 *
 * `turn` and `failed` are optional. By default each call is a separate turn and succeeded.
 */
import type { LoopDetector } from "@outlast/agent/guard"
import { Predicate, Result } from "effect"

/** The problem in a line and the expected value. Never quotes the line, which may contain secrets. */
export type Problem = string

const fields = '"turn", "tool", "arguments", "result" and "failed"'

/** Reads a line as the call with this index. */
export const parse = (line: string, index: number): Result.Result<LoopDetector.Observation, Problem> => {
  let json: unknown
  try {
    json = JSON.parse(line)
  } catch {
    return Result.fail(`is not JSON. Expected one object a line, with the fields ${fields}.`)
  }
  if (!Predicate.isObject(json) || Array.isArray(json)) {
    return Result.fail(`is not an object. Expected one with the fields ${fields}.`)
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
