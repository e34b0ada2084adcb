import { assert, describe, it } from "@effect/vitest"
import { Duration, HashMap } from "effect"
import * as fc from "fast-check"
import { RecoveryPolicy } from "@outlast/agent"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import { targetOf as target, failureOf, mayProbe } from "./chainSupport.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

const a1 = target("one", "a")
const a2 = target("one", "b")
const b1 = target("two", "a")
const targets = [a1, a2, b1]
const failure = failureOf("RateLimit")
const never = () => 0
const always = () => Infinity

const opened = (
  until: number,
  options: Partial<Cooldown.Cooldown> = {},
  before: Cooldown.Cooldowns = Cooldown.empty,
  now = 0
) => Cooldown.open(before, { scope: "key+model", target: a1, until, failure, ...options }, now)

// -----------------------------------------------------------------------------
// A model: every scope by itself, written from the documentation
// -----------------------------------------------------------------------------

type Command =
  | { readonly do: "open"; readonly scope: (typeof Cooldown.scopes)[number]; readonly length: number }
  | { readonly do: "succeed" | "begin" | "end" | "fail"; readonly took: number }
  | { readonly do: "reset" }

/** Milliseconds until a streak is forgotten. */
const quiet = Duration.toMillis("1 day")

const command = fc.record({
  at: fc.nat(2),
  after: fc.oneof({ weight: 19, arbitrary: fc.nat(20) }, { weight: 1, arbitrary: fc.constant(quiet) }),
  named: fc.constantFrom(true, false, false, false),
  what: fc.oneof(
    fc.record({
      do: fc.constant("open" as const),
      scope: fc.constantFrom(...Cooldown.scopes),
      length: fc.oneof({ weight: 9, arbitrary: fc.nat(60) }, { weight: 1, arbitrary: fc.constant(Infinity) })
    }),
    fc.record({ do: fc.constantFrom("succeed", "begin", "end", "fail"), took: fc.nat(30) }),
    fc.record({ do: fc.constant("reset" as const) })
  ) satisfies fc.Arbitrary<Command>
})

interface Known {
  until: number
  since: number
  streak: number
  named: boolean
  probe: string
}

describe("cooldowns, compared with a model", () => {
  it("give the same result for any commands on three targets that share keys and models", () => {
    let probes = 0
    fc.assert(
      fc.property(fc.array(command, { maxLength: 40 }), (commands) => {
        let now = 0
        let cooldowns = Cooldown.empty
        const model = new Map<string, Known>()
        // Id of a target's scope. Targets with the same key, model or endpoint share it.
        const keyOf = (scope: string, { provider, model, endpoint, key }: typeof a1) =>
          [
            scope,
            provider,
            ...(scope === "endpoint" ? [endpoint] : []),
            ...(scope === "model" || scope === "key+model" ? [model, endpoint] : []),
            ...(scope === "key" || scope === "key+model" ? [key] : [])
          ].join("|")
        const known = (at: typeof a1) =>
          Cooldown.scopes.flatMap((scope) => {
            const entry = model.get(keyOf(scope, at))
            return entry === undefined ? [] : [{ name: keyOf(scope, at), entry }]
          })
        for (const { at, after, named, what } of commands) {
          now += after
          const here = targets[at] ?? a1
          switch (what.do) {
            case "open": {
              const { scope, length } = what
              const name = keyOf(scope, here)
              const last = model.get(name)
              if ((last?.until ?? now) <= now) {
                const forgotten = last === undefined || last.until + quiet <= now
                const streak = forgotten ? 1 : last.streak + 1
                model.set(name, { since: now, until: now + length, streak, named, probe: "none" })
              }
              const until = now + length
              const streak = Cooldown.streakOf(cooldowns, scope, here, now, quiet) + 1
              cooldowns = Cooldown.open(
                cooldowns,
                { scope, target: here, until, failure, named, streak },
                now
              )
              break
            }
            case "succeed":
              for (const { name, entry } of known(here))
                if (entry.since <= now - what.took) model.delete(name)
              cooldowns = Cooldown.clear(cooldowns, here, now - what.took)
              break
            case "begin":
              for (const { entry } of known(here)) if (entry.until > now) entry.probe = "running"
              cooldowns = Cooldown.beginProbe(cooldowns, here, now)
              break
            case "end":
            case "fail": {
              const probe = what.do === "end" ? "none" : "done"
              for (const { entry } of known(here))
                if (entry.probe === "running" && entry.since <= now - what.took) entry.probe = probe
              const of = what.do === "end" ? Cooldown.endProbe : Cooldown.failProbe
              cooldowns = of(cooldowns, here, now - what.took)
              break
            }
            case "reset":
              for (const name of model.keys())
                if (name.split("|")[1] === here.provider && name.split("|")[0] === "key") model.delete(name)
              cooldowns = Cooldown.reset(
                cooldowns,
                (entry) => entry.scope === "key" && entry.target.provider === here.provider
              )
          }
          for (const target of targets) {
            const open = known(target).filter(({ entry }) => entry.until > now)
            const until = Math.max(...open.map(({ entry }) => entry.until))
            const isProbe =
              open.length > 0 &&
              open.every(
                ({ entry }) =>
                  !entry.named &&
                  entry.until < Infinity &&
                  entry.probe === "none" &&
                  entry.until - now <= (entry.until - entry.since) / 2
              )
            if (isProbe) probes++
            assert.strictEqual(Cooldown.outOf(cooldowns, target, now)?.until, open[0] && until)
            assert.strictEqual(
              Cooldown.stateOf(cooldowns, target, now)._tag,
              open.length === 0 ? "ready" : until === Infinity ? "dead" : "cooling"
            )
            assert.strictEqual(
              mayProbe(cooldowns, target, now, (length) => length / 2),
              isProbe
            )
            for (const scope of Cooldown.scopes) {
              const entry = model.get(keyOf(scope, target))
              const streak = entry === undefined || entry.until + quiet <= now ? 0 : entry.streak
              assert.strictEqual(Cooldown.streakOf(cooldowns, scope, target, now, quiet), streak)
            }
          }
        }
      }),
      { numRuns: Sweeps.runs(500) }
    )
    assert.isAbove(probes, Sweeps.runs(40))
  })
})

