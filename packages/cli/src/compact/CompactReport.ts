/** The report of a compaction, as text and as JSON. Pure. */
import type { Prompt } from "effect/ai"
import type { Report } from "@outlast/agent/compaction"
import type { Format, Transcript } from "./Transcript.ts"
import { names } from "./Transcript.ts"

/** A part that was removed or changed, with its position in the body. */
interface Dropped extends Omit<Report.Dropped, "at"> {
  /** Index in `messages`, `contents` or `content`. */
  readonly at: number
}

/** The output of `--json`. */
export interface Summary {
  readonly format: Format
  readonly tokensBefore: number
  readonly tokensAfter: number
  /** `none` when the transcript already fits. */
  readonly tier: Report.Report["tier"]
  readonly dropped: ReadonlyArray<Dropped>
}

export const summary = ({ format, prompt, sources }: Transcript, report: Report.Report): Summary => {
  const { tokensBefore, tokensAfter, tier } = report
  return { format, tokensBefore, tokensAfter, tier, dropped: droppedIn({ prompt, sources }, report) }
}

/** Returns one entry for each message of the body. Compaction may treat several messages as one. */
const droppedIn = (
  { prompt, sources }: Pick<Transcript, "prompt" | "sources">,
  report: Report.Report
): ReadonlyArray<Dropped> =>
  report.dropped.flatMap((one): ReadonlyArray<Dropped> => {
    const message = prompt.content[one.at]
    const at = message === undefined ? [] : sources.indicesOf(message, isOf(one))
    return at.map((at) => ({ ...one, at }))
  })

/** True when the entry is about this part of its message. */
const isOf =
  ({ what, call }: Report.Dropped) =>
  (part: Prompt.Part): boolean => {
    switch (what) {
      case "message":
        return true
      case "thinking":
        return part.type === "reasoning"
      case "result":
        return part.type === "tool-result" && part.id === call
      case "arguments":
        return part.type === "tool-call" && part.id === call
    }
  }

const count = (n: number): string => n.toLocaleString("en-US")

const plural = (n: number, word: string): string => `${count(n)} ${word}${n === 1 ? "" : "s"}`

export interface Written {
  /** Number of messages in the new body. */
  readonly size: number
  /** The output file. `undefined` when none was written. */
  readonly file: string | undefined
  /** Name of the tokenizer. `undefined` when tokens were estimated. */
  readonly tokenizer: string | undefined
}

/** The report as lines of text. */
export const lines = (
  shown: string,
  { format, model, size, prompt, sources }: Transcript,
  report: Report.Report,
  after: Written
): ReadonlyArray<string> => {
  const { tokensBefore, tokensAfter, limit, arithmetic, tier } = report
  const fits = tier === "none"
  const how = after.tokenizer === undefined ? "estimated" : `counted with ${after.tokenizer}`
  return [
    `${shown}: ${names[format]}${model === undefined ? "" : `, ${model}`}`,
    `  limit     ${count(limit)} tokens: ${arithmetic}`,
    `  before    ${plural(tokensBefore, "token")} in ${plural(size, "message")}, ${how}`,
    ...(fits
      ? ["  after     the same: it fits"]
      : [
          `  after     ${plural(tokensAfter, "token")} in ${plural(after.size, "message")}, by ${tier}`,
          ...dropped(droppedIn({ prompt, sources }, report)).map(
            (line, i) => `  ${i === 0 ? "dropped " : "        "}  ${line}`
          )
        ]),
    ...(after.file === undefined
      ? fits
        ? []
        : ["  Nothing was written: --out FILE keeps the compacted transcript."]
      : [`  written   ${after.file}`])
  ]
}

/** Maximum number of tool names to list. */
const maxNames = 8

const dropped = (all: ReadonlyArray<Report.Dropped>): ReadonlyArray<string> => {
  const roles = { user: "of the user", assistant: "of the assistant", tool: "with results", system: "" }
  const gone = tallied(all.filter(({ what }) => what === "message").map(({ role }) => roles[role]))
  const thinking = all.filter(({ what }) => what === "thinking").length
  const cuts = (["result", "arguments"] as const).flatMap((what) => {
    const cut = all.filter((one) => one.what === what)
    if (cut.length === 0) return []
    const characters = cut.reduce((sum, one) => sum + (one.characters ?? 0), 0)
    const words = what === "result" ? plural(cut.length, "result") : plural(cut.length, "argument")
    return [`${words}, ${count(characters)} characters: ${list(tallied(cut.map(({ tool = "" }) => tool)))}`]
  })
  const messages = gone.reduce((sum, [, n]) => sum + n, 0)
  return [
    ...(messages === 0 ? [] : [`${plural(messages, "message")}: ${list(gone.map(([of, n]) => [of, n]))}`]),
    ...cuts,
    ...(thinking === 0 ? [] : [`the thinking of ${plural(thinking, "message")}`])
  ]
}

type Tally = ReadonlyArray<readonly [name: string, times: number]>

/** Counts names, most frequent first. */
const tallied = (names: ReadonlyArray<string>): Tally => {
  const times = new Map<string, number>()
  for (const name of names) times.set(name, (times.get(name) ?? 0) + 1)
  return [...times].sort(([, a], [, b]) => b - a)
}

const list = (tally: Tally): string => {
  const more = tally.length - maxNames
  const named = tally.slice(0, maxNames).map(([name, times]) => `${count(times)} ${name}`)
  return [...named, ...(more > 0 ? [`and ${more} more`] : [])].join(", ")
}
