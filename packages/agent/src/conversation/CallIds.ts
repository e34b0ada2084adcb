/**
 * Ids of tool calls, each for one call of a conversation.
 *
 * Some models give one id to two calls of an answer, or count from `call_0` in every turn; some servers leave the id
 * empty. {@link Answered} gives such a call of an answer another id before the program sees it, so that its result
 * belongs to this call and to no other. What an id becomes depends on what stands before it and on nothing else: it is
 * the same in every attempt and every later call, and prompt caches stay good.
 *
 * Calls that the provider runs itself keep their ids, because the provider knows them by these.
 */
import type { Prompt, Response } from "effect/ai"
import { shortened } from "./ToolNames.ts"

/** The ids that are given out so far, and the next one. */
export class Ids {
  readonly #legal: RegExp
  readonly #isUnique: boolean
  /** Ids that a later call must not have. */
  readonly #taken: Set<string>

  /** `legal`: the form that an id must have. `isUnique`: an id that has it stands for one call. */
  constructor(legal: RegExp, isUnique: boolean, taken: ReadonlyArray<string> = []) {
    this.#legal = legal
    this.#isUnique = isUnique
    this.#taken = new Set(taken)
  }

  /** The id of one more call: its own, or another one where that is not legal or not free. */
  of(id: string): string {
    if (this.#legal.test(id) && !this.#taken.has(id)) {
      if (this.#isUnique) this.#taken.add(id)
      return id
    }
    let fit = `call_${shortened(id, 24)}`
    for (let n = 2; this.#taken.has(fit); n++) fit = `call_${shortened(id, 24, n)}`
    this.#taken.add(fit)
    return fit
  }
}

/** The ids of one answer: give it the parts in their order, whole or streamed. */
export class Answered {
  readonly #prompt: Prompt.Prompt
  #ids: Ids | undefined
  /** By the provider's id, that of its latest call. Made with the first call: most answers have none. */
  #latest: Map<string, string> | undefined
  /** By the provider's id, those of calls that have begun and are not made. */
  #begun: Map<string, Array<string>> | undefined

  /** `prompt` is the conversation, as the program has it, that the answer goes on with. */
  constructor(prompt: Prompt.Prompt) {
    this.#prompt = prompt
  }

  /** The part with the id of its call. */
  of<P extends Response.AllPartsEncoded>(part: P): P {
    switch (part.type) {
      case "tool-params-start": {
        const id = this.#next(part.id, part.providerExecuted === true)
        this.#begun ??= new Map()
        const begun = this.#begun.get(part.id)
        if (begun === undefined) this.#begun.set(part.id, [id])
        else begun.push(id)
        return id === part.id ? part : { ...part, id }
      }
      case "tool-call": {
        const id = this.#begun?.get(part.id)?.shift() ?? this.#next(part.id, part.providerExecuted === true)
        return id === part.id ? part : { ...part, id }
      }
      case "tool-params-delta":
      case "tool-params-end":
      case "tool-result": {
        const id = this.#latest?.get(part.id) ?? part.id
        return id === part.id ? part : { ...part, id }
      }
      case "tool-approval-request": {
        const toolCallId = this.#latest?.get(part.toolCallId) ?? part.toolCallId
        return toolCallId === part.toolCallId ? part : { ...part, toolCallId }
      }
      default:
        return part
    }
  }

  #next(id: string, isProviders: boolean): string {
    this.#ids ??= new Ids(/./s, true, idsOf(this.#prompt))
    const own = this.#ids.of(id)
    const next = isProviders ? id : own
    this.#latest ??= new Map()
    this.#latest.set(id, next)
    return next
  }
}

const idsOf = (prompt: Prompt.Prompt): ReadonlyArray<string> =>
  prompt.content.flatMap(({ role, content }) =>
    role === "assistant" ? content.flatMap((part) => (part.type === "tool-call" ? [part.id] : [])) : []
  )
