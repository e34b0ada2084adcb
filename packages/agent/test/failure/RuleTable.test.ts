import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { Classifier, FailoverReason } from "@outlast/agent"
import * as ErrorFacts from "#agent/failure/facts/ErrorFacts"
import * as Phrase from "#agent/failure/facts/Phrase"
import * as Rule from "#agent/failure/rules/Rule"
import { tableOf } from "#agent/failure/rules/RuleTable"
import { afterwards, cases, errorOf, phrases, review } from "./corpus.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

/** The reference for the index: tries every rule in the order of the table, each on the deepest link first. */
const byTryingAll = (
  rules: ReadonlyArray<Rule.Rule>,
  chain: ReadonlyArray<ErrorFacts.ErrorFacts>,
  provider: string
) => {
  for (const rule of rules) {
    for (const facts of chain.toReversed()) {
      const match = rule.match(facts, provider)
      if (match !== undefined) return { rule, match, facts }
    }
  }
  return undefined
}

const all = [...cases, ...afterwards, ...phrases, ...review]

/** Words, codes and pieces of phrases from the table, and some that are not in it. */
const words = [
  ...new Set([
    ...Classifier.defaultRules.flatMap(({ parts = [] }) => parts.flatMap(({ anchors = [] }) => [...anchors])),
    ...all.flatMap(({ message }) => message.toLowerCase().split(/\s+/)),
    "the",
    "x",
    "…",
    "中",
    "é",
    ""
  ])
]

/** Each phrase as one of the texts that it matches. */
const spelled = Classifier.defaultRules.flatMap(({ parts = [] }) =>
  parts.flatMap(({ phrase }) =>
    phrase === undefined
      ? []
      : [
          phrase
            .replaceAll("…", " x ")
            .replaceAll("*", "s")
            .replace(/\(([^|)]*)[^)]*\)/g, "$1")
        ]
  )
)

const piece = fc.oneof(
  fc.constantFrom(...words),
  fc.constantFrom(...spelled),
  fc.constantFrom(...all.map(({ message }) => message.slice(0, 200)))
)
const sentence = fc
  .array(fc.tuple(piece, fc.constantFrom(" ", ": ", "-", "_", "", "\n", "(")), { maxLength: 8 })
  .map((pieces) => pieces.flat().join(""))
const link = fc.record(
  {
    message: sentence,
    statusCode: fc.constantFrom(200, 400, 401, 402, 403, 404, 408, 413, 422, 429, 499, 500, 503, 529, 599),
    code: fc.constantFrom(...words),
    name: fc.constantFrom("Error", "TimeoutError", "AbortError", "ZodError", "ThrottlingException"),
    _tag: fc.constantFrom("RateLimitError", "Interrupted", "NetworkError")
  },
  { requiredKeys: ["message"] }
)
const errors = fc.oneof(
  fc.array(link, { minLength: 1, maxLength: 4 }).map((links) => {
    const [first, ...rest] = links.toReversed()
    return rest.reduce<object>((cause, link) => ({ ...link, cause }), { ...first })
  }),
  fc.constantFrom(...all).map(errorOf)
)
const provider = fc.constantFrom("", "openai", "google", "zhipu", "minimax", "qwen", "proxy")

const seats = Rule.text({
  id: "user/seats",
  why: "A rule of a user, on words.",
  phrases: ["no (free |)seats", "limit"],
  unless: ["rate"],
  reason: new FailoverReason.Overloaded()
})
const plain: Rule.Rule = {
  id: "user/plain",
  why: "A rule of a user, without parts.",
  match: ({ text }) =>
    text.includes("model") && text.length % 3 === 0
      ? { reason: new FailoverReason.Unknown(), signal: "text", matched: "model" }
      : undefined
}

const tables = [
  ["the table that ships", Classifier.defaultRules],
  ["with rules of users in front", [plain, seats, ...Classifier.defaultRules]],
  ["backwards", Classifier.defaultRules.toReversed()]
] as const

describe("the index finds the same as trying every rule in order", () => {
  for (const [name, rules] of tables) {
    it(name, () => {
      fc.assert(
        fc.property(errors, provider, (error, provider) => {
          const chain = ErrorFacts.fromUnknown(error)
          assert.deepStrictEqual(tableOf(rules).first(chain, provider), byTryingAll(rules, chain, provider))
        }),
        { numRuns: Sweeps.runs(500) }
      )
    })
  }

  it("finds the same for every error of the corpus", () => {
    for (const one of all) {
      const chain = ErrorFacts.fromUnknown(errorOf(one))
      const found = tableOf(Classifier.defaultRules).first(chain, one.provider)
      assert.deepStrictEqual(found, byTryingAll(Classifier.defaultRules, chain, one.provider), one.id)
    }
  })
})

describe("Phrase", () => {
  it("hashes the words of a text one by one", () => {
    const text = fc.array(fc.constantFrom("rate", "_", "429", " ", "-", "不足", "é", "…"), { maxLength: 12 })
    fc.assert(
      fc.property(text, (pieces) => {
        const joined = pieces.join("")
        const expected = [...Phrase.wordsOf(joined)].map(Phrase.keyOf)
        assert.deepStrictEqual([...new Set(Phrase.keysOf(joined))], expected)
      })
    )
  })

  const found: ReadonlyArray<readonly [phrase: string, text: string, found: string | undefined]> = [
    ["rate", "generate", undefined],
    ["rate", "the rate.", "rate"],
    ["(a|b) model", "b model", "b model"],
    ["quota…exceeded", "quota of 3 was exceeded", "quota…exceeded"],
    ["throttl*", "was throttled", "throttled"],
    ["concurren* limit", "the concurrency limit", "concurrency limit"],
    ["余额不足", "账户余额不足", "余额不足"]
  ]
  for (const [phrase, text, expected] of found) {
    it(`${phrase} in: ${text}`, () => assert.strictEqual(Phrase.phrase(phrase).find(text), expected))
  }

  it("has no anchor that may be a piece of a longer word", () => {
    const { anchors, find } = Phrase.phrase("time(-|)(out|) limit")
    assert.deepStrictEqual([find("timeout limit"), anchors], ["timeout limit", ["limit"]])
    assert.deepStrictEqual(Phrase.phrase("(a |)busy").anchors, ["busy"])
  })

  it("finds a word only where it is not a piece of a longer one", () => {
    assert.isFalse(Phrase.hasWord("xcancelled cancelled_", "cancelled"))
    assert.isTrue(Phrase.hasWord("xcancelled (cancelled)", "cancelled"))
  })
})
