/** Answers of Anthropic's Messages and the servers that imitate it: see `AnswerForm`. */
import type { Fields, Note } from "./Fields.ts"
import { argumentsObject, counts, isFields, objects } from "./Fields.ts"

const marks = /"type"\s*:\s*"(?:message_start|message_delta|content_block_start)"/

export const mayDiffer = (data: string): boolean => marks.test(data)

export class Messages {
  readonly #note: Note
  readonly #seen = new Set<string>()

  constructor(note: Note) {
    this.#note = note
  }

  whole(body: Fields): void {
    if (body["type"] !== "message") return
    counts(body, "usage", this.#note, ["input_tokens", "output_tokens"])
    if (Array.isArray(body["content"])) {
      body["content"] = objects(body["content"]).filter((block) => this.#block(block, true))
    }
  }

  event(event: Fields): boolean {
    const { message, content_block: block } = event
    switch (event["type"]) {
      case "message_start":
        if (isFields(message)) counts(message, "usage", this.#note, ["input_tokens"])
        return true
      case "message_delta":
        counts(event, "usage", this.#note, ["output_tokens"])
        return true
      default:
        return !isFields(block) || this.#block(block, false)
    }
  }

  /** False for a call that was there before. */
  #block(block: Fields, isWhole: boolean): boolean {
    if (block["type"] !== "tool_use") return true
    const input = argumentsObject(block["input"])
    // In a stream the input follows.
    if (input !== undefined && (isWhole || block["input"] !== undefined)) {
      this.#note("call")
      block["input"] = input
    }
    if (!isWhole) return true
    const key = JSON.stringify([block["id"], block["name"], block["input"]])
    if (this.#seen.has(key)) this.#note("duplicate")
    return this.#seen.size < this.#seen.add(key).size
  }
}
