/** Which targets a call may ask, when, and why not earlier; each rule by itself. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, HashMap } from "effect"
import { RecoveryPolicy } from "@outlast/agent"
import * as CallState from "#agent/failover/decide/CallState"
import { timeLeft } from "#agent/failover/decide/CallLimits"
import * as Log from "#agent/failover/decide/CallLog"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import * as Delays from "#agent/failover/decide/Delays"
import { cooldownFor } from "#agent/failover/decide/NextCooldown"
import * as Openings from "#agent/failover/decide/Openings"
import * as FailoverReason from "#agent/failure/reasons/FailoverReason"
import { ProviderFailure } from "#agent/failure/reasons/ProviderFailure"
import { failureOf } from "./chainSupport.ts"

const view = (
  key: string,
  model: string,
  { provider = "p", ...info }: Partial<CallState.TargetView["info"]> & { readonly provider?: string } = {}
): CallState.TargetView => ({
  ref: { id: `${model} ${key}`, provider, model, endpoint: provider, key },
  info,
  renewable: false
})
const [a, b, c] = [view("A", "m1"), view("B", "m1"), view("C", "m2")]
const now = 1_000
const limited = failureOf("RateLimit")
const broken = failureOf("ServerError")

const snapshot = (changes: Partial<CallState.Snapshot> = {}): CallState.Snapshot => ({
  ...CallState.unbounded,
  now,
  targets: [a, b, c],
  dead: [],
  cooldowns: Cooldown.empty,
  ...changes
})

const cooling = (
  ...outs: ReadonlyArray<readonly [target: CallState.TargetView, until: number, failure?: ProviderFailure]>
): Cooldown.Cooldowns =>
  outs.reduce(
    (all, [{ ref }, until, failure = limited]) =>
      Cooldown.open(all, { scope: "key+model", target: ref, until, failure }, 0),
    Cooldown.empty
  )

type Tries = Log.Tries
type Refused = Log.Refused

const none: Tries = {
  count: 0,
  before: 0,
  delay: undefined,
  failure: undefined,
  classes: new Map(),
  released: 0
}
const tried = (target: CallState.TargetView, changes: Partial<Tries>): readonly [string, Tries] => [
  target.ref.id,
  { ...none, ...changes }
]
const refusal: Refused = { until: 3_000, failure: broken, mayResort: true, byCircuit: true }
const refused = (
  target: CallState.TargetView,
  changes: Partial<Refused> = {}
): readonly [string, Refused] => [target.ref.id, { ...refusal, ...changes }]
/** The log of a call, its maps from pairs. */
interface Changes extends Partial<Omit<Log.CallLog, "tries" | "refused">> {
  readonly tries?: Iterable<readonly [string, Tries]>
  readonly refused?: Iterable<readonly [string, Refused]>
  readonly overflowed?: number | undefined
}
const state = ({ tries = [], refused = [], overflowed, ...made }: Changes = {}): CallState.CallState => ({
  ...CallState.initial,
  made: {
    ...CallState.initial.made,
    ...made,
    tries: HashMap.fromIterable(tries),
    refused: HashMap.fromIterable(refused)
  },
  mended: { ...CallState.initial.mended, overflowed }
})

type Policy = RecoveryPolicy.RecoveryPolicy<string>
const policyOf = (changes: Partial<Policy> = {}): Policy => ({
  ...(RecoveryPolicy.interactive as Policy), // rows by any class
  ...changes
})
const policy = policyOf()
const rowWith = (name: "RateLimit" | "ServerError", changes: Partial<RecoveryPolicy.Row>): Policy =>
  policyOf({ rows: { ...policy.rows, [name]: { ...RecoveryPolicy.interactive.rows[name], ...changes } } })
const row = (changes: Partial<RecoveryPolicy.Row>): RecoveryPolicy.Row => ({
  ...RecoveryPolicy.base,
  ...changes
})

const idsOf = (targets: ReadonlyArray<CallState.TargetView>) => targets.map(({ ref }) => ref.id)
/** The targets that are ready, one by one. */
const ready = (
  of: Policy,
  call: CallState.CallState,
  at: CallState.Snapshot,
  cooldowns?: Cooldown.Cooldowns
) => {
  const find = Openings.ready(of, call, at, cooldowns)
  const found = at.targets.filter((target) => find((one) => one === target) !== undefined)
  assert.strictEqual(Openings.first(find), found[0])
  return found
}
const readyIds = (of: Policy, call: CallState.CallState, cooldowns = Cooldown.empty) =>
  idsOf(ready(of, call, snapshot(), cooldowns))

