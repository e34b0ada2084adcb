/**
 * Where the largest of what cannot be cut stands in a body. Pure.
 */
import type { CompactionPolicy } from "@outlast/agent"
import { Layout, Units } from "@outlast/agent/compaction"
import type { TokenCounter } from "@outlast/agent/compaction"
import type { Transcript } from "./Transcript.ts"

/** How many are named. */
const most = 5

/** One line that names them, largest first; none where nothing is kept. */
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
  return kept.length === 0 ? [] : [`The largest that stay: ${kept.join(", ")}.`]
}
