/**
 * What the answers so far say about the order of a chain: who answered last, how fast each target is, and where the
 * prompt cache of a conversation is warm. Pure and immutable; {@link Order} reads it.
 *
 * **Latencies.** Per target an exponentially weighted average of the time to the first token, where an answer was
 * streamed, and one of the whole answer, where it was not: the two are not compared with each other. The first few
 * answers count alike (a plain average), later ones by {@link weight}.
 *
 * **Bounded.** At most {@link maxTargets} targets and {@link maxConversations} conversations; the oldest go first.
 *
 * It holds no text of a conversation, only a `ConversationKey`. Times are monotonic milliseconds.
 */
import { HashMap, Option } from "effect"

/** The share of a new answer in an average, once there are enough: about the last ten answers count. */
const weight = 0.2

/** Targets whose latencies are known, at most. */
export const maxTargets = 256

/** Conversations whose last target is known, at most; at least half as many are. */
export const maxConversations = 10_000

/** An average over answers of one kind. */
export interface Latency {
  /** Milliseconds. */
  readonly mean: number
  readonly samples: number
  /** When the newest was added. */
  readonly at: number
}

/** What is known of one target. */
interface Speed {
  /** Of streamed answers. */
  readonly firstToken?: Latency | undefined
  /** Of answers that were not streamed. */
  readonly whole?: Latency | undefined
  /** When it failed; absent when it has answered since. */
  readonly failedAt?: number | undefined
}

interface Warm {
  /** The id of the target. */
  readonly target: string
  readonly at: number
}

type Conversations = HashMap.HashMap<string, Warm>

export interface OrderFacts {
  /** The id of the target that answered last, unless it has failed since. */
  readonly last: string | undefined
  /** By target id, the one with the newest facts last. */
  readonly speeds: ReadonlyMap<string, Speed>
  /** By conversation. When it is full it becomes `older`, and what was `older` is forgotten. */
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
  /** The id of the target. */
  readonly target: string
  /** Its `ConversationKey`; absent when nobody wants affinity. */
  readonly conversation?: string | undefined
  /** Milliseconds of the whole attempt. */
  readonly elapsed: number
  /** Milliseconds until the first token; absent for an answer that was not streamed. */
  readonly firstToken?: number | undefined
  readonly now: number
}

/** Remembers an answer. */
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

/** An attempt whose failure says something about its target: not a cancel, nor a request that fails everywhere. */
export interface Failure {
  /** The id of the target. */
  readonly target: string
  readonly conversation?: string | undefined
  readonly now: number
}

/** Remembers a failure: whoever stayed with this target stays no longer. */
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

/** Where the cache of a conversation is warm, and since when. */
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
