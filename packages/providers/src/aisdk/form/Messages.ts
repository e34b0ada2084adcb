/** Answers of Anthropic's Messages and the servers that imitate it: see `AnswerForm`. */
import type { Fields, Note } from "./Fields.ts"
import { argumentsObject, counts, isFields, objects, parsed, textOf } from "./Fields.ts"

/** Types of blocks, and of their deltas, that the client reads. */
const blocks = new Set<unknown>([
  "text",
  "thinking",
  "redacted_thinking",
  "tool_use",
  "server_tool_use",
  "mcp_tool_use",
  "mcp_tool_result",
  "web_fetch_tool_result",
  "web_search_tool_result",
  "code_execution_tool_result",
  "bash_code_execution_tool_result",
  "text_editor_code_execution_tool_result",
  "tool_search_tool_result",
  "advisor_tool_result",
  "compaction",
  "fallback"
])
/** The client reads it in complete answers only. */
const ofWhole = "container_upload"
const deltas = "text|thinking|signature|input_json|citations|compaction"
const isDelta = new RegExp(`^(?:${deltas})_delta$`)

const marks = new RegExp(
  [
    // A complete message, or an event that is no delta of a block.
    String.raw`"type"\s*:\s*"(?:message(?:_start|_delta)?|content_block_(?:start|stop))"`,
    // A delta that the client does not know.
    String.raw`"type"\s*:\s*"(?!(?:${deltas}|content_block|message)_)[a-z_]*_delta"`,
    String.raw`"partial_json"\s*:\s*\{`,
    String.raw`"(?:text|thinking)"\s*:\s*null`
  ].join("|")
)

/** Fields of a block whose deltas add up, by the type of the delta. */
const pieces = {
  text_delta: "text",
  thinking_delta: "thinking",
  signature_delta: "signature",
  input_json_delta: "partial_json"
} as const

export class Messages {
  readonly #note: Note
  /** Indexes of the streamed calls that began with all of their arguments. */
  readonly #begun = new Set<unknown>()
  /** Indexes of the streamed calls that have not ended. */
  readonly #open = new Set<unknown>()
  /** Indexes of the streamed blocks that the client must not see. */
  readonly #unknown = new Set<unknown>()

  constructor(note: Note) {
    this.#note = note
  }

