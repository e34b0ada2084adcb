/**
 * The share of the calls of a chain that may be hedged. Each call pays for `atMost` of a hedge. At most `reserve` hedges are
 * saved up, or one, so a long quiet time pays for no burst.
 */
import type { Hedge, RecoveryPolicy } from "../decide/RecoveryPolicy.ts"

export class HedgeShare {
  readonly #rule: Pick<Hedge, "atMost" | "reserve">
  #saved: number

  /** `undefined` for a policy that hedges no calls. */
  static of({ hedge }: Pick<RecoveryPolicy<string>, "hedge">): HedgeShare | undefined {
    return hedge === false ? undefined : new HedgeShare(hedge)
  }

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
    const { atMost, reserve } = this.#rule
    this.#saved = Math.min(Math.max(reserve, 1), this.#saved + atMost)
  }

  /** A call is hedged. */
  take(): void {
    this.#saved -= 1
  }

  /** The hedge was not sent. */
  giveBack(): void {
    this.#saved += 1
  }
}