describe("a target", () => {
  it("is ready, cooling until a time with a reason, or dead", () => {
    assert.deepStrictEqual(Cooldown.stateOf(Cooldown.empty, a1, 0), { _tag: "ready" })
    const cooling = opened(10)
    assert.deepStrictEqual(Cooldown.stateOf(cooling, a1, 9), {
      _tag: "cooling",
      until: 10,
      reason: "RateLimit"
    })
    assert.deepStrictEqual(Cooldown.stateOf(cooling, a1, 10), { _tag: "ready" })
    const revoked = { scope: "key", failure: failureOf("Auth") } as const
    const dead = opened(Infinity, revoked, cooling, 1)
    assert.deepStrictEqual(Cooldown.stateOf(dead, a1, 1e15), { _tag: "dead", reason: "Auth" })
  })
})

describe("a probe", () => {
  it("is allowed within the margin of every cooldown that covers the target", () => {
    const margin = (length: number) => Math.min(30_000, length / 4)
    const both = opened(200_000, { scope: "model" }, opened(60_000))
    assert.isFalse(mayProbe(opened(60_000), a1, 44_999, margin))
    assert.isTrue(mayProbe(opened(60_000), a1, 45_000, margin))
    assert.isFalse(mayProbe(both, a1, 45_000, margin))
    assert.isTrue(mayProbe(both, a1, 170_000, margin))
    assert.isFalse(mayProbe(opened(60_000), a1, 60_000, always), "it is not out any more")
  })

  it("is never allowed inside a wait that the server named (teamclaude/claudebar#8), nor for a dead key", () => {
    assert.isFalse(mayProbe(opened(10, { named: true }), a1, 9, always))
    assert.isFalse(mayProbe(opened(Infinity), a1, 9, always))
    assert.isFalse(mayProbe(opened(10), a1, 9, never))
  })

  it("is one at a time, also across targets of the same scope", () => {
    const probed = Cooldown.beginProbe(opened(10, { scope: "key" }), a1, 9)
    assert.isFalse(mayProbe(probed, a1, 9, always))
    assert.isFalse(mayProbe(probed, b1, 9, always))
    assert.isTrue(mayProbe(Cooldown.endProbe(probed, a1), b1, 9, always))
  })

  it("that failed is not followed by another, and lengthens no cooldown (openclaw#23516)", () => {
    const failed = Cooldown.failProbe(Cooldown.beginProbe(opened(10), a1, 9), a1)
    assert.isFalse(mayProbe(failed, a1, 9, always))
    assert.strictEqual(Cooldown.outOf(opened(99, {}, failed, 9), a1, 9)?.until, 10)
    const next = opened(20, {}, failed, 10)
    assert.isTrue(mayProbe(next, a1, 19, always), "the next cooldown has its own")
  })

  it("that ends late does not affect a cooldown that opened since", () => {
    const first = Cooldown.beginProbe(opened(10), a1, 9)
    const second = Cooldown.beginProbe(opened(20, {}, first, 10), a1, 19)
    assert.strictEqual(Cooldown.failProbe(second, a1, 9), second)
    assert.strictEqual(Cooldown.endProbe(second, a1, 9), second)
  })

  it("of one target does not affect cooldowns of other targets", () => {
    const probed = Cooldown.beginProbe(opened(10, { target: a2 }, opened(10)), a1, 9)
    assert.isTrue(mayProbe(probed, a2, 9, always))
  })
})

