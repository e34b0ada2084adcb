/**
 * Forty facts in a conversation of 200,000 tokens: the pinned ones stay, and the report lists the others that were
 * removed.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Prompt } from "effect/ai"
import { Compaction, CompactionPolicy } from "@outlast/agent"
import { Marks } from "@outlast/agent/compaction"
import { assistant, lorem, scripted, system, textOf, tokensOf, turn, user } from "./support.ts"

const facts = Array.from(
  { length: 40 },
  (_, i) => `FACT-${100 + i}: the port of service ${i} is ${4_000 + 7 * i}.`
)

/** Facts from the user and from tools, spread over long work. */
const conversation = (pinned: (fact: number) => boolean) =>
  Prompt.fromMessages([
    system("Be kind."),
    user("Find all ports."),
    ...facts.flatMap((fact, i): ReadonlyArray<Prompt.Message> => {
      const told = i % 2 === 0 ? [user(fact)] : turn(`fact_${i}`, fact)
      return [
        ...told.map((message) => (pinned(i) ? Marks.pin(message) : message)),
        assistant(lorem(600)),
        ...Array.from({ length: 4 }, (_, n) => turn(`work_${i}_${n}`, lorem(500))).flat(),
        user(lorem(1_610))
      ]
    }),
    assistant("All found."),
    user("List them.")
  ])

/** Copies one fact out of each request and forgets the others. */
const forgetful = scripted((request) => `Seen: ${request.match(/FACT-\d+: [^.]*\./)?.[0] ?? "nothing"}`)

const policies: Readonly<Record<string, CompactionPolicy.CompactionPolicy>> = {
  defaults: CompactionPolicy.defaults,
  "token tail": CompactionPolicy.tokenTail(20_000),
  codebuddy: CompactionPolicy.codebuddy,
  claw0: CompactionPolicy.claw0,
  s11: CompactionPolicy.s11,
  "summaries only": { ...CompactionPolicy.defaults, tiers: ["chunks"] },
  "plain only": { ...CompactionPolicy.defaults, tiers: ["plain"] }
}

describe.each(Object.entries(policies))("40 facts in 200,000 tokens, policy %s", (_, policy) => {
  const run = (prompt: Prompt.Prompt) =>
    Effect.gen(function* () {
      const { options } = yield* forgetful
      const compaction = yield* Compaction.make({ policy, summariser: options })
      const fitted = yield* compaction.fit(prompt, { window: 200_000 })
      const said = fitted.prompt.content.map(textOf).join("\n")
      return { ...fitted, found: facts.filter((fact) => said.includes(fact)) }
    })

  it.effect("keeps 40 of 40 pinned facts", () =>
    Effect.gen(function* () {
      const prompt = conversation(() => true)
      assert.isAtLeast(tokensOf(prompt), 200_000)
      const { found, report } = yield* run(prompt)
      assert.deepStrictEqual(found, facts)
      assert.isAtMost(report.tokensAfter, report.limit)
    })
  )

  it.effect("keeps the pinned half, and reports the message of each removed fact", () =>
    Effect.gen(function* () {
      const prompt = conversation((i) => i % 4 < 2)
      const { found, report } = yield* run(prompt)
      for (const [i, fact] of facts.entries()) {
        if (i % 4 < 2) assert.include(found, fact)
        if (found.includes(fact)) continue
        const at = prompt.content.findIndex((message) => textOf(message).includes(fact))
        assert.isDefined(
          report.dropped.find((dropped) => dropped.at === at),
          `${fact} at ${at}`
        )
      }
      // The report never lists the system message as removed.
      assert.isTrue(report.dropped.every(({ at }) => prompt.content[at]?.role !== "system"))
    })
  )
})
