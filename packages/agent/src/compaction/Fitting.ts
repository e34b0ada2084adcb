/**
 * One compaction: tries the tiers in order, cheapest first, until the conversation is as small as the policy wants.
 *
 * When no tier reaches that size, the cheapest result under the limit is used, unless a later tier freed much more.
 * When none is under the limit, it fails and names the parts that cannot be cut. `plain` loses most and runs only
 * when no earlier tier has a lasting effect. Each tier starts from the original conversation (with oversized results
 * already capped), so a failed tier loses nothing. There are no side effects before the end: an interrupted
 * compaction leaves no trace.
 */
import { Effect, Equal } from "effect"
import type { Tool } from "effect/ai"
import { Prompt } from "effect/ai"
import * as Bones from "./Bones.ts"
import { CannotFit } from "./CompactionError.ts"
import type { CompactionPolicy, Tier } from "./CompactionPolicy.ts"
import * as Edit from "./Edit.ts"
import * as Identifiers from "./Identifiers.ts"
import * as Layout from "./Layout.ts"
import type { Place } from "./Layout.ts"
import type { RecallStore } from "./RecallStore.ts"
import type { Report, Tried, Uncuttable } from "./Report.ts"
import type { Spent, Summariser, SummaryFailed } from "./Summariser.ts"
import type { Meter } from "./TokenCounter.ts"
import type { Cut } from "./Trim.ts"
import * as Units from "./Units.ts"
import type { Sizes } from "./Window.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** A summary that was made in the background. */
export interface Prepared {
  /** The messages that it replaces. */
  readonly covers: ReadonlyArray<Prompt.Message>
  readonly text: string
}

export interface Task {
  readonly prompt: Prompt.Prompt
  readonly policy: CompactionPolicy
  readonly meter: Meter
  readonly sizes: Sizes
  readonly pinned: ((message: Prompt.Message) => boolean) | undefined
  readonly required: ReadonlyArray<string>
  readonly bindsThinking: boolean
  /** True when the window was full again soon after the last compaction. */
  readonly refilled: boolean
  readonly summariser: Summariser | undefined
  readonly prepared: Prepared | undefined
  readonly store: RecallStore | undefined
}

export interface Fitted {
  /** The fitting prompt. The same object when nothing had to change. */
  readonly prompt: Prompt.Prompt
  readonly report: Report
}

export const nothingSpent: Spent = { calls: 0, tokens: 0, costUsd: undefined }

/** Tokens of a whole request: messages and tools. */
export const tokensOf = (
  messages: ReadonlyArray<Prompt.Message>,
  tools: ReadonlyArray<Tool.Any>,
  meter: Meter
): number => Layout.tokensOf(messages, meter) + meter.tools(tools)

/** The places of a conversation that the tiers work on. */
export const placesOf = (
  prompt: Prompt.Prompt,
  { policy, meter, sizes, pinned }: Pick<Task, "policy" | "meter" | "sizes" | "pinned">
): ReadonlyArray<Place> =>
  Layout.of(Units.of(prompt.content), {
    tail: policy.tail,
    maxTail: Math.floor(sizes.downTo / 2),
    pinned,
    meter
  })

// -----------------------------------------------------------------------------
// Run
// -----------------------------------------------------------------------------

/** Result of one tier. */
interface Candidate {
  readonly tier: Tier
  readonly edit: Edit.Edit
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly tokens: number
}

