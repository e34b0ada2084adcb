/**
 * A conversation that does not print itself.
 *
 * Errors and outcomes carry the transcript, so that a run can continue from it. Logs and JSON show only its length.
 * `prompt` returns the conversation.
 */
import { Inspectable } from "effect"
import type { Prompt } from "effect/ai"

export class Transcript {
  readonly #prompt: Prompt.Prompt

  constructor(prompt: Prompt.Prompt) {
    this.#prompt = prompt
  }

  /** The conversation, legal as the prompt of another call or run. */
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
