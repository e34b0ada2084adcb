/**
 * The body of an answer that comes in pieces of text, on its way to one reader: a server, or a `Response`.
 *
 * It costs less than a `ReadableStream`: a piece is one string and one call of a function, where a stream encodes it, keeps
 * it, and makes a promise for it. Pieces before {@link Flow.to} are kept; a source that asks {@link Flow.hasRoom} keeps
 * them few.
 */

/** Where the pieces go. */
export interface Sink {
  /** False: it wants no more until {@link Flow.resume}. */
  readonly write: (text: string) => boolean
  readonly end: () => void
  readonly fail: (reason: unknown) => void
}

export interface Source {
  /** There is room again. */
  readonly pull: () => void
  /** The reader has left. */
  readonly cancel: () => void
}

/** Characters that may wait for a reader. */
export const maxQueued = 65_536

export class Flow {
  readonly #source: Source
  #sink: Sink | undefined
  #queued = ""
  #isFull = false
  /** What is told to the sink at the end. */
  #end: ((sink: Sink) => void) | undefined

  constructor(source: Source) {
    this.#source = source
  }

  /** False: what is written now waits for the reader. */
  get hasRoom(): boolean {
    return this.#sink === undefined ? this.#queued.length < maxQueued : !this.#isFull
  }

  write(text: string): void {
    if (text === "") return
    if (this.#sink === undefined) this.#queued += text
    else this.#isFull = !this.#sink.write(text)
  }

  close(): void {
    this.#ended((sink) => sink.end())
  }

  error(reason: unknown): void {
    this.#ended((sink) => sink.fail(reason))
  }

  #ended(end: (sink: Sink) => void): void {
    if (this.#sink === undefined) this.#end = end
    else end(this.#sink)
  }

  /** Sends the pieces so far, and those that come. Called once. */
  to(sink: Sink): void {
    this.#sink = sink
    if (this.#queued !== "") this.#isFull = !sink.write(this.#queued)
    this.#queued = ""
    if (this.#end !== undefined) this.#end(sink)
    else if (!this.#isFull) this.#source.pull()
  }

  /** The sink has room again. */
  resume(): void {
    this.#isFull = false
    this.#source.pull()
  }

  /** The reader has left. */
  cancel(): void {
    this.#source.cancel()
  }
}