describe("the length of a cooldown", () => {
  const rule = {
    scope: "model",
    initial: Duration.minutes(2),
    factor: 2,
    cap: Duration.minutes(10),
    retryAfter: "wins"
  } as const

  it("starts from the wait that the server named and grows, for a rule with `wins`", () => {
    assert.deepStrictEqual(
      [0, 1, 3, 20].map((streak) => Cooldown.length(rule, streak, 1_000)),
      [1_000, 2_000, 8_000, 600_000]
    )
  })

  it("starts from the rule's own length when the server named none or the rule ignores it", () => {
    assert.strictEqual(Cooldown.length(rule, 1), 240_000)
    assert.strictEqual(Cooldown.length({ ...rule, retryAfter: "minimum" }, 1, 1_000), 240_000)
  })

  it("is that of a rule for targets that have answered lately, once", () => {
    const trusting = { ...rule, trusted: Duration.seconds(3) }
    const lengths = (of: RecoveryPolicy.CooldownRule, isTrusted?: boolean) =>
      [0, 1, 2].map((streak) => Cooldown.length(of, streak, undefined, isTrusted))
    assert.deepStrictEqual(lengths(trusting, true), [3_000, 120_000, 240_000])
    assert.deepStrictEqual(lengths(trusting), [120_000, 240_000, 480_000])
    assert.deepStrictEqual(lengths(rule, true), [120_000, 240_000, 480_000])
  })
})

