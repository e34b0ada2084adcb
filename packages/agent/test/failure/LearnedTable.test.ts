/** `UPDATE_WORDS=1 npx vitest run packages/agent/test/failure/LearnedTable.test.ts` writes the table again. */
import { readFileSync, writeFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { Classifier } from "@outlast/agent"
import { reader } from "#agent/failure/rules/LearnedWords"
import { learnedRule } from "#agent/failure/rules/learned"
import { afterwards, blinds, cases, phrases, review, verdict } from "./corpus.ts"
import { learn, sourceOf, textOf } from "./learning.ts"

const file = new URL("../../src/failure/rules/LearnedTable.ts", import.meta.url)

/** All labelled errors except those of one set. */
const without = (left: string) => [
  ...cases,
  ...blinds.flatMap(({ name, cases }) => (name === left ? [] : cases)),
  ...afterwards,
  ...phrases,
  ...review
]

describe("the learned table", () => {
  it("matches the labelled errors, and is small", { timeout: 60_000 }, () => {
    const wanted = sourceOf(learn(without("")))
    if (process.env["UPDATE_WORDS"] === "1") writeFileSync(file, wanted)
    assert.strictEqual(readFileSync(file, "utf8"), wanted, "write it anew: UPDATE_WORDS=1")
    assert.isAtMost(wanted.length, 60_000)
  })
})

/** `LEARNED_SCORES=1` evaluates all sets and prints the scores. */
const isLong = process.env["LEARNED_SCORES"] === "1"

describe("words that were learned without the errors they are evaluated on", () => {
  for (const { name, cases } of blinds.filter(({ name }) => isLong || name === "blind-6")) {
    it(`reads most of ${name}`, { timeout: 60_000 }, () => {
      const table = learn(without(name))
      const read = reader(table)
      const alone = score(cases.map((one) => [one, read(textOf(one))?.label ?? "unknown"]))
      const written = Classifier.defaultRules.filter(({ id }) => !id.startsWith("words/"))
      const before = score(cases.map((one) => [one, verdict(one, written).label]))
      const rules = [...written, learnedRule(table)]
      const together = score(cases.map((one) => [one, verdict(one, rules).label]))
      if (isLong) console.log(name, { alone, before, together })
      assert.isAtLeast(alone.strict, 0.65)
      assert.isAtLeast(together.strict, before.strict)
      assert.isAtLeast(together.lenient, before.lenient)
      // No rule was written with knowledge of this set.
      if (name === "blind-6") assert.isAtLeast(together.strict, before.strict + 0.05)
    })
  }
})

const score = (verdicts: ReadonlyArray<readonly [one: (typeof cases)[number], label: string]>) => {
  const share = (right: (one: (typeof cases)[number], label: string) => boolean) =>
    verdicts.filter(([one, label]) => right(one, label)).length / verdicts.length
  return {
    strict: share((one, label) => label === one.expected),
    lenient: share((one, label) => label === one.expected || one.alt?.includes(label) === true)
  }
}
