/**
 * Slows down who guesses tokens: {@link burst} wrong ones, then one a second, for each address.
 *
 * While an address has to wait, no token from it is compared, so a right one is refused, too. Times are monotonic.
 */

/** Wrong tokens before the first wait. */
const burst = 20
/** Milliseconds until one more may be wrong. */
const every = 1_000
/** Addresses that are remembered. Beyond it the one that was wrong least recently goes. */
const maxAddresses = 1_000

export class WrongTokens {
  /** When all tries of an address are there again, in milliseconds. */
  readonly #freeAt = new Map<string, number>()

  /** Milliseconds until a token of the address is compared again; 0 for now. */
  wait(address: string, now: number): number {
    const freeAt = this.#freeAt.get(address) ?? now
    return Math.max(0, freeAt - (burst - 1) * every - now)
  }

  /** A token was wrong. */
  add(address: string, now: number): void {
    const freeAt = Math.max(now, this.#freeAt.get(address) ?? now) + every
    this.#freeAt.delete(address)
    this.#freeAt.set(address, freeAt)
    const [first] = this.#freeAt.keys()
    if (this.#freeAt.size > maxAddresses && first !== undefined) this.#freeAt.delete(first)
  }
}
