/** Counts the transcripts of `test/fixtures/transcripts` turn by turn, while a provider reports its usage. */
import { readFile } from "node:fs/promises"
import { Effect } from "effect"
import { Prompt } from "effect/ai"
import { Compaction } from "@outlast/agent"
import { assert, describe, it } from "vitest"
// oxlint-disable-next-line no-restricted-imports -- Support of tests is in no package.
import type { Provider } from "../../providers/test/simulatedUsage.ts"
// oxlint-disable-next-line no-restricted-imports -- As above.
import { provider, tokenizers } from "../../providers/test/simulatedUsage.ts"
import { fileOf, fixtures } from "../../../test/fixtures/transcripts/generate.ts"
import * as Sweeps from "../../../test/sweeps.ts"
import type { Transcript } from "#cli/compact/Transcript"
import { read } from "./transcripts.ts"

/** Number of turns with reported usage before counts have to be accurate. */
const learning = 10

/** Errors of the counts after the first ten requests, as shares of the whole conversation. */
const errorsOf = ({ prompt: { content } }: Transcript, tools: Transcript["tools"], count: Provider) =>
  Effect.gen(function* () {
    const compaction = yield* Compaction.make()
    const errors: Array<number> = []
    // Each answer of the model was requested with everything before it.
    const asked = content.flatMap(({ role }, i) => (role === "assistant" ? [content.slice(0, i)] : []))
    for (const messages of asked) {
      const prompt = Prompt.fromMessages(messages)
      const { report } = yield* compaction.fit(prompt, { window: 10_000_000, tools, model: "any" })
      const inputTokens = count(prompt, tools)
      errors.push(Math.abs(report.tokensBefore - inputTokens) / inputTokens)
      yield* compaction.learn({ prompt, tools, model: "any", inputTokens })
    }
    return errors.slice(learning)
  }).pipe(Effect.scoped, Effect.runPromise)

const { o200k, cl100k } = tokenizers
const cases = Sweeps.everyNth(
  5,
  Object.entries({ o200k, cl100k }).flatMap(([name, tokenizer]) =>
    [30, 300, 1_500].map((hidden) => [name, hidden, tokenizer] as const)
  )
)

describe.each(Object.keys(fixtures))("%s, after ten turns", (name) => {
  it.each(cases)("is off by less than 0.03 in each turn: %s, %d hidden tokens", async (...given) => {
    const [, hidden, tokenizer] = given
    const transcript = read(JSON.parse(await readFile(fileOf(name), "utf8")))
    for (const tools of [transcript.tools, []]) {
      const errors = await errorsOf(transcript, tools, provider(tokenizer, hidden))
      assert.isAtLeast(errors.length, 50)
      for (const [i, error] of errors.entries()) assert.isBelow(error, 0.03, `turn ${learning + 1 + i}`)
    }
  })
})
