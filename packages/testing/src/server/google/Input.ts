/** Input of the rules of Gemini. */
import type { Rule } from "../Rule.ts"
import type { Body } from "./body.ts"

export interface Input {
  readonly body: Body
  readonly model: string
  readonly tokens: number
  readonly window: number | undefined
}

/** A rule that returns the message. The error is always 400 `INVALID_ARGUMENT`. */
export type GoogleRule = Rule<Input, string>

/** True for Gemini 3 and later: thinking has levels, and function calls must return their thought signature. */
export const isNewer = (model: string): boolean => /^gemini-([3-9]|\d\d)/.test(model)
