/**
 * The texts of an answer, or its thinking, as the consumer knows them: under which id, and which are open.
 *
 * The end of a block is held until {@link Blocks.takeEnded}, because a later attempt may write on in the block: it then
 * has the id that the consumer knows. A block of its own has an id that no earlier attempt has used.
 */
import { namespace } from "../../conversation/Answered.ts"
import type { EndPart, StartPart } from "./PartKind.ts"

/** What the end of a block says about its signature. */
type Mark = Readonly<Record<string, true>>

/** Thinking that is not whole: it is never sent again. */
export const partial: Mark = { partial: true }

/** A text that more than one attempt wrote: no single signature covers all of it. */
export const continued: Mark = { continued: true }

export class Blocks {
  readonly #kind: "text" | "reasoning"
  /** Of a block that more than one attempt wrote. */
  readonly #shared: Mark
  /** The open blocks in their order, each with its end once that has come. */
  #open = new Map<string, EndPart | undefined>()
  /** Those that were open when the attempt began. */
  #before: ReadonlySet<string> = new Set()
  /** The block that an earlier attempt left open, until the current one writes on in it. */
  #next: string | undefined
  /** Ids of this attempt's blocks as the consumer knows them. */
  #ids = new Map<string, string>()
  #attempt = 0

  constructor(kind: "text" | "reasoning", shared: Mark) {
    this.#kind = kind
    this.#shared = shared
  }

  get isEmpty(): boolean {
    return this.#open.size === 0
  }

  /** True when the end of a block is held, or would come with other content. */
  get holdsEnd(): boolean {
    if (this.#next !== undefined) return true
    for (const end of this.#open.values()) if (end !== undefined) return true
    return false
  }

  /** Starts an attempt, which may write on in the last of the open blocks. */
  begin(): void {
    this.#before = new Set(this.#open.keys())
    this.#next = [...this.#before].at(-1)
    this.#ids = new Map()
    this.#attempt++
    this.undo()
  }

  /** Nothing of the attempt was shown. */
  undo(): void {
    this.#open = new Map([...this.#before].map((id) => [id, undefined]))
  }

  /** The start of a block for the consumer; `undefined` where it goes on with an open one. */
  start<P extends StartPart>(part: P): P | undefined {
    const next = this.#next
    this.#next = undefined
    const id = next ?? (this.#attempt === 1 ? part.id : `${this.#attempt}:${part.id}`)
    this.#ids.set(part.id, id)
    this.#open.set(id, undefined)
    return next === undefined ? { ...part, id } : undefined
  }

  /** The part under the id that the consumer knows. */
  renamed<P extends { readonly id: string }>(part: P): P {
    // The ids of the first attempt stay as they are: nothing to look up for each delta.
    if (this.#attempt === 1) return part
    const id = this.#ids.get(part.id) ?? part.id
    return id === part.id ? part : { ...part, id }
  }

  /** Holds the end of a block. */
  end(part: EndPart): void {
    const end = this.renamed(part)
    this.#open.set(end.id, this.#before.has(end.id) ? this.#marked(end.id, end, this.#shared) : end)
  }

  /** No attempt writes on in the open block. */
  leave(): void {
    if (this.#next !== undefined) this.end({ type: `${this.#kind}-end`, id: this.#next })
    this.#next = undefined
  }

  /** The block was never shown. */
  drop(id: string): void {
    this.#open.delete(id)
  }

  /** Closes the blocks that have ended. */
  takeEnded(): ReadonlyArray<EndPart> {
    const ended: Array<EndPart> = []
    for (const [id, end] of this.#open) {
      if (end === undefined) continue
      ended.push(end)
      this.#open.delete(id)
    }
    return ended
  }

  /** Closes every block, with `mark` in ends that have not come, or in `all`. */
  close(mark?: Mark, all = false): ReadonlyArray<EndPart> {
    const ends = [...this.#open].map(([id, end]) =>
      end !== undefined && !all
        ? end
        : this.#marked(id, end, mark ?? (this.#before.has(id) ? this.#shared : undefined))
    )
    this.#open = new Map()
    this.#before = new Set()
    return ends
  }

  #marked(id: string, end: EndPart | undefined, mark: Mark | undefined): EndPart {
    const bare: EndPart = { type: `${this.#kind}-end`, id }
    return mark === undefined ? bare : { ...bare, ...end, metadata: { ...end?.metadata, [namespace]: mark } }
  }
}