/** Compacts a conversation that is too long. */
export const run = (task: Task): Effect.Effect<Fitted, CannotFit> =>
  Effect.gen(function* () {
    const { prompt, policy, meter, sizes } = task
    const before = Layout.tokensOf(prompt.content, meter) + sizes.fixed
    const places = placesOf(prompt, task)
    const tried: Array<Tried> = []
    let edit = Edit.begin(places)
    let best: Candidate | undefined
    let hasSummarised = false

    for (const tier of policy.tiers) {
      // A summary of everything was too large, so a summary of half of it cannot help.
      if (tier === "half" && hasSummarised) continue
      if (tier === "plain" && best !== undefined && lasts(best, before, task)) continue
      const attempted = yield* Effect.result(attempt(tier, edit, places, task))
      if (attempted._tag === "Failure") {
        tried.push({ tier, outcome: "failed", why: attempted.failure.why })
        continue
      }
      const messages = Edit.messages(attempted.success, finishing(task))
      const tokens = Layout.tokensOf(messages, meter) + sizes.fixed
      if (tier === "cap") edit = attempted.success
      if (tier === "chunks") hasSummarised = tokens < before
      const enough = tokens <= sizes.downTo && tokens < before
      tried.push({ tier, outcome: enough ? "enough" : "too_little", tokens: scaled(tokens, sizes) })
      const made = { tier, edit: attempted.success, messages, tokens }
      if (enough || (tokens < before && isBetter(made, best, task))) best = made
      if (enough) break
    }
    if (best === undefined || best.tokens > sizes.limit) {
      return yield* cannotFit(task, places, { before, smallest: best?.tokens ?? before, tried })
    }
    return yield* finished(best, before, tried, task)
  })

/** True when the result is under the limit and is likely to stay there: no poor gain, and no recent refill. */
const lasts = ({ tokens }: Candidate, before: number, { policy, sizes, refilled }: Task): boolean =>
  !refilled && tokens <= sizes.limit && before - tokens >= policy.thrash.poorGain * sizes.limit

/**
 * True when this result is the better one. A later tier loses more, so it must free much more than one that is
 * already under the limit.
 */
const isBetter = ({ tokens }: Candidate, best: Candidate | undefined, { policy, sizes }: Task): boolean => {
  if (best === undefined) return true
  const least = best.tokens > sizes.limit ? 0 : policy.thrash.poorGain * sizes.limit
  return best.tokens - tokens > least
}

const finishing = ({ policy, prompt, bindsThinking }: Task): Edit.Finishing => ({
  wording: policy.wording,
  before: prompt.content,
  bindsThinking
})

const scaled = (tokens: number, { scale }: Sizes): number => Math.ceil(tokens * scale)

/** The reason why a tier was skipped: nothing to cut, or no summariser. */
interface Skipped {
  readonly why: string
}

const attempt = (
  tier: Tier,
  edit: Edit.Edit,
  places: ReadonlyArray<Place>,
  task: Task
): Effect.Effect<Edit.Edit, SummaryFailed | Skipped> => {
  const { policy, meter, sizes, store } = task
  const trim = { wording: policy.wording, stored: store !== undefined }
  const strip = (edit: Edit.Edit): Edit.Edit => {
    const over = overOf(edit, task)
    return over > 0 ? Edit.stripped(edit, over, policy.large, meter, trim) : edit
  }
  /** Strips what is left after a summary, when `strip` is part of the policy. */
  const stripped = (edit: Edit.Edit): Edit.Edit => (policy.tiers.includes("strip") ? strip(edit) : edit)
  const replaced = ({ gone, text }: Summarised): Edit.Edit => stripped(Edit.replaced(edit, gone, text))
  switch (tier) {
    case "cap":
      return Effect.succeed(
        together(Edit.capped(edit, Math.floor(policy.maxResult * sizes.window), meter, trim), task)
      )
    case "strip":
      return Effect.succeed(strip(edit))
    case "plain":
      return Edit.free(edit).length === 0
        ? Effect.fail({ why: nothingFree })
        : Effect.sync(() => stripped(plain(edit, task)))
    case "half":
      return Effect.map(summarised(oldest(Edit.free(edit), meter), "one", edit, task), replaced)
    case "chunks":
      return Effect.gen(function* () {
        const made = ready(edit, places, task)
        if (made !== undefined) {
          const after = replaced(made)
          if (overOf(after, task) <= 0) return after
        }
        return replaced(yield* summarised(Edit.free(edit), "chunks", edit, task))
      })
  }
}

/** Caps the results of the protected end together, when it alone is larger than the limit. */
const together = (edit: Edit.Edit, { policy, meter, sizes, store }: Task): Edit.Edit => {
  const [, kept] = Layout.split(edit.places)
  if (Layout.tokensOf(kept, meter) + sizes.fixed <= sizes.limit) return edit
  const trim = { wording: policy.wording, stored: store !== undefined }
  const small = Edit.cappedTogether(edit, sizes.downTo - sizes.fixed, meter, trim)
  return small === edit ? Edit.cappedTogether(edit, sizes.limit - sizes.fixed, meter, trim) : small
}

