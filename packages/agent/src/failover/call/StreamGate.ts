/**
 * What a consumer may see of the attempts of one streamed call: synchronous, array-wise, no Effect.
 *
 * - The preamble (metadata, sources, the start of a block) is held back until content comes, so that an attempt
 *   that dies before leaves no trace.
 * - Tool calls for the program are held back until a complete `finish`, and so is all that comes behind one: no
 *   handler runs for an attempt that failed or was cut, and the order stays.
 * - Attempts that continue a shown text write on in the same text block, under the same id. What they repeat of
 *   it is taken out: their first text is held as long as `Seam` is undecided, and dropped if the attempt dies.
 * - Of a text that is to be an object only the JSON is shown (`ObjectText`).
 * - The end of a block passes at once, unless the attempt may still be replaced. The end of thinking is held until
 *   text is seen, so that the thinking of an attempt that is replaced can be marked, and is never sent. The end of a
 *   text is held until something else begins, so that a continuation can write on in the block. With `midStream:
 *   "restart"` both are held until the answer is complete.
 *
 * **Protocol.** One `StreamGate` serves one call. {@link StreamGate.begin} starts an attempt; {@link StreamGate.push} takes
 * what comes of it and returns what the consumer gets. After each push, {@link StreamGate.end} says how the attempt has
 * ended, and `alive` and `seam` are about that push alone. A cut or failed attempt is followed by `begin`, after
 * {@link StreamGate.rewind} if what was seen is void, or by {@link StreamGate.deliverCut} or
 * {@link StreamGate.deliverRefused}, which end the answer. Nothing is read behind an end.
 *
 * The file is long because all held parts share one order, which two classes could not keep.
 */
import type { Response } from "effect/ai"
import * as Seam from "../../recovery/Seam.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { ObjectText } from "../../conversation/ObjectText.ts"
import type { Provenance } from "../../conversation/Provenance.ts"
import { sign } from "../../conversation/Provenance.ts"
import { namespace, written } from "../../conversation/Answered.ts"
import type { Unpriced } from "../../conversation/Answered.ts"
import type { AnswerEnd } from "../decide/AnswerEnd.ts"
import type { Commit } from "../decide/CallState.ts"
import type { MidStream } from "../decide/RecoveryPolicy.ts"
import { isProgress } from "./Fold.ts"
import { HeldParts } from "./HeldParts.ts"
import { ShownText } from "./ShownText.ts"
import { carrier } from "./Surface.ts"
import { sum, unknown } from "../../conversation/Usage.ts"

type Part = Response.StreamPartEncoded

/** How an attempt has ended. Nothing behind its end is read. */
export type AttemptEnd =
  /** The answer is complete, or is delivered as it is. */
  | { readonly _tag: "Whole"; readonly finish: Response.FinishPartEncoded }
  | Cut
  /** The last part says that the attempt failed, or a tool call lacks its end. */
  | {
      readonly _tag: "Failed"
      readonly part: Response.ErrorPartEncoded | Response.FinishPartEncoded
      /** The failure, where the finish is intact: the content was refused, or there is none. */
      readonly problem: ProviderFailure | undefined
    }

/** The output limit cut the answer. */
export interface Cut {
  readonly _tag: "Cut"
  readonly finish: Response.FinishPartEncoded
  /** There is a tool call in it, which must not run. */
  readonly inToolCall: boolean
}

