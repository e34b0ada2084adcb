/** How fast the answer of an attempt comes: looked at once in each span of waiting for the provider. */
import { Duration } from "effect"
import type { SlowStream } from "../decide/RecoveryPolicy.ts"
import type { StreamPart } from "./PartKind.ts"

export class Pace {
  readonly #slow: SlowStream
  /** Milliseconds waited for the provider, and characters that came, since the pace was last looked at. */
  #waited = 0
  #characters = 0
  #isTooSlow = false

  constructor(slow: SlowStream) {
    this.#slow = slow
  }

  get isTooSlow(): boolean {
    return this.#isTooSlow
  }

  /** Parts have come after a wait of these milliseconds. */
  read(parts: ReadonlyArray<StreamPart>, waited: number): void {
    this.#waited += waited
    for (const part of parts) if ("delta" in part) this.#characters += part.delta.length
    if (this.#waited < Duration.toMillis(this.#slow.over)) return
    this.#isTooSlow = this.#characters < (this.#slow.charactersPerSecond * this.#waited) / 1_000
    this.#waited = 0
    this.#characters = 0
  }
}