describe("targets that can be asked", () => {
  it("are not those that cool, unless they may be probed", () => {
    const cooldowns = cooling([a, 1_100])
    assert.deepStrictEqual(readyIds(policyOf({ probe: false }), state(), cooldowns), idsOf([b, c]))
    const soon = policyOf({
      probe: { ...RecoveryPolicy.interactive.probe, share: 0.5, atMost: Duration.minutes(1) }
    })
    assert.deepStrictEqual(readyIds(soon, state(), cooldowns), idsOf([a, b, c]))
  })

  it("are found anew for other targets, and for another policy, with the same cooldowns", () => {
    const cooldowns = cooling([a, 1_100])
    const strict = policyOf({ probe: false })
    const soon = policyOf({
      probe: { ...RecoveryPolicy.interactive.probe, share: 0.5, atMost: Duration.minutes(1) }
    })
    const all = snapshot({ targets: [a, b, c] })
    const readyOf = (of: Policy, among: CallState.Snapshot) => idsOf(ready(of, state(), among, cooldowns))
    assert.deepStrictEqual(readyOf(strict, all), idsOf([b, c]))
    assert.deepStrictEqual(readyOf(strict, snapshot({ targets: [c, b, a] })), idsOf([c, b]))
    assert.deepStrictEqual(readyOf(strict, all), idsOf([b, c]))
    assert.deepStrictEqual(readyOf(soon, all), idsOf([a, b, c]))
    assert.deepStrictEqual(readyOf(strict, { ...all, now: 1_100 }), idsOf([a, b, c]))
  })

  it("are not those that refused the call or named a wait, until that time", () => {
    const call = (until: number) =>
      state({
        refused: [refused(a, { until })],
        tries: [tried(b, { backAt: until })]
      })
    assert.deepStrictEqual(readyIds(policy, call(now + 1)), idsOf([c]))
    assert.deepStrictEqual(readyIds(policy, call(now)), idsOf([a, b, c]))
  })

  it("are not those whose attempts are used up, by class or together", () => {
    const call = state({
      tries: [
        tried(a, { count: 3, failure: limited, classes: new Map([["RateLimit", 1]]) }),
        tried(b, { count: 2, failure: limited, classes: new Map([["RateLimit", 2]]) }),
        tried(c, { count: 9 })
      ]
    })
    const shared = rowWith("RateLimit", { attempts: 3, pool: "shared" })
    const own = rowWith("RateLimit", { attempts: 2, pool: "own" })
    assert.deepStrictEqual(readyIds(shared, call), idsOf([b, c]))
    assert.deepStrictEqual(readyIds(own, call), idsOf([a, c]))
    const released = state({ tries: [tried(a, { count: 3, failure: limited, released: 1 })] })
    assert.deepStrictEqual(readyIds(shared, released), idsOf([a, b, c]))
    const other = state({ tries: [tried(a, { count: 5, failure: limited })] })
    assert.deepStrictEqual(readyIds(own, other), idsOf([a, b, c]))
  })

  it("are not those whose failure forbids a repeat", () => {
    const after = (shouldRetry: boolean | undefined) => {
      const failure = new ProviderFailure({ ...broken, evidence: { ...broken.evidence, shouldRetry } })
      return readyIds(policy, state({ tries: [tried(a, { count: 1, failure })] }))
    }
    assert.deepStrictEqual(after(false), idsOf([b, c]))
    assert.deepStrictEqual(after(true), idsOf([a, b, c]))
    assert.deepStrictEqual(after(undefined), idsOf([a, b, c]))
  })

  it("are those whose failure forbids a repeat but names a wait, behind that wait", () => {
    const failure = new ProviderFailure({ ...broken, evidence: { ...broken.evidence, shouldRetry: false } })
    const after = (backAt: number) =>
      readyIds(policy, state({ tries: [tried(a, { count: 1, failure, backAt })] }))
    assert.deepStrictEqual(after(1_000_000), idsOf([b, c]))
    assert.deepStrictEqual(after(0), idsOf([a, b, c]))
  })

  it("are not those whose window is too small, after an overflow", () => {
    const targets = [view("A", "m1", { contextWindow: 100 }), view("B", "m2", { contextWindow: 101 }), c]
    const ask = (overflowed: number | undefined) =>
      idsOf(ready(policy, state({ overflowed, refused: [refused(b)] }), snapshot({ targets }), cooling()))
    // The window of C is not known.
    assert.deepStrictEqual(ask(100), ["m2 B", "m2 C"])
    assert.deepStrictEqual(ask(undefined), ["m1 A", "m2 B", "m2 C"])
  })
})

