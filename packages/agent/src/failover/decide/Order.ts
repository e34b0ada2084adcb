/**
 * In which order a call tries the targets of its chain. Pure: an order is data, {@link arrange} applies it.
 *
 * | order | first comes |
 * |---|---|
 * | {@link inOrder} (default) | the first target, then the second, … |
 * | {@link sticky} | the target that answered last, until it fails |
 * | {@link roundRobin} | each of the equivalent targets (same model) in turn; the models stay in their order |
 * | {@link cheapest} | the target with the lowest price for the expected mix of tokens; unknown prices last |
 * | {@link fastest} | the target that answered fastest lately; those of which too little is known first |
 *
 * {@link withAffinity} goes on top of any of them: the target that holds the warm prompt cache of the conversation
 * comes first, the others follow in the order beneath.
 *
 * **What it does not do.** It leaves nobody out: every target of the chain is in the result, once. An order is a
 * preference; cooldowns and failures decide who of the list is asked, so that a preferred target that is out is
 * passed over, and tried again when it is back.
 *
 * **Example** (Two keys take turns, but a conversation stays where its cache is)
 *
 * ```ts
 * const order = Order.withAffinity(Order.roundRobin, { timeToLive: "5 minutes" })
 * ```
 */
import { Duration } from "effect"
import { Options } from "@outlast/resilience"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import * as Kind from "../../options/Kind.ts"
import type { ModelInfo, Price } from "../../conversation/ModelInfo.ts"
import type { Latency, OrderFacts } from "./OrderFacts.ts"
import { warmTarget } from "./OrderFacts.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** Tokens of a typical call: what the price of a target is reckoned for. Only their ratios matter. */
export interface Mix {
  /** Input that is not read from the cache. */
  readonly input: number
  readonly output: number
  /** Input that is read from the cache. */
  readonly cacheRead: number
}

type By =
  | { readonly _tag: "InOrder" | "Sticky" | "RoundRobin" }
  | { readonly _tag: "Cheapest"; readonly mix: Mix }
  | { readonly _tag: "Fastest"; readonly exploration: number; readonly forgetAfter: number }

export interface Order {
  readonly by: By
  /** Milliseconds that a prompt cache stays warm; absent without affinity. */
  readonly affinity: number | undefined
}

/** A target as an order sees it. */
export interface Placed {
  readonly ref: TargetRef
  readonly info: ModelInfo
}

/** The call that the targets are arranged for. */
export interface Call {
  /** Counts the calls of the chain. */
  readonly number: number
  /** In [0, 1). */
  readonly draw: number
  /** Monotonic milliseconds. */
  readonly now: number
  /** Its answer is streamed: what counts is the time to the first token. Default `false`. */
  readonly streams?: boolean | undefined
  /** Its `ConversationKey`; only asked for by {@link wantsConversation}. */
  readonly conversation?: string | undefined
}

export const defaults = {
  /** An agent sends its conversation again and again, and says little each time. */
  mix: { input: 10, output: 1, cacheRead: 0 },
  /** One call in twenty. */
  exploration: 0.05,
  forgetAfter: "10 minutes",
  /** Anthropic's cache lives 5 minutes from its last use, OpenAI's 5 to 10. */
  timeToLive: "5 minutes"
} as const

/** Answers that a target must have given before its latency counts. */
export const minSamples = 3

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

const { is } = Options

const tags: ReadonlyArray<unknown> = ["InOrder", "Sticky", "RoundRobin", "Cheapest", "Fastest"]

/** An order, for the options that take one. */
export const check: Options.Check = Kind.where(
  (value) => Kind.isObject(value) && Kind.isObject(value["by"]) && tags.includes(value["by"]["_tag"]),
  "an order, for example Order.roundRobin or Order.cheapest()"
)

const order = (by: By): Order => ({ by, affinity: undefined })

/** As the chain was written down: the first target is the primary one. The default. */
export const inOrder: Order = order({ _tag: "InOrder" })

/** The target that answered last, whichever it was, stands first until it fails: there is no way back by itself. */
export const sticky: Order = order({ _tag: "Sticky" })

/**
 * Equivalent targets take turns, call by call; the places of each model in the chain stay its own. Those that step in
 * for one that is out take turns, too, so that its load is shared and does not fall on one neighbour.
 */
export const roundRobin: Order = order({ _tag: "RoundRobin" })

/**
 * By the price of the expected mix, lowest first. Targets with an unknown price come last; equal ones keep their
 * order. `mix`: see {@link defaults}.
 *
 * Throws an `InvalidOption` (a `RangeError`) for a negative share.
 */
export const cheapest = (mix: Partial<Mix> = {}): Order => {
  const share = is.number({ min: 0 })
  Options.fields<Partial<Mix>>("Order.cheapest", mix, { input: share, output: share, cacheRead: share })
  const { input, output, cacheRead } = defaults.mix
  const full = {
    input: mix.input ?? input,
    output: mix.output ?? output,
    cacheRead: mix.cacheRead ?? cacheRead
  }
  return order({ _tag: "Cheapest", mix: full })
}

/** How {@link fastest} finds out. */
export interface FastestOptions {
  /** The share of calls that try a target at random first, from 0 to 1. Default 0.05. */
  readonly exploration?: number | undefined
  /** A latency or a failure that is older says nothing any more. Default 10 minutes. */
  readonly forgetAfter?: Duration.Input | undefined
}

/**
 * By latency, lowest first. Targets of which less than {@link minSamples} answers are known come before, in their
 * order, so that each is measured; targets that failed last come at the end. A small share of calls tries another
 * one first, so that a target that has become faster is found.
 *
 * Throws an `InvalidOption` (a `RangeError`) for an option out of range.
 */
