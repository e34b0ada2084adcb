/**
 * A conversation while it is made to fit, as a value: its places with what they have become, and what is gone. Pure.
 *
 * Its messages are made of the places that stay, in their order, and of one message that stands for those that are
 * gone. Where that would put two messages of the assistant next to each other, the user says that something is missing.
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

/** A cut, and the message that it was cut out of. */
interface PlacedCut extends Cut {
  readonly at: number
  readonly role: "assistant" | "tool"
}

export interface Edit {
  readonly places: ReadonlyArray<Place>
  readonly cuts: ReadonlyArray<PlacedCut>
  /** Places that are gone, by where they were. */
  readonly gone: ReadonlySet<number>
  /** Says what was in them. */
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

/** Each message as `become` makes it, while `wanted` holds. */
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
      // Only these have anything to cut.
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

/** The cuts of both: of a result that was cut before, the new one, which counts what went then, too. */
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

/** No result has more than so many tokens, wherever it stands, but for pinned ones. */
export const capped = (edit: Edit, maxTokens: number, meter: Meter, options: Trim.Options): Edit =>
  changed(
    edit,
    (message, cuts) => capMessage(message, maxTokens, meter, options, cuts),
    ({ kind }) => kind !== "pinned"
  )

/** The message with results of at most so many tokens each. */
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
    const alone = (one: Prompt.ToolMessagePart) => Prompt.makeMessage("tool", { content: [one] })
    const tokens = meter.message(alone(part))
    if (tokens <= maxTokens) return part
    const text = Trim.resultText(part)
    // Its files and frame alone: where they leave no room, it would lose its text in vain, and keeps it.
    const least = meter.message(alone(Trim.withText(part, "")))
    let best = part
    let own: Array<Cut> = []
    // Characters for tokens, and fewer where that was not enough.
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

/** Large results and arguments are cut, oldest first, until so many tokens are saved. */
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

/** What may be left out and is still there. */
export const free = ({ places, gone }: Edit): ReadonlyArray<Place> =>
  places.filter(({ kind, at }) => kind === "free" && !gone.has(at))

/** How many messages these are, and those that summaries among them stand for. */
export const countOf = (places: ReadonlyArray<Place>): number =>
  places
    .flatMap(({ messages }) => messages)
    .reduce((sum, message) => sum + (Marks.summaryOf(message)?.messages ?? 1), 0)

/** Without these places; the text stands for them. */
export const replaced = (edit: Edit, places: ReadonlyArray<Place>, text: string): Edit => ({
  ...edit,
  // What was cut of them is gone as a whole.
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
// What has become of it
// -----------------------------------------------------------------------------

export interface Finishing {
  readonly wording: CompactionWording
  /** The conversation as it was. */
  readonly before: Messages
  readonly bindsThinking: boolean
}

/** The conversation as it is now. */
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

/** It stands for nobody: those that are gone are counted by the summary. */
const gapOf = ({ gap }: CompactionWording): Prompt.UserMessage =>
  Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: gap })], options: Marks.summary(0) })

/** What is no longer there, by places of the conversation before. */
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

/** Thinking of messages that stay, behind the first that did not. */
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
