/** Answers of Gemini: see `AnswerForm`. */
import type { Fields, Note } from "./Fields.ts"
import { argumentsObject, badCount, counts, isFields, objects } from "./Fields.ts"

const marks = new RegExp(`${badCount.source}|"args"\\s*:(?!\\s*\\{)`)

export const mayDiffer = (data: string): boolean => marks.test(data)

export class Gemini {
  readonly #note: Note

  constructor(note: Note) {
    this.#note = note
  }

  whole(body: Fields): void {
    counts(body, "usageMetadata", this.#note)
    for (const { content } of objects(body["candidates"])) {
      if (!isFields(content)) continue
      for (const { functionCall: call } of objects(content["parts"])) if (isFields(call)) this.#call(call)
    }
  }

  event(event: Fields): boolean {
    this.whole(event)
    return true
  }

  #call(call: Fields): void {
    // The enterprise platform streams arguments in pieces, under other names.
    const args = typeof call["args"] === "string" ? argumentsObject(call["args"]) : undefined
    if (args === undefined) return
    this.#note("call")
    call["args"] = args
  }
}
