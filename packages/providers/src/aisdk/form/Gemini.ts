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

  /** Adds up the parts. Without a finish reason, the answer may be cut. */
  joined(events: ReadonlyArray<Fields>): Fields | undefined {
    const candidates = events.flatMap(({ candidates: [first] = [] }: { candidates?: unknown[] }) =>
      isFields(first) ? [first] : []
    )
    const finish = candidates.find(({ finishReason }) => typeof finishReason === "string")
    if (finish === undefined) return undefined
    const parts = candidates.flatMap(({ content }) => (isFields(content) ? objects(content["parts"]) : []))
    const candidate = { ...Object.assign({}, ...candidates), content: { role: "model", parts } }
    return { ...Object.assign({}, ...events), candidates: [candidate] }
  }

  #call(call: Fields): void {
    // The enterprise platform streams arguments in pieces, under other names.
    const args = typeof call["args"] === "string" ? argumentsObject(call["args"]) : undefined
    if (args === undefined) return
    this.#note("call")
    call["args"] = args
  }
}
