/**
 * Facts from earlier answers that orders use: the target that answered last, the latency of each target, and the
 * target with the warm prompt cache of a conversation. Pure and immutable; {@link Order} reads it.
 *
 * **Latencies.** Each target has two exponentially weighted averages: the time to the first token of streamed
 * answers, and the time of whole answers. The two are not compared with each other. The first few answers count
 * equally (a plain average), later ones by {@link weight}.
 *
 * **Bounded.** At most {@link maxTargets} targets and {@link maxConversations} conversations; the oldest are evicted
 * first.
 *
 * The facts contain no text of a conversation, only a `ConversationKey`. Times are monotonic milliseconds.
 */
import { HashMap, Option } from "effect"

/** Share of a new answer in an average, once there are enough answers. About the last ten answers count. */
const weight = 0.2

/** Maximum number of targets with known latencies. */
export const maxTargets = 256

/**
 * Maximum number of conversations whose last target is remembered. After an eviction at least half of them remain.
 */
export const maxConversations = 10_000

/** An average over answers of one kind. */
export interface Latency {
  /** Milliseconds. */
  readonly mean: number
  readonly samples: number
  /** Time when the newest answer was added. */
  readonly at: number
}

/** Latencies and last failure of one target. */
interface Speed {
  /** Time to the first token of streamed answers. */
  readonly firstToken?: Latency | undefined
  /** Time of answers that were not streamed. */
  readonly whole?: Latency | undefined
  /** Time of the last failure; absent once the target has answered again. */
  readonly failedAt?: number | undefined
}

interface Warm {
  /** Id of the target. */
  readonly target: string
  readonly at: number
}

type Conversations = HashMap.HashMap<string, Warm>

export interface OrderFacts {
  /** Id of the target that answered last, unless it has failed since. */
  readonly last: string | undefined
  /** Latencies by target id. The target with the newest facts is last. */
  readonly speeds: ReadonlyMap<string, Speed>
  /** Warm targets by conversation. When this map is full it becomes `older`, and the previous `older` is dropped. */
  readonly newer: Conversations
  readonly older: Conversations
}

export const empty: OrderFacts = {
  last: undefined,
  speeds: new Map(),
  newer: HashMap.empty(),
  older: HashMap.empty()
}

/** A complete answer. */
export interface Answer {
  /** Id of the target. */
  readonly target: string
  /** The conversation's `ConversationKey`; absent when the order has no affinity. */
  readonly conversation?: string | undefined
  /** Duration of the whole attempt in milliseconds. */
  readonly elapsed: number
  /** Milliseconds until the first token; absent for an answer that was not streamed. */
  readonly firstToken?: number | undefined
  readonly now: number
}

/** Records an answer. */
export const answered = (facts: OrderFacts, answer: Answer): OrderFacts => {
  const { target, conversation, elapsed, firstToken, now } = answer
  const { failedAt: _over, ...known } = facts.speeds.get(target) ?? {}
  const speed: Speed =
    firstToken === undefined
      ? { ...known, whole: averaged(known.whole, elapsed, now) }
      : { ...known, firstToken: averaged(known.firstToken, firstToken, now) }
  const after = { ...facts, last: target, speeds: withSpeed(facts.speeds, target, speed) }
  return conversation === undefined ? after : warmed(after, conversation, { target, at: now })
}

/**
 * A failed attempt that counts against its target. A cancel does not count, nor does a request that fails everywhere.
 */
export interface Failure {
  /** Id of the target. */
  readonly target: string
  readonly conversation?: string | undefined
  readonly now: number
}

/** Records a failure. Affinity and stickiness to this target end. */
export const failed = (facts: OrderFacts, { target, conversation, now }: Failure): OrderFacts => {
  const speeds = withSpeed(facts.speeds, target, { ...facts.speeds.get(target), failedAt: now })
  const after = { ...facts, last: facts.last === target ? undefined : facts.last, speeds }
  return conversation !== undefined && warmTarget(facts, conversation)?.target === target
    ? {
        ...after,
        newer: HashMap.remove(facts.newer, conversation),
        older: HashMap.remove(facts.older, conversation)
      }
    : after
}

/** Returns the target with the warm cache of a conversation, and the time since when it is warm. */
export const warmTarget = ({ newer, older }: OrderFacts, conversation: string): Warm | undefined =>
  Option.getOrUndefined(HashMap.get(newer, conversation)) ??
  Option.getOrUndefined(HashMap.get(older, conversation))

const averaged = (known: Latency | undefined, value: number, now: number): Latency => {
  if (known === undefined) return { mean: value, samples: 1, at: now }
  const samples = known.samples + 1
  return { mean: known.mean + (value - known.mean) * Math.max(weight, 1 / samples), samples, at: now }
}

const withSpeed = (speeds: OrderFacts["speeds"], target: string, speed: Speed): OrderFacts["speeds"] => {
  const next = new Map(speeds)
  next.delete(target)
  if (next.size >= maxTargets)
    for (const oldest of next.keys()) {
      next.delete(oldest)
      break
    }
  return next.set(target, speed)
}

const warmed = (facts: OrderFacts, conversation: string, warm: Warm): OrderFacts => {
  const isFull = HashMap.size(facts.newer) >= maxConversations / 2
  const [newer, older] = isFull ? [HashMap.empty<string, Warm>(), facts.newer] : [facts.newer, facts.older]
  return { ...facts, newer: HashMap.set(newer, conversation, warm), older }
}