export const fastest = (options: FastestOptions = {}): Order => {
  Options.fields<FastestOptions>("Order.fastest", options, {
    exploration: is.share,
    forgetAfter: Kind.finiteDuration({ min: "1 second" })
  })
  return order({
    _tag: "Fastest",
    exploration: options.exploration ?? defaults.exploration,
    forgetAfter: Duration.toMillis(options.forgetAfter ?? defaults.forgetAfter)
  })
}

/** How long a conversation prefers the target of its last answer. */
export interface AffinityOptions {
  /** How long a prompt cache stays warm after its last use. Default 5 minutes. */
  readonly timeToLive?: Duration.Input | undefined
}

/**
 * The same order, but a conversation stays with the target of its last answer while the prompt cache there is warm,
 * unless that target fails: a switch costs the whole prompt at full price. It is a preference and no pin: when the
 * target is out, the others follow as ever, and the one that answers is where the conversation stays then.
 *
 * Throws an `InvalidOption` (a `RangeError`) for a time that is negative, infinite or none.
 */
export const withAffinity = (order: Order, options: AffinityOptions = {}): Order => {
  check("Order.withAffinity", "order", order)
  Options.fields<AffinityOptions>("Order.withAffinity", options, { timeToLive: Kind.finiteDuration() })
  return { by: order.by, affinity: Duration.toMillis(options.timeToLive ?? defaults.timeToLive) }
}

/** Whether {@link arrange} reads facts: for others nobody has to collect them. */
export const wantsFacts = ({ by, affinity }: Order): boolean =>
  affinity !== undefined || by._tag === "Sticky" || by._tag === "Fastest"

/** Whether {@link arrange} reads the call's conversation: for others nobody has to compute it. */
export const wantsConversation = ({ affinity }: Order): boolean => affinity !== undefined

// -----------------------------------------------------------------------------
// Arranging
// -----------------------------------------------------------------------------

/** The targets in the order of a call. The same array when nothing moves. */
export const arrange = <T extends Placed>(
  { by, affinity }: Order,
  targets: ReadonlyArray<T>,
  facts: OrderFacts,
  call: Call
): ReadonlyArray<T> => {
  let arranged = arrangeBy(by, targets, facts, call)
  if (affinity !== undefined && call.conversation !== undefined) {
    const warm = warmTarget(facts, call.conversation)
    if (warm !== undefined && call.now - warm.at < affinity) arranged = withFirst(arranged, warm.target)
  }
  return arranged.every((target, i) => target === targets[i]) ? targets : arranged
}

const arrangeBy = <T extends Placed>(
  by: By,
  targets: ReadonlyArray<T>,
  facts: OrderFacts,
  call: Call
): ReadonlyArray<T> => {
  switch (by._tag) {
    case "InOrder":
      return targets
    case "Sticky":
      return facts.last === undefined ? targets : withFirst(targets, facts.last)
    case "RoundRobin":
      return inTurn(targets, call.number)
    case "Cheapest":
      return sorted(targets, ({ info }) => priceOf(info.price, by.mix))
    case "Fastest": {
      const ranked = sorted(targets, ({ ref }) => rankOf(facts, ref.id, by.forgetAfter, call))
      if (call.draw >= by.exploration) return ranked
      // The draw is even below `exploration`: it also says who is tried.
      const tried = targets[Math.floor((call.draw / by.exploration) * targets.length)]
      return tried === undefined ? ranked : withFirst(ranked, tried.ref.id)
    }
  }
}

const withFirst = <T extends Placed>(targets: ReadonlyArray<T>, id: string): ReadonlyArray<T> => {
  const index = targets.findIndex(({ ref }) => ref.id === id)
  const first = targets[index]
  return first === undefined ? targets : [first, ...targets.toSpliced(index, 1)]
}

/** Stable. Each key is computed once. */
const sorted = <T>(targets: ReadonlyArray<T>, keyOf: (target: T) => number): ReadonlyArray<T> =>
  targets
    .map((target) => ({ target, key: keyOf(target) }))
    // Subtraction would make NaN of two infinities.
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
    .map(({ target }) => target)

const priceOf = (price: Price | undefined, mix: Mix): number =>
  price === undefined
    ? Infinity
    : mix.input * price.input + mix.output * price.output + mix.cacheRead * (price.cacheRead ?? price.input)

/** Unknown targets first (below every latency), those that failed last. */
const rankOf = (facts: OrderFacts, id: string, forgetAfter: number, { now, streams }: Call): number => {
  const speed = facts.speeds.get(id)
  if (speed?.failedAt !== undefined && now - speed.failedAt < forgetAfter) return Infinity
  const latency: Latency | undefined = streams === true ? speed?.firstToken : speed?.whole
  return latency === undefined || latency.samples < minSamples || now - latency.at >= forgetAfter
    ? -1
    : latency.mean
}

/** Each model's targets in the order of this turn, on the places of that model. */
const inTurn = <T extends Placed>(targets: ReadonlyArray<T>, turn: number): ReadonlyArray<T> => {
  const byModel = Map.groupBy(targets, ({ ref }) => ref.model)
  if (byModel.size === targets.length) return targets
  for (const [model, equivalent] of byModel) byModel.set(model, permuted(equivalent, turn))
  return targets.flatMap(({ ref }) => byModel.get(ref.model)?.shift() ?? [])
}

/**
 * The permutation of a number: over n! turns each comes up once, and over any n turns each item is first once.
 * So whoever is out, the others are next equally often.
 */
const permuted = <T>(items: ReadonlyArray<T>, turn: number): Array<T> => {
  const left = items.slice()
  const taken: Array<T> = []
  for (let rest = turn; left.length > 0;) {
    const n = left.length
    taken.push(...left.splice(rest % n, 1))
    rest = Math.floor(rest / n)
  }
  return taken
}
