import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { Classifier } from "@outlast/agent"
import * as ErrorFacts from "#agent/failure/facts/ErrorFacts"
import { afterwards, blind, blinds, cases, errorOf, label, phrases, review, verdict } from "./corpus.ts"
import { mediaSentences, signals } from "./signals.ts"

const sentences = readFileSync(new URL("./sentences.txt", import.meta.url), "utf8")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"))
  .map((line) => {
    const [expected = "", provider = "", ...rest] = line.split("|")
    return { expected, provider, message: rest.join("|") }
  })

describe("the classifier on the corpus", () => {
  const verdicts = cases.map((one) => ({ one, ...verdict(one) }))

  it("gives the exact label to at least 98 % of the errors", () => {
    const wrong = verdicts
      .filter(({ one, label }) => label !== one.expected)
      .map(({ one, label }) => `${one.id}: ${label}`)
    assert.isAtMost(wrong.length / cases.length, 0.02, wrong.join("\n"))
  })

  it("gives an acceptable label to at least 99 % of the errors", () => {
    const wrong = verdicts
      .filter(({ one, label }) => label !== one.expected && one.alt?.includes(label) !== true)
      .map(({ one, label }) => `${one.id}: ${label}`)
    assert.isAtMost(wrong.length / cases.length, 0.01, wrong.join("\n"))
  })

  it("reads every wait", () => {
    for (const { one, wait } of verdicts) assert.strictEqual(wait, one.retry_after_ms, one.id)
  })
})

describe("errors from memory", () => {
  for (const one of [...afterwards, ...phrases, ...review]) {
    it(`${one.id} is ${one.expected}: ${one.message.slice(0, 70)}`, () => {
      const { label, evidence, wait } = verdict(one)
      assert.include([one.expected, ...(one.alt ?? [])], label, evidence.rule)
      assert.strictEqual(wait, one.retry_after_ms)
    })
  }
})

describe("sentences without status and code", () => {
  for (const { expected, provider, message } of sentences) {
    it(`${expected} <- ${provider}: ${message.slice(0, 70)}`, () => {
      const failure = Classifier.failureOf({ message }, { provider })
      assert.strictEqual(label(failure.reason._tag), expected, failure.evidence.rule)
    })
  }
})

describe("every rule", () => {
  const last = blinds.at(-1)?.cases ?? []
  const inputs: ReadonlyArray<readonly [error: unknown, provider: string]> = [
    ...[...cases, ...blind, ...last, ...afterwards, ...phrases, ...review].map(
      (one) => [errorOf(one), one.provider] as const
    ),
    ...sentences.map(({ message, provider }) => [{ message }, provider] as const),
    ...mediaSentences.map((message) => [{ statusCode: 400, message }, "other"] as const),
    ...signals.map(([error, , provider = ""]) => [error, provider] as const)
  ]
  const chains = inputs.map(([error, provider]) => ({ chain: ErrorFacts.fromUnknown(error), provider }))
  /**
   * Rules on families of words and on learned words come last and overlap with many earlier rules. Earlier rules
   * are therefore judged without them, and families without learned words.
   */
  const isLearned = ({ id }: Classifier.Rule) => id.startsWith("words/")
  const isFamily = ({ id }: Classifier.Rule) => id.startsWith("family/")
  const written = Classifier.defaultRules.filter((rule) => !isLearned(rule))
  const specific = written.filter((rule) => !isFamily(rule))
  const tableFor = (rule: Classifier.Rule) =>
    isLearned(rule) ? Classifier.defaultRules : isFamily(rule) ? written : specific
  const verdictsWith = (rules: ReadonlyArray<Classifier.Rule>) =>
    chains.map(({ chain, provider }) => Classifier.classify(chain, { provider, rules }))
  const before = new Map(
    [specific, written, Classifier.defaultRules].map((table) => [table, verdictsWith(table)])
  )
  const json = (value: unknown) => JSON.stringify(value)

  /** True if a verdict of this rule would change with the given rules. */
  const changes = (rule: Classifier.Rule, rules: ReadonlyArray<Classifier.Rule>): boolean =>
    (before.get(tableFor(rule)) ?? []).some((was, i) => {
      const at = chains[i]
      if (was.evidence.rule !== rule.id || at === undefined) return false
      const now = Classifier.classify(at.chain, { provider: at.provider, rules })
      return json(now.reason) !== json(was.reason)
    })

  for (const rule of Classifier.defaultRules) {
    it(`${rule.id} is needed`, () => {
      const rules = tableFor(rule).filter((other) => other !== rule)
      assert.isTrue(changes(rule, rules), `no case changes without ${rule.id}: give it one, or remove it`)
    })
  }

  it("has no phrase without a case that needs it: add one (phrases.jsonl), or remove the phrase", () => {
    const idle: Array<string> = []
    for (const rule of Classifier.defaultRules) {
      for (const { phrase } of rule.parts ?? []) {
        if (phrase === undefined) continue
        const parts = rule.parts?.filter((part) => part.phrase !== phrase)
        const rules = tableFor(rule).map((other) => (other === rule ? { ...rule, parts } : other))
        if (!changes(rule, rules)) idle.push(`${rule.id}: ${phrase}`)
      }
    }
    assert.deepStrictEqual(idle, [])
  })

  it("has a unique id and a reason in `why`", () => {
    const ids = Classifier.defaultRules.map(({ id }) => id)
    assert.strictEqual(new Set(ids).size, ids.length)
    for (const { id, why } of Classifier.defaultRules) {
      assert.match(id, /^[a-z-]+\/[a-z-]+$/)
      assert.isAbove(why.length, 10, id)
    }
  })

  it("of the table decides its signal", () => {
    for (const [error, expected, provider] of signals) {
      const { reason, evidence } = Classifier.failureOf(error, { provider })
      assert.strictEqual(reason._tag, expected, `${evidence.rule}: ${json(error)}`)
    }
  })
})
