/**
 * Unique ids for the tool calls of a conversation.
 *
 * Some models use one id for two calls of an answer, or count from `call_0` in every turn. Some servers leave the id
 * empty. {@link Answered} gives such a call another id before the program sees it, so that each result belongs to
 * exactly one call. The new id depends only on the messages before it. It is therefore the same in every attempt and
 * every later call, and prompt caches stay valid.
 *
 * Calls that the provider runs itself keep their ids, because the provider refers to them.
 */
import type { Prompt, Response } from "effect/ai"
import { shortened } from "./ToolNames.ts"

/** Assigns ids, and remembers the assigned ones. */
export class Ids {
  readonly #legal: RegExp
  readonly #isUnique: boolean
  /** Ids that are already in use. */
  readonly #taken: Set<string>

  /** `legal` is the required format of an id. With `isUnique`, each id may be used only once. */
  constructor(legal: RegExp, isUnique: boolean, taken: ReadonlyArray<string> = []) {
    this.#legal = legal
    this.#isUnique = isUnique
    this.#taken = new Set(taken)
  }

  /** Returns the id for one more call: the given one, or a new one when it is not legal or already in use. */
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

/** Rewrites the ids of one answer. Pass the parts in order, whole or streamed. */
export class Answered {
  readonly #prompt: Prompt.Prompt
  #ids: Ids | undefined
  /** Id of the latest call, by the provider's id. Created on first use, because most answers have no calls. */
  #latest: Map<string, string> | undefined
  /** Ids of calls that have begun but are not complete, by the provider's id. */
  #begun: Map<string, Array<string>> | undefined

  /** `prompt` is the program's conversation that the answer continues. */
  constructor(prompt: Prompt.Prompt) {
    this.#prompt = prompt
  }

  /** Returns the part with the id of its call. */
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
