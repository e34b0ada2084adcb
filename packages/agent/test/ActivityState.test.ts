/** The view of running calls: examples, and laws under any events. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { Activity } from "@outlast/agent"
import type { EventLine } from "@outlast/agent"
import type { GuardEvent } from "@outlast/agent/guard"
import { ResilienceEvents } from "@outlast/resilience"
import { ActivityState, bounds, slot } from "#agent/ActivityState"
import * as Sweeps from "../../../test/sweeps.ts"

const target = (id: string) => ({ id, provider: "p", model: id, endpoint: "", key: "" })
const [a, b] = [target("a"), target("b")]

type Event = EventLine.Event
const fold = (...events: ReadonlyArray<Event>): ActivityState => {
  const state = new ActivityState()
  for (const event of events) state.apply(event)
  return state
}

const started = (at: number, attempt: number, of = a, call = 1): Event => ({
  _tag: "AttemptStarted",
  at,
  call,
  attempt,
  target: of,
  waited: 0,
  after: attempt === 1 ? undefined : "RateLimit",
  rule: undefined,
  status: undefined
})
const failed = (at: number, attempt: number, of = a, call = 1): Event => ({
  _tag: "AttemptFailed",
  at,
  call,
  attempt,
  target: of,
  reason: "RateLimit",
  rule: "http/429",
  status: 429,
  retryAfter: undefined,
  message: "rate limited (HTTP 429)",
  elapsed: 10
})
const waiting = (at: number, delay: number | undefined): Event => ({
  _tag: "CallWaiting",
  at,
  call: 1,
  attempt: 1,
  reason: "backoff",
  target: a,
  delay,
  by: undefined
})
const waited = (at: number, elapsed: number): Event => ({
  _tag: "CallWaited",
  at,
  call: 1,
  attempt: 1,
  reason: "backoff",
  target: a,
  elapsed
})
const succeeded = (at: number, attempt: number, of = a, call = 1): Event => ({
  _tag: "CallSucceeded",
  firstToken: undefined,
  at,
  call,
  attempt,
  target: of,
  elapsed: 20,
  waited: 0,
  recoveredFrom: attempt > 1 ? "RateLimit" : undefined,
  costUsd: undefined,
  inputTokens: undefined,
  outputTokens: undefined
})
const cooldown = (at: number, length: number | undefined, of = a): Event => ({
  _tag: "CooldownOpened",
  at,
  scope: "key",
  target: of,
  reason: "RateLimit",
  length
})

describe("ActivityState", () => {
  it("says why a call waits, and until when", () => {
    const view = fold(started(0, 1), failed(10, 1), waiting(10, 4_000)).view(500)
    const [call] = view.running
    assert.strictEqual(call?.attempts, 1)
    assert.deepInclude(call?.steps[0], { text: "a", state: "failed", reason: "RateLimit", status: 429 })
    assert.deepInclude(call?.steps[1], { kind: "wait", state: "running", reason: "backoff", until: 4_010 })
  })

  it("keeps the whole chain of a call that has recovered", () => {
    const view = fold(
      started(0, 1),
      failed(10, 1),
      waiting(10, 50),
      waited(60, 50),
      { _tag: "TargetSwitched", at: 60, call: 1, attempt: 1, from: a, target: b, reason: "RateLimit" },
      started(60, 2, b),
      succeeded(80, 2, b)
    ).view(100)
    assert.deepStrictEqual(view.running, [])
    const [call] = view.recent
    assert.deepInclude(call, { outcome: "recovered", attempts: 2, startedAt: 0, endedAt: 80 })
    assert.deepStrictEqual(
      call?.steps.map(({ state, text }) => [text, state]),
      [
        ["a", "failed"],
        ["a", "over"],
        ["switched to b", "note"],
        ["b", "answered"]
      ]
    )
    assert.strictEqual(view.amplification, 2)
    assert.strictEqual(view.goodput, 1)
  })

  it("shows which of two attempts was overtaken", () => {
    const events = (late: Event): ReadonlyArray<Event> => [
      started(0, 1),
      { _tag: "CallHedged", at: 10, call: 1, attempt: 2, target: a, by: b },
      started(10, 2, b),
      late
    ]
    const steps = (...events: ReadonlyArray<Event>) =>
      fold(...events)
        .view(100)
        .recent[0]?.steps.map(({ state, text }) => [text, state])
    const hedged = ["… a is late: asking b, too", "note"]
    const overtaken = { _tag: "AttemptOvertaken", at: 20, call: 1, late: true, elapsed: 20 } as const
    assert.deepStrictEqual(
      steps(...events({ ...overtaken, attempt: 1, target: a, by: b }), succeeded(30, 2, b)),
      [["a", "overtaken"], hedged, ["b", "answered"]]
    )
    assert.deepStrictEqual(
      steps(...events({ ...overtaken, attempt: 2, target: b, by: a }), succeeded(30, 2, a)),
      [["a", "answered"], hedged, ["b", "overtaken"]]
    )
    assert.deepStrictEqual(steps(...events(failed(20, 1)), succeeded(30, 2, b)), [
      ["a", "failed"],
      hedged,
      ["b", "answered"]
    ])
  })

  it("does not show a call again whose last wait ends after the call", () => {
    const view = fold(
      started(0, 1),
      failed(1, 1),
      waiting(2, 50),
      { _tag: "CallAbandoned", at: 3, call: 1, attempt: 1 },
      waited(4, 2)
    ).view(5)
    assert.deepStrictEqual([view.running.length, view.recent[0]?.outcome], [0, "abandoned"])
  })

  it("shows cooldowns until they end, are lifted, or the target answers", () => {
    const state = fold(cooldown(0, 1_000), cooldown(0, undefined, b))
    assert.deepStrictEqual(
      state.view(999).cooldowns.map(({ target, until }) => [target, until]),
      [
        ["a", 1_000],
        ["b", undefined]
      ]
    )
    assert.lengthOf(state.view(1_000).cooldowns, 1)
    state.apply({ _tag: "CooldownLifted", at: 5, scope: "key", target: b } as Event)
    assert.lengthOf(state.view(1_000).cooldowns, 0)
    state.apply(cooldown(2_000, 1_000))
    state.apply(started(2_100, 1))
    state.apply(succeeded(2_200, 1))
    assert.lengthOf(state.view(2_300).cooldowns, 0)
  })

  it("shows circuits that are not closed, and alerts that are raised", () => {
    const open: Event = {
      _tag: "CircuitTransition",
      at: 10,
      circuit: "c",
      from: "closed",
      to: "open",
      generation: 1,
      openFor: 500
    }
    const state = fold(open, { _tag: "AlertRaised", at: 20, key: "k", failures: 10, window: 1 })
    assert.deepStrictEqual(state.view(30).circuits, [{ circuit: "c", phase: "open", since: 10, until: 510 }])
    assert.lengthOf(state.view(30).alerts, 1)
    state.apply({ ...open, from: "half-open", to: "closed", openFor: undefined } as Event)
    state.apply({ _tag: "AlertCleared", at: 30, key: "k", after: 10 } as Event)
    assert.deepStrictEqual([state.view(40).circuits, state.view(40).alerts], [[], []])
  })

  it("counts the attempts and the answers of the last minutes only", () => {
    const state = fold(started(0, 1), failed(1, 1), started(2, 2), succeeded(3, 2))
    const later = bounds.minutes * 60_000 + 60_000
    assert.strictEqual(state.view(10).amplification, 2)
    assert.isUndefined(state.view(later).amplification)
    state.apply({ ...started(later, 1), call: 2 } as Event)
    assert.strictEqual(state.view(later).amplification, 1)
  })

  it("keeps for each target what its last attempts came to, and since when it fails", () => {
    const gaveUp = (at: number): Event => ({
      _tag: "CallGaveUp",
      at,
      call: 1,
      attempt: 2,
      reason: "RateLimit",
      message: "x".repeat(bounds.message + 1)
    })
    const state = fold(started(0, 1), failed(1, 1), started(2, 2), failed(3, 2), gaveUp(slot))
    const [history] = state.view(slot + 1).histories
    assert.deepStrictEqual(history, {
      target: "a",
      failingSince: 1,
      lastFailure: { at: 3, reason: "RateLimit", status: 429 },
      slots: [
        { at: 0, answered: 0, repeated: 2, failed: 0 },
        { at: slot, answered: 0, repeated: 0, failed: 1 }
      ],
      outs: []
    })
    // A message that is cut shows it.
    const message = state.view(slot + 1).recent[0]?.message ?? ""
    assert.strictEqual(message.length, bounds.message)
    assert.match(message, /…$/)
    state.apply({ ...started(slot + 2, 1), call: 2 } as Event)
    state.apply({ ...succeeded(slot + 3, 1), call: 2, target: a, costUsd: 0.5, firstToken: 120 } as Event)
    const view = state.view(slot + 4)
    assert.isUndefined(view.histories[0]?.failingSince)
    assert.deepStrictEqual(view.histories[0]?.slots.at(-1), { at: slot, answered: 1, repeated: 0, failed: 1 })
    assert.deepInclude(view.minutes[0], { costUsd: 0.5, streamed: 1, firstTokens: 120 })
    assert.strictEqual(view.costUsd, 0.5)
    // The last minutes only.
    assert.deepStrictEqual(state.view(slot + bounds.minutes * 60_000 + 60_000).histories[0]?.slots, [])
  })

  it("does not call a target failing for a request that would fail everywhere", () => {
    const refused = { ...failed(1, 1), reason: "ContextOverflow" } as Event
    assert.isUndefined(fold(started(0, 1), refused).view(2).histories[0]?.failingSince)
    assert.strictEqual(fold(started(0, 1), failed(1, 1)).view(2).histories[0]?.failingSince, 1)
  })

  it("keeps when a cooldown kept a target out, until it answers or is lifted", () => {
    const lifted = (at: number) =>
      ({ _tag: "CooldownLifted", at, target: a, scope: "key" }) as unknown as Event
    const state = fold(cooldown(0, 10_000), cooldown(20_000, 10_000), lifted(21_000))
    assert.deepStrictEqual(state.view(30_000).histories[0]?.outs, [
      { since: 0, until: 10_000 },
      { since: 20_000, until: 21_000 }
    ])
    for (let i = 0; i < 100; i++) state.apply(cooldown(40_000 + i, 10_000))
    assert.lengthOf(state.view(50_000).histories[0]?.outs ?? [], bounds.outs)
  })

  it("keeps the guard and compactions as notices", () => {
    const view = fold({
      _tag: "GuardStopped",
      at: 1,
      reason: "toolCalls",
      limit: 10,
      subject: undefined,
      counts: { toolCalls: 10, events: 1, turns: 1, elapsed: 1 }
    } as unknown as Event).view(2)
    assert.deepStrictEqual(view.notices, [
      {
        at: 1,
        tag: "GuardStopped",
        run: undefined,
        level: "Warn",
        text: "✗ the guard stopped the run: toolCalls"
      }
    ])
  })

  it.effect("names the run of each notice", () =>
    Effect.gen(function* () {
      const activity = yield* Activity.make
      const nudged = ResilienceEvents.publishNow<GuardEvent.GuardNudged>({
        _tag: "GuardNudged",
        tool: "read",
        pattern: "identical",
        count: 3
      })
      yield* Effect.all(
        ["run 1", "run 2"].map((name) => Effect.provideService(nudged, Activity.CurrentRun, name)),
        { concurrency: "unbounded" }
      )
      yield* nudged
      const { notices } = yield* activity.view
      assert.deepStrictEqual(
        notices.map(({ run }) => run),
        [undefined, "run 2", "run 1"]
      )
    }).pipe(Effect.scoped, Effect.provide(ResilienceEvents.layer()))
  )

  it("stays bounded, and loses no running call to the history, under any events", () => {
    const call = fc.integer({ min: 1, max: 400 })
    const of = fc.integer({ min: 0, max: 400 }).map((n) => target(`${n}${"x".repeat(400)}`))
    const event = fc.oneof(
      fc.tuple(fc.nat(3), of, call).map(
        ([n, of, call]) =>
          (at: number) =>
            started(at, n + 1, of, call)
      ),
      fc.tuple(fc.nat(3), of, call).map(
        ([n, of, call]) =>
          (at: number) =>
            failed(at, n + 1, of, call)
      ),
      fc.tuple(fc.nat(3), of, call).map(
        ([n, of, call]) =>
          (at: number) =>
            succeeded(at, n + 1, of, call)
      ),
      fc.tuple(fc.option(fc.nat(9_999), { nil: undefined }), call).map(
        ([delay, call]) =>
          (at: number): Event =>
            ({ ...waiting(at, delay), call }) as Event
      ),
      fc.tuple(fc.option(fc.nat(99_999), { nil: undefined }), of).map(
        ([n, of]) =>
          (at: number) =>
            cooldown(at, n, of)
      ),
      fc.string().map((tag) => (at: number) => ({ _tag: tag, at }) as unknown as Event)
    )
    fc.assert(
      fc.property(fc.array(event, { maxLength: 600, size: "max" }), fc.nat(5_000), (events, step) => {
        const state = new ActivityState()
        const open = new Set<number>()
        let now = 0
        for (const make of events) {
          const event = make((now += step))
          state.apply(event)
          if ("call" in event) {
            if (event._tag === "CallSucceeded") open.delete(event.call)
            else if (event._tag !== "AttemptFailed") open.add(event.call)
          }
        }
        const view = state.view(now)
        assert.isAtMost(view.running.length, bounds.running)
        assert.isAtMost(view.recent.length, bounds.recent)
        assert.isAtMost(view.cooldowns.length, bounds.names)
        assert.isAtMost(view.minutes.length, bounds.minutes)
        for (const { call } of view.running) assert.isTrue(open.has(call), "only calls under way are running")
        if (open.size <= bounds.running) {
          assert.sameMembers(
            view.running.map(({ call }) => call),
            [...open]
          )
        }
        for (const { endedAt, steps } of [...view.running, ...view.recent]) {
          assert.isAtMost(steps.length, bounds.steps)
          for (const { state, text } of steps) {
            assert.isAtMost(text.length, bounds.text)
            if (endedAt !== undefined) assert.notStrictEqual(state, "running")
          }
        }
        JSON.stringify(view)
      }),
      { numRuns: Sweeps.runs(60) }
    )
  })

  it("drops steps from the middle of a long chain, and says how many", () => {
    const state = new ActivityState()
    for (let n = 1; n <= 100; n++) {
      state.apply(started(n, n, target(`t${n}`)))
      state.apply(failed(n, n, target(`t${n}`)))
    }
    const [call] = state.view(200).running
    assert.lengthOf(call?.steps ?? [], bounds.steps)
    assert.strictEqual(call?.omitted, 60)
    assert.strictEqual(call?.steps[0]?.text, "t1")
    assert.strictEqual(call?.steps.at(-1)?.text, "t100")
    assert.isTrue(call?.steps.every(({ state }) => state === "failed"))
  })
})

describe("Activity", () => {
  it.effect("follows the events of the program", () =>
    Effect.gen(function* () {
      const activity = yield* Activity.make
      yield* ResilienceEvents.publish(started(0, 1))
      assert.lengthOf((yield* activity.view).running, 1)
    }).pipe(Effect.scoped, Effect.provide(ResilienceEvents.layer()))
  )
})
