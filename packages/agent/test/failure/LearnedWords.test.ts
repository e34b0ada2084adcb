import { assert, describe, it } from "@effect/vitest"
import { Classifier, RecoveryPolicy } from "@outlast/agent"
import { Duration } from "effect"
import { reader, unit, wordsOf } from "#agent/failure/rules/LearnedWords"
import { learnedRule } from "#agent/failure/rules/learned"

const table = {
  billing: { bias: 0, words: `wallet ${4 * unit} empty ${unit}` },
  network: { bias: 0, words: `cable ${3 * unit} empty ${-unit}` },
  unknown: { bias: unit, words: "" }
}

describe("wordsOf", () => {
  it("skips URLs, ids, numbers and common words", () => {
    const text = "the model gpt-4o at https://host/v1 failed: 12 of 30, 503 (request id: req_9f3a)"
    assert.deepStrictEqual([...wordsOf(text)], ["model", "gpt", "failed", "503"])
  })

  it("splits Chinese into pairs of characters", () => {
    assert.deepStrictEqual([...wordsOf("余额不足")], ["余额", "额不", "不足"])
  })

  it("reads no more than the first 2,000 characters", () => {
    assert.isFalse(wordsOf(`${"x ".repeat(1_000)}wallet`).has("wallet"))
  })
})

describe("reader", () => {
  const read = reader(table)

  it("returns the most likely label and its strongest words, in order", () => {
    assert.deepStrictEqual(read("an empty wallet"), {
      label: "billing",
      words: ["wallet", "empty"],
      support: 5 / Math.sqrt(2),
      margin: 5 / Math.sqrt(2) - 1
    })
  })

  it("returns undefined for a text without a known word", () => {
    assert.isUndefined(read("moderate weather"))
    assert.isUndefined(read(""))
  })

  it("weighs words against each other and against the score without any word", () => {
    assert.strictEqual(read("cable")?.label, "network")
    assert.strictEqual(read("wallet cable")?.label, "billing")
    assert.strictEqual(read("empty")?.margin, 0)
  })
})

describe("the learned rule", () => {
  const rules = [learnedRule(table)]
  const rule = (error: unknown, provider = "other") =>
    Classifier.failureOf(error, { rules, provider }).evidence

  it("names the words that decided", () => {
    assert.deepInclude(rule("Your wallet is empty"), {
      rule: "words/learned",
      signal: "text",
      matched: "wallet empty"
    })
  })

  it("does not match below the support or margin, with a status, or without a provider", () => {
    assert.strictEqual(rule("empty").rule, "none")
    assert.strictEqual(rule({ message: "Your wallet is empty", statusCode: 500 }).rule, "none")
    assert.strictEqual(rule("Your wallet is empty", "").rule, "none")
    assert.strictEqual(rule("TypeError: wallet is not a function").rule, "none")
  })

  it("opens no longer cooldown than an unknown failure", () => {
    const policy = RecoveryPolicy.interactive
    const named = (label: string) =>
      learnedRule({ ...table, [label]: { bias: 0, words: `wallet ${9 * unit}` } })
    const cooldownOf = (rules: ReadonlyArray<Classifier.Rule>) =>
      RecoveryPolicy.rowOf(policy, Classifier.failureOf("Your wallet", { rules, provider: "other" })).cooldown
    const unknown = cooldownOf([])
    assert(unknown !== undefined)
    for (const label of ["auth", "billing", "model_not_found", "permanent_network", "overloaded"]) {
      const cooldown = cooldownOf([named(label)])
      assert(cooldown !== undefined)
      assert(cooldown.initial !== "forever" && unknown.initial !== "forever")
      assert.isAtMost(Duration.toMillis(cooldown.initial), Duration.toMillis(unknown.initial), label)
      assert.deepStrictEqual([label, cooldown.cap], [label, Duration.seconds(30)])
    }
    assert.notDeepEqual(policy.rows.Billing.cooldown?.cap, unknown.cap)
  })

  it("never ends a call: another model is asked", () => {
    const policy = RecoveryPolicy.interactive
    const filtered = learnedRule({ ...table, content_policy: { bias: 0, words: `obscene ${9 * unit}` } })
    const failure = Classifier.failureOf("How obscene", { rules: [filtered], provider: "other" })
    assert.strictEqual(failure.reason._tag, "ContentPolicy")
    assert.isTrue(RecoveryPolicy.isHearsay(failure))
    assert.strictEqual(RecoveryPolicy.rowOf(policy, failure).then, "move")
  })
})
