/**
 * An immutable draft of a conversation during compaction: its places with their current messages, and the removed
 * ones. Pure.
 *
 * The result consists of the remaining places in order, plus one message that summarises the removed ones. Where two
 * assistant messages would become adjacent, a user message says that something is missing.
 */
import { Prompt } from "effect/ai"
import * as BoundThinking from "./BoundThinking.ts"
import type { CompactionWording } from "./CompactionWording.ts"
import type { Place } from "./Layout.ts"
import { tokensOf } from "./Layout.ts"
import * as Marks from "./Marks.ts"
import type { Dropped } from "./Report.ts"
import type { Meter } from "./TokenCounter.ts"
import * as Trim from "./Trim.ts"
import type { Cut } from "./Trim.ts"

type Messages = ReadonlyArray<Prompt.Message>

/** A cut and the message it was made in. */
interface PlacedCut extends Cut {
  readonly at: number
  readonly role: "assistant" | "tool"
}

export interface Edit {
  readonly places: ReadonlyArray<Place>
  readonly cuts: ReadonlyArray<PlacedCut>
  /** Start indexes of the removed places. */
  readonly gone: ReadonlySet<number>
  /** The message that summarises the removed places. */
  readonly summary: Prompt.UserMessage | undefined
}

export const begin = (places: ReadonlyArray<Place>): Edit => ({
  places,
  cuts: [],
  gone: new Set(),
  summary: undefined
})

// -----------------------------------------------------------------------------
// Cutting
// -----------------------------------------------------------------------------

/** Applies `become` to each message of the places that `wanted` selects. */
const changed = (
  edit: Edit,
  become: (message: Prompt.Message, cuts: Array<Cut>) => Prompt.Message,
  wanted: (place: Place) => boolean,
  done: (before: Place, after: Place) => void = () => {}
): Edit => {
  const all: Array<PlacedCut> = []
  let touched = false
  const places = edit.places.map((place) => {
    if (edit.gone.has(place.at) || !wanted(place)) return place
    let differs = false
    const messages = place.messages.map((message, i) => {
      const cuts: Array<Cut> = []
      const after = become(message, cuts)
      // Only messages of these two roles contain anything to cut.
      const role = message.role === "assistant" ? "assistant" : "tool"
      for (const cut of cuts) all.push({ ...cut, at: place.at + i, role })
      differs ||= after !== message
      return after
    })
    if (!differs) return place
    touched = true
    const after = { ...place, messages }
    done(place, after)
    return after
  })
  return touched ? { ...edit, places, cuts: together(edit.cuts, all) } : edit
}

/**
 * Merges two lists of cuts. When a result was cut twice, the new cut replaces the old one: it counts the characters
 * of both.
 */
const together = (
  before: ReadonlyArray<PlacedCut>,
  after: ReadonlyArray<PlacedCut>
): ReadonlyArray<PlacedCut> => {
  if (before.length === 0) return after
  const keyOf = ({ what, at, call }: PlacedCut): string => `${what} ${at} ${call}`
  const again = new Set(after.filter(({ what }) => what === "result").map(keyOf))
  const whole = new Map(before.map((cut) => [keyOf(cut), cut.text]))
  return [
    ...before.filter((cut) => !again.has(keyOf(cut))),
    ...after.map((cut) => ({ ...cut, text: cut.text ?? whole.get(keyOf(cut)) }))
  ]
}

/** Caps every result at `maxTokens`, anywhere in the conversation, except in pinned messages. */
export const capped = (edit: Edit, maxTokens: number, meter: Meter, options: Trim.Options): Edit =>
  changed(
    edit,
    (message, cuts) => capMessage(message, maxTokens, meter, options, cuts),
    ({ kind }) => kind !== "pinned"
  )

/**
 * Caps the results of the protected places together, so that these places have at most `maxTokens`: the largest
 * results first, down to one common size. Returns the same edit when the places fit, or when no readable size does.
 */
