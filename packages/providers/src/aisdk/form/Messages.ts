/** Answers of Anthropic's Messages and the servers that imitate it: see `AnswerForm`. */
import type { Fields, Note } from "./Fields.ts"
import { argumentsObject, counts, isFields, objects } from "./Fields.ts"

const marks = /"type"\s*:\s*"(?:message_start|message_delta|content_block_start)"/

export const mayDiffer = (data: string): boolean => marks.test(data)

export class Messages {
  readonly #note: Note

  constructor(note: Note) {
    this.#note = note
  }

  whole(body: Fields): void {
    if (body["type"] !== "message") return
    counts(body, "usage", this.#note, ["input_tokens", "output_tokens"])
    if (Array.isArray(body["content"])) {
      const blocks = objects(body["content"])
      for (const block of blocks) this.#block(block, true)
      body["content"] = blocks
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
        if (isFields(block)) this.#block(block, false)
        return true
    }
  }

  #block(block: Fields, isWhole: boolean): void {
    if (block["type"] !== "tool_use") return
    const input = argumentsObject(block["input"])
    // In a stream the input follows.
    if (input === undefined || (!isWhole && block["input"] === undefined)) return
    this.#note("call")
    block["input"] = input
  }
}