export class StreamGate {
  #commit: Commit = "nothing"
  readonly #text: ShownText
  #alive = false
  #seamVerdict: Seam.Verdict | undefined
  #ended: AttemptEnd | undefined
  readonly #requested: string
  /** Judges the current attempt. */
  #judge: AnswerEnd | undefined
  readonly #structured: boolean
  /** The object of the current attempt, where one was asked for. */
  #object: ObjectText | undefined
  /** The last text part that it has taken. */
  #ofObject: Response.TextDeltaPartEncoded | undefined
  readonly #midStream: MidStream
  #answered: Unpriced | undefined
  /** The maker of the current attempt's parts. */
  #maker: Provenance | undefined
  #attempt = 0
  /** Characters of text that were shown before the current attempt. */
  #before = 0
  /** The consumer has seen content of the current attempt. */
  #shown = false
  /** The current attempt has come to its end, and is the answer. */
  #isWhole = false
  /** Parts before the first content (metadata, starts of blocks), held back until content comes. */
  #preamble: Array<Part> = []
  /** Parts from the first tool call on, held back until the finish part. Their deltas are joined. */
  readonly #tail = new HeldParts()
  /**
   * Text blocks that are open for the consumer, now and when the attempt began, each with its end once that has
   * come: it is held, because a later attempt may write on in the block.
   */
  #texts = new Map<string, Response.TextEndPartEncoded | undefined>()
  #textsBefore: ReadonlyArray<string> = []
  /** The block that an earlier attempt left open, until the current one writes on in it. */
  #toContinue: string | undefined
  /** The start of a text block that has no content yet. Held back until the thinking before it has ended. */
  #opening: Response.TextStartPartEncoded | undefined
  /** Open thinking blocks of the current attempt in their order, each with its end once that has come. */
  #thinking = new Map<string, Response.ReasoningEndPartEncoded | undefined>()
  /** Ends, marked, of thinking that earlier attempts showed. */
  #abandoned: Array<Part> = []
  /** Ids of this attempt's blocks as the consumer knows them. */
  #ids = new Map<string, string>()
  /** Where the current attempt continues the text, until that is decided. */
  #seam: Seam.Seam | undefined
  /** The last text part that is held back while the continuation is decided, with the metadata of all held parts. */
  #atSeam: Response.TextDeltaPartEncoded | undefined
  /** Known usage of failed attempts. */
  #usage: Response.FinishPartEncoded["usage"] | undefined

  /**
   * `requested` is the id of the target that stands first. `midStream` is what may become of text that was seen; if
   * that depends on the failure, `restart` stands for all and `continue` for `fail`. `structured`: an object was asked
   * for.
   */
  constructor(requested: string, midStream: MidStream = "continue", structured = false) {
    this.#requested = requested
    this.#midStream = midStream
    this.#structured = structured
    this.#text = new ShownText(midStream !== "fail" || structured)
  }

  /** The most that the consumer has seen of the current attempt. Only grows within an attempt. */
  get commit(): Commit {
    return this.#commit
  }

  /** All text that the consumer has seen of the call; empty where no attempt can need it. */
  get text(): string {
    return this.#text.all
  }

  /** Characters of text that the current attempt has shown. */
  get gained(): number {
    return this.#text.length - this.#before
  }

  /** True when the last push had something that is no keep-alive. */
  get alive(): boolean {
    return this.#alive
  }

  /** The verdict of the last push about text that continues the answer, if there is one. */
  get seam(): Seam.Verdict | undefined {
    return this.#seamVerdict
  }

  /** How the current attempt has ended; `undefined` as long as it goes on. */
  get end(): AttemptEnd | undefined {
    return this.#ended
  }

  /** The complete end of the answer. */
  get finish(): Response.FinishPartEncoded | undefined {
    return this.#ended?._tag === "Whole" ? this.#ended.finish : undefined
  }

  /** The part with which the current attempt ended as failed. */
  get failed(): Response.ErrorPartEncoded | Response.FinishPartEncoded | undefined {
    return this.#ended?._tag === "Failed" ? this.#ended.part : undefined
  }