export const cappedTogether = (edit: Edit, maxTokens: number, meter: Meter, options: Trim.Options): Edit => {
  const kept = edit.places.filter(({ kind }) => kind !== "free")
  const results = kept.flatMap(({ kind, messages }) =>
    kind === "pinned" ? [] : messages.flatMap((message) => resultTokens(message, meter))
  )
  const over =
    tokensOf(
      kept.flatMap(({ messages }) => messages),
      meter
    ) - maxTokens
  if (over <= 0) return edit
  const level = levelOf(results, results.reduce((sum, tokens) => sum + tokens, 0) - over)
  return level < leastResult
    ? edit
    : changed(
        edit,
        (message, cuts) => capMessage(message, level, meter, options, cuts),
        ({ kind }) => kind !== "pinned" && kind !== "free"
      )
}

/** Smallest size of a result that is cut for the sake of others, in tokens: still a few sentences. */
const leastResult = 50

/** Tokens of each result in a message that may be cut. */
const resultTokens = (message: Prompt.Message, meter: Meter): ReadonlyArray<number> =>
  message.role !== "tool"
    ? []
    : message.content.flatMap((part) =>
        part.type === "tool-result" && !Marks.isSigned(part) ? [meter.message(alone(part))] : []
      )

/** The size at which sizes, each capped there, have at most this sum. Infinity when none must be cut. */
const levelOf = (sizes: ReadonlyArray<number>, sum: number): number => {
  let left = sum
  const sorted = sizes.toSorted((a, b) => a - b)
  for (const [i, size] of sorted.entries()) {
    const share = left / (sorted.length - i)
    if (size > share) return Math.floor(share)
    left -= size
  }
  return Infinity
}

/** For each message the size of a result at which the results of its turn together have at most `sum` tokens. */
export const turnLevels = (messages: Messages, sum: number, meter: Meter): ReadonlyArray<number> => {
  const levels: Array<number> = []
  while (levels.length < messages.length) {
    const from = levels.length
    let end = from + 1
    if (messages[from]?.role === "tool") while (messages[end]?.role === "tool") end++
    const sizes = messages.slice(from, end).flatMap((message) => resultTokens(message, meter))
    const level = Math.max(leastResult, levelOf(sizes, sum))
    while (levels.length < end) levels.push(level)
  }
  return levels
}

const alone = (one: Prompt.ToolMessagePart) => Prompt.makeMessage("tool", { content: [one] })

/** Caps each result of the message at `maxTokens`. */
export const capMessage = (
  message: Prompt.Message,
  maxTokens: number,
  meter: Meter,
  options: Trim.Options,
  cuts: Array<Cut>
): Prompt.Message => {
  if (message.role !== "tool" || meter.message(message) <= maxTokens) return message
  const content = message.content.map((part) => {
    if (part.type !== "tool-result") return part
    const tokens = meter.message(alone(part))
    if (tokens <= maxTokens) return part
    const text = Trim.resultText(part)
    // Files and frame without text. When they leave no room, cutting the text would not help, so it stays.
    const least = meter.message(alone(Trim.withText(part, "")))
    let best = part
    let own: Array<Cut> = []
    // Start from a proportional estimate and shrink until the result fits.
    let characters = Math.floor((text.length * (maxTokens - least)) / (tokens - least))
    for (; characters > 0; characters = Math.floor(characters * 0.95)) {
      const cuts: Array<Cut> = []
      const cut = Trim.cap(alone(part), characters, options, cuts)
      const [first] = cut.role === "tool" ? cut.content : []
      if (first?.type !== "tool-result" || first === part) break
      best = first
      own = cuts
      if (meter.message(cut) <= maxTokens) break
    }
    cuts.push(...own)
    return best
  })
  return content.every((part, i) => part === message.content[i]) ? message : { ...message, content }
}

/** Cuts large results and arguments, oldest first, until `save` tokens are freed. */
export const stripped = (
  edit: Edit,
  save: number,
  large: number,
  meter: Meter,
  options: Trim.Options
): Edit => {
  let saved = 0
  return changed(
    edit,
    (message, cuts) => Trim.strip(message, large, options, cuts),
    ({ kind }) => kind === "free" && saved < save,
    (before, after) => {
      saved += tokensOf(before.messages, meter) - tokensOf(after.messages, meter)
    }
  )
}

