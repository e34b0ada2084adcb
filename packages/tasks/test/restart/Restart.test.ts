import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import * as fc from "fast-check"
import { CallFailure, FailoverReason, ProviderFailure } from "@outlast/agent"
import { Restart } from "@outlast/tasks"

const failureOf = (reason: FailoverReason.FailoverReason) =>
  new ProviderFailure.ProviderFailure({
    reason,
    evidence: { rule: "test/rule", signal: "status", depth: 0 },
    detail: "failed"
  })

const network = failureOf(new FailoverReason.Network())

const samples = FailoverReason.reasonTags.flatMap(
  (tag): ReadonlyArray<FailoverReason.FailoverReason> => FailoverReason.definitions[tag].samples
)

describe("Restart", () => {
  it("waits 1, 2 and 4 minutes, each up to a fifth longer, and then fails", () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1, noNaN: true }), (draw) => {
        const waits = [0, 1, 2].map((restarts) => Restart.decide(Restart.defaults, restarts, network, draw))
        for (const [i, minutes] of [1, 2, 4].entries()) {
          const decision = waits[i]
          assert.strictEqual(decision?._tag, "Restart")
          if (decision?._tag !== "Restart") return
          assert.strictEqual(decision.restart, i + 1)
          assert.isAtLeast(decision.wait, minutes * 60_000)
          assert.isAtMost(decision.wait, minutes * 72_000)
        }
        assert.strictEqual(Restart.decide(Restart.defaults, 3, network, draw)._tag, "Fail")
      })
    )
  })

  it("restarts after failures that may pass, and never after one of logic", () => {
    for (const reason of samples) {
      const isTransient = FailoverReason.definitionOf(reason).isTransient(reason)
      const decision = Restart.decide(Restart.defaults, 0, failureOf(reason), 0)
      assert.strictEqual(decision._tag, isTransient ? "Restart" : "Fail", reason._tag)
    }
    assert.isFalse(Restart.mayPass(failureOf(new FailoverReason.Format({ side: "request" }))))
  })

  it("does not come back before the first target does, and not a quarter of an hour later", () => {
    const out = (soonest: Duration.Input) =>
      new CallFailure.AllTargetsOut({
        targets: [
          {
            target: { id: "a/b#k", provider: "a", model: "b", endpoint: "https://a", key: "k" },
            failure: network
          }
        ],
        attempts: 3,
        soonest: Duration.fromInputUnsafe(soonest)
      })
    assert.deepInclude(Restart.decide(Restart.defaults, 0, out("5 minutes"), 0), { wait: 300_000 })
    assert.deepInclude(Restart.decide(Restart.defaults, 0, out("5 hours"), 0), { wait: 900_000 })
    assert.deepInclude(Restart.decide(Restart.defaults, 0, out("1 second"), 0), { wait: 60_000 })
  })

  it("never restarts with `restarts: false`", () => {
    assert.strictEqual(Restart.decide(Restart.never, 0, network, 0)._tag, "Fail")
  })
})