  /** Data of an event that may need a change. */
  mayDiffer(data: string): boolean {
    if (marks.test(data) || this.#unknown.size > 0) return true
    return this.#begun.size > 0 && data.includes('"input_json_delta"')
  }

  whole(body: Fields): void {
    if (body["type"] !== "message") return
    counts(body, "usage", this.#note, ["input_tokens", "output_tokens"])
    if (!Array.isArray(body["content"])) return
    const given = objects(body["content"])
    const known = given.filter(({ type }) => blocks.has(type) || type === ofWhole)
    if (known.length < given.length) this.#note("item")
    for (const block of known) this.#block(block, true)
    body["content"] = known
  }

  event(event: Fields): boolean | ReadonlyArray<Fields> {
    const { message, content_block: block, delta, index } = event
    switch (event["type"]) {
      case "message":
        return this.#streamed(event)
      case "message_start":
        if (isFields(message)) counts(message, "usage", this.#note, ["input_tokens"])
        return true
      case "message_delta":
        counts(event, "usage", this.#note, ["output_tokens"])
        return isFields(delta) && delta["stop_reason"] === "tool_use" ? this.#ends() : true
      case "content_block_stop":
        this.#open.delete(index)
        return !this.#unknown.delete(index)
      case "content_block_delta":
        return !isFields(delta) || (this.#isKnown(delta, index) && this.#arguments(delta, index))
      default:
        return !isFields(block) || this.#begin(event, block)
    }
  }

  /** Adds up the blocks. Without a stop reason, the answer may be cut. */
  joined(events: ReadonlyArray<Fields>): Fields | undefined {
    const message = events.find(({ type }) => type === "message_start")?.["message"]
    const ends = events.filter(({ type }) => type === "message_delta")
    const reason = ends.map(({ delta }) => (isFields(delta) ? delta["stop_reason"] : undefined)).find(Boolean)
    if (!isFields(message) || reason === undefined) return undefined
    const content = new Map<unknown, Fields>()
    for (const { content_block: block, delta, index, type } of events) {
      if (isFields(block)) content.set(index, { ...block })
      const into = content.get(index)
      if (type !== "content_block_delta" || !isFields(delta) || into === undefined) continue
      const name = Object.entries(pieces).find(([type]) => type === delta["type"])?.[1]
      if (name !== undefined) into[name] = `${textOf(into[name])}${textOf(delta[name])}`
    }
    for (const block of content.values()) {
      if (typeof block["partial_json"] !== "string") continue
      block["input"] = parsed(block["partial_json"]) ?? block["partial_json"]
      delete block["partial_json"]
    }
    const usage = [message, ...ends].map((each) => each["usage"]).filter(isFields)
    return {
      ...message,
      content: [...content.values()],
      stop_reason: reason,
      usage: Object.assign({}, ...usage)
    }
  }

  /** A complete answer in the place of a stream. */
  #streamed(event: Fields): ReadonlyArray<Fields> {
    this.#note("item")
    this.whole(event)
    const { content, stop_reason: reason, stop_sequence: sequence, usage } = event
    const all = objects(content).flatMap((block, index): ReadonlyArray<Fields> => {
      const input =
        block["type"] === "tool_use"
          ? [{ type: "input_json_delta", partial_json: JSON.stringify(block["input"] ?? {}) }]
          : []
      const begin: Fields = { ...block, ...(input.length === 0 ? {} : { input: {} }) }
      const start: Fields = { type: "content_block_start", index, content_block: begin }
      const before = this.#begin(start, begin)
      this.#open.delete(index)
      return [
        ...(typeof before === "boolean" ? [] : before),
        start,
        ...input.map((delta) => ({ type: "content_block_delta", index, delta })),
        { type: "content_block_stop", index }
      ]
    })
    const message = { ...event, content: [], stop_reason: null }
    for (const name of Object.keys(event)) delete event[name]
    event["type"] = "message_stop"
    return [
      { type: "message_start", message },
      ...all,
      { type: "message_delta", delta: { stop_reason: reason, stop_sequence: sequence ?? null }, usage }
    ]
  }

  /** A block begins: empty, because the client reads only what follows. What it had becomes its first delta. */
  #begin(event: Fields, block: Fields): boolean | ReadonlyArray<Fields> {
    const { index } = event
    if (!blocks.has(block["type"])) {
      this.#note("item")
      this.#unknown.add(index)
      return false
    }
    this.#block(block, false)
    if (block["type"] === "tool_use") this.#open.add(index)
    if (isFields(block["input"]) && Object.keys(block["input"]).length > 0) this.#begun.add(index)
    const begun = (["text", "thinking", "signature"] as const).filter(
      (name) => block["type"] !== "tool_use" && textOf(block[name]) !== ""
    )
    const last = begun.at(-1)
    if (last === undefined) return true
    this.#note("item")
    const deltas = begun.map((name) => ({ type: `${name}_delta`, [name]: block[name] }))
    const empty = { ...block, ...Object.fromEntries(begun.map((name) => [name, ""])) }
    const start = { type: "content_block_start", index, content_block: empty }
    delete event["content_block"]
    Object.assign(event, { type: "content_block_delta", delta: deltas.at(-1) })
    return [start, ...deltas.slice(0, -1).map((delta) => ({ type: "content_block_delta", index, delta }))]
  }

  /** False for a delta that the client does not know, that has nothing, or whose block it does not see. */
  #isKnown(delta: Fields, index: unknown): boolean {
    const isEmpty = delta["text"] === null || delta["thinking"] === null
    if (!isEmpty && !this.#unknown.has(index) && isDelta.test(String(delta["type"]))) return true
    this.#note("item")
    return false
  }

  /** The ends of calls that the server left out, before the reason that says that they are complete. */
  #ends(): true | ReadonlyArray<Fields> {
    if (this.#open.size === 0) return true
    this.#note("item")
    const ends = [...this.#open].map((index) => ({ type: "content_block_stop", index }))
    this.#open.clear()
    return ends
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
