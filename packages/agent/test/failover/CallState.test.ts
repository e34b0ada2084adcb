import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import * as fc from "fast-check"
import { CallState, FailoverReason, ProviderFailure, RecoveryPolicy } from "@outlast/agent"
import * as Cooldown from "@outlast/agent/failover/Cooldown"
import { idOf } from "@outlast/agent/failure/TargetRef"

// -----------------------------------------------------------------------------
// Anything that may happen
// -----------------------------------------------------------------------------

const reason: fc.Arbitrary<FailoverReason.FailoverReason> = fc.oneof(
  fc.boolean().map((permanent) => new FailoverReason.Auth({ permanent })),
  fc.boolean().map((local) => new FailoverReason.Timeout({ phase: "total", local })),
  fc.constantFrom("request" as const, "response" as const).map((side) => new FailoverReason.Format({ side })),
  fc.constantFrom(
    new FailoverReason.Billing(),
    new FailoverReason.RateLimit(),
    new FailoverReason.Overloaded(),
    new FailoverReason.ServerError(),
    new FailoverReason.Network(),
    new FailoverReason.PermanentNetwork(),
    new FailoverReason.ContextOverflow({}),
    new FailoverReason.ModelNotFound(),
    new FailoverReason.ContentPolicy(),
    new FailoverReason.Cancelled(),
    new FailoverReason.Unknown()
  )
)

const failure: fc.Arbitrary<ProviderFailure.ProviderFailure> = fc
  .record({ reason, retryAfter: fc.option(fc.integer({ min: 0, max: 400_000 }), { nil: undefined }) })
  .map(
    ({ reason, retryAfter }) =>
      new ProviderFailure.ProviderFailure({
        reason,
        evidence: { rule: "test", signal: "local", depth: 0 },
        detail: "",
        retryAfter: retryAfter === undefined ? undefined : Duration.millis(retryAfter)
      })
  )

/** What the world does after an action: how the next attempt ends, and how time and others move. */
const turn = fc.record({
  failure,
  commit: fc.constantFrom<CallState.Commit>("nothing", "reasoning", "text", "tool"),
  elapsed: fc.integer({ min: 0, max: 90_000 }),
  cost: fc.double({ min: 0, max: 1, noNaN: true }),
  draw: fc.double({ min: 0, max: 0.999, noNaN: true }),
  /** Another call opens a cooldown meanwhile. */
  other: fc.option(fc.tuple(fc.nat(3), fc.integer({ min: 1, max: 200_000 })), { nil: undefined })
})

type Turn = typeof turn extends fc.Arbitrary<infer T> ? T : never

const policy = fc
  .record({
    base: fc.constantFrom(RecoveryPolicy.interactive, RecoveryPolicy.background),
    maxAttempts: fc.integer({ min: 1, max: 12 }),
    deadline: fc.integer({ min: 0, max: 300_000 }),
    maxCost: fc.option(fc.double({ min: 0.1, max: 5, noNaN: true }), { nil: undefined }),
    midStream: fc.constantFrom("continue" as const, "fail" as const),
    patience: fc.integer({ min: 0, max: 60_000 }),
    retryAfterJitter: fc.double({ min: 0, max: 1, noNaN: true })
  })
  .map(({ base, deadline, patience, ...rest }): RecoveryPolicy.RecoveryPolicy => ({
    ...base,
    ...rest,
    deadline: Duration.millis(deadline),
    patience: Duration.millis(patience)
  }))

const target = fc
  .record({
    provider: fc.constantFrom("p", "q"),
    model: fc.constantFrom("m1", "m2"),
    endpoint: fc.constantFrom("e1", "e2"),
    key: fc.constantFrom("k1", "k2"),
    contextWindow: fc.constantFrom(undefined, 1_000, 2_000)
  })
  .map(({ contextWindow, ...ref }): CallState.TargetView => ({
    ref: { ...ref, id: `${idOf(ref)}@${ref.endpoint}` },
    contextWindow
  }))

const targets = fc.uniqueArray(target, { minLength: 1, maxLength: 4, selector: ({ ref }) => ref.id })

// -----------------------------------------------------------------------------
// A whole call
// -----------------------------------------------------------------------------

interface Log {
  /** For each wait: whether some target was ready at its end. */
  readonly waitsPaid: ReadonlyArray<boolean>
  readonly actions: ReadonlyArray<CallState.Action>
  readonly final: CallState.CallState
  /** At the beginning of each attempt but the first: what waits and failed attempts had taken by then. */
  readonly spentAtAttempts: ReadonlyArray<number>
  readonly costAtAttempts: ReadonlyArray<number>
  /** The failure before each attempt. */
  readonly before: ReadonlyArray<ProviderFailure.ProviderFailure | undefined>
  /** At the end of each wait. */
  readonly spentAtWaits: ReadonlyArray<number>
  readonly ended: boolean
}

