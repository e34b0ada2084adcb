/**
 * The answer of one call, whatever number of attempts it takes: what a consumer may see of them. Synchronous, array-wise,
 * no Effect. A stream shows its parts as they come; a whole answer is their fold.
 *
 * - An attempt that dies before any content leaves no trace (`Shown`).
 * - Tool calls for the program are held back until a complete `finish`, and so is all that comes behind one (`Tail`).
 * - Attempts that continue a shown text write on in the same text block, under the same id (`Blocks`). What they repeat of
 *   it is taken out: their first text is held as long as `Seam` is undecided, and dropped if the attempt dies
 *   (`DeltaFilter`). Before any text, thinking that was cut is continued in the same way.
 * - Of a text that is to be an object only the JSON is shown.
 * - The end of a block passes at once, unless the attempt may still be replaced. The end of thinking is held until
 *   text is seen, so that the thinking of an attempt that is replaced can be marked, and is never sent. The end of a
 *   text is held until something else begins, so that a continuation can write on in the block. With `midStream:
 *   "restart"` both are held until the answer is complete.
 *
 * **Protocol.** {@link Answer.begin} starts an attempt; {@link Answer.push} takes what comes of it and returns what the
 * consumer gets. After each push, {@link Answer.end} says how the attempt has ended, and `shown.isAlive` and `seam` are about
 * that push alone. A cut or failed attempt is followed by `begin`, after {@link Answer.rewind} if what was seen is void, or by
 * {@link Answer.deliverCut}, which ends the answer. Nothing is read behind an end.
 */
import type { Response } from "effect/ai"
import { written } from "../../conversation/Answered.ts"
import { sign } from "../../conversation/Provenance.ts"
import type { Provenance } from "../../conversation/Provenance.ts"
import { unknown } from "../../conversation/Usage.ts"
import type * as Seam from "../../recovery/Seam.ts"
import type { AnswerEnd } from "../decide/AnswerEnd.ts"
import type { MidStream } from "../decide/RecoveryPolicy.ts"
import type { Attempt } from "./Attempt.ts"
import type { AttemptEnd } from "./AttemptEnd.ts"
import * as End from "./AttemptEnd.ts"
import { Blocks, continued, partial } from "./Blocks.ts"
import type { DeltaFilter, Passed } from "./DeltaFilter.ts"
import * as Filter from "./DeltaFilter.ts"
import type { Delta, StartPart, StreamPart } from "./PartKind.ts"
import { isForProgram, isProgress, isProviders } from "./PartKind.ts"
import { Shown } from "./Shown.ts"
import type { View } from "./Shown.ts"
import { carrier } from "./Surface.ts"
import { Tail } from "./Tail.ts"

type Finish = Response.FinishPartEncoded
type Begun = Pick<Attempt, "answered" | "maker" | "continues">

/** Who makes the parts of an attempt, and who judges them. */
interface Author {
  readonly answered: Attempt["answered"]
  readonly maker: Provenance
  readonly judge: AnswerEnd | undefined
}

export class Answer {
  readonly #requested: string
  readonly #midStream: MidStream
  readonly #structured: boolean
  readonly #shown: Shown
  readonly #texts = new Blocks("text", continued)
  readonly #thinking = new Blocks("reasoning", partial)
  readonly #tail = new Tail()
  /** The start of a text that has no content yet. Held back until the thinking before it has ended. */
  #opening: Response.TextStartPartEncoded | undefined
  #filter: DeltaFilter = Filter.all
  #author: Author | undefined
  #end: AttemptEnd | undefined
  #verdict: Seam.Verdict | undefined

  /**
   * `requested` is the id of the target that stands first. `midStream` is what may become of text that was seen; if
   * that depends on the failure, `restart` stands for all and `continue` for `fail`. `structured`: an object was asked
   * for.
   */
  constructor(requested: string, midStream: MidStream = "continue", structured = false) {
    this.#requested = requested
    this.#midStream = midStream
    this.#structured = structured
    this.#shown = new Shown(midStream !== "fail" || structured)
  }

  /** What the consumer has seen of the call; `text` is empty where no attempt can need it. */
  get shown(): View {
    return this.#shown
  }

  /** The verdict of the last push about what continues the answer, if there is one. */
  get seam(): Seam.Verdict | undefined {
    return this.#verdict
  }

  /** How the current attempt has ended; `undefined` as long as it goes on. */
  get end(): AttemptEnd | undefined {
    return this.#end
  }

