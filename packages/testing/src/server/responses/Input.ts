/** Input of the rules of the Responses API. */
import type { OpenAiError } from "../openai/errors.ts"
import type { Rule } from "../Rule.ts"
import type { Body } from "./body.ts"

interface Input {
  readonly body: Body
  readonly tokens: number
  readonly window: number | undefined
  /** The organisation that owns the key. */
  readonly organisation: string
}

export interface Problem extends OpenAiError {
  /** HTTP status. Default: 400. */
  readonly status?: number
}

export type ResponsesRule = Rule<Input, Problem>
