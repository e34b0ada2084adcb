/** Answers of Gemini: see `AnswerForm`. */
import type { Fields, Note } from "./Fields.ts"
import { argumentsObject, badCount, counts, isFields, objects } from "./Fields.ts"

const marks = new RegExp(`${badCount.source}|"args"\\s*:(?!\\s*\\{)|"functionCall"`)

export const mayDiffer = (data: string): boolean => marks.test(data)

export class Gemini {
  readonly #note: Note
  readonly #seen = new Set<string>()

  constructor(note: Note) {
    this.#note = note
  }

  whole(body: Fields): void {
    counts(body, "usageMetadata", this.#note)
    for (const { content } of objects(body["candidates"])) {
      if (!isFields(content) || !Array.isArray(content["parts"])) continue
      content["parts"] = content["parts"].filter(
        (part) => !isFields(part) || !isFields(part["functionCall"]) || this.#call(part["functionCall"])
      )
    }
  }

  event(event: Fields): boolean {
    this.whole(event)
    return true
  }

  /** False for a call that was there before. */
  #call(call: Fields): boolean {
    const { id, name } = call
    // The enterprise platform streams arguments in pieces, under other names.
    const args = typeof call["args"] === "string" ? argumentsObject(call["args"]) : undefined
    if (args !== undefined) {
      this.#note("call")
      call["args"] = args
    }
    if (typeof id !== "string" || id === "" || call["args"] === undefined) return true
    const key = JSON.stringify([id, name, call["args"]])
    if (this.#seen.has(key)) this.#note("duplicate")
    return this.#seen.size < this.#seen.add(key).size
  }
}
