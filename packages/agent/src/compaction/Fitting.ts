/**
 * One compaction: tier after tier, the cheapest first, until the conversation is as small as the policy wants it.
 *
 * Where no tier reaches that, a result under the limit is taken, the cheapest but for those that free a good deal more;
 * where none is under the limit it fails with what cannot be cut. `plain`, which loses most, has its turn only where
 * nothing before it lasts. Each tier works on the conversation as it was (but for results that are too large for the
 * window), so that the failure of one loses nothing. It changes nothing that others see: what is interrupted has not
 * happened.
 */
import { Effect } from "effect"
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

/** A summary that was made before it was needed. */
export interface Prepared {
  /** The messages that it stands for. */
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
  /** The window was full again soon after the last compaction. */
  readonly refilled: boolean
  readonly summariser: Summariser | undefined
  readonly prepared: Prepared | undefined
  readonly store: RecallStore | undefined
}

export interface Fitted {
  /** The same object where there was nothing to do. */
  readonly prompt: Prompt.Prompt
  readonly report: Report
}

export const nothingSpent: Spent = { calls: 0, tokens: 0, costUsd: undefined }

/** Tokens of a whole request. */
export const tokensOf = (
  messages: ReadonlyArray<Prompt.Message>,
  tools: ReadonlyArray<Tool.Any>,
  meter: Meter
): number => Layout.tokensOf(messages, meter) + meter.tools(tools)

/** The places of a conversation, as the tiers see them. */
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

/** What a tier has come to. */
interface Candidate {
  readonly tier: Tier
  readonly edit: Edit.Edit
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly tokens: number
}

/** A conversation that is too long, made to fit. */
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
      // What summarised all of it and was not enough is not asked to summarise half of it.
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

/** It is under the limit, and will not be above it again at once: it is no poor gain, and no refill was before it. */
const lasts = ({ tokens }: Candidate, before: number, { policy, sizes, refilled }: Task): boolean =>
  !refilled && tokens <= sizes.limit && before - tokens >= policy.thrash.poorGain * sizes.limit

/** A later tier loses more: where the one before is under the limit, it must free a good deal more than that. */
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

/** A tier that has nothing to work on, or no one to work for it. */
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
  /** Cheaper means on what is left, where they belong to the policy. */
  const stripped = (edit: Edit.Edit): Edit.Edit => (policy.tiers.includes("strip") ? strip(edit) : edit)
  const replaced = ({ gone, text }: Summarised): Edit.Edit => stripped(Edit.replaced(edit, gone, text))
  switch (tier) {
    case "cap":
      return Effect.succeed(Edit.capped(edit, Math.floor(policy.maxResult * sizes.window), meter, trim))
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

/** Tokens above `downTo`; below 0: there is room. */
const overOf = (edit: Edit.Edit, task: Task): number => {
  const { meter, sizes } = task
  return Layout.tokensOf(Edit.messages(edit, finishing(task)), meter) + sizes.fixed - sizes.downTo
}

/** A few lines for what may go: for all of it, or for all but its newest end that has room. */
const plain = (edit: Edit.Edit, task: Task): Edit.Edit => {
  const { policy, meter } = task
  const free = Edit.free(edit)
  const room = roomBeside(free, edit, task)
  // What was asked and an earlier summary have room only where there is some: two characters to a token are few.
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
    // How long the lines are is known only now. A little less of the end makes room for them.
    const over = gone.length === free.length ? 0 : overOf(after, task)
    return over <= 0 ? after : filled(Layout.tokensOf(messagesOf(free.slice(gone.length)), meter) - over)
  }
  return filled(policy.plain.fill ? room : 0)
}

const nothingFree = "nothing is left that may be cut"

const messagesOf = (places: ReadonlyArray<Place>): ReadonlyArray<Prompt.Message> =>
  places.flatMap(({ messages }) => messages)

/** The places without the newest that have room; the oldest is always one of them. */
const allBut = (room: number, places: ReadonlyArray<Place>, meter: Meter): ReadonlyArray<Place> => {
  let left = room
  let end = places.length
  for (; end > 1; end--) {
    left -= Layout.tokensOf(places[end - 1]?.messages ?? [], meter)
    if (left < 0) break
  }
  return places.slice(0, end)
}

/** The oldest half, in tokens. */
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

/** Tokens up to `downTo`, beside what stays. */
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
      return Effect.fail<Skipped>({ why: `it has fewer than ${policy.minMessages} messages` })
    }
    return Effect.map(
      summariser.summary({
        messages: messagesOf(gone),
        required: requiredOf(gone, edit, task),
        // Without room for it `downTo` is missed, but the limit may still be kept.
        maxTokens: Math.max(leastSummary, roomBeside(gone, edit, task)),
        in: how
      }),
      (text) => ({ gone, text: policy.wording.summary({ messages: Edit.countOf(gone), text }) })
    )
  })

/** Tokens that a summary may have in any case. */
const leastSummary = 512

/** The summary that was prepared, if it is of the beginning of what is to go, and has all that is required. */
const ready = (edit: Edit.Edit, places: ReadonlyArray<Place>, task: Task): Summarised | undefined => {
  const { prepared, policy } = task
  if (prepared === undefined) return undefined
  const gone: Array<Place> = []
  let covered = 0
  for (const [i, original] of places.entries()) {
    if (original.kind !== "free" || covered === prepared.covers.length) continue
    if (original.messages.some((message, n) => message !== prepared.covers[covered + n])) return undefined
    covered += original.messages.length
    // Places keep their order, whatever becomes of their messages.
    const now = edit.places[i]
    if (now !== undefined) gone.push(now)
  }
  if (covered === 0 || covered < prepared.covers.length) return undefined
  if (Identifiers.missing(requiredOf(gone, edit, task), prepared.text).length > 0) return undefined
  return { gone, text: policy.wording.summary({ messages: Edit.countOf(gone), text: prepared.text }) }
}

// -----------------------------------------------------------------------------
// How it ends
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
        dropped: Edit.droppedOf(edit, finishing(task)),
        tried,
        summaries: summariser?.spent ?? nothingSpent
      }
    }
  })

/** Gives the store what was cut. */
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
    tokens: scaled(found.before, sizes),
    smallest: scaled(found.smallest, sizes),
    uncuttable: [...kept]
      .map(([what, tokens]) => ({ what, tokens: scaled(tokens, sizes) }))
      .sort((a, b) => b.tokens - a.tokens),
    tried: found.tried
  })
}
