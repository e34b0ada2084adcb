/**
 * Maps the parts of a prompt to their source in the body, so that untouched parts are written back unchanged.
 *
 * Each part has the number of its source in its options, which are kept when the part is edited. A part that is the
 * same object is untouched. Parts without a source were created by compaction.
 */
import { Predicate } from "effect"
import type { Prompt } from "effect/ai"
import { Broken } from "./JsonCursor.ts"

/** Position inside a message of the body: an index in its content, or a name given by the format. */
export type Key = string | number

interface Source {
  /** Index of the message in the body. */
  readonly at: number
  readonly key: Key
  /** Path for messages to the user. */
  readonly path: string
  readonly part: Prompt.Part
}

/** A part that is kept. */
export interface Kept {
  readonly part: Prompt.Part
  readonly untouched: boolean
}

/** A message of the body to be written. */
export type Run =
  /** A message created by compaction. */
  | { readonly _tag: "Added"; readonly message: Prompt.Message }
  /** A message of the body, or the rest of it. */
  | {
      readonly _tag: "Kept"
      readonly at: number
      /** True when the whole message is unchanged. */
      readonly untouched: boolean
      readonly parts: ReadonlyMap<Key, Kept>
    }

/** Namespace of Outlast in the options, which compaction leaves unchanged. */
const namespace = "outlast"
const field = "source"

/** Options of a part with the number of its source. */
export interface Marked extends Prompt.ProviderOptions {
  readonly [namespace]: { readonly [field]: number }
}

export class Sources {
  readonly #sources: Array<Source> = []
  /** Number of parts in each message of the body. */
  readonly #parts = new Map<number, number>()
  readonly #systems = new Map<Prompt.Message, number>()

  /** Registers a part with its source. `make` gets the options that the part must have. */
  add<P extends Prompt.Part>(at: number, key: Key, path: string, make: (options: Marked) => P): P {
    const part = make({ [namespace]: { [field]: this.#sources.length } })
    this.#sources.push({ at, key, path, part })
    this.#parts.set(at, (this.#parts.get(at) ?? 0) + 1)
    return part
  }

  /** Registers a system message among the other messages. Only registered system messages are written. */
  addSystem(at: number, message: Prompt.SystemMessage): Prompt.SystemMessage {
    this.#systems.set(message, at)
    return message
  }

  #of(part: Prompt.Part): Source | undefined {
    const ours = part.options[namespace]
    const number = Predicate.hasProperty(ours, field) ? ours[field] : undefined
    return typeof number === "number" ? this.#sources[number] : undefined
  }

  /** Returns the index in the body of the message that this one, or its beginning, comes from. */
  indexOf(message: Prompt.Message): number | undefined {
    if (message.role === "system") return this.#systems.get(message)
    const [first]: ReadonlyArray<Prompt.Part> = message.content
    return first === undefined ? undefined : this.#of(first)?.at
  }

  /** Returns the index of the message that its end comes from. One prompt message may combine several. */
  lastIndexOf(message: Prompt.Message): number | undefined {
    return message.role === "system" ? this.#systems.get(message) : this.indicesOf(message, () => true).at(-1)
  }

  /** Returns the indices in the body of all messages whose matching parts are in this one. */
  indicesOf(message: Prompt.Message, such: (part: Prompt.Part) => boolean): ReadonlyArray<number> {
    if (message.role === "system") return []
    const parts: ReadonlyArray<Prompt.Part> = message.content
    return [...new Set(parts.flatMap((part) => (such(part) ? (this.#of(part)?.at ?? []) : [])))]
  }

  pathOf(part: Prompt.Part): string {
    return this.#of(part)?.path ?? ""
  }

  /** Returns the messages of the body for these messages of the prompt. */
  runs(messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Run> {
    const runs: Array<Run> = []
    let open: { at: number; parts: Map<Key, Kept> } | undefined
    const close = () => {
      if (open === undefined) return
      const { at, parts } = open
      const whole = parts.size === this.#parts.get(at)
      runs.push({
        _tag: "Kept",
        at,
        untouched: whole && [...parts.values()].every((kept) => kept.untouched),
        parts
      })
      open = undefined
    }
    for (const message of messages) {
      if (message.role === "system") {
        const at = this.#systems.get(message)
        if (at === undefined) continue
        close()
        runs.push({ _tag: "Kept", at, untouched: true, parts: new Map() })
        continue
      }
      const parts: ReadonlyArray<Prompt.Part> = message.content
      const sources = parts.map((part) => this.#of(part))
      if (sources.some((source) => source === undefined)) {
        close()
        runs.push({ _tag: "Added", message })
        continue
      }
      for (const [i, part] of parts.entries()) {
        const source = sources[i]
        if (source === undefined) continue
        if (open?.at !== source.at) {
          close()
          open = { at: source.at, parts: new Map() }
        }
        open.parts.set(source.key, { part, untouched: part === source.part })
      }
    }
    close()
    return runs
  }

  /**
   * Throws `Broken` for a result without its call, and for a call without its result. Calls in the last assistant
   * message may still be open, because their tools have yet to run.
   */
  checkPairs(messages: ReadonlyArray<Prompt.Message>): void {
    let open = new Map<string, Prompt.Part>()
    for (const message of messages) {
      if (message.role === "tool") {
        for (const part of message.content) {
          if (part.type === "tool-result" && !open.delete(part.id)) {
            throw new Broken({
              path: this.pathOf(part),
              problem: "a result without its call: no open call of the message before has this id"
            })
          }
        }
        continue
      }
      for (const call of open.values()) {
        throw new Broken({
          path: this.pathOf(call),
          problem: "a call without its result: none follows in the next message"
        })
      }
      open = new Map()
      if (message.role !== "assistant") continue
      for (const part of message.content) {
        if (part.type === "tool-call" && !part.providerExecuted) open.set(part.id, part)
      }
    }
  }
}

/** Adds the number of a source to the options. */
export const marked = (options: Prompt.ProviderOptions, mark: Marked): Prompt.ProviderOptions => {
  const ours = options[namespace]
  const before: object = Predicate.isObject(ours) ? ours : {}
  return { ...options, [namespace]: { ...before, ...mark[namespace] } }
}

/** Removes the number of a source from the options, for formats that keep options. */
export const unmarked = (options: Prompt.ProviderOptions): Prompt.ProviderOptions => {
  const { [namespace]: ours, ...others } = options
  if (!Predicate.isObject(ours)) return options
  const { [field]: _source, ...own } = ours as Readonly<Record<string, typeof ours>>
  return Object.keys(own).length === 0 ? others : { ...others, [namespace]: own }
}
