/**
 * Remembers what providers have reported: one calibration for each model and one anchor for each prompt. Later counts
 * use both.
 *
 * An anchor is the exact token count of a reported prompt. A later prompt that starts with it needs an estimate only
 * for the messages after it. The longest matching anchor is used. A prefix is matched by the kinds, counts and
 * `Content` of its messages, not by object identity. A conversation that was stored and read again matches, too; two
 * prefixes that agree in all of these cost the same. Anchors before an edit (or a compaction) stay valid. Other tools
 * or another model have their own anchors.
 *
 * Both tables are bounded: the entry that was learned longest ago is evicted first. Each update is synchronous, so no
 * reader sees half of one.
 */
import type { Request } from "./Beginnings.ts"
import { Beginnings } from "./Beginnings.ts"
import * as Calibration from "./Calibration.ts"
import * as Content from "./Content.ts"
import type { Meter } from "./TokenCounter.ts"

/** Tokens of a request. */
export interface Measured {
  /** Counted by the meter. */
  readonly counted: number
  /** Corrected by what is known of the model, rounded up to whole tokens. */
  readonly tokens: number
}

/** A prompt that a provider has counted. */
interface Anchor {
  /** Count by the meter. Distinguishes anchors with the same hash. */
  readonly counted: number
  readonly real: number
}

interface Found {
  readonly counted: number
  /** The anchor of the longest reported prefix. */
  readonly anchor: Anchor | undefined
  /** Key of that anchor (`at`), and key for an anchor of the whole prompt (`key`). */
  readonly at: number
  readonly key: number
  /** Content after the anchor and its count by the meter. Without an anchor both cover the whole prompt. */
  readonly fresh: Content.Content
  readonly freshly: number
}

export const limits = { models: 1_000, anchors: 10_000 } as const

/**
 * Smallest plausible ratio between the report of a prompt and the anchor of its prefix. A smaller report contradicts
 * the anchor. An anchor that is too small for the known part of the prompt contradicts the report. The margin allows
 * for thinking that was dropped.
 */
const leastGrowth = 0.8

export class Calibrations {
  readonly #models = new Map<string, Calibration.Calibration>()
  readonly #anchors = new Map<number, Anchor>()
  readonly #beginnings = new Beginnings()

  /** Counts the tokens of a request to a model with this window. */
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

  /** Corrects the meter by the calibration of the model. Without a report, returns the meter itself. */
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

  /** Learns from a report: the provider counted `real` tokens for this request. */
  learn(request: Request, real: number): void {
    let found = this.#find(request)
    if (!Calibration.isPlausible(found.counted, real)) return
    if (found.anchor !== undefined && real < leastGrowth * found.anchor.real) {
      // Either the anchor or the report is wrong. Trust neither.
      this.#anchors.delete(found.at)
      return
    }
    // The anchor is too small, e.g. reported without cached tokens. Drop it, so that the new messages are not blamed
    // for the difference.
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

  /** What is known of a model; `undefined` before its first report. */
  known(model: string): Calibration.Calibration | undefined {
    return this.#models.get(model)
  }

  /** Takes over what is known of a model, unless a report of this process is already known. */
  restore(model: string, calibration: Calibration.Calibration): void {
    if (!this.#models.has(model)) put(this.#models, model, calibration, limits.models)
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

/** Largest plausible number of tokens after the anchor. */
const mostOf = ({ freshly }: Found): number => Calibration.bounds.max * freshly

const unnamed = ""

// Evicts the oldest entries. A map iterates in insertion order.
const put = <K, V>(all: Map<K, V>, key: K, value: V, max: number): void => {
  all.delete(key)
  all.set(key, value)
  for (const oldest of all.keys()) {
    if (all.size <= max) break
    all.delete(oldest)
  }
}
