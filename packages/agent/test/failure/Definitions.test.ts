import { assert, describe, it } from "@effect/vitest"
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import { fromFailure } from "#agent/failure/reasons/CallFailed"

const { definitions, definitionOf, reasonTags } = FailoverReason

describe("the definition of a reason", () => {
  it("is found under its own tag, with samples of that tag", () => {
    for (const tag of reasonTags) {
      assert.isNotEmpty(definitions[tag].samples)
      for (const sample of definitions[tag].samples) {
        assert.strictEqual(sample._tag, tag)
        assert.strictEqual<unknown>(definitionOf(sample), definitions[tag])
      }
    }
    assert.deepStrictEqual<ReadonlyArray<string>>(Object.keys(definitions), reasonTags)
  })

  it("has its own label", () => {
    const labels = reasonTags.map((tag) => definitions[tag].label)
    assert.strictEqual(new Set(labels).size, reasonTags.length)
    assert.strictEqual(definitions.PermanentNetwork.label, "permanent_network")
  })

  it("has a message for users and a reason of effect/ai for each sample", () => {
    for (const tag of reasonTags) {
      for (const reason of definitions[tag].samples) {
        const failure = ProviderFailure.local("test/sample", reason, undefined)
        assert.match(ProviderFailure.whatHappened(failure), /^[a-z].*[^.]$/, tag)
        assert.match(ProviderFailure.whatToDo(failure), /^[A-Z].*\.$/, tag)
        assert.strictEqual(fromFailure("generateText", failure).isRetryable, false, tag)
      }
    }
  })
})
