/**
 * Folds the parts of a stream into the parts of a whole answer: what `generateText` would have given. Pure.
 *
 * - A text or a reasoning block becomes one part, in the place of its start. Its metadata is that of start, deltas and
 *   end; later fields win, because signatures and encrypted reasoning come late.
 * - Tool calls, results, files, sources and the finish stay as they are. Pieces of tool arguments and preliminary
 *   results are dropped: the call and the result themselves follow.
 * - All metadata of the response becomes one part.
 *
 * **What it does not do.** It judges no answer. An `error` part is dropped; the caller looks at it first.
 */
import { Predicate } from "effect"
import type { Schema, Types } from "effect"
import type { Response } from "effect/ai"
import type { BlockPart, StreamPart } from "./PartKind.ts"
import { callsBegun } from "./PartKind.ts"

type Part = Response.PartEncoded
type Block = Types.Mutable<Response.TextPartEncoded | Response.ReasoningPartEncoded>

export class Fold {
  /** The parts of the whole answer so far, in the order in which they began. */
  readonly parts: Array<Part> = []
  /** Blocks without an end so far, by kind and id. */
  readonly #open = new Map<string, Block>()
  #response: Types.Mutable<Response.ResponseMetadataPartEncoded> | undefined
  /** Calls of the program's tools that were begun, without those that were made. */
  #begun = 0

  /** True when a tool call of the program was begun and never made: the answer was cut inside its arguments. */
  get lacksCall(): boolean {
    return this.#begun > 0
  }

  pushAll(parts: ReadonlyArray<StreamPart>): void {
    for (const part of parts) this.push(part)
  }

  push(part: StreamPart): void {
    this.#begun += callsBegun(part)
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
      case "text-delta":
      case "reasoning-delta":
      case "text-end":
      case "reasoning-end":
        return this.#block(part)
      case "response-metadata": {
        if (this.#response === undefined) this.parts.push((this.#response = { ...part }))
        else Object.assign(this.#response, part)
        return
      }
      case "tool-result": {
        if (part.preliminary !== true) this.parts.push(part)
        return
      }
      case "tool-params-start":
      case "tool-params-delta":
      case "tool-params-end":
      case "error":
        return
      default:
        this.parts.push(part)
    }
  }

  #block(part: BlockPart): void {
    const type = part.type.startsWith("text-") ? "text" : "reasoning"
    const key = `${type} ${part.id}`
    const open = part.type.endsWith("-start") ? undefined : this.#open.get(key)
    if (part.type.endsWith("-end")) {
      this.#open.delete(key)
      if (open !== undefined) merge(open, part)
      return
    }
    const block = open ?? this.#begin(type, key)
    if ("delta" in part) block.text += part.delta
    merge(block, part)
  }

  #begin(type: Block["type"], key: string): Block {
    const block: Block = { type, text: "" }
    this.#open.set(key, block)
    this.parts.push(block)
    return block
  }
}

/** The parts of a stream that would give this part of a whole answer. */
export const unfolded = (part: Part, id: string): ReadonlyArray<StreamPart> => {
  // The other parts are the same in streams.
  if (part.type !== "text" && part.type !== "reasoning") return [part]
  const { type, text, ...rest } = part
  return [
    { ...rest, type: `${type}-start`, id },
    { type: `${type}-delta`, id, delta: text },
    { type: `${type}-end`, id }
  ]
}

/** As effect/ai does when it makes a conversation of a stream: namespace by namespace, field by field. */
const merge = (block: Block, { metadata }: StreamPart): void => {
  if (metadata === undefined) return
  const merged: Record<string, Schema.Json> = { ...block.metadata }
  for (const [namespace, fields] of Object.entries(metadata)) {
    const known = merged[namespace]
    merged[namespace] =
      Predicate.isObject(known) && Predicate.isObject(fields)
        ? Object.assign({}, known, fields)
        : (fields ?? null)
  }
  block.metadata = merged
}
