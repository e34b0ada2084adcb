/**
 * Token usage over several attempts.
 */
import type { Response } from "effect/ai"

export type Usage = Response.FinishPartEncoded["usage"]

/** Adds the tokens of two attempts. A count that both lack stays unknown. */
export const sum = (a: Usage | undefined, b: Usage): Usage => {
  if (a === undefined) return b
  const add = (x: number | undefined, y: number | undefined) =>
    x === undefined || y === undefined ? (x ?? y) : Math.min(x + y, Number.MAX_SAFE_INTEGER)
  const { inputTokens: i, outputTokens: o } = b
  return {
    inputTokens: {
      uncached: add(a.inputTokens.uncached, i.uncached),
      total: add(a.inputTokens.total, i.total),
      cacheRead: add(a.inputTokens.cacheRead, i.cacheRead),
      cacheWrite: add(a.inputTokens.cacheWrite, i.cacheWrite)
    },
    outputTokens: {
      total: add(a.outputTokens.total, o.total),
      text: add(a.outputTokens.text, o.text),
      reasoning: add(a.outputTokens.reasoning, o.reasoning)
    }
  }
}

/** Usage of an answer that reports none. */
export const unknown: Usage = {
  inputTokens: { uncached: undefined, total: undefined, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: undefined, text: undefined, reasoning: undefined }
}
