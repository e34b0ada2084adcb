/**
 * A conversation that does not print itself.
 *
 * Errors and outcomes carry the transcript so that a run can go on from it. What prints an error, a log line, a
 * JSON body, sees only its length; `prompt` gives the conversation to those who ask for it.
 */
import { Inspectable } from "effect"
import type { Prompt } from "effect/ai"

export class Transcript {
  readonly #prompt: Prompt.Prompt

  constructor(prompt: Prompt.Prompt) {
    this.#prompt = prompt
  }

  /** The conversation: legal as the prompt of another call or run. */
  get prompt(): Prompt.Prompt {
    return this.#prompt
  }

  toString(): string {
    return `Transcript(${this.#prompt.content.length} messages)`
  }

  toJSON(): unknown {
    return this.toString()
  }

  [Inspectable.NodeInspectSymbol](): string {
    return this.toString()
  }
}
