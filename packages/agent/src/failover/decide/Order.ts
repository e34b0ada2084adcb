/**
 * Defines the order in which a call tries the targets of its chain. Pure: an order is data, {@link arrange} applies
 * it.
 *
 * | order | first comes |
 * |---|---|
 * | {@link inOrder} (default) | the first target, then the second, … |
 * | {@link sticky} | the target that answered last, until it fails |
 * | {@link roundRobin} | each of the equivalent targets (same model) in turn; the models stay in their order |
 * | {@link cheapest} | the target with the lowest price for the expected mix of tokens; unknown prices last |
 * | {@link fastest} | the target that answered fastest lately; targets with too few answers first |
 *
 * {@link withAffinity} wraps any of them: the target with the warm prompt cache of the conversation comes first, the
 * others follow in the wrapped order.
 *
 * **Limits.** An order drops no target: every target of the chain is in the result, once. An order is a preference.
 * Cooldowns and failures decide which targets are asked. A preferred target that is out is skipped, and tried again
 * when it is back.
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

/** Tokens of a typical call, used to compute the price of a target. Only the ratios matter. */
export interface Mix {
  /** Input tokens that are not read from the cache. */
  readonly input: number
  readonly output: number
  /** Input tokens that are read from the cache. */
  readonly cacheRead: number
}

type By =
  | { readonly _tag: "InOrder" | "Sticky" | "RoundRobin" }
  | { readonly _tag: "Cheapest"; readonly mix: Mix }
  | { readonly _tag: "Fastest"; readonly exploration: number; readonly forgetAfter: number }

export interface Order {
  readonly by: By
  /** Milliseconds that a prompt cache stays warm; `undefined` without affinity. */
  readonly affinity: number | undefined
}

/** A target as an order sees it. */
export interface Placed {
  readonly ref: TargetRef
  readonly info: ModelInfo
}

/** The call that the targets are arranged for. */
export interface Call {
  /** Number of this call in the chain. */
  readonly number: number
  /** Random number in [0, 1). */
  readonly draw: number
  /** Current time in monotonic milliseconds. */
  readonly now: number
  /** True for a streamed answer, which is ranked by its time to the first token. Default `false`. */
  readonly streams?: boolean | undefined
  /** The call's `ConversationKey`. Needed only if {@link wantsConversation}. */
  readonly conversation?: string | undefined
}

export const defaults = {
  /** An agent sends its whole conversation each time, and the answers are short. */
  mix: { input: 10, output: 1, cacheRead: 0 },
  /** Share of calls that measure a target other than the best one: one call in twenty. */
  exploration: 0.05,
  forgetAfter: "10 minutes",
  /** Anthropic's cache lives 5 minutes from its last use, OpenAI's 5 to 10. */
  timeToLive: "5 minutes"
} as const

/** Number of answers that a target must have given before its latency counts. */
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

/** The targets in the order of the chain: the first target is the primary one. The default. */
export const inOrder: Order = order({ _tag: "InOrder" })

/**
 * The target that answered last comes first until it fails. The chain does not return to its first target on its own.
 */
export const sticky: Order = order({ _tag: "Sticky" })

/**
 * Equivalent targets take turns, call by call. The places of each model in the chain do not change. The targets that
 * replace one that is out take turns too. The load is shared and does not fall on one neighbour.
 */
export const roundRobin: Order = order({ _tag: "RoundRobin" })

/**
 * Orders targets by the price of the expected mix, lowest first. Targets with an unknown price come last. Equal ones
 * keep their order. `mix`: see {@link defaults}.
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

/** Options of {@link fastest}. */
export interface FastestOptions {
  /** Share of calls that try a random target first, from 0 to 1. Default 0.05. */
  readonly exploration?: number | undefined
  /** Age at which a latency or a failure no longer counts. Default 10 minutes. */
  readonly forgetAfter?: Duration.Input | undefined
}

/**
 * Orders targets by latency, lowest first. Targets with fewer than {@link minSamples} answers come first, so that
 * each is measured. Targets that failed last come at the end. A small share of calls tries another target first, to
 * find one that has become faster.
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

/** Options of {@link withAffinity}. */
export interface AffinityOptions {
  /** Time that a prompt cache stays warm after its last use. Default 5 minutes. */
  readonly timeToLive?: Duration.Input | undefined
}

/**
 * The same order, but a conversation stays with the target of its last answer while the prompt cache there is warm.
 * Switching would cost the whole prompt at full price. Affinity is a preference and not a pin. When that target fails
 * or is out, the others follow in the wrapped order. The conversation then stays with the one that answers.
 *
 * Throws an `InvalidOption` (a `RangeError`) for a time that is negative or infinite, or a value that is not a
 * duration.
 */
export const withAffinity = (order: Order, options: AffinityOptions = {}): Order => {
  check("Order.withAffinity", "order", order)
  Options.fields<AffinityOptions>("Order.withAffinity", options, { timeToLive: Kind.finiteDuration() })
  return { by: order.by, affinity: Duration.toMillis(options.timeToLive ?? defaults.timeToLive) }
}

/** True when {@link arrange} reads facts. Other orders need no facts collected. */
export const wantsFacts = ({ by, affinity }: Order): boolean =>
  affinity !== undefined || by._tag === "Sticky" || by._tag === "Fastest"

/** True when {@link arrange} reads the call's conversation. Other orders need no conversation key. */
export const wantsConversation = ({ affinity }: Order): boolean => affinity !== undefined

// -----------------------------------------------------------------------------
// Arranging
// -----------------------------------------------------------------------------

/** Returns the targets in the order for a call. Returns the same array when nothing moves. */
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
      // The draw is below `exploration`, and scaled up it also selects the target.
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

/** Sorts stably. Computes each key once. */
const sorted = <T>(targets: ReadonlyArray<T>, keyOf: (target: T) => number): ReadonlyArray<T> =>
  targets
    .map((target) => ({ target, key: keyOf(target) }))
    // Subtracting two infinities would give NaN.
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
    .map(({ target }) => target)

const priceOf = (price: Price | undefined, mix: Mix): number =>
  price === undefined
    ? Infinity
    : mix.input * price.input + mix.output * price.output + mix.cacheRead * (price.cacheRead ?? price.input)

/** Ranks targets for {@link fastest}: unknown latency first (below every latency), failed last. */
const rankOf = (facts: OrderFacts, id: string, forgetAfter: number, { now, streams }: Call): number => {
  const speed = facts.speeds.get(id)
  if (speed?.failedAt !== undefined && now - speed.failedAt < forgetAfter) return Infinity
  const latency: Latency | undefined = streams === true ? speed?.firstToken : speed?.whole
  return latency === undefined || latency.samples < minSamples || now - latency.at >= forgetAfter
    ? -1
    : latency.mean
}

/** Returns each model's targets in the order of this turn. The places of each model do not change. */
const inTurn = <T extends Placed>(targets: ReadonlyArray<T>, turn: number): ReadonlyArray<T> => {
  const byModel = Map.groupBy(targets, ({ ref }) => ref.model)
  if (byModel.size === targets.length) return targets
  for (const [model, equivalent] of byModel) byModel.set(model, permuted(equivalent, turn))
  return targets.flatMap(({ ref }) => byModel.get(ref.model)?.shift() ?? [])
}

/**
 * Returns the permutation with this number. Over n! turns each permutation is used once. Over any n turns each item
 * is first once. When a target is out, the others replace it equally often.
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
