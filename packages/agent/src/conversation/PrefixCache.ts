/**
 * `Portable.adapt` for conversations that go on: a call adapts only the messages that are new since the call before.
 *
 * A cache serves one target. It keeps, for each conversation, what has become of its first messages, and recognises them
 * by identity: a message object never changes. As soon as one differs (a compaction, an edit, another branch), the
 * conversation is adapted from its beginning.
 *
 * **Boundary.** Kept messages end where nothing behind them can change what became of them: behind a tool message, or
 * between an answer and a message of the user. The one exception is a late result of a call that had none, and that
 * result discards what is kept.
 *
 * **Bounds.** An entry lives as long as the first message of its conversation, and there is one for each. Short
 * conversations are not kept.
 */
import type { Prompt as Prompts } from "effect/ai"
import { Prompt } from "effect/ai"
import type { Ids, IsTaken } from "./CallIds.ts"
import * as CallIds from "./CallIds.ts"
import * as Pairs from "./Pairs.ts"
import type { Destination } from "./Parts.ts"
import * as Parts from "./Parts.ts"
import * as Portable from "./Portable.ts"
import type { ToolNames } from "./ToolNames.ts"
import { same } from "./Unchanged.ts"

type Message = Prompts.Message
type Messages = ReadonlyArray<Message>

/** Adapting fewer messages costs less than looking for them. */
const defaultShortest = 16

/** A conversation as it is sent. */
export interface Adapted {
  readonly prompt: Prompts.Prompt
  /** True for the ids of the calls in the program's conversation. */
  readonly isTaken: IsTaken
}

/** The first `length` of the `messages`, as they were adapted. */
interface Entry {
  readonly to: Destination
  messages: Messages
  length: number
  /** `undefined` as long as nothing has changed. */
  out: Array<Message> | undefined
  /** The role of the last message of `out`, before it was finished. */
  last: Message["role"] | undefined
  /** Ids and names of calls at the target. */
  readonly ids: Ids
  /** The calls that have no result yet. */
  open: OpenCalls
  /** The program's call ids, with the place of the first message that has them. */
  readonly calls: Map<string, number>
}

export class PrefixCache {
  readonly #finish: (messages: Messages) => Messages
  /** Keys: the first message that is not the system's. */
  readonly #entries = new WeakMap<Message, Entry>()

  readonly #shortest: number

  /** `finish` is applied to adapted messages, piece by piece. Conversations below `shortest` messages are not kept. */
  constructor(finish: (messages: Messages) => Messages, shortest: number = defaultShortest) {
    this.#finish = finish
    this.#shortest = shortest
  }

  adapt(prompt: Prompts.Prompt, options: Portable.Options): Adapted {
    const messages = prompt.content
    // Refused files change from call to call.
    const isKept = messages.length >= this.#shortest && options.refuses === undefined
    const key = isKept ? messages.find(({ role }) => role !== "system") : undefined
    if (key === undefined) return this.#whole(prompt, options)
    const to = Portable.destinationOf(options)
    let entry = this.#entries.get(key)
    if (entry === undefined || !continues(entry, messages, to)) {
      entry = begun(to, messages)
      this.#entries.set(key, entry)
    }
    this.#advance(entry, messages)
    const ids = entry.ids.behind()
    const { length } = entry
    const rest = messages.slice(length)
    const piece = { begins: length === 0, isWhole: length === 0, ids }
    const fitted = Portable.fit(rest, to, piece)
    // The end of the conversation is among the kept messages.
    if (fitted.length === 0) return this.#whole(prompt, options)
    const tail = this.#finish(Portable.ended(fitted, to, Portable.isPrefilled(prompt)))
    return {
      prompt:
        entry.out === undefined && same(tail, rest)
          ? prompt
          : Prompt.fromMessages((entry.out ?? messages.slice(0, length)).concat(tail)),
      isTaken: takenIn(entry, rest)
    }
  }

  #whole(prompt: Prompts.Prompt, options: Portable.Options): Adapted {
    const { content } = Portable.adapt(prompt, options)
    const finished = this.#finish(content)
    return {
      prompt: finished === prompt.content ? prompt : Prompt.fromMessages(finished),
      isTaken: CallIds.takenIn(prompt.content)
    }
  }

  /** Keeps what becomes of the messages up to the last boundary. */
  #advance(entry: Entry, messages: Messages): void {
    const { length, to } = entry
    const end = lastBoundary(messages, length)
    if (end <= length) return
    const piece = messages.slice(length, end)
    const open = new OpenCalls(entry.open)
    for (const message of piece) open.read(message)
    if (open.hasResultIn(messages, end)) return
    const ids = entry.ids.behind()
    const fitted = Portable.fit(piece, to, { begins: length === 0, isWhole: false, ids })
    const last = fitted.at(-1)?.role
    if (!mayFollow(last, messages[end])) return
    const finished = this.#finish(fitted)
    if (entry.out === undefined && !same(finished, piece)) entry.out = messages.slice(0, length)
    // Not by spreading: a first piece may be longer than a list of arguments.
    if (entry.out !== undefined) for (const message of finished) entry.out.push(message)
    for (let i = length; i < end; i++) {
      const message = messages[i]
      if (message === undefined) continue
      for (const id of CallIds.idsOf(message)) if (!entry.calls.has(id)) entry.calls.set(id, i)
    }
    entry.ids.add(ids)
    entry.open = open
    entry.last = last
    entry.messages = messages
    entry.length = end
  }
}

