/**
 * What the rules of Gemini look at.
 */
import type { Rule } from "../Rule.ts"
import type { Body } from "./body.ts"

export interface Input {
  readonly body: Body
  readonly model: string
  readonly tokens: number
  readonly window: number | undefined
}

/** Says the message; the error is 400 `INVALID_ARGUMENT`. */
export type GoogleRule = Rule<Input, string>

/** Gemini 3 and later: thinking has levels, and calls come back with the signature of the thought behind them. */
export const isNewer = (model: string): boolean => /^gemini-([3-9]|\d\d)/.test(model)