const simulate = (
  policy: RecoveryPolicy.RecoveryPolicy,
  views: ReadonlyArray<CallState.TargetView>,
  turns: ReadonlyArray<Turn>
): Log => {
  let now = 0
  let cooldowns = Cooldown.empty
  let state = CallState.initial
  let event: CallState.Event = { _tag: "Started" }
  let spent = 0
  let cost = 0
  const actions: Array<CallState.Action> = []
  const spentAtAttempts: Array<number> = []
  const costAtAttempts: Array<number> = []
  const waitsPaid: Array<boolean> = []
  const before: Array<ProviderFailure.ProviderFailure | undefined> = []
  const spentAtWaits: Array<number> = []
  for (const { failure, commit, elapsed, cost: price, draw, other } of turns) {
    if (other !== undefined) {
      const view = views[other[0] % views.length]
      if (view !== undefined) {
        cooldowns = Cooldown.open(
          cooldowns,
          { scope: "model", target: view.ref, until: now + other[1], failure },
          now
        )
      }
    }
    const [action, next] = CallState.step(
      policy,
      state,
      event,
      { now, targets: views, dead: [], cooldowns },
      draw
    )
    actions.push(action)
    state = next
    if (action.cooldown !== undefined) cooldowns = Cooldown.open(cooldowns, action.cooldown, now)
    switch (action._tag) {
      case "GiveUp":
        return {
          actions,
          final: state,
          before,
          spentAtWaits,
          waitsPaid,
          spentAtAttempts,
          costAtAttempts,
          ended: true
        }
      case "Wait":
        assert.isAtLeast(action.until, now)
        waitsPaid.push(views.some(({ ref }) => Cooldown.outOf(cooldowns, ref, action.until) === undefined))
        spent += action.until - now
        spentAtWaits.push(spent)
        now = action.until
        event = { _tag: "Woke" }
        break
      default:
        assert.isTrue(Number.isFinite(action.delay) && action.delay >= 0)
        spent += action.delay
        now += action.delay
        spentAtAttempts.push(spent)
        costAtAttempts.push(cost)
        before.push(state.lastFailure)
        now += elapsed
        if (commit !== "text") spent += elapsed
        cost += price
        event = { _tag: "Failed", failure, commit, elapsed, cost: price }
    }
  }
  return {
    actions,
    final: state,
    before,
    spentAtWaits,
    waitsPaid,
    spentAtAttempts,
    costAtAttempts,
    ended: false
  }
}

const attemptsOf = (actions: ReadonlyArray<CallState.Action>) =>
  actions.filter(({ _tag }) => _tag === "Attempt" || _tag === "Switch" || _tag === "Continue")

const check = (
  property: (log: Log, policy: RecoveryPolicy.RecoveryPolicy, turns: ReadonlyArray<Turn>) => void
) =>
  fc.assert(
    fc.property(policy, targets, fc.array(turn, { minLength: 40, maxLength: 40 }), (policy, views, turns) =>
      property(simulate(policy, views, turns), policy, turns)
    ),
    { numRuns: 500 }
  )

