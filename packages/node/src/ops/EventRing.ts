/**
 * A bounded history of events, encoded once for all readers.
 *
 * Events get consecutive positions. A reader keeps a position of its own and reads what follows it. An event is encoded
 * when the first reader reaches it, and never without a reader. Readers at the same position share one chunk.
 *
 * The ring holds at most `maxEvents` events, and after {@link EventRing.trim} at most `maxBytes` encoded bytes. The oldest
 * leave first. A reader whose position has left the ring has missed events: its read returns `undefined`.
 */

export interface Options<A> {
  readonly maxEvents: number
  /** Encoded bytes that are kept. A reader that is further behind is cut off. */
  readonly maxBytes: number
  readonly encode: (event: A, position: number) => Uint8Array
}

/** Events that follow a position. `bytes` is empty when there is nothing new. */
export interface Chunk {
  readonly bytes: Uint8Array
  /** The position to read from next. */
  readonly next: number
}

interface Entry<A> {
  readonly event: A
  encoded: Uint8Array | undefined
}

const empty = new Uint8Array(0)

export class EventRing<A> {
  readonly #options: Options<A>
  /** Entries by position, modulo `maxEvents`. */
  readonly #entries: Array<Entry<A> | undefined> = []
  #oldest = 1
  #next = 1
  #bytes = 0
  /** The last chunk, which readers at the same position share. */
  #last: (Chunk & { readonly from: number; readonly limit: number; readonly head: number }) | undefined

  constructor(options: Options<A>) {
    this.#options = options
  }

  /** The position of the oldest event that is held. */
  get oldest(): number {
    return this.#oldest
  }

  /** The position of the next event. */
  get next(): number {
    return this.#next
  }

  /** Encoded bytes that are held. */
  get bytes(): number {
    return this.#bytes
  }

  push(event: A): void {
    if (this.#next - this.#oldest === this.#options.maxEvents) this.#evict()
    this.#entries[this.#next % this.#options.maxEvents] = { event, encoded: undefined }
    this.#next++
  }

  /** True when a reader can go on at this position. */
  holds(position: number): boolean {
    return position >= this.#oldest && position <= this.#next
  }

  /** Reads whole events from a position on, at most `limit` bytes, but at least one event. */
  read(from: number, limit: number): Chunk | undefined {
    if (!this.holds(from)) return undefined
    if (from === this.#next) return { bytes: empty, next: from }
    const last = this.#last
    if (last?.from === from && last.limit === limit && last.head === this.#next) return last
    const parts: Array<Uint8Array> = []
    let size = 0
    let at = from
    for (; at < this.#next; at++) {
      const encoded = this.#encoded(at)
      if (size > 0 && size + encoded.length > limit) break
      parts.push(encoded)
      size += encoded.length
    }
    const chunk = { bytes: Buffer.concat(parts, size), next: at, from, limit, head: this.#next }
    this.#last = chunk
    return chunk
  }

  /** Drops the oldest events beyond the limit of bytes. A reader that has not read them cannot go on. */
  trim(): void {
    while (this.#bytes > this.#options.maxBytes) this.#evict()
  }

  #encoded(position: number): Uint8Array {
    const entry = this.#entries[position % this.#options.maxEvents]
    if (entry === undefined) return empty
    if (entry.encoded === undefined) {
      entry.encoded = this.#options.encode(entry.event, position)
      this.#bytes += entry.encoded.length
    }
    return entry.encoded
  }

  #evict(): void {
    const index = this.#oldest % this.#options.maxEvents
    this.#bytes -= this.#entries[index]?.encoded?.length ?? 0
    this.#entries[index] = undefined
    this.#oldest++
  }
}
