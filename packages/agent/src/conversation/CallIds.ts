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
import { Hash } from "effect"
import type { Prompt, Response } from "effect/ai"
import { shortened } from "./ToolNames.ts"

/** True for an id that is in use. */
export type IsTaken = (id: string) => boolean

const none: IsTaken = () => false

/** Assigns ids, and remembers the assigned ones. */
export class Ids {
  readonly #legal: RegExp
  readonly #isUnique: boolean
  /** Ids that are in use since. */
  readonly #taken = new Set<string>()
  readonly #isTakenBefore: IsTaken

  /**
   * `legal` is the required format of an id. With `isUnique`, each id may be used only once. `isTaken` returns true for
   * ids that are in use before; default: none.
   */
  constructor(legal: RegExp, isUnique: boolean, isTaken: IsTaken = none) {
    this.#legal = legal
    this.#isUnique = isUnique
    this.#isTakenBefore = isTaken
  }

  /** True for an id that is in use. */
  has(id: string): boolean {
    return this.#taken.has(id) || this.#isTakenBefore(id)
  }

  /** Ids for messages behind these. They change nothing here until they are added. */
  behind(): Ids {
    return new Ids(this.#legal, this.#isUnique, (id) => this.has(id))
  }

  /** Adds the ids of the messages behind these. */
  add(behind: Ids): void {
    for (const id of behind.#taken) this.#taken.add(id)
  }

  /** Returns the id for one more call: the given one, or a new one when it is not legal or already in use. */
  of(id: string): string {
    if (this.#legal.test(id) && id.isWellFormed() && !this.has(id)) {
      if (this.#isUnique) this.#taken.add(id)
      return id
    }
    let fit = this.#replacement(id, 1)
    for (let n = 2; this.has(fit); n++) fit = this.#replacement(id, n)
    this.#taken.add(fit)
    return fit
  }

  #replacement(id: string, n: number): string {
    const usual = `call_${shortened(id, 24, n)}`
    if (this.#legal.test(usual)) return usual
    const short = nine(id, n)
    return this.#legal.test(short) ? short : usual
  }
}

/** Nine letters and digits, as Mistral requires them. */
const nine = (id: string, n: number): string => {
  const half = (salt: string) => (Hash.string(`${salt}${n}:${id}`) >>> 0).toString(36).padStart(7, "0")
  return `${half("")}${half("-")}`.slice(0, 9)
}

/** Rewrites the ids of one answer. Pass the parts in order, whole or streamed. */
export class Answered {
  readonly #isTaken: IsTaken
  #ids: Ids | undefined
  /** Id of the latest call, by the provider's id. Created on first use, because most answers have no calls. */
  #latest: Map<string, string> | undefined
  /** Ids of calls that have begun but are not complete, by the provider's id. */
  #begun: Map<string, Array<string>> | undefined

  /** `isTaken` returns true for the ids of the calls in the conversation that the answer continues. */
  constructor(isTaken: IsTaken) {
    this.#isTaken = isTaken
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
    this.#ids ??= new Ids(/./s, true, this.#isTaken)
    const own = this.#ids.of(id)
    const next = isProviders ? id : own
    this.#latest ??= new Map()
    this.#latest.set(id, next)
    return next
  }
}

/** True for the ids of the calls in these messages, which are read with the first question. */
export const takenIn = (messages: ReadonlyArray<Prompt.Message>): IsTaken => {
  let ids: ReadonlySet<string> | undefined
  return (id) => (ids ??= new Set(messages.flatMap(idsOf))).has(id)
}

/** The ids of all calls in a message. */
export const idsOf = ({ role, content }: Prompt.Message): ReadonlyArray<string> =>
  role === "assistant" ? content.flatMap((part) => (part.type === "tool-call" ? [part.id] : [])) : []
