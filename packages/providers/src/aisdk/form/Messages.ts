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
  /** A message that began with its stop reason, before that comes again. Its content is what no block has yet. */
  #complete: Fields | undefined

  constructor(note: Note) {
    this.#note = note
  }

  /** Data of an event that may need a change. */
  mayDiffer(data: string): boolean {
    if (marks.test(data) || this.#unknown.size > 0) return true
    if (this.#complete !== undefined && data.includes('"message_stop"')) return true
    return this.#begun.size > 0 && data.includes('"input_json_delta"')
  }

  whole(body: Fields): void {
    if (body["type"] !== "message") return
    counts(body, "usage", this.#note, ["input_tokens", "output_tokens"])
    if (Array.isArray(body["content"])) body["content"] = this.#known(objects(body["content"]))
  }

  /** The complete blocks that the client reads. */
  #known(given: ReadonlyArray<Fields>): ReadonlyArray<Fields> {
    const known = given.filter(({ type }) => blocks.has(type) || type === ofWhole)
    if (known.length < given.length) this.#note("item")
    for (const block of known) this.#block(block, true)
    return known
  }

  event(event: Fields): boolean | ReadonlyArray<Fields> {
    const { message, content_block: block, delta, index } = event
    switch (event["type"]) {
      case "message":
        return this.#streamed(event)
      case "message_start":
        if (isFields(message)) this.#start(message)
        return true
      case "message_delta":
        return this.#end(event)
      case "message_stop": {
        if (this.#complete === undefined) return true
        const { stop_reason: reason, usage } = this.#complete
        const end = { type: "message_delta", delta: { stop_reason: reason }, usage }
        return [...this.#end(end), end]
      }
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
    if (!isFields(message)) return undefined
    const atStart = events.some(({ type }) => type === "message_stop") ? [message] : []
    const reason = [...ends.map(({ delta }) => delta), ...atStart]
      .map((each) => (isFields(each) ? each["stop_reason"] : undefined))
      .find(Boolean)
    if (reason === undefined) return undefined
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
      ...(content.size === 0 ? {} : { content: [...content.values()] }),
      stop_reason: reason,
      usage: Object.assign({}, ...usage)
    }
  }

  /** A complete answer in the place of a stream. */
  #streamed(event: Fields): ReadonlyArray<Fields> {
    this.#note("item")
    this.whole(event)
    const { content, stop_reason: reason, stop_sequence: sequence, usage } = event
    const all = this.#blocks(content)
    const message = { ...event, content: [], stop_reason: null }
    for (const name of Object.keys(event)) delete event[name]
    event["type"] = "message_stop"
    return [
      { type: "message_start", message },
      ...all,
      { type: "message_delta", delta: { stop_reason: reason, stop_sequence: sequence ?? null }, usage }
    ]
  }

  /** The events of complete blocks. */
  #blocks(content: unknown): ReadonlyArray<Fields> {
    return objects(content).flatMap((block, index): ReadonlyArray<Fields> => {
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
  }

  /** A message begins. Of its content the client reads calls only. */
  #start(message: Fields): void {
    counts(message, "usage", this.#note, ["input_tokens"])
    if (textOf(message["stop_reason"]) === "") return
    const { content } = message
    const isRead = objects(content).every(({ type }) => type === "tool_use")
    this.#complete = { ...message, content: isRead ? [] : content }
    if (isRead) return
    this.#note("item")
    message["content"] = []
  }

  /** A block begins: empty, because the client reads only what follows. What it had becomes its first delta. */
  #begin(event: Fields, block: Fields): boolean | ReadonlyArray<Fields> {
    const { index } = event
    if (this.#complete !== undefined) this.#complete["content"] = []
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

  /** What the server left out before the stop reason: blocks, and the ends of calls that it says are complete. */
  #end(event: Fields): ReadonlyArray<Fields> {
    counts(event, "usage", this.#note, ["output_tokens"])
    const { delta } = event
    const blocks = this.#blocks(this.#known(objects(this.#complete?.["content"])))
    this.#complete = undefined
    if (!isFields(delta) || delta["stop_reason"] !== "tool_use") return blocks
    const ends = [...this.#open].map((index) => ({ type: "content_block_stop", index }))
    if (ends.length > 0) this.#note("item")
    this.#open.clear()
    return [...blocks, ...ends]
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
