/**
 * The parts of a whole answer that took more than one attempt: what was kept of cut ones, joined to one answer.
 *
 * The texts become one text, without what a continuation repeats (`Seam`). Thinking of a continuation is left out: it
 * belongs to a request that the conversation will not show. Tool calls of a cut answer are left out, because their
 * arguments may be; those of the complete one at the end stay.
 */
import type { Response } from "effect/ai"
import type { Provenance } from "../conversation/Provenance.ts"
import { sign } from "../conversation/Provenance.ts"
import { sum } from "../conversation/Usage.ts"
import * as Seam from "./Seam.ts"

type Part = Response.PartEncoded
type Usage = Response.FinishPartEncoded["usage"]

/** Whoever makes the parts, and whether it was asked to go on with what is kept. */
interface Author {
  readonly maker: Provenance
  readonly continues: "interrupted" | "cut" | undefined
}

export class Kept<From extends Author> {
  /** Whose answer was kept last. */
  from: From | undefined
  /** What is kept, without a finish. */
  parts: ReadonlyArray<Part> = []
  /** All text of it. */
  text = ""
  /** What the attempts before took. */
  usage: Usage | undefined

  /** An attempt failed: only what it took is remembered. */
  forget(usage: Usage): void {
    this.usage = sum(this.usage, usage)
  }

  /** A cut answer: joined to what it continues, or in its place. A text is not given up for an answer without any. */
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

  /** The parts of the next answer, behind what is kept where they continue it, as one answer without a finish. */
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

/** Text that says something. */
export const isText = (part: Part): boolean => part.type === "text" && part.text.trim() !== ""

/** A call that the program would run. */
export const isCallOfProgram = (part: Part): boolean =>
  part.type === "tool-call" && part.providerExecuted !== true