describe("a target whose window is too small", () => {
  const overflow = (of: CallState.TargetView, changes: Partial<FailoverReason.ContextOverflow> = {}) =>
    new ProviderFailure({ ...broken, reason: new FailoverReason.ContextOverflow(changes), target: of.ref })
  const elsewhere = view("D", "m1", { provider: "q" })
  const readyAfter = (overflowed: number | undefined, ...failures: ReadonlyArray<ProviderFailure>) => {
    const targets = [a, b, c, elsewhere]
    const tries = failures.map((failure, n): readonly [string, Tries] => [`${n}`, { ...none, failure }])
    return idsOf(ready(policy, state({ overflowed, tries }), snapshot({ targets }), cooling()))
  }
  const all = idsOf([a, b, c, elsewhere])

  it("is any one of the same model where the window is not known", () => {
    assert.deepStrictEqual(readyAfter(0, overflow(a)), idsOf([c]))
    assert.deepStrictEqual(readyAfter(0, overflow(c)), idsOf([a, b, elsewhere]))
    assert.deepStrictEqual(readyAfter(undefined, overflow(a)), all)
  })

  it("is any one at the same endpoint where the limit is one of bytes", () => {
    assert.deepStrictEqual(readyAfter(0, overflow(a, { media: true })), idsOf([elsewhere]))
    const otherEndpoint = { ...a, ref: { ...a.ref, endpoint: "other" } }
    const otherProvider = { ...a, ref: { ...a.ref, provider: "other" } }
    assert.deepStrictEqual(readyAfter(0, overflow(otherEndpoint, { media: true })), all)
    assert.deepStrictEqual(readyAfter(0, overflow(otherProvider, { media: true })), all)
  })

  it("is told by overflows at targets alone", () => {
    const { target, ...unknown } = overflow(a)
    assert.isDefined(target)
    assert.deepStrictEqual(readyAfter(0, new ProviderFailure({ ...broken, target: a.ref })), all)
    assert.deepStrictEqual(readyAfter(0, new ProviderFailure(unknown)), all)
    const cut = state({ overflowed: 0, tries: [tried(a, { count: 1 })] })
    assert.deepStrictEqual(readyIds(policy, cut), idsOf([a, b, c]))
  })
})

describe("a target whose attempts are used up", () => {
  const later = 30_000
  const spent = (changes: Partial<Tries> = {}) =>
    state({ tries: [tried(a, { count: 5, failure: broken, firstFailedAt: 500, ...changes })] })
  const isReady = (answeredAt: number, of = policy, call = spent()) =>
    ready(
      of,
      call,
      snapshot({ now: later, targets: [a], answered: new Map([[a.ref.id, answeredAt]]) }),
      Cooldown.empty
    ).length > 0

  it("may be asked again if it has answered another call since, in the last 20 s", () => {
    assert.isTrue(isReady(later))
    assert.isTrue(isReady(10_001))
    assert.isFalse(isReady(10_000))
    assert.isTrue(isReady(later, policy, spent({ firstFailedAt: later })))
    assert.isFalse(isReady(later - 1, policy, spent({ firstFailedAt: later })))
    assert.isFalse(idsOf(ready(policy, spent(), snapshot({ targets: [a] }), Cooldown.empty)).length > 0)
  })

  it("may not be asked again when the server says so, or waiting is not worth it", () => {
    const final = new ProviderFailure({ ...broken, evidence: { ...broken.evidence, shouldRetry: false } })
    assert.isFalse(isReady(later, policy, spent({ failure: final })))
    assert.isFalse(isReady(later, rowWith("ServerError", { worthWaiting: false })))
    assert.isFalse(isReady(later, rowWith("ServerError", { then: "move" })))
  })

  it("may not be asked again unless successes pay for retries", () => {
    assert.isFalse(isReady(later, policyOf({ retryBudget: false })))
    assert.isFalse(isReady(later, policyOf({ retryBudget: { paidBy: "calls" } })))
    assert.isFalse(isReady(later, policyOf({ retryBudget: {} })))
  })

  it("is worth waiting for while it answers other calls", () => {
    const cooldowns = cooling([a, later + 1_000, broken])
    const soonest = (answeredAt: number) =>
      Openings.soonest(
        policy,
        spent(),
        snapshot({ now: later, targets: [a], cooldowns, answered: new Map([[a.ref.id, answeredAt]]) }),
        () => true
      )?.target.id
    assert.deepStrictEqual([soonest(later), soonest(0)], [a.ref.id, undefined])
  })
})

