/**
 * A preset follows the document of a known system. A new default of Outlast must not reach it unnoticed: here stands what
 * each one takes over from `interactive`.
 */
import { assert, describe, it } from "@effect/vitest"
import { RecoveryPolicy } from "@outlast/agent"
import { Presets } from "@outlast/agent/presets"

const always = ["maxCost", "midStream", "outputRoom", "pacing", "shortWait"]

const taken: Readonly<Record<string, readonly [policy: object, fields: ReadonlyArray<string>]>> = {
  Claw0: [
    Presets.claw0.policy,
    [
      "counters",
      "lastResort",
      "limits",
      "maxWait",
      "notices",
      "nudges",
      "patience",
      "retryAfterJitter",
      "whenAllOut"
    ]
  ],
  Codebuddy: [
    Presets.codebuddy.policy,
    ["counters", "lastResort", "limits", "maxCompactions", "maxWait", "notices"]
  ],
  Decision037: [
    Presets.decision037.policy,
    ["maxWait", "notices", "nudges", "retryAfterJitter", "whenAllOut"]
  ],
  Nexo: [
    Presets.nexo.policy,
    ["counters", "limits", "maxCompactions", "maxWait", "notices", "nudges", "whenAllOut"]
  ],
  S11: [Presets.s11.policy, ["counters", "lastResort", "limits", "whenAllOut"]]
}

describe("the policy of a preset takes over from the default only", () => {
  for (const [name, [policy, fields]] of Object.entries(taken)) {
    it(`${[...always, ...fields].toSorted().join(", ")}: ${name}`, () => {
      const own = new Map(Object.entries(policy))
      const same = Object.entries(RecoveryPolicy.interactive)
        .filter(([field, value]) => own.get(field) === value)
        .map(([field]) => field)
      assert.deepStrictEqual(same.toSorted(), [...always, ...fields].toSorted())
    })
  }
})
