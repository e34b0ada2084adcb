/**
 * What providers have reported, for the next count: a calibration for each model, and an anchor for each prompt.
 *
 * A reported prompt is exact for whatever begins with it: only what is new behind its longest reported beginning is
 * estimated. A beginning is known by the kinds, counts and `Content` of its messages, not by its objects, so that a
 * conversation that was stored and read again is known, too; two that agree in all of it are worth the same. An edit (a
 * compaction, too) leaves the anchors before it. Other tools or another model have anchors of their own.
 *
 * Both are bounded: what was learned longest ago goes first. Each change is one step: nobody sees half of it.
 */
import type { Request } from "./Beginnings.ts"
import { Beginnings } from "./Beginnings.ts"
import * as Calibration from "./Calibration.ts"
import * as Content from "./Content.ts"
import type { Meter } from "./TokenCounter.ts"

/** How many tokens a request has. */
export interface Measured {
  /** By the meter. */
  readonly counted: number
  /** By what is known of the model: whole tokens. */
  readonly tokens: number
}

/** A prompt that a provider has counted. */
interface Anchor {
  /** By the meter: anchors with one hash are told apart by it. */
  readonly counted: number
  readonly real: number
}

interface Found {
  readonly counted: number
  /** The longest beginning that was reported. */
  readonly anchor: Anchor | undefined
  /** The key of that anchor, and of one for the whole. */
  readonly at: number
  readonly key: number
  /** What was not reported, and what the meter counts for it; without an anchor, all of it. */
  readonly fresh: Content.Content
  readonly freshly: number
}

export const limits = { models: 1_000, anchors: 10_000 } as const

/**
 * A report that is so much smaller than that of its beginning contradicts it, and so does one to which the beginning is
 * so much smaller than what is not new: thinking that was dropped is no such.
 */
const leastGrowth = 0.8

export class Calibrations {
  readonly #models = new Map<string, Calibration.Calibration>()
  readonly #anchors = new Map<number, Anchor>()
  readonly #beginnings = new Beginnings()

  /** How many tokens a request to a model with this window has. */
  measure(request: Request, window: number): Measured {
    const calibration = this.#models.get(request.model ?? unnamed)
    if (calibration === undefined) {
      const counted = this.#beginnings.of(request).counted.at(-1) ?? 0
      return { counted, tokens: counted }
    }
    const { counted, anchor, fresh, freshly } = this.#find(request)
    const tokens = (anchor?.real ?? 0) + Calibration.estimate(calibration, freshly, fresh, window)
    return { counted, tokens: Math.ceil(tokens) }
  }

  /** The meter, corrected for a model with this window by what is known of it now; without a report the meter itself. */
  meter(model: string | undefined, meter: Meter, window: number): Meter {
    const calibration = this.#models.get(model ?? unnamed)
    if (calibration === undefined) return meter
    const corrected = (counted: number, content: Content.Content): number =>
      Math.max(1, Math.ceil(Calibration.estimate(calibration, counted, content, window)))
    return {
      ...meter,
      message: (message) => corrected(meter.message(message), Content.of(message)),
      tools: (tools) => {
        const schemas = meter.tools(tools)
        return corrected(schemas, { ...Content.nothing, tools: schemas, hidden: Content.hidden })
      }
    }
  }

  /** A provider has counted `real` tokens for it. */
  learn(request: Request, real: number): void {
    let found = this.#find(request)
    if (!Calibration.isPlausible(found.counted, real)) return
    if (found.anchor !== undefined && real < leastGrowth * found.anchor.real) {
      // One of the two is wrong, and nobody knows which.
      this.#anchors.delete(found.at)
      return
    }
    // Here it was the one before, without what was cached; what is new must not answer for that.
    while (found.anchor !== undefined && leastGrowth * (real - mostOf(found)) > found.anchor.real) {
      this.#anchors.delete(found.at)
      found = this.#find(request)
    }
    const { counted, anchor, key, fresh, freshly } = found
    const added = real - (anchor?.real ?? 0)
    const calibration = Calibration.learn(this.#of(request.model), freshly, fresh, added)
    put(this.#models, request.model ?? unnamed, calibration, limits.models)
    put(this.#anchors, key, { counted, real }, limits.anchors)
  }

  #of(model: string | undefined): Calibration.Calibration {
    return this.#models.get(model ?? unnamed) ?? Calibration.initial
  }

  #find(request: Request): Found {
    const { messages } = request
    const { counted, keys } = this.#beginnings.of(request)
    const all = messages.length
    let from = all
    let anchor: Anchor | undefined
    for (; from > 0; from--) {
      const known = this.#anchors.get(keys[from] ?? 0)
      if (known === undefined || known.counted !== counted[from]) continue
      anchor = known
      break
    }
    const whole = counted[all] ?? 0
    const before = anchor?.counted ?? 0
    const fresh: Content.Mutable =
      anchor === undefined
        ? { ...Content.nothing, tools: counted[0] ?? 0, hidden: Content.hidden }
        : { ...Content.nothing }
    for (let i = from; i < all; i++) {
      const message = messages[i]
      if (message !== undefined) Content.add(Content.of(message), fresh)
    }
    return {
      counted: whole,
      anchor,
      at: keys[from] ?? 0,
      key: keys[all] ?? 0,
      fresh,
      freshly: whole - before
    }
  }
}

/** Tokens that what is new can have. */
const mostOf = ({ freshly }: Found): number => Calibration.bounds.max * freshly

const unnamed = ""

// A map goes through its entries in the order in which they came.
const put = <K, V>(all: Map<K, V>, key: K, value: V, max: number): void => {
  all.delete(key)
  all.set(key, value)
  for (const oldest of all.keys()) {
    if (all.size <= max) break
    all.delete(oldest)
  }
}
