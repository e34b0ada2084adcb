/**
 * Joins the parts of an answer that took more than one attempt.
 *
 * The texts become one text, without the words that a continuation repeats (`Seam`). Thinking of a continuation is
 * dropped: it belongs to a request that the conversation does not contain. Tool calls of a cut answer are dropped,
 * because their arguments may be cut; those of the final complete answer stay.
 */
import type { Response } from "effect/ai"
import type { Provenance } from "../conversation/Provenance.ts"
import { sign } from "../conversation/Provenance.ts"
import { sum } from "../conversation/Usage.ts"
import * as Seam from "./Seam.ts"

type Part = Response.PartEncoded
type Usage = Response.FinishPartEncoded["usage"]

/** The maker of parts, and whether it was asked to continue the kept answer. */
interface Author {
  readonly maker: Provenance
  readonly continues: "interrupted" | "cut" | undefined
}

export class Kept<From extends Author> {
  /** Maker of the answer that was kept last. */
  from: From | undefined
  /** Parts kept so far, without a finish part. */
  parts: ReadonlyArray<Part> = []
  /** The text of all kept parts. */
  text = ""
  /** Usage of the earlier attempts. */
  usage: Usage | undefined

  /** Adds the usage of a failed attempt, without its parts. */
  forget(usage: Usage): void {
    this.usage = sum(this.usage, usage)
  }

  /**
   * Keeps a cut answer: joined to the one that it continues, or in its place. An answer without text never replaces
   * one with text.
   */
  keep(parts: ReadonlyArray<Part>, usage: Usage, from: From): Seam.Verdict | undefined {
    if (from.continues === undefined && this.parts.some(isText) && !parts.some(isText)) {
      this.forget(usage)
      return undefined
    }
    const joined = this.join(
      parts.filter((part) => !isCallOfProgram(part)),
      from
    )
    this.from = from
    this.parts = joined.parts
    this.text = joined.parts.map((part) => (part.type === "text" ? part.text : "")).join("")
    this.usage = sum(this.usage, usage)
    return joined.verdict
  }

  /** Joins the next answer to the kept parts, if it continues them. Returns one answer without a finish part. */
  join(
    parts: ReadonlyArray<Part>,
    { maker, continues }: Author
  ): { readonly parts: ReadonlyArray<Part>; readonly verdict: Seam.Verdict | undefined } {
    const content = parts.filter(({ type }) => type !== "finish")
    if (continues === undefined)
      return { parts: content.map((part) => sign(part, maker)), verdict: undefined }
    const at = this.parts.findLastIndex(({ type }) => type === "text")
    const before = this.parts[at]
    if (before?.type !== "text" || this.text.trim() === "") {
      const from = { ...maker, continued: true }
      return { parts: content.map((part) => sign(part, from)), verdict: undefined }
    }
    const said = content.map((part) => (part.type === "text" ? part.text : "")).join("")
    const pushed = Seam.push(Seam.make(this.text), said)
    const ended = pushed.verdict === undefined ? Seam.end(pushed.seam) : pushed
    const continued = { ...maker, continued: true }
    const text = before.text + (ended === pushed ? pushed.text : pushed.text + ended.text)
    const rest = content.filter(({ type }) => type !== "text" && type !== "reasoning")
    const whole = sign({ ...before, text }, continued)
    return {
      parts: [
        ...this.parts.slice(0, at),
        whole,
        ...this.parts.slice(at + 1),
        ...rest.map((part) => sign(part, continued))
      ],
      verdict: ended.verdict
    }
  }
}

/** True for a text that is not blank. */
export const isText = (part: Part): boolean => part.type === "text" && part.text.trim() !== ""

/** True for a call that the program would run. */
export const isCallOfProgram = (part: Part): boolean =>
  part.type === "tool-call" && part.providerExecuted !== true
