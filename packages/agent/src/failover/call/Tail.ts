/**
 * The parts of an attempt from its first tool call on. They are held back and leave together, in their order: no handler
 * runs for an attempt that failed or was cut, and nothing overtakes a call. Deltas that follow each other become one: 40,000 deltas of
 * a tool call, handed on at once, would block the event loop for more than a second.
 *
 * The arguments of a call are joined across those of other calls, because providers may send them in turn. Texts and
 * thinking are joined only if nothing stands between. A delta with metadata stays as it is.
 */
import type { Types } from "effect"
import type { StreamPart } from "./PartKind.ts"
import { callsBegun, isForProgram } from "./PartKind.ts"

type Joined = Types.Mutable<Extract<StreamPart, { readonly delta: string }>>

export class Tail {
  #all: Array<StreamPart> = []
  /** The delta of each open call that takes further ones, by the id of the call. */
  readonly #calls = new Map<string, Joined>()
  /** The delta of a text or of thinking that takes further ones. */
  #block: Joined | undefined

  get all(): ReadonlyArray<StreamPart> {
    return this.#all
  }

  get isEmpty(): boolean {
    return this.#all.length === 0
  }

  /** There is a call of the program in it. */
  get hasCall(): boolean {
    return this.#all.some(isForProgram)
  }

  /** A call of the program was begun and never made. */
  get lacksCall(): boolean {
    return this.#all.reduce((sum, part) => sum + callsBegun(part), 0) > 0
  }

  clear(): void {
    this.#all = []
    this.#calls.clear()
    this.#block = undefined
  }

  push(part: StreamPart): void {
    if (!("delta" in part) || part.metadata !== undefined) {
      if (part.type.startsWith("tool-params-") && "id" in part) this.#calls.delete(String(part.id))
      this.#block = undefined
      this.#all.push(part)
      return
    }
    const isArguments = part.type === "tool-params-delta"
    const before = isArguments ? this.#calls.get(part.id) : this.#block
    if (before?.type === part.type && before.id === part.id) {
      before.delta += part.delta
      return
    }
    const joined: Joined = { ...part }
    if (isArguments) this.#calls.set(part.id, joined)
    this.#block = isArguments ? undefined : joined
    this.#all.push(joined)
  }
}
