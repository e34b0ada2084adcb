/**
 * What the consumer has been shown of the attempts of one call, and what it gets next.
 *
 * The preamble of an attempt (metadata, sources, the start of a block) is held back until content comes, so that an
 * attempt that dies before leaves no trace.
 */
import type { Commit } from "../decide/CallState.ts"
import type { Delta, StreamPart } from "./PartKind.ts"
import { ShownText } from "./ShownText.ts"

/** What others may read of it. */
export interface View extends Readonly<Pick<Shown, "commit" | "gained" | "isAlive">> {
  readonly text: Pick<ShownText, "all" | "isBlank">
}

export class Shown {
  readonly text: ShownText
  readonly thinking: ShownText
  /** The most that the consumer has seen of the current attempt. Only grows within an attempt. */
  commit: Commit = "nothing"
  /** The consumer has seen content of the current attempt. */
  hasContent = false
  /** The last push had something that is no keep-alive. */
  isAlive = false
  /** Characters of text before the current attempt. */
  #before = 0
  /** Parts of the attempt before its first content. */
  #preamble: Array<StreamPart> = []
  /** Ends of blocks of earlier attempts, for the next content. */
  #owed: Array<StreamPart> = []
  #out: Array<StreamPart> = []

  /** `isKept`: an attempt may continue the text. */
  constructor(isKept: boolean) {
    this.text = new ShownText(isKept)
    this.thinking = new ShownText(isKept)
  }

  /** Characters of text that the current attempt has shown. */
  get gained(): number {
    return this.text.length - this.#before
  }

  /** Starts an attempt. `owed` are ends of blocks of the one before. */
  begin(owed: ReadonlyArray<StreamPart>): void {
    this.#owed.push(...owed)
    this.#before = this.text.length
    this.undo()
    this.isAlive = false
  }

  /** Nothing of the attempt was shown. */
  undo(): void {
    this.#preamble = []
    this.commit = "nothing"
    this.hasContent = false
  }

  /** What was shown is void. Returns the parts that are still owed. */
  clear(): ReadonlyArray<StreamPart> {
    const owed = this.#owed
    this.#owed = []
    this.text.clear()
    this.thinking.clear()
    return owed
  }

  /** A part that is no content by itself: shown later, if nothing has come yet. */
  emit(part: StreamPart): void {
    if (this.hasContent) this.#out.push(part)
    else this.#preamble.push(part)
  }

  /** Content is shown: the preamble before it may be seen. */
  content(commit: Commit = "nothing"): void {
    this.isAlive = true
    if (commit !== this.commit && ranks.indexOf(commit) > ranks.indexOf(this.commit)) this.commit = commit
    if (this.hasContent) return
    this.hasContent = true
    this.#out.push(...this.#owed, ...this.#preamble)
    this.#owed = []
    this.#preamble = []
  }

  /** Shows parts behind the {@link content}. */
  push(...parts: ReadonlyArray<StreamPart>): void {
    this.#out.push(...parts)
  }

  /** Shows text or thinking behind its {@link content}. */
  say(delta: Delta): void {
    const shown = delta.type === "text-delta" ? this.text : this.thinking
    shown.add(delta.delta)
    this.#out.push(delta)
  }

  /** The parts for the consumer since the last time. */
  take(): Array<StreamPart> {
    const out = this.#out
    this.#out = []
    return out
  }
}

const ranks: ReadonlyArray<Commit> = ["nothing", "reasoning", "text", "tool"]
