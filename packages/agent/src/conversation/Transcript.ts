/**
 * A conversation that does not print itself.
 *
 * Errors and outcomes carry the transcript, so that a run can continue from it. Logs and JSON show only its length.
 * `prompt` returns the conversation. Only the codec {@link schema} writes it, for a program that stores it on purpose.
 */
import { Inspectable, Schema, SchemaTransformation } from "effect"
import { Prompt } from "effect/ai"

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

/** Codec of a transcript. The encoded form is the whole conversation, as JSON. */
export const schema: Schema.Codec<Transcript, Prompt.PromptEncoded> = Prompt.Prompt.pipe(
  Schema.decodeTo(
    Schema.instanceOf(Transcript),
    SchemaTransformation.transform({
      decode: (prompt: Prompt.Prompt) => new Transcript(prompt),
      encode: (transcript: Transcript) => transcript.prompt
    })
  )
)
