/**
 * Items of Responses, completed to what the client needs. Other vendors (xAI, LM Studio) leave out fields of tools that
 * they run themselves, and have items of their own. The client rejects a complete body for one of them. In a stream it
 * skips items of unknown types.
 */
import type { Fields, Note } from "./Fields.ts"
import { isFields, objects } from "./Fields.ts"

/** Completes the item. Returns false for one that the client does not know. */
export const item = (item: Fields, note: Note): boolean => {
  const { type } = item
  if (typeof type !== "string" || !known.has(type)) {
    note("item")
    return false
  }
  const fill = filling(item, note)
  switch (type) {
    case "message":
      message(item, note)
      break
    case "reasoning":
      fill("id", isText, "")
      fill("summary", Array.isArray, [])
      if (objects(item["summary"]).some(({ type }) => type !== "summary_text")) {
        note("item")
        item["summary"] = objects(item["summary"]).filter(({ type }) => type === "summary_text")
      }
      break
    case "web_search_call":
      fill("status", isText, "completed")
      fill("action", isAction, null)
      break
    case "file_search_call":
      fill("queries", isTexts, [])
      if ("results" in item && item["results"] !== null) results(item, note)
      break
    case "code_interpreter_call":
      fill("status", isText, "completed")
      fill("container_id", isText, "")
      fill("code", (value) => value === null || isText(value), null)
      fill("outputs", isOutputs, null)
      break
    case "image_generation_call":
      fill("result", isText, "")
      break
    case "mcp_call":
      for (const name of ["status", "arguments", "name", "server_label"]) fill(name, isText, "")
      break
    case "mcp_list_tools":
      fill("server_label", isText, "")
      fill("tools", Array.isArray, [])
  }
  return true
}

/** Types of items that the client reads. */
const known: ReadonlySet<string> = new Set([
  "message",
  "reasoning",
  "function_call",
  "custom_tool_call",
  "web_search_call",
  "file_search_call",
  "code_interpreter_call",
  "image_generation_call",
  "mcp_call",
  "mcp_list_tools",
  "mcp_approval_request",
  "computer_call",
  "local_shell_call",
  "shell_call",
  "shell_call_output",
  "apply_patch_call",
  "program",
  "program_output",
  "tool_search_call",
  "tool_search_output",
  "compaction"
])

const filling =
  (fields: Fields, note: Note) =>
  (name: string, isValid: (value: unknown) => boolean, value: unknown): void => {
    if (isValid(fields[name])) return
    note("item")
    fields[name] = value
  }

const isText = (value: unknown): value is string => typeof value === "string"
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText)
const isNumber = (value: unknown): boolean => typeof value === "number"
const orNone =
  (isValid: (value: unknown) => boolean) =>
  (value: unknown): boolean =>
    value === undefined || value === null || isValid(value)

const isAction = orNone((value) => {
  if (!isFields(value)) return false
  switch (value["type"]) {
    case "search":
      return (
        orNone(isText)(value["query"]) &&
        orNone(isTexts)(value["queries"]) &&
        orNone(
          (all) =>
            Array.isArray(all) &&
            all.every(
              (source) =>
                isFields(source) &&
                ((source["type"] === "url" && isText(source["url"])) ||
                  (source["type"] === "api" && isText(source["name"])))
            )
        )(value["sources"])
      )
    case "open_page":
      return orNone(isText)(value["url"])
    case "find_in_page":
      return orNone(isText)(value["url"]) && orNone(isText)(value["pattern"])
    default:
      return false
  }
})

const isOutputs = (value: unknown): boolean =>
  value === null ||
  (Array.isArray(value) &&
    value.every(
      (output) =>
        isFields(output) &&
        ((output["type"] === "logs" && isText(output["logs"])) ||
          (output["type"] === "image" && isText(output["url"])))
    ))

const results = (item: Fields, note: Note): void => {
  for (const result of objects(item["results"])) {
    const fill = filling(result, note)
    fill("attributes", isAttributes, {})
    fill("score", isNumber, 0)
    for (const name of ["file_id", "filename", "text"]) fill(name, isText, "")
  }
}

const isAttributes = (value: unknown): boolean =>
  isFields(value) &&
  Object.values(value).every((each) => ["string", "number", "boolean"].includes(typeof each))

const message = (item: Fields, note: Note): void => {
  const fill = filling(item, note)
  fill("id", isText, "")
  fill("role", (role) => role === "assistant", "assistant")
  if (isText(item["content"])) {
    note("item")
    item["content"] = [{ type: "output_text", text: item["content"] }]
  }
  fill("content", Array.isArray, [])
  const parts = objects(item["content"])
  item["content"] = parts.filter((part) => {
    if (part["type"] === "text") {
      note("item")
      part["type"] = "output_text"
    }
    if (part["type"] === "refusal") return isText(part["refusal"])
    if (part["type"] !== "output_text" || !isText(part["text"])) {
      note("item")
      return false
    }
    if (!orNone(isLogprobs)(part["logprobs"])) part["logprobs"] = null
    filling(part, note)("annotations", Array.isArray, [])
    part["annotations"] = objects(part["annotations"]).filter((each) => annotation(each, note))
    return true
  })
}

const isLogprobs = (value: unknown): boolean =>
  Array.isArray(value) &&
  value.every((each) => isFields(each) && isText(each["token"]) && Array.isArray(each["top_logprobs"]))

/** Completes an annotation. Returns false for one that the client does not know. */
export const annotation = (value: Fields, note: Note): boolean => {
  const fill = filling(value, note)
  switch (value["type"]) {
    case "url_citation":
      fill("url", isText, "")
      fill("title", isText, value["url"])
      fill("start_index", isNumber, 0)
      fill("end_index", isNumber, 0)
      return true
    case "file_citation":
      fill("file_id", isText, "")
      fill("filename", isText, value["file_id"])
      fill("index", isNumber, 0)
      return true
    case "container_file_citation":
    case "file_path":
      return true
    default:
      note("item")
      return false
  }
}