describe("the next target of a row", () => {
  const google = view("G", "m3", { provider: "google" })
  const proxy = view("P", "m4", {
    provider: "proxy",
    dialect: { format: "p" } as CallState.TargetView["info"]["dialect"] // only the format is read
  })
  const chain = snapshot({ targets: [a, b, c, google, proxy] })

  it("is any one, another model, another format, or a named model", () => {
    const allowed = (to: RecoveryPolicy.Row["to"]) =>
      idsOf(chain.targets.filter((target) => Openings.matches(to, a.ref, target, chain, broken)))
    assert.deepStrictEqual(allowed("next"), idsOf([a, b, c, google, proxy]))
    assert.deepStrictEqual(allowed("other-model"), idsOf([c, google, proxy]))
    assert.deepStrictEqual(allowed("other-dialect"), idsOf([google]))
    assert.deepStrictEqual(allowed(["m2", "m4"]), idsOf([c, proxy]))
  })

  it("is another model of the same format where the format of the model is at fault", () => {
    const allowed = (reason: FailoverReason.FailoverReason) => {
      const failure = new ProviderFailure({ ...broken, reason })
      return idsOf(
        chain.targets.filter((target) => Openings.matches("other-dialect", a.ref, target, chain, failure))
      )
    }
    const format = (model?: boolean) =>
      new FailoverReason.Format({ side: "request", ...(model === undefined ? {} : { model }) })
    assert.deepStrictEqual(allowed(format(true)), idsOf([c, google, proxy]))
    assert.deepStrictEqual(allowed(format(false)), idsOf([google]))
    assert.deepStrictEqual(allowed(format()), idsOf([google]))
  })

  it("is compared by the provider when the last target has left the chain", () => {
    const gone = view("X", "m9").ref
    assert.isFalse(Openings.matches("other-dialect", gone, b, chain, broken))
    assert.isTrue(Openings.matches("other-dialect", gone, google, chain, broken))
  })

  it("is limited only after a failure, and never excludes the target that was left", () => {
    const of = rowWith("ServerError", { to: "other-model" })
    const after = (changes: Changes) =>
      idsOf([a, b, c].filter((target) => Openings.mayGoTo(of, state(changes), target, chain)))
    assert.deepStrictEqual(after({ left: a.ref, failure: broken }), idsOf([a, c]))
    assert.deepStrictEqual(after({ left: a.ref }), idsOf([a, b, c]))
    assert.deepStrictEqual(after({ failure: broken }), idsOf([a, b, c]))
  })

  it("counts the targets that failed with a class", () => {
    const classes = new Map([["ServerError", 1]])
    const call = state({ tries: [tried(a, { classes }), tried(b, { classes }), tried(c, {})] })
    assert.strictEqual(Log.failedTargets(call, "ServerError"), 2)
  })
})

