/** Answers of Anthropic's Messages and the servers that imitate it: see `AnswerForm`. */
import type { Fields, Note } from "./Fields.ts"
import { argumentsObject, counts, isFields, objects } from "./Fields.ts"

const marks = /"type"\s*:\s*"(?:message_start|message_delta|content_block_start)"|"partial_json"\s*:\s*\{/

export class Messages {
  readonly #note: Note
  /** Indexes of the streamed calls that began with all of their arguments. */
  readonly #begun = new Set<unknown>()

  constructor(note: Note) {
    this.#note = note
  }

  /** Data of an event that may need a change. */
  mayDiffer(data: string): boolean {
    return marks.test(data) || (this.#begun.size > 0 && data.includes('"input_json_delta"'))
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
    const { message, content_block: block, delta, index } = event
    switch (event["type"]) {
      case "message_start":
        if (isFields(message)) counts(message, "usage", this.#note, ["input_tokens"])
        return true
      case "message_delta":
        counts(event, "usage", this.#note, ["output_tokens"])
        return true
      case "content_block_delta":
        return !isFields(delta) || this.#arguments(delta, index)
      default:
        if (!isFields(block)) return true
        this.#block(block, false)
        if (isFields(block["input"]) && Object.keys(block["input"]).length > 0) this.#begun.add(index)
        return true
    }
  }

  /** False for arguments that came with the beginning of the call. */
  #arguments(delta: Fields, index: unknown): boolean {
    const { partial_json: json } = delta
    if (json !== undefined && json !== "" && this.#begun.has(index)) {
      this.#note("duplicate")
      return false
    }
    if (isFields(json)) {
      this.#note("call")
      delta["partial_json"] = JSON.stringify(json)
    }
    return true
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
