/**
 * Drops tool calls of the program that come again in one answer, with the same id, name and arguments. Pure.
 *
 * Some servers use one id for different calls, so an id says little. In a stream, a call with the id of an earlier one
 * is held while its pieces equal that call. All of them are dropped if it ends equal, and pass at the first difference.
 *
 * **Limits.** Calls that the provider runs itself, and calls with an empty id, always pass.
 */
import type * as Spec from "./Spec.ts"

interface Held<P> {
  readonly name: string
  readonly parts: Array<P>
  /** Earlier calls that this one equals so far. */
  equal: ReadonlyArray<string>
  /** Number of characters that are equal. */
  length: number
}

export class RepeatedCalls<P extends Spec.Content | Spec.StreamPart> {
  readonly #onDrop: () => void
  /** Complete calls as text, by id. */
  readonly #made = new Map<string, Array<string>>()
  /** Names of calls whose beginning passed and that are not complete, by id. */
  readonly #open = new Map<string, string>()
  readonly #held = new Map<string, Held<P>>()

  /** `onDrop` is called for each dropped call and each dropped beginning. */
  constructor(onDrop: () => void) {
    this.#onDrop = onDrop
  }

  /** True after a complete call of the program. */
  get hasCalls(): boolean {
    return this.#made.size > 0
  }

  /** Returns the parts that pass with this one, in order. */
  of(part: P): ReadonlyArray<P> {
    switch (part.type) {
      case "tool-input-start": {
        const { id, toolName, providerExecuted } = part
        return providerExecuted === true || id === "" ? [part] : this.#start(part, id, toolName)
      }
      case "tool-input-delta":
        return this.#piece(part, part.id, part.delta)
      case "tool-input-end":
        return this.#piece(part, part.id, "")
      case "tool-call": {
        const { toolCallId, toolName, input, providerExecuted } = part
        return providerExecuted === true ? [part] : this.#call(part, toolCallId, `${toolName} ${input}`)
      }
      default:
        return [part]
    }
  }

  /** Returns the held parts at the end of the answer: calls that are cut before their end. */
  rest(): ReadonlyArray<P> {
    return [...this.#held.keys()].flatMap((id) => this.#release(id))
  }

  #start(part: P, id: string, name: string): ReadonlyArray<P> {
    const before = this.#release(id)
    // A call that is not complete is announced again.
    if (this.#open.get(id) === name) {
      this.#onDrop()
      return before
    }
    this.#held.set(id, { name, parts: [], equal: this.#made.get(id) ?? [], length: 0 })
    return [...before, ...this.#piece(part, id, `${name} `)]
  }

  #piece(part: P, id: string, text: string): ReadonlyArray<P> {
    const held = this.#held.get(id)
    if (held === undefined) return [part]
    held.parts.push(part)
    held.equal = held.equal.filter((call) => call.startsWith(text, held.length))
    held.length += text.length
    return held.equal.length > 0 ? [] : this.#release(id)
  }

  #call(part: P, id: string, call: string): ReadonlyArray<P> {
    const made = this.#made.get(id) ?? []
    if (id !== "" && !this.#open.has(id) && made.includes(call)) {
      this.#held.delete(id)
      this.#onDrop()
      return []
    }
    const before = this.#release(id)
    this.#open.delete(id)
    this.#made.set(id, [...made, call])
    return [...before, part]
  }

  #release(id: string): ReadonlyArray<P> {
    const held = this.#held.get(id)
    if (held === undefined) return []
    this.#held.delete(id)
    this.#open.set(id, held.name)
    return held.parts
  }
}