describe("the delay before a repeat", () => {
  const call = (target = a) =>
    state({
      tries: [
        tried(target, { count: 3, released: 1, failure: broken, classes: new Map([["ServerError", 2]]) })
      ]
    })
  const streaks = new Map([[a.ref.id, { failures: 5, delay: 90 }]])
  const exact = RecoveryPolicy.withoutJitter(policy)
  const delay = (
    of: Policy,
    pool: RecoveryPolicy.Row["pool"],
    attempts = 9,
    by = call(),
    failures: CallState.Snapshot["streaks"] = streaks
  ) =>
    Delays.beforeRepeat(
      of,
      { ...exact.rows["ServerError"]!, pool, attempts }, // the row exists
      by,
      a.ref,
      broken,
      snapshot({ streaks: failures }),
      0
    )

  it("grows with the attempts of the call, by class or together", () => {
    assert.deepStrictEqual([delay(exact, "shared"), delay(exact, "own")], [4_000, 2_000])
  })

  it("is none once they are used up, of which those do not count that waited for the retry budget", () => {
    assert.deepStrictEqual([delay(exact, "shared", 3), delay(exact, "shared", 2)], [4_000, undefined])
    assert.deepStrictEqual([delay(exact, "own", 2), delay(exact, "own", 1)], [2_000, undefined])
  })

  it("grows with the failures of all calls since a success, with counters by target", () => {
    const byTarget: Policy = { ...exact, counters: "target" }
    assert.strictEqual(delay(byTarget, "shared"), 16_000)
    assert.isUndefined(delay(byTarget, "shared", 5))
    assert.strictEqual(delay(byTarget, "shared", 9, call(), new Map()), 1_000)
  })
})

describe("the cooldown that a failure opens", () => {
  const rule: RecoveryPolicy.CooldownRule = {
    ...RecoveryPolicy.steady("key+model", "10 seconds"),
    retryAfter: "minimum"
  }
  const opened = (
    changes: Partial<RecoveryPolicy.CooldownRule>,
    retryAfter?: number,
    { isProven, ...at }: Partial<CallState.Snapshot> & { readonly isProven?: boolean } = {},
    rest: Partial<RecoveryPolicy.Row> = {}
  ) => {
    const failure = failureOf("RateLimit", "", retryAfter)
    const failed: CallState.Failed = {
      _tag: "Failed",
      failure,
      commit: "nothing",
      elapsed: 0,
      cost: 0,
      tokens: 0,
      ...(isProven === undefined ? {} : { isProven })
    }
    const cooldown = cooldownFor(
      policy,
      row({ cooldown: { ...rule, ...changes }, worthWaiting: false, ...rest }),
      failed,
      a.ref,
      snapshot(at)
    )
    return cooldown === undefined ? undefined : [cooldown.until - now, cooldown.named]
  }

  it("has the length of the rule, or the longer one that the server named", () => {
    assert.deepStrictEqual(opened({ retryAfter: "minimum" }), [10_000, false])
    assert.deepStrictEqual(opened({ retryAfter: "minimum" }, 9_999), [10_000, false])
    assert.deepStrictEqual(opened({ retryAfter: "minimum" }, 10_000), [10_000, true])
    assert.deepStrictEqual(opened({ retryAfter: "minimum" }, 20_000), [20_000, true])
  })

  it("has exactly the named length with not-before, also 0, and ignores it with ignored", () => {
    assert.deepStrictEqual(opened({ retryAfter: "not-before" }, 500), [500, true])
    assert.deepStrictEqual(opened({ retryAfter: "not-before" }, 0), [0, true])
    assert.deepStrictEqual(opened({ retryAfter: "minimum" }, 0), [10_000, false])
    assert.deepStrictEqual(opened({ retryAfter: "ignored" }, 20_000), [10_000, false])
  })

  it("needs proof where the rule says so, which is not given by default", () => {
    assert.isUndefined(opened({ proof: "several-calls" }, 20_000))
    assert.isUndefined(opened({ proof: "several-calls" }, 20_000, { isProven: false }))
    assert.deepStrictEqual(opened({ proof: "several-calls" }, 20_000, { isProven: true }), [20_000, true])
  })

  it("is not guessed for all targets or for the last one left, unless that one is not worth waiting for", () => {
    assert.isUndefined(opened({}, undefined, { targets: [a] }))
    assert.deepStrictEqual(opened({}, 3_000, { targets: [a] }), [3_000, true])
    const cooldowns = cooling([b, 5_000], [c, 5_000])
    assert.isUndefined(opened({}, undefined, { cooldowns }, { worthWaiting: true }))
    assert.deepStrictEqual(opened({}, undefined, { cooldowns }), [10_000, false])
  })

  it("is not guessed while every other target that is ready has failed three times in the last 20 s", () => {
    const down = (failures: number, ago: number) =>
      opened(
        {},
        undefined,
        {
          now: 100_000,
          cooldowns: cooling([b, 105_000]),
          streaks: new Map([[c.ref.id, { failures, delay: undefined, at: 100_000 - ago }]])
        },
        { worthWaiting: true }
      )
    assert.isDefined(down(2, 0))
    assert.isUndefined(down(3, 0))
    assert.isUndefined(down(4, 19_999))
    assert.isDefined(down(4, 20_000))
  })

  it("does not open without a rule", () => {
    assert.isUndefined(opened({}, undefined, {}, { cooldown: undefined }))
  })

  it("is guessed while another target has failed, but it is not known when", () => {
    const streaks = new Map([[c.ref.id, { failures: 9, delay: undefined }]])
    const cooldowns = cooling([b, 5_000])
    assert.isDefined(opened({}, undefined, { streaks, cooldowns }, { worthWaiting: true }))
  })

  it("is shorter where a target that it covers has answered lately", () => {
    const trusted = Duration.seconds(4)
    const length = (answered: ReadonlyArray<readonly [CallState.TargetView, number]>, trusts = true) =>
      opened(trusts ? { trusted } : {}, undefined, {
        now: 1_000_000,
        answered: new Map(answered.map(([{ ref }, ago]) => [ref.id, 1_000_000 - ago]))
      })?.[0]
    const lately = Duration.toMillis(policy.pacing.trustedFor)
    const since = 1_000_000 - now
    assert.strictEqual(length([[a, lately - 1]]), 4_000 + since)
    assert.strictEqual(length([[a, lately]]), 10_000 + since)
    assert.strictEqual(length([]), 10_000 + since)
    assert.strictEqual(length([[c, 0]]), 10_000 + since)
    assert.strictEqual(length([[a, 0]], false), 10_000 + since)
  })

  it("counts the cooldowns of its scope", () => {
    const streaks = [Cooldown.empty, cooling([a, 500])].map((cooldowns) => {
      const failed: CallState.Failed = {
        _tag: "Failed",
        failure: limited,
        commit: "nothing",
        elapsed: 0,
        cost: 0,
        tokens: 0
      }
      return cooldownFor(policy, row({ cooldown: rule }), failed, a.ref, snapshot({ cooldowns }))?.streak
    })
    assert.deepStrictEqual(streaks, [1, 2])
  })

  it("does not open twice", () => {
    assert.isUndefined(opened({}, undefined, { cooldowns: cooling([a, 2_000]) }))
  })
})