  /** Starts an attempt, judged by `judge`. Drops the held parts of the attempt before. */
  begin({ answered, maker, continues }: Begun, judge?: AnswerEnd): void {
    const continuation = this.#continuation(continues)
    const continuesThinking = continuation?._tag === "Added" && continuation.type === "reasoning-delta"
    this.#dropOpening()
    if (!this.#shown.hasContent) this.#undoBlocks()
    this.#shown.begin(continuesThinking ? [] : this.#thinking.close(partial, true))
    this.#texts.begin()
    this.#thinking.begin()
    this.#tail.clear()
    this.#filter = continuation ?? (this.#structured ? Filter.object() : Filter.all)
    const isContinued = continuation !== undefined || continues === "cut"
    this.#author = { answered, maker: isContinued ? { ...maker, continued: true } : maker, judge }
    this.#end = undefined
    this.#verdict = undefined
  }

  /** Takes parts of the attempt, and returns the parts for the consumer. */
  push(parts: ReadonlyArray<StreamPart>): Array<StreamPart> {
    this.#shown.isAlive = false
    this.#verdict = undefined
    for (const part of parts) {
      if (this.#end !== undefined) break
      this.#read(part)
    }
    return this.#shown.take()
  }

  /**
   * What the consumer has seen is void: says so, and forgets it. Before {@link begin} of the attempt that begins
   * anew.
   */
  rewind(): ReadonlyArray<StreamPart> {
    const characters = this.#shown.text.length
    return [...this.close(), carrier({ type: "rewind", characters })]
  }

  /** Ends the blocks that the consumer has seen, marked as void, and forgets them: the next attempt begins blocks of its own. */
  close(): ReadonlyArray<StreamPart> {
    this.#dropOpening()
    if (!this.#shown.hasContent) this.#undoBlocks()
    const ends = [...this.#thinking.close(partial, true), ...this.#texts.close({ void: true })]
    return [...this.#shown.clear(), ...ends]
  }

  /** The rest of a cut answer that is delivered as it is, and its finish: that of the answer which the provider `refused`. */
  deliverCut(refused?: Finish): { readonly out: Array<StreamPart>; readonly finish: Finish } {
    if (refused !== undefined) this.#end = { _tag: "Cut", finish: refused, inToolCall: false }
    const cut = this.#end?._tag === "Cut" ? this.#end : undefined
    // Nothing was shown of a failed attempt at continuing it.
    if (cut === undefined && !this.#shown.hasContent) {
      this.#shown.undo()
      this.#undoBlocks()
    }
    // A call of the program is not run; the rest of what was held behind it is part of the answer.
    const isKept = (part: StreamPart) => !part.type.startsWith("tool-") || isProviders(part)
    this.#showAll(cut === undefined ? [] : this.#tail.all.filter(isKept))
    this.#dropOpening()
    // The thinking of a cut answer may be whole.
    this.#shown.push(...this.#thinking.close(partial, cut === undefined), ...this.#texts.close())
    const last = this.#end?._tag === "Failed" && this.#end.part.type === "finish" ? this.#end.part : undefined
    const { response } = last ?? { response: undefined }
    const finish = cut?.finish ?? { type: "finish", reason: "length", response, usage: unknown }
    this.#end = { _tag: "Whole", finish }
    return { out: this.#shown.take(), finish }
  }

  /**
   * The answer is complete, and not what was asked for: the attempt has failed. `isGiven`: the consumer has something of
   * the call; otherwise nothing of it was ever shown.
   */
  refuse(isGiven: boolean): void {
    if (this.#end?._tag === "Whole")
      this.#end = { _tag: "Failed", part: this.#end.finish, problem: undefined }
    if (isGiven) return
    this.close()
    this.#shown.undo()
  }

  /** What an attempt adds to the text that was shown, or to the thinking where that was cut before any text. */
  #continuation(continues: Attempt["continues"]): DeltaFilter | undefined {
    const text = this.#shown.text.all
    if (text.trim() !== "") return Filter.added("text-delta", text)
    const thinking = continues === "cut" ? this.#shown.thinking.all : ""
    return thinking.trim() === "" ? undefined : Filter.added("reasoning-delta", thinking)
  }

  #read(part: StreamPart): void {
    this.#author?.judge?.saw(part)
    if (part.type === "error") this.#end = { _tag: "Failed", part, problem: undefined }
    else if (part.type === "finish") this.#finish(part)
    else if (this.#tail.isEmpty && !isForProgram(part)) this.#show(part)
    else {
      // Nothing may overtake a call that is held, and the text before it is over.
      this.#flush(Filter.endAll)
      if (this.#midStream !== "restart") this.#endTexts()
      // Only content counts: a provider may stall inside the arguments of a call and send keep-alives without an end.
      if (isProgress(part)) this.#shown.isAlive = true
      if (isProviders(part)) this.#shown.commit = "tool"
      this.#tail.push(part)
    }
  }

  /** Shows the last parts, and what is held before them. */
  #showAll(parts: ReadonlyArray<StreamPart>): void {
    for (const part of parts) this.#show(part)
    this.#flush(Filter.endAll)
    this.#shown.content()
  }

  #show(part: StreamPart): void {
    switch (part.type) {
      case "text-delta":
        return this.#filtered(this.#texts.renamed(part))
      case "reasoning-delta":
        return this.#filtered(this.#thinking.renamed(part))
      case "text-start":
        return this.#start(this.#texts.start(part))
      case "reasoning-start":
        return this.#start(this.#thinking.start(part))
      case "text-end":
        this.#texts.end(part)
        if (!this.#isSettled) return
        this.#flush(Filter.end)
        return this.#endTexts()
      case "reasoning-end":
        this.#thinking.end(part)
        return this.#endThinking()
      case "response-metadata":
      case "source":
      case "file":
        return this.#shown.emit(this.#signed(part))
      default:
        // A tool has had its effect, or has it now: the call must not be repeated.
        this.#flush(Filter.end)
        this.#shown.content("tool")
        this.#endThinking()
        this.#endTexts()
        this.#shown.push(this.#signed(part))
    }
  }

  /** A block begins; `undefined`: it goes on. */
  #start(block: StartPart | undefined): void {
    this.#flush(Filter.end)
    if (block === undefined) return
    this.#endTexts()
    const start = this.#signed(block)
    if (start.type === "text-start" && this.#thinking.holdsEnd) this.#opening = start
    else this.#shown.emit(start)
  }

  #finish(finish: Finish): void {
    const { hasCall, lacksCall } = this.#tail
    this.#end = End.of(finish, { judge: this.#author?.judge, hasCall, lacksCall })
    if (this.#end._tag === "Failed") return
    if (this.#end._tag === "Cut") return this.#flush(Filter.end)
    this.#showAll(this.#tail.all)
    this.#shown.push(...this.#thinking.close())
    this.#open()
    this.#shown.push(...this.#texts.close())
  }

  // ---------------------------------------------------------------------------
  // Deltas
  // ---------------------------------------------------------------------------

  #filtered(delta: Delta): void {
    if (this.#filter._tag === "All") return this.#say(delta)
    if (delta.delta !== "") this.#shown.isAlive = true
    this.#passed(Filter.push(this.#filter, delta))
  }

  /** Something else comes, or nothing: what is held is decided with what is known. */
  #flush(end: (filter: DeltaFilter) => Passed | undefined): void {
    const passed = this.#filter._tag === "All" ? undefined : end(this.#filter)
    if (passed !== undefined) this.#passed(passed)
  }

  #passed({ filter, delta, verdict }: Passed): void {
    this.#filter = filter
    if (verdict !== undefined) this.#verdict = verdict
    if (delta !== undefined) this.#say(delta)
  }

  #say(delta: Delta): void {
    // An empty delta is no content; some providers send a late signature of the block with it.
    if (delta.delta === "") {
      if (delta.metadata !== undefined) this.#shown.emit(delta)
      return
    }
    if (delta.type === "text-delta") {
      this.#shown.content("text")
      if (!this.#thinking.isEmpty) this.#endThinking()
      if (this.#opening !== undefined) this.#open()
    } else this.#shown.content("reasoning")
    this.#shown.say(delta)
  }

  // ---------------------------------------------------------------------------
  // Blocks
  // ---------------------------------------------------------------------------

  /** No other attempt follows, whatever happens to this one. */
  get #isSettled(): boolean {
    return (
      this.#end?._tag === "Whole" ||
      this.#shown.commit === "tool" ||
      (this.#shown.commit === "text" && this.#midStream === "fail")
    )
  }

  /** Closes the thinking that has ended, unless the attempt may still be replaced. */
  #endThinking(): void {
    const isKept = this.#isSettled || (this.#shown.commit === "text" && this.#midStream !== "restart")
    if (!isKept) return
    this.#thinking.leave()
    for (const end of this.#thinking.takeEnded()) this.#shown.emit(end)
  }

  /** Closes the texts that have ended: something else begins. */
  #endTexts(): void {
    this.#open()
    // The rest of an object belongs into its block.
    if (this.#filter._tag === "Object") return
    for (const end of this.#texts.takeEnded()) this.#shown.emit(end)
  }

  #open(): void {
    if (this.#opening !== undefined) this.#shown.emit(this.#opening)
    this.#opening = undefined
  }

  #dropOpening(): void {
    if (this.#opening !== undefined) this.#texts.drop(this.#opening.id)
    this.#opening = undefined
  }

  /** Nothing of the attempt was shown. */
  #undoBlocks(): void {
    this.#texts.undo()
    this.#thinking.undo()
  }

  /** The part with who made it in its metadata; a text also says who answers. */
  #signed<P extends StreamPart>(part: P): P {
    if (this.#author === undefined) return part
    const { answered, maker } = this.#author
    if (part.type !== "text-start") return sign(part, maker)
    return sign(part, { ...written({ requested: this.#requested, ...answered }), ...maker })
  }
}
