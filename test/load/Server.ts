/** A running server of a world, which decides the outcome of each request. Mutable, without Effects. */
import type { DrawKey } from "./Draw.ts"
import { draw } from "./Draw.ts"
import type { Failing, Server as Spec } from "./World.ts"
import { spread } from "./World.ts"

/** The outcome of one request. */
export type Fate =
  | { readonly _tag: "Answer"; readonly after: number; readonly firstToken: number }
  | { readonly _tag: "Failure"; readonly after: number; readonly as: Failing }
  | { readonly _tag: "Hang" }

interface Bucket {
  tokens: number
  at: number
}

/** Milliseconds that a server takes to refuse a request. */
const refusal = 50

export class Server {
  readonly #spec: Spec
  readonly #buckets = new Map<number, Bucket>()
  /** The time at which each slot is free again. */
  readonly #slots: Array<number>

  constructor(spec: Spec) {
    this.#spec = spec
    this.#slots = Array.from({ length: spec.capacity?.slots ?? 0 }, () => 0)
  }

  /** `key` counts the keys of the vendor from 1. */
  request(drawn: DrawKey, key: number, now: number): Fate {
    const { deadKeys = [], outages = [] } = this.#spec
    if (deadKeys.includes(key)) return { _tag: "Failure", after: refusal, as: { status: 401 } }
    const outage = outages.find(({ from, to = Infinity }) => now >= from && now < to)
    if (outage !== undefined) {
      if (outage.as === "hang") return { _tag: "Hang" }
      const after = spread(outage.after ?? refusal, draw(drawn, "duration"))
      return { _tag: "Failure", after, as: outage.as }
    }
    return this.#limited(key, now) ?? this.#worked(this.#drawn(drawn), now)
  }

  #limited(key: number, now: number): Fate | undefined {
    const { limit } = this.#spec
    if (limit === undefined) return undefined
    const { requests, per, scope = "key" } = limit
    const of = scope === "key" ? key : 0
    const bucket = this.#buckets.get(of) ?? { tokens: requests, at: now }
    this.#buckets.set(of, bucket)
    bucket.tokens = Math.min(requests, bucket.tokens + ((now - bucket.at) * requests) / per)
    bucket.at = now
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1
      return undefined
    }
    const next = Math.ceil(((1 - bucket.tokens) * per) / requests / 1_000) * 1_000
    return { _tag: "Failure", after: refusal, as: { status: 429, retryAfter: limit.retryAfter ?? next } }
  }

  #drawn(drawn: DrawKey): Fate {
    const { answer, fails, firstToken = 0.2, hangs = 0, slowFirstToken } = this.#spec
    if (draw(drawn, "hangs") < hangs) return { _tag: "Hang" }
    const duration = draw(drawn, "duration")
    if (fails !== undefined && draw(drawn, "fails") < fails.share) {
      const kind = fails.as[Math.floor(draw(drawn, "kind") * fails.as.length)] ?? fails.as[0]
      return { _tag: "Failure", after: spread(fails.after, duration), as: kind }
    }
    const after = spread(answer, duration)
    if (slowFirstToken !== undefined && draw(drawn, "slow") < slowFirstToken.share) {
      const late = spread(slowFirstToken.after, duration)
      return { _tag: "Answer", after: late + after * (1 - firstToken), firstToken: late }
    }
    return { _tag: "Answer", after, firstToken: after * firstToken }
  }

  /** The outcome of a request that needs a slot: delayed by the queue, or shed. */
  #worked(fate: Fate, now: number): Fate {
    const { capacity } = this.#spec
    if (capacity === undefined) return fate
    const soonest = this.#slots.reduce((best, at, i) => (at < (this.#slots[best] ?? 0) ? i : best), 0)
    const wait = Math.max(0, (this.#slots[soonest] ?? 0) - now)
    if (wait > (capacity.queue ?? 0)) return { _tag: "Failure", after: refusal, as: capacity.as }
    const busy = fate._tag === "Hang" ? Infinity : fate.after
    this.#slots[soonest] = now + wait + busy
    if (fate._tag === "Hang") return fate
    if (fate._tag === "Failure") return { ...fate, after: wait + fate.after }
    return { ...fate, after: wait + fate.after, firstToken: wait + fate.firstToken }
  }
}