  /** Starts an attempt, made by `maker` and judged by `judge`. Drops the held parts of the attempt before. */
  begin(answered: Omit<Unpriced, "requested">, maker: Provenance, judge?: AnswerEnd): void {
    this.#judge = judge
    this.#dropOpening()
    if (this.#shown) {
      this.#abandoned.push(...this.#endsOfThinking())
      this.#textsBefore = [...this.#texts.keys()]
    }
    const usage = usageOf(this.#ended)
    if (usage !== undefined) this.#usage = sum(this.#usage, usage)
    this.#ended = undefined
    this.#before = this.#text.length
    this.#texts = new Map(this.#textsBefore.map((id) => [id, undefined]))
    this.#toContinue = this.#textsBefore.at(-1)
    this.#thinking = new Map()
    this.#preamble = []
    this.#tail.clear()
    this.#ids = new Map()
    this.#seam = this.text.trim() === "" ? undefined : Seam.make(this.text)
    this.#atSeam = undefined
    this.#object = this.#structured ? new ObjectText() : undefined
    this.#ofObject = undefined
    this.#seamVerdict = undefined
    this.#attempt++
    this.#answered = { requested: this.#requested, ...answered }
    this.#maker = this.#seam === undefined ? maker : { ...maker, continued: true }
    this.#commit = "nothing"
    this.#alive = false
    this.#isWhole = false
    this.#shown = false
  }

  /**
   * What the consumer has seen is void: says so, and forgets it. Before {@link begin} of the attempt that begins
   * anew.
   */
  rewind(): ReadonlyArray<Part> {
    const characters = this.#text.length
    return [...this.close(), carrier({ type: "rewind", characters })]
  }

  /** Ends the blocks that the consumer has seen, marked as void, and forgets them: the next attempt begins blocks of its own. */
  close(): ReadonlyArray<Part> {
    this.#dropOpening()
    const ends = [...this.#texts].map(
      ([id, end]): Part => end ?? { type: "text-end", id, metadata: { [namespace]: { void: true } } }
    )
    const out = [...this.#abandoned, ...(this.#shown ? this.#endsOfThinking() : []), ...ends]
    this.#abandoned = []
    this.#thinking = new Map()
    this.#texts = new Map()
    // An attempt that had not yet gone on with the text holds it under this name.
    this.#textsBefore = []
    this.#text.clear()
    return out
  }

  /** The rest of a cut answer, made by `answered`, that is delivered as it is; it ends with a finish. */
  deliverCut(answered: Omit<Unpriced, "requested">, costUsd: number | undefined): Array<Part> {
    const out: Array<Part> = []
    // Nothing was shown of a failed attempt at continuing it.
    const cut = this.#ended?._tag === "Cut" ? this.#ended : undefined
    if (cut === undefined && !this.#shown) {
      this.#preamble = []
      this.#thinking = new Map()
      this.#texts = new Map(this.#textsBefore.map((id) => [id, undefined]))
    }
    // A call of the program is not run; the rest of what was held behind it is part of the answer.
    for (const part of cut === undefined ? [] : this.#tail.all) {
      if (isBlock(part)) this.#show(part, out)
      else if (isProviders(part) || !part.type.startsWith("tool-")) out.push(part)
    }
    this.#endSeam(out)
    this.#endObject(out)
    this.#content(out)
    this.#dropOpening()
    out.push(...this.#endsOfThinking())
    for (const [id, end] of this.#texts) out.push(end ?? asContinued({ type: "text-end", id }))
    const last = cut?.finish ?? (this.failed?.type === "finish" ? this.failed : undefined)
    const { response = undefined, usage = unknown } = last ?? {}
    const { reason = "length", metadata } = cut?.finish ?? {}
    const finish = { type: "finish", reason, response, usage, metadata } as const
    this.#ended = { _tag: "Whole", finish }
    this.#answered = { requested: this.#requested, ...answered }
    return [...out, this.priced(finish, costUsd)]
  }

  /** The answer that the provider refused, delivered as {@link deliverCut} does; it ends with its own finish. */
  deliverRefused(
    finish: Response.FinishPartEncoded,
    answered: Omit<Unpriced, "requested">,
    costUsd: number | undefined
  ): Array<Part> {
    this.#ended = { _tag: "Cut", finish, inToolCall: false }
    return this.deliverCut(answered, costUsd)
  }

  /**
   * The answer is complete, and not what was asked for: the attempt has failed. `isGiven`: the consumer has something of
   * the call; otherwise nothing of it was ever shown.
   */
  refuse(isGiven: boolean): void {
    const part = this.finish
    if (part !== undefined) this.#ended = { _tag: "Failed", part, problem: undefined }
    if (isGiven) return
    this.rewind()
    this.#commit = "nothing"
    this.#shown = false
  }

  /** Ends of the thinking that was shown of the current attempt: marked, but for a whole one of a cut answer. */
  #endsOfThinking(): ReadonlyArray<Part> {
    return [...this.#thinking].map(([id, end]) =>
      this.#ended?._tag === "Cut" && end !== undefined
        ? end
        : {
            type: "reasoning-end",
            id,
            metadata: { ...end?.metadata, [namespace]: { partial: true } }
          }
    )
  }

  /** Takes parts of the attempt, and returns the parts for the consumer. */
  push(parts: ReadonlyArray<Part>): Array<Part> {
    const out: Array<Part> = []
    this.#alive = false
    this.#seamVerdict = undefined
    for (const part of parts) {
      if (this.#ended !== undefined) break
      this.#read(part, out)
    }
    return out
  }

  /** The finish part as it is shown: with who answered, for how much, and what the failed attempts took. */
  priced(finish: Response.FinishPartEncoded, costUsd: number | undefined): Response.FinishPartEncoded {
    const usage = this.#usage === undefined ? finish.usage : sum(this.#usage, finish.usage)
    if (this.#answered === undefined) return { ...finish, usage }
    const answered = written({ ...this.#answered, costUsd })
    return { ...finish, usage, metadata: { ...finish.metadata, [namespace]: answered } }
  }

  #read(part: Part, out: Array<Part>): void {
    this.#judge?.saw(part)
    if (part.type === "error" || (part.type === "finish" && part.reason === "error")) {
      this.#ended = { _tag: "Failed", part, problem: undefined }
    } else if (part.type === "finish") {
      this.#finished(part, out)
    } else if (this.#tail.all.length > 0 || isForProgram(part)) {
      // Nothing may overtake a call that is held, and the text before it is over.
      this.#endSeam(out)
      this.#endObject(out)
      if (this.#midStream !== "restart") this.#endTexts(out)
      // Only content counts: a provider may stall inside the arguments of a call and send keep-alives without an end.
      if (isProgress(part)) this.#alive = true
      if (isProviders(part)) this.#commit = "tool"
      this.#tail.push(isBlock(part) ? part : this.#signed(part))
    } else this.#show(part, out)
  }

  #show(part: Exclude<Part, Response.ErrorPartEncoded | Response.FinishPartEncoded>, out: Array<Part>): void {
    switch (part.type) {
      case "text-delta": {
        if (this.#object !== undefined) this.#showObject(this.#object, this.#renamed(part), out)
        else if (this.#seam === undefined) this.#showText(this.#renamed(part), out)
        else this.#join(this.#seam, this.#renamed(part), out)
        return
      }
      case "text-start": {
        this.#endSeam(out)
        if (this.#toContinue !== undefined) {
          this.#ids.set(part.id, this.#toContinue)
          this.#toContinue = undefined
          return
        }
        this.#endTexts(out)
        const id = this.#claim(part.id)
        this.#texts.set(id, undefined)
        const start = this.#signed({ ...part, id })
        if (this.#holdsThinking()) this.#opening = start
        else this.#emit(start, out)
        return
      }
      case "text-end": {
        const renamed = this.#renamed(part)
        const end = this.#textsBefore.includes(renamed.id) ? asContinued(renamed) : renamed
        this.#texts.set(end.id, end)
        // The rest of an object belongs into its block.
        if (this.#object !== undefined || !this.#isSettled()) return
        this.#endSeam(out)
        this.#endTexts(out)
        return
      }
      case "reasoning-start": {
        this.#endSeam(out)
        this.#endTexts(out)
        const id = this.#claim(part.id)
        this.#thinking.set(id, undefined)
        this.#emit(this.#signed({ ...part, id }), out)
        return
      }
      case "reasoning-delta": {
        if (part.delta !== "") {
          this.#content(out)
          if (this.#commit === "nothing") this.#commit = "reasoning"
          out.push(this.#renamed(part))
        } else if (part.metadata !== undefined) this.#emit(this.#renamed(part), out)
        return
      }
      case "reasoning-end": {
        const end = this.#renamed(part)
        this.#thinking.set(end.id, end)
        this.#endThinking(out)
        return
      }
      case "response-metadata":
      case "source":
      case "file": {
        this.#emit(this.#signed(part), out)
        return
      }
      default: {
        // A tool that the provider runs itself has had its effect: the call must not be repeated.
        this.#endSeam(out)
        this.#content(out)
        this.#commit = "tool"
        this.#endThinking(out)
        this.#endTexts(out)
        out.push(this.#signed(part))
      }
    }
  }

  #finished(finish: Response.FinishPartEncoded, out: Array<Part>): void {
    if (finish.reason === "length") {
      this.#endSeam(out)
      this.#ended = { _tag: "Cut", finish, inToolCall: this.#tail.all.some(isForProgram) }
      return
    }
    // A call was begun and never made: the answer is cut, whatever its end says. One that was refused may be.
    const begun = this.#tail.all.filter((part) => part.type === "tool-params-start" && !isProviders(part))
    const made = this.#tail.all.filter((part) => part.type === "tool-call")
    if (begun.length > made.length && finish.reason !== "content-filter") {
      this.#ended = { _tag: "Failed", part: finish, problem: undefined }
      return
    }
    const problem = this.#judge?.problem(finish)
    if (problem !== undefined) {
      this.#ended = { _tag: "Failed", part: finish, problem }
      return
    }
    this.#isWhole = true
    // A block that ended before a call ends before it for the consumer, too.
    if (this.#tail.all.length > 0) {
      this.#endThinking(out)
      this.#endTexts(out)
    }
    for (const part of this.#tail.all) {
      if (isBlock(part)) this.#show(part, out)
      else {
        this.#endSeam(out)
        this.#content(out)
        out.push(part)
      }
    }
    this.#endSeam(out)
    this.#endObject(out)
    this.#content(out)
    for (const [id, end] of this.#thinking) out.push(end ?? { type: "reasoning-end", id })
    this.#open(out)
    for (const [id, end] of this.#texts) out.push(end ?? { type: "text-end", id })
    this.#ended = { _tag: "Whole", finish }
  }

  #showText(part: Response.TextDeltaPartEncoded, out: Array<Part>): void {
    // An empty delta is no content; some providers send a late signature of the block with it.
    if (part.delta !== "") {
      this.#content(out)
      if (this.#commit !== "tool") this.#commit = "text"
      if (this.#thinking.size > 0) this.#endThinking(out)
      if (this.#opening !== undefined) this.#open(out)
      this.#text.add(part.delta)
      out.push(part)
    } else if (part.metadata !== undefined) this.#emit(part, out)
  }

  #showObject(object: ObjectText, part: Response.TextDeltaPartEncoded, out: Array<Part>): void {
    if (part.delta !== "") this.#alive = true
    this.#ofObject = part
    this.#showText({ ...part, delta: object.push(part.delta) }, out)
  }

  /** The object is over, or a call came in its place: what was held of its text is shown. */
  #endObject(out: Array<Part>): void {
    const rest = this.#object?.end() ?? ""
    this.#object = undefined
    if (this.#ofObject !== undefined && rest !== "") {
      const { type } = this.#ofObject
      const isOpen = this.#texts.has(this.#ofObject.id)
      // Something else has begun since, and has closed its block.
      const id = isOpen ? this.#ofObject.id : `${this.#ofObject.id}:rest`
      if (!isOpen) {
        this.#texts.set(id, undefined)
        this.#emit(this.#signed({ type: "text-start", id }), out)
      }
      this.#showText({ type, id, delta: rest }, out)
    }
  }

  /** Text that continues what was shown: held, as long as it may be a repetition of it. */
  #join(seam: Seam.Seam, part: Response.TextDeltaPartEncoded, out: Array<Part>): void {
    if (part.delta !== "") this.#alive = true
    const metadata = { ...this.#atSeam?.metadata, ...part.metadata }
    this.#atSeam = Object.keys(metadata).length === 0 ? part : { ...part, metadata }
    this.#joined(Seam.push(seam, part.delta), out)
  }

  /** Something else comes, or nothing: what the seam holds is decided with what is known. */
  #endSeam(out: Array<Part>): void {
    if (this.#seam !== undefined && this.#atSeam !== undefined) this.#joined(Seam.end(this.#seam), out)
  }

  #joined({ seam, text, verdict }: Seam.Pushed, out: Array<Part>): void {
    this.#seam = verdict === undefined ? seam : undefined
    if (verdict === undefined || this.#atSeam === undefined) return
    this.#seamVerdict = verdict
    this.#showText({ ...this.#atSeam, delta: text }, out)
    this.#atSeam = undefined
  }

  /** Shows a part that is no content by itself: later, if nothing has come yet. */
  #emit(part: Part, out: Array<Part>): void {
    if (this.#shown) out.push(part)
    else this.#preamble.push(part)
  }

  /** Content has come: the preamble may be seen. */
  #content(out: Array<Part>): void {
    this.#alive = true
    if (this.#shown) return
    this.#shown = true
    out.push(...this.#abandoned, ...this.#preamble)
    this.#abandoned = []
    this.#preamble = []
  }

  /** No other attempt follows, whatever happens to this one. */
  #isSettled(): boolean {
    return this.#isWhole || this.#commit === "tool" || (this.#commit === "text" && this.#midStream === "fail")
  }

  /** The end of a thinking block is held. */
  #holdsThinking(): boolean {
    for (const end of this.#thinking.values()) if (end !== undefined) return true
    return false
  }

  /** Closes the thinking that has ended, unless the attempt may still be replaced. */
  #endThinking(out: Array<Part>): void {
    const mayBeReplaced =
      !this.#isWhole && this.#commit !== "tool" && (this.#commit !== "text" || this.#midStream === "restart")
    if (mayBeReplaced) return
    for (const [id, end] of this.#thinking) {
      if (end === undefined) continue
      this.#emit(end, out)
      this.#thinking.delete(id)
    }
  }

  #open(out: Array<Part>): void {
    if (this.#opening !== undefined) this.#emit(this.#opening, out)
    this.#opening = undefined
  }

  #dropOpening(): void {
    if (this.#opening !== undefined) this.#texts.delete(this.#opening.id)
    this.#opening = undefined
  }

  /** Closes the blocks that have ended: something else begins. */
  #endTexts(out: Array<Part>): void {
    this.#open(out)
    for (const [id, end] of this.#texts) {
      if (end === undefined) continue
      this.#emit(end, out)
      this.#texts.delete(id)
    }
  }

  /** The part with who made it in its metadata; a text also says who answers. */
  #signed<P extends Part>(part: P): P {
    if (this.#maker === undefined) return part
    if (part.type !== "text-start" || this.#answered === undefined) return sign(part, this.#maker)
    return sign(part, { ...written(this.#answered), ...this.#maker })
  }

  /** An id that no earlier attempt has used. */
  #claim(id: string): string {
    const unique = this.#attempt === 1 ? id : `${this.#attempt}:${id}`
    this.#ids.set(id, unique)
    return unique
  }

  #renamed<P extends Part & { readonly id: string }>(part: P): P {
    // The ids of the first attempt stay as they are: nothing to look up for each delta.
    if (this.#attempt === 1) return part
    const id = this.#ids.get(part.id) ?? part.id
    return id === part.id ? part : { ...part, id }
  }
}

/** Tokens of an attempt that is not the answer, where its finish came. */
export const usageOf = (end: AttemptEnd | undefined): Response.FinishPartEncoded["usage"] | undefined => {
  if (end?._tag === "Cut") return end.finish.usage
  return end?._tag === "Failed" && end.part.type === "finish" ? end.part.usage : undefined
}

/** The end of a text that more than one attempt wrote: no single signature covers all of it. */
const asContinued = (end: Response.TextEndPartEncoded): Response.TextEndPartEncoded => ({
  ...end,
  metadata: { ...end.metadata, [namespace]: { continued: true } }
})

type BlockPart =
  | Response.TextStartPartEncoded
  | Response.TextDeltaPartEncoded
  | Response.TextEndPartEncoded
  | Response.ReasoningStartPartEncoded
  | Response.ReasoningDeltaPartEncoded
  | Response.ReasoningEndPartEncoded

/** A part of a text or of thinking, whose block the gate keeps. */
const isBlock = (part: Part): part is BlockPart =>
  part.type.startsWith("text-") || part.type.startsWith("reasoning-")

/** True for a part that the program may act on: a tool call, or the parameters of one. */
const isForProgram = (part: Part): boolean =>
  (part.type === "tool-call" || part.type === "tool-params-start" || part.type === "tool-approval-request") &&
  !isProviders(part)

/** True for a part of a tool that the provider runs itself. */
const isProviders = (part: Part): boolean => "providerExecuted" in part && part.providerExecuted === true
