/**
 * Brings the parts of an answer into the order that every wire can write: one block at a time, none without content, and
 * each call with all of its arguments before it. Pure.
 *
 * Clients of vendors end a text where the stream ends, and may write two calls by turns. What comes while a call is open
 * waits until that is made.
 */
import type { Part, Whole, Writing } from "./Wire.ts"

interface Block {
  readonly kind: "text" | "reasoning"
  /** The block's id at the client, and here. */
  readonly from: string
  readonly id: string
}

export class InOrder {
  readonly #written: Writing["written"]
  #blocks = 0
  #open: Block | undefined
  /** The open call, and whether it has arguments. */
  #call: { readonly id: string; hasArguments: boolean } | undefined
  #waiting: Array<Part> = []

  constructor({ written }: Pick<Writing, "written">) {
    this.#written = written
  }

  push(part: Part): ReadonlyArray<Part> {
    if (isProviders(part)) return []
    if (
      this.#call !== undefined &&
      part.type !== "finish" &&
      !(isOfCall(part) && part.id === this.#call.id)
    ) {
      this.#waiting.push(part)
      return []
    }
    switch (part.type) {
      case "text-delta":
      case "reasoning-delta":
        return part.delta === "" ? [] : this.#said(part)
      case "tool-params-start":
        this.#call = { id: part.id, hasArguments: false }
        return [...this.#close(), part]
      case "tool-params-delta":
        if (part.delta === "" || this.#call === undefined) return []
        this.#call.hasArguments = true
        return [part]
      case "tool-call":
        return this.#made(part)
      case "finish":
        return [...this.#close(), part]
      default:
        // Ends follow from what comes next. Sources and files have no place in an answer of another format.
        return []
    }
  }

  #said(part: Extract<Part, { readonly type: "text-delta" | "reasoning-delta" }>): ReadonlyArray<Part> {
    const kind = part.type === "text-delta" ? "text" : "reasoning"
    const isOpen = this.#open?.kind === kind && this.#open.from === part.id
    const begun: ReadonlyArray<Part> = isOpen ? [] : this.#begin(kind, part.id)
    return [...begun, { ...part, id: this.#open?.id ?? part.id }]
  }

  #begin(kind: Block["kind"], from: string): ReadonlyArray<Part> {
    const ended = this.#close()
    const id = String(this.#blocks++)
    this.#open = { kind, from, id }
    return [...ended, { type: `${kind}-start`, id }]
  }

  #close(): ReadonlyArray<Part> {
    const open = this.#open
    this.#open = undefined
    return open === undefined ? [] : [{ type: `${open.kind}-end`, id: open.id }]
  }

  #made(part: Extract<Part, { readonly type: "tool-call" }>): ReadonlyArray<Part> {
    const { id, name } = part
    const begun: ReadonlyArray<Part> =
      this.#call === undefined ? [...this.#close(), { type: "tool-params-start", id, name }] : []
    const lacks = this.#call?.hasArguments !== true
    const rest: ReadonlyArray<Part> = lacks
      ? [{ type: "tool-params-delta", id, delta: this.#written(part) }]
      : []
    this.#call = undefined
    const waiting = this.#waiting
    this.#waiting = []
    return [
      ...begun,
      ...rest,
      { type: "tool-params-end", id },
      part,
      ...waiting.flatMap((each) => this.push(each))
    ]
  }
}

/** True for a call that the target ran itself. It was not asked for, and the caller has no such tool. */
export const isProviders = (part: Part | Whole): boolean =>
  "providerExecuted" in part && part.providerExecuted === true

const isOfCall = (
  part: Part
): part is Extract<Part, { readonly type: "tool-params-start" | "tool-params-delta" | "tool-call" }> =>
  part.type === "tool-params-start" || part.type === "tool-params-delta" || part.type === "tool-call"
