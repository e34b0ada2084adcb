/** Fields of Chat Completions that the clients check: those of a wrong type are corrected, or left out. */
import type { Fields, Note } from "./Fields.ts"
import { isFields, objects, textOf } from "./Fields.ts"

/** Matches data with a field that {@link top} or {@link message} would change. A quote inside of a text is escaped. */
export const wrongField = new RegExp(
  [
    String.raw`"id"\s*:\s*[\d.-]`,
    String.raw`"created"\s*:\s*"`,
    String.raw`"role"\s*:\s*"(?!assistant")`,
    String.raw`"content"\s*:\s*\[`,
    String.raw`"annotations"\s*:\s*\[\s*[^\]\s]`
  ].join("|")
)

/** The fields around the choices. */
export const top = (body: Fields, note: Note): void => {
  if (typeof body["id"] === "number") {
    note("item")
    body["id"] = String(body["id"])
  }
  if (body["created"] !== undefined && body["created"] !== null && typeof body["created"] !== "number") {
    note("item")
    delete body["created"]
  }
}

/** A message, or its delta. */
export const message = (message: Fields, note: Note): void => {
  const { annotations, content, role } = message
  if (role !== undefined && role !== null && role !== "assistant") {
    note("item")
    message["role"] = "assistant"
  }
  if (Array.isArray(content)) {
    note("item")
    message["content"] = objects(content)
      .map(({ text }) => textOf(text))
      .join("")
  }
  if (annotations === undefined || annotations === null) return
  const all: ReadonlyArray<unknown> = Array.isArray(annotations) ? annotations : []
  const kept = objects(annotations).filter((each) => isCitation(each, note))
  if (kept.length === all.length && Array.isArray(annotations)) return
  note("item")
  message["annotations"] = kept
}

/** Completes a citation. False for an annotation that the clients do not know. */
const isCitation = ({ type, url_citation: citation }: Fields, note: Note): boolean => {
  if (type !== "url_citation" || !isFields(citation) || typeof citation["url"] !== "string") return false
  const defaults = { title: citation["url"], start_index: 0, end_index: 0 }
  for (const [name, value] of Object.entries(defaults)) {
    if (typeof citation[name] === typeof value) continue
    note("item")
    citation[name] = value
  }
  return true
}
