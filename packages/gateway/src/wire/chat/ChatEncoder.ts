/**
 * Writes chunks of Chat Completions. The chunks of the first attempt pass as they are. Those of an attempt that continues
 * it get its id and time, and have no role.
 */
import { fields, list } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Carried, Encoder, Part, Problem, Received, Source, Usage } from "../Wire.ts"
import { carriedBy, isAsCarried, written } from "../Wire.ts"

export class ChatEncoder implements Encoder {
  /** Nothing refers to the id of an answer. */
  readonly sharedId = undefined
  #first: Source | undefined
  /** The identity of the answer: that of the first chunk. */
  #id: Fields = {}
  #hasText = false
  #isDone = false

  part(part: Part): string {
    if (part.type === "text-delta") this.#hasText = true
    const carried = carriedBy(part)
    const own = carried === undefined ? "" : this.#events(part, carried)
    if (part.type !== "finish" || this.#isDone) return own
    this.#isDone = true
    return `${own}data: [DONE]\n\n`
  }

  failed(problem: Problem): string {
    // No `[DONE]` follows, which would be the end of a complete answer.
    return written(errorBody(problem))
  }

  #events(part: Part, carried: Carried): string {
    const { events, source } = carried
    this.#first ??= source
    const isFirst = this.#first === source
    const isSame = isAsCarried(part, carried)
    let out = ""
    for (const event of events) {
      if (isFirst && isSame) {
        if (!("id" in this.#id)) this.#identify(event.value)
        out += event.raw
      } else out += this.#continued(part, event)
      // Other fields of the event, such as an id, may stand before its data.
      if (!("choices" in event.value) && /^data: ?\[DONE\]/m.test(event.raw)) this.#isDone = true
    }
    // The text of chunks that were held back, or more than one.
    return out === "" && !isSame && "delta" in part && part.delta !== ""
      ? this.#chunk({ content: part.delta })
      : out
  }

  #identify(value: Fields): void {
    const { id, created, object } = value
    // The first chunk of Azure has an empty id.
    if (typeof id === "string" && id !== "") this.#id = { id, created, object }
  }

  #continued(part: Part, event: Received): string {
    const { value } = event
    const [choice, ...others] = list(value["choices"]).map(fields)
    if (part.type.startsWith("reasoning-") && this.#hasText) return ""
    if (choice === undefined) {
      // `[DONE]`, usage, or nothing that a caller has not seen.
      if (part.type !== "finish") return ""
      return Object.keys(value).length === 0
        ? event.raw
        : this.#written({ ...value, ...usageFor(part.usage, value) })
    }
    const { role: _, ...rest } = fields(choice["delta"])
    const delta = part.type === "text-delta" ? { ...rest, content: part.delta } : rest
    const isEmpty = Object.values(delta).every((field) => field === "" || field === null)
    if (isEmpty && typeof choice["finish_reason"] !== "string") return ""
    const usage = part.type === "finish" ? usageFor(part.usage, value) : {}
    return this.#written({ ...value, choices: [{ ...choice, delta }, ...others], ...usage })
  }

  #chunk(delta: Fields): string {
    return this.#written({ choices: [{ index: 0, delta, finish_reason: null }] })
  }

  #written(value: Fields): string {
    return written({ ...value, ...this.#id })
  }
}

/** An error of OpenAI, in any of its formats. */
export const errorBody = ({ code, message, type }: Problem): Fields => ({
  error: { message, type, param: null, code: code ?? null }
})

/** The usage of all attempts, where the chunk has one. */
const usageFor = ({ inputTokens, outputTokens }: Usage, { usage }: Fields): Fields => {
  if (typeof usage !== "object" || usage === null) return {}
  const given = fields(usage)
  const prompt = inputTokens.total ?? given["prompt_tokens"]
  const completion = outputTokens.total ?? given["completion_tokens"]
  const total =
    typeof prompt === "number" && typeof completion === "number" ? prompt + completion : given["total_tokens"]
  return { usage: { ...given, prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } }
}
