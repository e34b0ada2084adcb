/**
 * The share of the calls of a chain that may be hedged. Each call pays for `atMost` of a hedge. At most `reserve` hedges are
 * saved up, so a long quiet time pays for no burst.
 */
import type { Hedge } from "../decide/RecoveryPolicy.ts"

export class HedgeShare {
  readonly #rule: Pick<Hedge, "atMost" | "reserve">
  #saved: number

  constructor(rule: Pick<Hedge, "atMost" | "reserve">) {
    this.#rule = rule
    this.#saved = rule.reserve
  }

  /** True when one more call may be hedged. */
  get isLeft(): boolean {
    // Twenty times 0.05 is less than 1 by a rounding error.
    return this.#saved >= 1 - 1e-9
  }

  /** A call begins. */
  pay(): void {
    this.#saved = Math.min(this.#rule.reserve, this.#saved + this.#rule.atMost)
  }

  /** A call is hedged. */
  take(): void {
    this.#saved -= 1
  }
}