describe("the target that is back first", () => {
  const first = (
    cooldowns: Cooldown.Cooldowns,
    call = state(),
    isMeant: (of: CallState.TargetView) => boolean = () => true
  ) => {
    const found = Openings.soonest(policy, call, snapshot({ cooldowns }), isMeant)
    return found === undefined ? undefined : [found.target.id, found.until, found.refused]
  }

  it("is the earliest of cooldowns, refusals and named waits, the first in order of a tie", () => {
    assert.deepStrictEqual(first(cooling([a, 5_000], [b, 4_000], [c, 4_000])), [b.ref.id, 4_000, false])
    const call = state({ refused: [refused(c, { until: 3_500 })] })
    assert.deepStrictEqual(first(cooling([a, 5_000], [b, 4_000]), call), [c.ref.id, 3_500, true])
    const waited = state({ tries: [tried(c, { failure: limited, backAt: 3_000 })] })
    assert.deepStrictEqual(first(cooling([a, 5_000]), waited), [c.ref.id, 3_000, false])
  })

  it("counts the longest of what keeps a target out", () => {
    const call = state({
      refused: [refused(a, { until: 3_000 })],
      tries: [tried(a, { failure: limited, backAt: 2_000 })]
    })
    assert.deepStrictEqual(first(cooling([a, 5_000]), call), [a.ref.id, 5_000, false])
    assert.deepStrictEqual(first(cooling([a, 2_500]), call), [a.ref.id, 3_000, true])
  })

  it("is none that is out without end, not meant, or not out at all", () => {
    assert.isUndefined(first(cooling([a, Infinity])))
    assert.isUndefined(first(cooling([a, 2_000]), state(), (target) => target !== a))
    const over = state({
      refused: [refused(b, { until: now })],
      tries: [tried(c, { failure: limited, backAt: now })]
    })
    assert.isUndefined(first(Cooldown.empty, over))
    assert.isUndefined(first(Cooldown.empty, state({ tries: [tried(c, { failure: limited })] })))
  })
})

