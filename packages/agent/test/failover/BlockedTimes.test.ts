/** The targets that cooldowns let a call go to, and how many of them are looked at again after a change. */
import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import { RecoveryPolicy } from "@outlast/agent"
import * as BlockedTimes from "#agent/failover/decide/BlockedTimes"
import type { TargetView } from "#agent/failover/decide/CallModel"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import { failureOf, targetOf } from "./chainSupport.ts"

const failure = failureOf("RateLimit")
const policy = RecoveryPolicy.interactive

/** Ten targets of two keys and five models that count how often they are looked at. */
const chain = () => {
  const looks = { count: 0 }
  const targets = ["m0", "m1", "m2", "m3", "m4"]
    .flatMap((model) => ["k0", "k1"].map((key) => targetOf(model, key)))
    .map((ref): TargetView => ({
      get ref() {
        looks.count++
        return ref
      },
      info: {},
      renewable: false
    }))
  const openAt = (cooldowns: Cooldown.Cooldowns, now = 0, of: RecoveryPolicy.RecoveryPolicy = policy) => {
    looks.count = 0
    const open = BlockedTimes.openAt(of, cooldowns, targets, now)
    const { count } = looks
    return { open: open.map(({ ref }) => `${ref.model} ${ref.key}`), looks: count }
  }
  return { targets, openAt }
}

const cool = (
  before: Cooldown.Cooldowns,
  scope: Cooldown.Cooldown["scope"],
  model: string,
  until = 60_000
): Cooldown.Cooldowns =>
  Cooldown.open(before, { scope, target: targetOf(model, "k0"), until, failure, named: true }, 0)

const [all, withoutOne, withoutTwo] = (() => {
  const all = ["m0", "m1", "m2", "m3", "m4"].flatMap((model) => [`${model} k0`, `${model} k1`])
  const without = (...ids: ReadonlyArray<string>) => all.filter((id) => !ids.includes(id))
  return [all, without("m1 k0"), without("m1 k0", "m3 k0")]
})()

describe("the targets that no cooldown keeps out", () => {
  it("are all of them without cooldowns, none of which is looked at", () => {
    assert.deepStrictEqual(chain().openAt(Cooldown.empty), { open: all, looks: 0 })
  })

  it("are looked at once, as long as no cooldown changes", () => {
    const { openAt } = chain()
    const cooldowns = cool(Cooldown.empty, "key+model", "m1")
    assert.deepStrictEqual(openAt(cooldowns), { open: withoutOne, looks: 10 })
    assert.deepStrictEqual(openAt(cooldowns), { open: withoutOne, looks: 0 })
    assert.deepStrictEqual(openAt(cooldowns, 60_000), { open: all, looks: 0 })
    const { openAt: elsewhere } = chain()
    assert.deepStrictEqual(elsewhere(cooldowns), { open: withoutOne, looks: 10 })
  })

  it("are looked at again where a cooldown changes those that it covers", () => {
    const { openAt } = chain()
    const first = cool(Cooldown.empty, "key+model", "m1")
    openAt(first)
    const second = cool(first, "key+model", "m3")
    // The first time, each is looked at for the scopes that cover it: four each.
    assert.strictEqual(openAt(second).looks, 10 + 1)
    assert.deepStrictEqual(openAt(second).open, withoutTwo)
    assert.deepStrictEqual(openAt(first).open, withoutOne)
    const third = cool(second, "model", "m4")
    assert.deepStrictEqual(openAt(third), {
      open: withoutTwo.filter((id) => !id.startsWith("m4")),
      looks: 2
    })
    // Two changes that nothing has looked at in between.
    const fifth = cool(cool(third, "key+model", "m0"), "key+model", "m2")
    assert.deepStrictEqual(openAt(fifth), { open: ["m0 k1", "m1 k1", "m2 k1", "m3 k1"], looks: 2 })
  })

  it("are all looked at for another chain or another policy, and for a change of a target outside", () => {
    const { openAt } = chain()
    const first = cool(Cooldown.empty, "key+model", "m1")
    openAt(first)
    const outside = cool(first, "key+model", "elsewhere")
    assert.deepStrictEqual(openAt(outside), { open: withoutOne, looks: 10 })
    const { openAt: elsewhere } = chain()
    assert.deepStrictEqual(elsewhere(cool(outside, "key+model", "m3")), { open: withoutTwo, looks: 10 })
    assert.deepStrictEqual(openAt(outside, 0, { ...policy }), { open: withoutOne, looks: 10 })
  })

  it("are all looked at again after more changes than are put together", () => {
    const { openAt } = chain()
    const first = cool(Cooldown.empty, "key+model", "m1")
    const after = (changes: number) => {
      openAt(first)
      let next = first
      for (let n = 0; n < changes; n++) next = cool(next, "key+model", `elsewhere ${n}`)
      return openAt(next)
    }
    // The first look after a change finds which targets each scope covers.
    assert.deepStrictEqual(after(16), { open: withoutOne, looks: 10 })
    assert.deepStrictEqual(after(16), { open: withoutOne, looks: 0 })
    assert.deepStrictEqual(after(17), { open: withoutOne, looks: 10 })
  })

  it("are those again that may be probed, a share of the cooldown before its end but no more than a limit", () => {
    const probed = (atMost: Duration.Input, now: number) => {
      const probe = {
        ...RecoveryPolicy.interactive.probe,
        share: 0.5,
        atMost: Duration.fromInputUnsafe(atMost)
      }
      const target = targetOf("m1", "k0")
      const cooldowns = Cooldown.open(
        Cooldown.empty,
        { scope: "key+model", target, until: 10_000, failure, named: false },
        0
      )
      return chain().openAt(cooldowns, now, { ...policy, probe }).open.length
    }
    assert.deepStrictEqual([probed("1 minute", 4_999), probed("1 minute", 5_000)], [9, 10])
    assert.deepStrictEqual([probed("1 second", 8_999), probed("1 second", 9_000)], [9, 10])
  })
})
