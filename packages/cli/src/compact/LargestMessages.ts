/** Finds the largest messages of a body that compaction must keep, for the error message. Pure. */
import type { CompactionPolicy } from "@outlast/agent"
import { Layout, Units } from "@outlast/agent/compaction"
import type { TokenCounter } from "@outlast/agent/compaction"
import type { Transcript } from "./Transcript.ts"

/** Maximum number of messages to name. */
const most = 5

/** Returns one line that names them, largest first. Nothing when no message has to be kept. */
export const largest = (
  { prompt, sources, list }: Transcript,
  { tail }: CompactionPolicy.CompactionPolicy,
  meter: TokenCounter.Meter
): ReadonlyArray<string> => {
  const kept = Layout.of(Units.of(prompt.content), { tail, maxTail: Infinity, pinned: undefined, meter })
    .filter(({ kind }) => kind !== "free")
    .flatMap(({ messages }) => messages)
    .map((message) => ({ at: sources.indexOf(message), tokens: meter.message(message) }))
    .sort((a, b) => b.tokens - a.tokens)
    .slice(0, most)
    .map(({ at, tokens }) => {
      const where = at === undefined ? "the system prompt" : `${list}[${at}]`
      return `${where} (${tokens.toLocaleString("en-US")} tokens)`
    })
  return kept.length === 0 ? [] : [`The largest messages that must stay: ${kept.join(", ")}.`]
}