describe("the last resort", () => {
  const call = (changes: Partial<Refused> = {}, more: Changes = {}) =>
    state({ refused: [refused(a, changes)], ...more })
  const resort = (of: Policy, by: CallState.CallState, cooldowns = Cooldown.empty) =>
    Openings.lastResort(of, by, snapshot({ cooldowns }))?.id

  it("is a target whose open circuit may let the call pass", () => {
    assert.strictEqual(resort(policy, call()), a.ref.id)
    assert.isUndefined(resort(policyOf({ lastResort: false }), call()))
    assert.isUndefined(resort(policyOf({ whenAllOut: "fail" }), call()))
    assert.isUndefined(resort(policy, call({ mayResort: false })))
    assert.isUndefined(resort(policy, call({ until: now })))
    assert.isUndefined(resort(policy, call(), cooling([a, 2_000])))
    assert.isUndefined(resort(policy, call({}, { tries: [tried(a, { backAt: 2_000 })] })))
  })

  it("is wanted for targets that a circuit refused, unless the call fails when all are out", () => {
    const wanted = (of: Policy, by: CallState.CallState) => Openings.isRefusedByCircuit(of, by, a.ref)
    assert.isTrue(wanted(policy, call()))
    assert.isFalse(wanted(policy, call({ byCircuit: false })))
    assert.isFalse(wanted(policy, state()))
    assert.isFalse(wanted(policyOf({ whenAllOut: "fail" }), call()))
    assert.isFalse(wanted(policyOf({ lastResort: false }), call()))
  })
})

describe("the time in the queue of a target's limits", () => {
  const timed = policyOf({
    shortWait: Duration.seconds(2),
    maxWait: Duration.seconds(30),
    deadline: Duration.minutes(1),
    whenAllOut: "wait"
  })
  const queue = (of: Policy, cooldowns: Cooldown.Cooldowns, deadline = Infinity, spent = 0) =>
    Openings.queueTime(
      of,
      timeLeft(of, state({ spent }), { now, deadline }),
      { now, targets: [a, b], cooldowns },
      a.ref
    )
  const alone = cooling([b, 5_000])

  it("is short while another target can be asked, and when the call shall not wait", () => {
    assert.strictEqual(queue(timed, Cooldown.empty), 2_000)
    assert.strictEqual(queue(timed, cooling([a, 5_000])), 2_000)
    assert.strictEqual(queue({ ...timed, whenAllOut: "fail" }, alone), 2_000)
  })

  it("is otherwise the longest wait, limited by both deadlines and never negative", () => {
    assert.strictEqual(queue(timed, alone), 30_000)
    assert.strictEqual(queue(timed, alone, now + 7_000), 7_000)
    assert.strictEqual(queue(timed, alone, Infinity, 50_000), 10_000)
    assert.strictEqual(queue(timed, alone, now - 1), 0)
  })
})

describe("the error when all targets are out", () => {
  it("has each failure with its wait, and the soonest one that is worth waiting for", () => {
    const of = rowWith("ServerError", { worthWaiting: false })
    const cooldowns = cooling([a, 5_000], [b, 2_000, broken], [c, Infinity])
    const error = Openings.allOut(of, state(), snapshot({ cooldowns }))
    assert.deepStrictEqual(
      error.targets.map(({ target, availableIn }) => [
        target.id,
        availableIn === undefined ? undefined : Duration.toMillis(availableIn)
      ]),
      [
        [a.ref.id, 4_000],
        [b.ref.id, 1_000],
        [c.ref.id, undefined]
      ]
    )
    assert.deepStrictEqual(error.soonest, Duration.millis(4_000))
    // Its message says both.
    for (const name of ["targets", "soonest"]) assert.notInclude(Object.keys(error), name)
  })

  it("has no soonest time without one, and the failure of a target that is not out", () => {
    const call = state({ tries: [tried(b, { failure: broken })] })
    const error = Openings.allOut(policy, call, snapshot({ cooldowns: cooling([c, Infinity]) }))
    assert.deepStrictEqual(
      error.targets.map(({ target }) => target.id),
      [b.ref.id, c.ref.id]
    )
    assert.isFalse("soonest" in error && error.soonest !== undefined)
  })
})