describe("for every policy and every sequence of events", () => {
  it("it ends, and stays ended", () => {
    check(({ ended, final }) => {
      assert.isTrue(ended)
      assert.strictEqual(final.phase, "done")
    })
  })

  it("attempts never exceed the cap", () => {
    check(({ actions }, { maxAttempts }) => {
      assert.isAtMost(attemptsOf(actions).length, maxAttempts)
    })
  })

  it("no attempt begins after waits and failed attempts have used up the deadline, but one after our own limit", () => {
    check(({ spentAtAttempts, before }, { deadline }) => {
      const late = spentAtAttempts.flatMap((spent, i) =>
        spent > Duration.toMillis(deadline) + 1e-6 ? [i] : []
      )
      assert.isAtMost(late.length, 1)
      for (const i of late) {
        const reason = before[i]?.reason
        assert.isTrue(reason?._tag === "Timeout" && reason.local)
        assert.strictEqual(i, spentAtAttempts.length - 1)
      }
    })
  })

  it("no wait reaches beyond the deadline", () => {
    check(({ spentAtWaits }, { deadline }) => {
      for (const spent of spentAtWaits) assert.isAtMost(spent, Duration.toMillis(deadline) + 1e-6)
    })
  })

  it("no attempt begins after failed attempts have cost the limit", () => {
    check(({ costAtAttempts }, { maxCost }) => {
      if (maxCost !== undefined) for (const cost of costAtAttempts) assert.isBelow(cost, maxCost)
    })
  })

  it("a cancel, a malformed request, refused content and a committed tool call are never followed by an attempt", () => {
    check(({ actions }, policy, turns) => {
      actions.forEach((action, i) => {
        const before = turns[i - 1]
        const previous = actions[i - 1]
        if (before === undefined || previous === undefined || previous._tag === "Wait") return
        const stops = RecoveryPolicy.rowOf(policy, before.failure).then === "stop" || before.commit === "tool"
        if (stops) assert.strictEqual(action._tag, "GiveUp")
      })
    })
  })

  it("an attempt goes to a target that no cooldown covers, unless it is repeated where it failed", () => {
    check(({ actions }) => {
      for (const action of actions) {
        if (action._tag === "Switch") assert.notStrictEqual(action.from.id, action.target.id)
        if (action._tag === "Switch" && action.cooldown !== undefined) {
          assert.isFalse(Cooldown.covers(action.cooldown.scope, action.cooldown.target, action.target))
        }
      }
    })
  })

  it("no wait is in vain: at its end some target is ready", () => {
    check(({ waitsPaid }) => assert.notInclude(waitsPaid, false))
  })

  it("it ends even if others take every target away at every wake", () => {
    const views: ReadonlyArray<CallState.TargetView> = [
      { ref: { id: "a", provider: "p", model: "m", endpoint: "", key: "" }, contextWindow: undefined }
    ]
    const failure = new ProviderFailure.ProviderFailure({
      reason: new FailoverReason.Overloaded(),
      evidence: { rule: "test", signal: "local", depth: 0 },
      detail: ""
    })
    const stolen = (): Turn => ({ failure, commit: "nothing", elapsed: 0, cost: 0, draw: 0, other: [0, 1] })
    const { ended, actions } = simulate(RecoveryPolicy.background, views, Array.from({ length: 40 }, stolen))
    assert.isTrue(ended)
    assert.isTrue(actions.every(({ _tag }) => _tag === "Wait" || _tag === "GiveUp"))
  })

  it("once text was seen every further attempt continues it", () => {
    check(({ actions }, _policy, turns) => {
      let seen = false
      actions.forEach((action, i) => {
        if (seen) assert.notInclude(["Attempt", "Switch"], action._tag)
        seen ||= turns[i]?.commit === "text" && action._tag !== "Wait" && action._tag !== "GiveUp"
      })
    })
  })
})

describe("a cooldown", () => {
  const ref = { id: "a", provider: "p", model: "m", endpoint: "e", key: "k" }
  const rateLimit = new ProviderFailure.ProviderFailure({
    reason: new FailoverReason.RateLimit(),
    evidence: { rule: "test", signal: "local", depth: 0 },
    detail: ""
  })
  const openAt = (cooldowns: Cooldown.Cooldowns, now: number, until: number) =>
    Cooldown.open(cooldowns, { scope: "key", target: ref, until, failure: rateLimit }, now)

  it("that is open is not lengthened by failures inside it", () => {
    fc.assert(
      fc.property(fc.nat(1_000), fc.nat(1_000), fc.nat(10_000), (length, later, more) => {
        const first = openAt(Cooldown.empty, 0, length)
        const second = openAt(first, Math.min(later, length - 1), length + more)
        if (length > 0) assert.strictEqual(Cooldown.outOf(second, ref, 0)?.until, length)
      })
    )
  })

  it("grows from one to the next, up to its cap, until a success", () => {
    const rule = RecoveryPolicy.interactive.rows.Auth.cooldown
    assert.isDefined(rule)
    let cooldowns = Cooldown.empty
    const lengths: Array<number> = []
    for (let now = 0; lengths.length < 5;) {
      const length = Cooldown.length(rule, Cooldown.streakOf(cooldowns, "key", ref))
      lengths.push(length / 60_000)
      cooldowns = openAt(cooldowns, now, now + length)
      now += length
    }
    assert.deepStrictEqual(lengths, [10, 20, 40, 60, 60])
    cooldowns = Cooldown.clear(cooldowns, ref, Infinity)
    assert.strictEqual(Cooldown.streakOf(cooldowns, "key", ref), 0)
  })

  it("that opened while an attempt was under way survives the success of that attempt", () => {
    const cooldowns = openAt(Cooldown.empty, 100, 200)
    assert.strictEqual(Cooldown.clear(cooldowns, ref, 99), cooldowns)
    assert.isUndefined(Cooldown.outOf(Cooldown.clear(cooldowns, ref, 100), ref, 150))
  })
})
