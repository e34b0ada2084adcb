/**
 * Reads and writes a prompt of effect/ai as JSON: the output of `Schema.encode(Prompt.Prompt)` and `Chat.exportJson`.
 * Pure.
 *
 * Outlast's marks are kept: pinned messages stay, and summaries are recognised.
 */
import { Result, Schema, SchemaIssue } from "effect"
import { Prompt } from "effect/ai"
import type { JsonObject } from "./Json.ts"
import type { JsonCursor } from "./JsonCursor.ts"
import { Broken } from "./JsonCursor.ts"
import type { Run } from "./Sources.ts"
import { marked, Sources, unmarked } from "./Sources.ts"
import type { Transcript } from "./Transcript.ts"

/** Reads a body. Throws `Broken`. */
export const read = (body: JsonCursor): Transcript => {
  const content = body.field("content").items
  const sources = new Sources()
  const said = content.map((message, at) => messageOf(at, message, sources))
  sources.checkPairs(said)
  return {
    format: "effect-ai",
    prompt: Prompt.fromMessages(said),
    sources,
    tools: [],
    model: undefined,
    outputLimit: undefined,
    list: "content",
    size: content.length,
    write: (prompt) => ({
      ...body.object,
      content: sources.runs(prompt.content).map((run) => written(run, content))
    })
  }
}

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

const schemas = {
  text: Prompt.TextPart,
  reasoning: Prompt.ReasoningPart,
  file: Prompt.FilePart,
  "tool-call": Prompt.ToolCallPart,
  "tool-result": Prompt.ToolResultPart,
  "tool-approval-request": Prompt.ToolApprovalRequestPart,
  "tool-approval-response": Prompt.ToolApprovalResponsePart
} as const

/** The parts that each message may contain. */
const allowed = {
  user: ["text", "file"],
  assistant: ["text", "reasoning", "file", "tool-call", "tool-result", "tool-approval-request"],
  tool: ["tool-result", "tool-approval-response"]
} as const

const issues = SchemaIssue.makeFormatterStandardSchemaV1()

/** Decodes a value by its schema. Throws `Broken` with the path inside the value. */
const decoded = <A>(schema: Schema.Decoder<A>, value: unknown, path: string): A => {
  const read = Schema.decodeUnknownResult(schema)(value)
  if (Result.isSuccess(read)) return read.success
  const inside = (issues(read.failure.issue).issues[0]?.path ?? []).map((segment) =>
    String(typeof segment === "object" ? segment.key : segment)
  )
  throw new Broken({ path: [path, ...inside].join("."), problem: "not what a prompt of effect/ai has there" })
}

const messageOf = (at: number, place: JsonCursor, sources: Sources): Prompt.Message => {
  const role = place.field("role").oneOf(["system", "user", "assistant", "tool"])
  const content = place.field("content")
  if (role === "system") return sources.addSystem(at, decoded(Prompt.SystemMessage, place.value, place.path))
  // Parts are read one by one, for their paths. This decodes everything else.
  const { options } = decoded(Prompt.UserMessage, { ...place.object, role: "user", content: "" }, place.path)
  const text = typeof content.value === "string" && role !== "tool" ? content.value : undefined
  const parts =
    text === undefined
      ? content.items.map((part, key) => partOf(at, key, part, allowed[role], sources))
      : [textOf(at, content, text, sources)]
  // A message without parts would be lost.
  const own = parts.length > 0 || role === "tool" ? parts : [textOf(at, content, "", sources)]
  switch (role) {
    case "user":
      return Prompt.makeMessage(role, { content: own as ReadonlyArray<Prompt.UserMessagePart>, options })
    case "assistant":
      return Prompt.makeMessage(role, { content: own as ReadonlyArray<Prompt.AssistantMessagePart>, options })
    case "tool":
      return Prompt.makeMessage(role, { content: own as ReadonlyArray<Prompt.ToolMessagePart>, options })
  }
}

const textOf = (at: number, place: JsonCursor, text: string, sources: Sources): Prompt.TextPart =>
  sources.add(at, "content", place.path, (options) => Prompt.makePart("text", { text, options }))

const partOf = (
  at: number,
  key: number,
  place: JsonCursor,
  types: ReadonlyArray<keyof typeof schemas>,
  sources: Sources
): Prompt.Part => {
  const schema: Schema.Decoder<Prompt.Part> = schemas[place.field("type").oneOf(types)]
  const part = decoded(schema, place.value, place.path)
  const path = part.type === "tool-result" || part.type === "tool-call" ? `${place.path}.id` : place.path
  return sources.add(at, key, path, (mark) => ({ ...part, options: marked(part.options, mark) }))
}

// -----------------------------------------------------------------------------
// Writing
// -----------------------------------------------------------------------------

const encodeMessage = Schema.encodeSync(Prompt.Message)

const written = (run: Run, messages: ReadonlyArray<JsonCursor>): JsonObject => {
  if (run._tag === "Added") return { ...encodeMessage(run.message) }
  const message = messages[run.at]?.object ?? {}
  const { content } = message
  if (run.untouched || !Array.isArray(content)) return message
  return {
    ...message,
    content: content.flatMap((part: JsonObject, key) => {
      const kept = run.parts.get(key)
      return kept === undefined ? [] : [kept.untouched ? part : rewritten(part, kept.part)]
    })
  }
}

/** Keeps fields unknown to effect/ai. Drops the original output of a result that was cut. */
const rewritten = ({ modelOutput: _output, ...before }: JsonObject, part: Prompt.Part): JsonObject => {
  const schema: Schema.Encoder<unknown> = schemas[part.type]
  const encoded = Schema.encodeUnknownSync(schema)({ ...part, options: unmarked(part.options) })
  return { ...before, ...(encoded as JsonObject) } // a part is an object
}