const begun = (to: Destination, messages: Messages): Entry => ({
  to,
  messages,
  length: 0,
  out: undefined,
  last: undefined,
  ids: Pairs.idsFor(to),
  open: new OpenCalls(),
  calls: new Map()
})

/** True when these messages begin with the kept ones, and nothing behind them changes what has become of those. */
const continues = (
  { to, messages: kept, length, last, open }: Entry,
  messages: Messages,
  now: Destination
): boolean => {
  const isSame =
    to.dialect === now.dialect &&
    to.wording === now.wording &&
    sameNames(to.names, now.names) &&
    to.omitsThinking === now.omitsThinking &&
    to.ref === now.ref
  if (!isSame || messages.length <= length) return false
  for (let i = 0; i < length; i++) if (messages[i] !== kept[i]) return false
  if (length > 0 && !mayFollow(last, messages[length])) return false
  return !open.hasResultIn(messages, length)
}

const sameNames = (a: ToolNames | undefined, b: ToolNames | undefined): boolean => {
  if (a === undefined || b === undefined) return a === b
  if (a.there.size !== b.there.size) return false
  for (const [name, there] of a.there) if (b.there.get(name) !== there) return false
  return true
}

/** The last place behind `from` where {@link mayFollow} is likely; `from` when there is none. */
const lastBoundary = (messages: Messages, from: number): number => {
  for (let i = messages.length - 1; i > from; i--) {
    const role = messages[i]?.role
    const before = messages[i - 1]?.role
    if (before === "tool" ? role !== "tool" : before === "assistant" && role === "user") return i
  }
  return from
}

/**
 * True when `next` never changes the adapted messages before it; `last` is the role of the last one. Nothing is
 * merged with a tool message, and a message of the user that stays is not merged with one of the assistant.
 */
const mayFollow = (last: Message["role"] | undefined, next: Message | undefined): boolean => {
  if (next === undefined || next.role === "tool") return false
  return last === "tool" || (last === "assistant" && Parts.stays(next))
}

const takenIn = ({ calls, length }: Entry, rest: Messages): IsTaken => {
  const inRest = CallIds.takenIn(rest)
  // Later calls of the conversation add to the same map.
  return (id) => (calls.get(id) ?? Infinity) < length || inRest(id)
}

/** The calls whose results may still come, in the program's messages and in the provider's. */
class OpenCalls {
  /** Number of calls without a result, by id. A later message with a call of the same id begins anew. */
  readonly #local: Map<string, number>
  readonly #providers: Set<string>

  constructor(before?: OpenCalls) {
    this.#local = new Map(before === undefined ? [] : before.#local)
    this.#providers = new Set(before === undefined ? [] : before.#providers)
  }

  /** Reads the next message. */
  read(message: Message): void {
    switch (message.role) {
      case "system":
      case "user":
        return this.#providers.clear()
      case "assistant": {
        const calls = message.content.filter(Parts.isLocalCall)
        for (const { id } of calls) this.#local.set(id, 0)
        for (const { id } of calls) this.#local.set(id, (this.#local.get(id) ?? 0) + 1)
        for (const part of message.content) {
          if (part.type === "tool-call" && part.providerExecuted) this.#providers.add(part.id)
          else if (part.type === "tool-result") this.#providers.delete(part.id)
        }
        return
      }
      case "tool":
        for (const part of message.content) {
          if (part.type !== "tool-result") continue
          const left = (this.#local.get(part.id) ?? 0) - 1
          if (left > 0) this.#local.set(part.id, left)
          else this.#local.delete(part.id)
        }
    }
  }

  /** True when the messages from `from` on may have a result of an open call. */
  hasResultIn(messages: Messages, from: number): boolean {
    if (this.#local.size === 0 && this.#providers.size === 0) return false
    for (let i = from; i < messages.length; i++) {
      const message = messages[i]
      if (message?.role !== "tool" && message?.role !== "assistant") continue
      for (const part of message.content) {
        if (part.type !== "tool-result") continue
        if (this.#local.has(part.id) || this.#providers.has(part.id)) return true
      }
    }
    return false
  }
}