/** Tokens above `downTo`. Negative when there is room. */
const overOf = (edit: Edit.Edit, task: Task): number => {
  const { meter, sizes } = task
  return Layout.tokensOf(Edit.messages(edit, finishing(task)), meter) + sizes.fixed - sizes.downTo
}

/** Replaces unprotected places with a few lines: all of them, or all except the newest ones that fit. */
const plain = (edit: Edit.Edit, task: Task): Edit.Edit => {
  const { policy, meter } = task
  const free = Edit.free(edit)
  const room = roomBeside(free, edit, task)
  // Quoted requests and an earlier summary only use free room. Two characters per token is a cautious estimate.
  const characters = 2 * Math.max(0, room)
  const rules = {
    ...policy.plain,
    requests: Math.min(policy.plain.requests, Math.floor(characters / Math.max(1, policy.plain.characters))),
    earlier: Math.min(policy.plain.earlier, characters)
  }
  const without = (gone: ReadonlyArray<Place>): Edit.Edit => {
    const required = requiredOf(gone, edit, task)
    const bones = Bones.of(messagesOf(gone), required, rules)
    return Edit.replaced(edit, gone, policy.wording.plain({ messages: Edit.countOf(gone), bones }))
  }
  const filled = (room: number): Edit.Edit => {
    const gone = allBut(room, free, meter)
    const after = without(gone)
    // The length of the lines is known only now. Keep fewer of the newest places to make room for them.
    const over = gone.length === free.length ? 0 : overOf(after, task)
    return over <= 0 ? after : filled(Layout.tokensOf(messagesOf(free.slice(gone.length)), meter) - over)
  }
  return filled(policy.plain.fill ? room : 0)
}

const nothingFree = "nothing is left that may be cut"

const messagesOf = (places: ReadonlyArray<Place>): ReadonlyArray<Prompt.Message> =>
  places.flatMap(({ messages }) => messages)

/** The places to remove: all except the newest ones that fit into `room`. Always includes the oldest. */
const allBut = (room: number, places: ReadonlyArray<Place>, meter: Meter): ReadonlyArray<Place> => {
  let left = room
  let end = places.length
  for (; end > 1; end--) {
    left -= Layout.tokensOf(places[end - 1]?.messages ?? [], meter)
    if (left < 0) break
  }
  return places.slice(0, end)
}

/** The oldest half of the places, by tokens. */
const oldest = (places: ReadonlyArray<Place>, meter: Meter): ReadonlyArray<Place> => {
  const sizes = places.map(({ messages }) => Layout.tokensOf(messages, meter))
  const half = sizes.reduce((sum, size) => sum + size, 0) / 2
  let sum = 0
  const end = sizes.findIndex((size) => (sum += size) >= half)
  return places.slice(0, end + 1)
}

const requiredOf = (
  gone: ReadonlyArray<Place>,
  edit: Edit.Edit,
  { required }: Task
): ReadonlyArray<string> => {
  if (required.length === 0) return []
  return Identifiers.atRisk(required, messagesOf(gone), messagesOf(without(edit, gone)))
}

const without = ({ places }: Edit.Edit, gone: ReadonlyArray<Place>): ReadonlyArray<Place> => {
  const all = new Set(gone)
  return places.filter((place) => !all.has(place))
}

/** Free tokens up to `downTo` when the places `gone` are removed. */
const roomBeside = (gone: ReadonlyArray<Place>, edit: Edit.Edit, { sizes, meter }: Task): number =>
  sizes.downTo - sizes.fixed - Layout.tokensOf(messagesOf(without(edit, gone)), meter)

interface Summarised {
  readonly gone: ReadonlyArray<Place>
  readonly text: string
}

