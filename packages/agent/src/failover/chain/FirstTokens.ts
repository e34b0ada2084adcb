/**
 * How long the answers of a target take to begin, by the size of their prompts.
 *
 * **Bounded**: the last {@link kept} times of each size. Times are milliseconds.
 */

/** Times of each size that are kept. */
export const kept = 20

/**
 * The usual time is so many times the median. A share of the times that are late does not change the median, so they stay
 * late.
 */
const ofMedian = 2

/** Prompts of up to so many tokens have one size. The last size has no bound. */
const sizes: ReadonlyArray<number> = [4_000, 16_000, 64_000, 256_000, Infinity]

interface Times {
  readonly kept: Array<number>
  added: number
}

export class FirstTokens {
  readonly #bySize: ReadonlyArray<Times> = sizes.map(() => ({ kept: [], added: 0 }))

  /** Adds an answer. `inputTokens` is the size of its prompt; `undefined`: a small one. */
  add(inputTokens: number | undefined, millis: number): void {
    const times = this.#bySize[sizeOf(inputTokens ?? 0)]
    // Replaces the oldest.
    if (times !== undefined) times.kept[times.added++ % kept] = millis
  }

  /**
   * The time within which answers to a prompt of that size usually begin: twice the median. Sizes without an answer have
   * the time of the next smaller size, or else of the next larger one. `undefined` before the first answer.
   */
  usual(inputTokens: number): number | undefined {
    const size = sizeOf(inputTokens)
    const smaller = this.#bySize.slice(0, size + 1).findLast(isUsed)
    const times = smaller ?? this.#bySize.slice(size + 1).find(isUsed)
    const sorted = times?.kept.toSorted((a, b) => a - b) ?? []
    const median = sorted[Math.floor(sorted.length / 2)]
    return median === undefined ? undefined : ofMedian * median
  }
}

const sizeOf = (tokens: number): number => sizes.findIndex((most) => tokens <= most)

const isUsed = ({ added }: Times): boolean => added > 0