describe("one cooldown", () => {
  it("leaves its targets doubted until a success, unless the server named its length", () => {
    const doubted = (cooldowns: Cooldown.Cooldowns) =>
      targets.map((target) => Cooldown.isDoubted(cooldowns, target))
    assert.deepStrictEqual(doubted(opened(10, { scope: "model" })), [true, true, false])
    assert.deepStrictEqual(doubted(opened(10, { named: true })), [false, false, false])
    assert.deepStrictEqual(doubted(Cooldown.clear(opened(10), a1, 20)), [false, false, false])
  })

  it("is forgotten after a time, counted from its end", () => {
    const cooldowns = opened(10)
    assert.strictEqual(Cooldown.streakOf(cooldowns, "key+model", a1, 9 + quiet, quiet), 1)
    assert.strictEqual(Cooldown.streakOf(cooldowns, "key+model", a1, 10 + quiet, quiet), 0)
    assert.strictEqual(Cooldown.streakOf(cooldowns, "key+model", a1), 1)
  })

  it("covers no other target when the target has no key", () => {
    const bare = { ...a1, key: "" }
    const other = { ...a1, id: "other", key: "" }
    assert.isFalse(Cooldown.covers("key", bare, other))
    assert.isFalse(Cooldown.covers("key+model", bare, other))
    assert.isTrue(Cooldown.covers("model", bare, other))
    assert.isTrue(Cooldown.covers("endpoint", bare, other))
  })

  it("without end has no length that can grow", () => {
    const rule = { ...RecoveryPolicy.steady("key", "1 second"), initial: "forever" } as const
    assert.strictEqual(Cooldown.length(rule, 3), Infinity)
  })

  it("of another process replaces that of its scope", () => {
    const entry: Cooldown.Entry = {
      scope: "key",
      target: a1,
      until: 50,
      failure,
      named: false,
      since: 0,
      looks: false,
      streak: 4,
      probe: "none"
    }
    const cooldowns = Cooldown.adopt(opened(10), entry)
    assert.deepStrictEqual(Cooldown.entryOf(cooldowns, Cooldown.idOf("key", a1)), entry)
    assert.strictEqual(Cooldown.outOf(cooldowns, a1, 20)?.until, 50)
  })

  it("is the same object when nothing is cleared", () => {
    const cooldowns = opened(10)
    assert.strictEqual(
      Cooldown.reset(cooldowns, () => false),
      cooldowns
    )
    assert.strictEqual(Cooldown.clear(cooldowns, b1, 5), cooldowns)
  })

  it("is the same object when the same cooldown is opened again at the same time", () => {
    const cooldown: Cooldown.Cooldown = { scope: "key", target: a1, until: 50, failure }
    const first = Cooldown.open(Cooldown.empty, cooldown, 0)
    assert.strictEqual(Cooldown.open(Cooldown.empty, cooldown, 0), first)
    const later = Cooldown.open(Cooldown.empty, cooldown, 5)
    assert.strictEqual(Cooldown.entryOf(later, Cooldown.idOf("key", a1))?.since, 5)
  })

  it("ends with the success of an attempt that began with it", () => {
    assert.isTrue(Cooldown.isEmpty(Cooldown.clear(opened(10, {}, Cooldown.empty, 5), a1, 5)))
    assert.isFalse(Cooldown.isEmpty(Cooldown.clear(opened(10, {}, Cooldown.empty, 5), a1, 4)))
  })

  it("without end blocks its target until a reset, whatever the margin of its probes", () => {
    assert.strictEqual(Cooldown.blockedUntil(opened(Infinity), a1, always), Infinity)
  })

  it("of an endpoint covers all targets at the endpoint, and no other", () => {
    const elsewhere = { ...a1, id: "elsewhere", endpoint: "https://elsewhere.example" }
    const otherVendor = { ...a1, id: "other", provider: "other" }
    assert.isTrue(Cooldown.covers("endpoint", a1, b1))
    assert.isFalse(Cooldown.covers("endpoint", a1, elsewhere))
    assert.isFalse(Cooldown.covers("endpoint", a1, otherVendor))
    const cooldowns = opened(10, { scope: "endpoint" })
    assert.strictEqual(Cooldown.outOf(cooldowns, b1, 0)?.until, 10)
    assert.isUndefined(Cooldown.outOf(cooldowns, elsewhere, 0))
  })

  it("has a name of its own for each scope", () => {
    const names = Cooldown.scopes.map((scope) => JSON.parse(Cooldown.idOf(scope, a1))[0])
    assert.deepStrictEqual(names, [...Cooldown.scopes])
  })

  it("is listed while it is open", () => {
    const cooldowns = opened(20, { scope: "model" }, opened(10))
    const untils = (at: number) =>
      Cooldown.openOf(cooldowns, a1, at)
        .map(({ until }) => until)
        .toSorted()
    assert.deepStrictEqual(untils(9), [10, 20])
    assert.deepStrictEqual(untils(10), [20])
    assert.deepStrictEqual(untils(20), [])
    assert.deepStrictEqual(Cooldown.openOf(cooldowns, b1, 0), [])
    assert.deepStrictEqual(Cooldown.openOf(Cooldown.empty, a1, 0), [])
  })

  it("is unprobed until a probe begins, and again when it is over", () => {
    const probed = Cooldown.beginProbe(opened(10), a1, 5)
    assert.isTrue(Cooldown.isUnprobed(opened(10), a1, 5))
    assert.isFalse(Cooldown.isUnprobed(probed, a1, 9))
    assert.isTrue(Cooldown.isUnprobed(probed, a1, 10))
    const two = opened(20, { scope: "endpoint" }, probed, 5)
    assert.isFalse(Cooldown.isUnprobed(two, a1, 9))
  })

  it("begins no probe at its end", () => {
    const over = opened(10)
    assert.strictEqual(Cooldown.beginProbe(over, a1, 10), over)
  })

  it("keeps the result of a probe that began with it", () => {
    const probed = Cooldown.beginProbe(opened(10, {}, Cooldown.empty, 5), a1, 5)
    const probeOf = (cooldowns: Cooldown.Cooldowns) => HashMap.toValues(cooldowns).map(({ probe }) => probe)
    assert.deepStrictEqual(probeOf(Cooldown.failProbe(probed, a1, 5)), ["done"])
    assert.deepStrictEqual(probeOf(Cooldown.failProbe(probed, a1, 4)), ["running"])
    assert.deepStrictEqual(probeOf(Cooldown.endProbe(probed, a1)), ["none"])
  })
})