// -----------------------------------------------------------------------------
// Leaving out
// -----------------------------------------------------------------------------

/** Places that may be removed and are still there. */
export const free = ({ places, gone }: Edit): ReadonlyArray<Place> =>
  places.filter(({ kind, at }) => kind === "free" && !gone.has(at))

/** Number of messages in these places, including those that earlier summaries among them replaced. */
export const countOf = (places: ReadonlyArray<Place>): number =>
  places
    .flatMap(({ messages }) => messages)
    .reduce((sum, message) => sum + (Marks.summaryOf(message)?.messages ?? 1), 0)

/** Replaces the places with a summary. */
export const replaced = (edit: Edit, places: ReadonlyArray<Place>, text: string): Edit => ({
  ...edit,
  // Cuts inside a removed place no longer matter.
  cuts: edit.cuts.filter(({ at }) => !places.some((place) => covers(place, at))),
  gone: new Set([...edit.gone, ...places.map(({ at }) => at)]),
  summary: Prompt.makeMessage("user", {
    content: [Prompt.makePart("text", { text })],
    options: Marks.summary(countOf(places))
  })
})

const covers = ({ at, messages }: Place, index: number): boolean =>
  index >= at && index < at + messages.length

// -----------------------------------------------------------------------------
// Result
// -----------------------------------------------------------------------------

export interface Finishing {
  readonly wording: CompactionWording
  /** The original conversation. */
  readonly before: Messages
  readonly bindsThinking: boolean
}

/** The resulting conversation. */
export const messages = ({ places, gone, summary }: Edit, finishing: Finishing): Messages => {
  const out: Array<Prompt.Message> = []
  let said = false
  let open = false
  for (const place of places) {
    if (gone.has(place.at)) {
      if (!said && summary !== undefined) out.push(summary)
      open = said
      said = true
      continue
    }
    if (open && out.at(-1)?.role === "assistant" && place.messages[0]?.role === "assistant") {
      out.push(gapOf(finishing.wording))
    }
    open = false
    out.push(...place.messages)
  }
  return finishing.bindsThinking ? BoundThinking.drop(out, finishing.before) : out
}

/** Summarises no messages (0): the removed ones are counted by the summary. */
const gapOf = ({ gap }: CompactionWording): Prompt.UserMessage =>
  Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: gap })], options: Marks.summary(0) })

/** Lists what was removed, by indexes of the original conversation. */
export const droppedOf = (edit: Edit, finishing: Finishing): ReadonlyArray<Dropped> => {
  const cuts = edit.cuts.map(({ what, at, role, tool, call, characters, recall }): Dropped => ({
    what,
    at,
    role,
    tool,
    call,
    characters,
    ...(recall === undefined ? {} : { recall })
  }))
  const gone = edit.places
    .filter(({ at }) => edit.gone.has(at))
    .flatMap(({ at, messages }) =>
      messages.map(({ role }, i): Dropped => ({ what: "message", at: at + i, role }))
    )
  return [...gone, ...cuts, ...(finishing.bindsThinking ? lostThinking(edit) : [])].sort(
    (a, b) => a.at - b.at
  )
}

/** Thinking in remaining messages after the first edited or removed message. */
const lostThinking = (edit: Edit): ReadonlyArray<Dropped> => {
  const places = [...edit.gone, ...edit.cuts.map(({ at }) => at)]
  const firstCut = places.reduce((least, at) => Math.min(least, at), Infinity)
  return edit.places
    .filter(({ at }) => !edit.gone.has(at))
    .flatMap(({ at, messages }) =>
      messages.flatMap((message, i): ReadonlyArray<Dropped> =>
        at + i >= firstCut &&
        message.role === "assistant" &&
        message.content.some(({ type }) => type === "reasoning")
          ? [{ what: "thinking", at: at + i, role: "assistant" }]
          : []
      )
    )
}