const summarised = (
  gone: ReadonlyArray<Place>,
  how: "one" | "chunks",
  edit: Edit.Edit,
  task: Task
): Effect.Effect<Summarised, SummaryFailed | Skipped> =>
  Effect.suspend(() => {
    const { policy, summariser, prompt } = task
    if (summariser === undefined) return Effect.fail<Skipped>({ why: "there is no summariser" })
    if (gone.length === 0) return Effect.fail<Skipped>({ why: nothingFree })
    const said = prompt.content.filter(({ role }) => role !== "system").length
    if (said < policy.minMessages) {
      return Effect.fail<Skipped>({ why: `the conversation has fewer than ${policy.minMessages} messages` })
    }
    return Effect.map(
      summariser.summary({
        messages: messagesOf(gone),
        required: requiredOf(gone, edit, task),
        // A summary without room misses `downTo`, but may still be under the limit.
        maxTokens: Math.max(leastSummary, roomBeside(gone, edit, task)),
        in: how
      }),
      (text) => ({ gone, text: policy.wording.summary({ messages: Edit.countOf(gone), text }) })
    )
  })

/** Smallest token limit that a summary is given. */
const leastSummary = 512

/** The prepared summary, if it covers a prefix of the places to remove and has all required identifiers. */
const ready = (edit: Edit.Edit, places: ReadonlyArray<Place>, task: Task): Summarised | undefined => {
  const { prepared, policy } = task
  if (prepared === undefined) return undefined
  const gone: Array<Place> = []
  let covered = 0
  for (const [i, original] of places.entries()) {
    if (original.kind !== "free" || covered === prepared.covers.length) continue
    if (original.messages.some((message, n) => !isSame(message, prepared.covers[covered + n])))
      return undefined
    covered += original.messages.length
    // Places keep their order when their messages change.
    const now = edit.places[i]
    if (now !== undefined) gone.push(now)
  }
  if (covered === 0 || covered < prepared.covers.length) return undefined
  if (Identifiers.missing(requiredOf(gone, edit, task), prepared.text).length > 0) return undefined
  return { gone, text: policy.wording.summary({ messages: Edit.countOf(gone), text: prepared.text }) }
}

/**
 * Compares messages by value: a conversation that was stored and read again is the same one. The same object is the
 * usual case and costs nothing.
 */
const isSame = (a: Prompt.Message, b: Prompt.Message | undefined): boolean => a === b || Equal.equals(a, b)

// -----------------------------------------------------------------------------
// Result
// -----------------------------------------------------------------------------

const finished = (
  { tier, edit, messages, tokens }: Candidate,
  before: number,
  tried: ReadonlyArray<Tried>,
  task: Task
): Effect.Effect<Fitted> =>
  Effect.gen(function* () {
    const { sizes, store, summariser } = task
    yield* keep(store, edit.cuts)
    return {
      prompt: Prompt.fromMessages(messages),
      report: {
        tier,
        tokensBefore: scaled(before, sizes),
        tokensAfter: scaled(tokens, sizes),
        window: sizes.bounds.window,
        limit: sizes.bounds.limit,
        downTo: sizes.bounds.downTo,
        arithmetic: sizes.bounds.arithmetic,
        dropped: Edit.droppedOf(edit, finishing(task)),
        tried,
        summaries: summariser?.spent ?? nothingSpent
      }
    }
  })

/** Stores the texts that were cut. */
export const keep = (store: RecallStore | undefined, cuts: ReadonlyArray<Cut>): Effect.Effect<void> =>
  Effect.forEach(
    cuts,
    ({ recall, text }) =>
      store === undefined || recall === undefined || text === undefined
        ? Effect.void
        : store.put(recall, text),
    { discard: true }
  )

const cannotFit = (
  { sizes, meter }: Task,
  places: ReadonlyArray<Place>,
  found: { readonly before: number; readonly smallest: number; readonly tried: ReadonlyArray<Tried> }
): CannotFit => {
  const kept = new Map<Uncuttable["what"], number>(sizes.fixed === 0 ? [] : [["tools", sizes.fixed]])
  for (const { kind, messages } of places) {
    if (kind !== "free") kept.set(kind, (kept.get(kind) ?? 0) + Layout.tokensOf(messages, meter))
  }
  return new CannotFit({
    window: sizes.bounds.window,
    limit: sizes.bounds.limit,
    arithmetic: sizes.bounds.arithmetic,
    tokens: scaled(found.before, sizes),
    smallest: scaled(found.smallest, sizes),
    uncuttable: [...kept]
      .map(([what, tokens]) => ({ what, tokens: scaled(tokens, sizes) }))
      .sort((a, b) => b.tokens - a.tokens),
    tried: found.tried
  })
}
