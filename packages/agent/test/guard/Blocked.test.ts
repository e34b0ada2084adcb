/** Blocked calls are reported in the outcome, in a stop, and as one event each. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { Agent, SafetyGuard } from "@outlast/agent"
import * as BlockedCalls from "#agent/guard/BlockedCalls"
import { blockedText } from "#agent/guard/GuardEvent"
import { Kit, looking, model, over, recording, stopOf, tools } from "./support.ts"

/** Returns the same result every time. */
const same = () => tools({ look_up: () => Effect.succeed("nothing new under the sun") })
/** Requests the same call `times` times, one per turn. */
const asking = (times: number) =>
  Effect.map(
    model({
      answers: [...Array.from({ length: times }, () => looking("secret-argument")), { text: "done" }]
    }),
    over
  )
const expected = {
  tool: "look_up",
  pattern: "identical",
  message:
    "look_up was called with the same arguments 5 times and brought nothing new. This call was not run. Use what you have, try another way, or say what is in the way."
} as const

describe("a completed run", () => {
  it.effect("lists the blocked calls with turn and reason", () =>
    Effect.gen(function* () {
      const { of, layer: events } = recording()
      const outcome = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run(),
        Effect.provide([same().layer, yield* asking(7), events])
      )
      assert.strictEqual(outcome.status, "completed")
      assert.strictEqual(outcome.blockedCalls, 2)
      assert.deepStrictEqual(outcome.blocked, [
        { ...expected, turn: 6 },
        { ...expected, turn: 7 }
      ])
      const published = of("GuardBlocked")
      assert.strictEqual(published.length, 2)
      for (const event of published) assert.deepInclude(event, expected)
      assert.notInclude(JSON.stringify(published), "secret-argument")
    })
  )

  it.effect("lists no blocked call without a guard or without a block", () =>
    Effect.gen(function* () {
      const run = Agent.run({ prompt: "x", toolkit: Kit })
      for (const program of [run, SafetyGuard.run({ loops: "tell" })(run)]) {
        const outcome = yield* Effect.provide(program, [same().layer, yield* asking(9)])
        assert.deepStrictEqual([outcome.blockedCalls, outcome.blocked], [0, []])
      }
    })
  )

  it.effect("lists refused calls; the event omits the reason of the hook", () =>
    Effect.gen(function* () {
      const { of, layer: events } = recording()
      const outcome = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ permit: () => Effect.succeed({ refuse: "no secret-argument here" }) }),
        Effect.provide([same().layer, yield* asking(1), events])
      )
      assert.deepStrictEqual(outcome.blocked, [
        {
          tool: "look_up",
          turn: 1,
          pattern: "permission",
          message: "This call was not permitted: no secret-argument here"
        }
      ])
      assert.deepInclude(of("GuardBlocked")[0], {
        tool: "look_up",
        pattern: "permission",
        message: "look_up was not permitted."
      })
      assert.strictEqual(of("GuardBlocked").length, 1)
    })
  )

  it.effect("lists a call once that was blocked before the hook was called, in streams too", () =>
    Effect.gen(function* () {
      const { of, layer: events } = recording()
      const parts = yield* Agent.stream({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.runStream({ permit: () => Effect.succeed("allow") }),
        Stream.runCollect,
        Effect.provide([same().layer, yield* asking(6), events])
      )
      const last = parts.at(-1)
      assert.strictEqual(last?.type === "outcome" ? last.outcome.blockedCalls : undefined, 1)
      assert.strictEqual(of("GuardBlocked").length, 1)
    })
  )
})

describe("a stop", () => {
  it.effect("lists the calls that were blocked before it, like the report of the guard", () =>
    Effect.gen(function* () {
      const guard = yield* SafetyGuard.make()
      const stop = yield* stopOf(guard.run(Agent.run({ prompt: "x", toolkit: Kit }))).pipe(
        Effect.provide([same().layer, yield* asking(30)])
      )
      assert.strictEqual(stop.reason, "tool_loop")
      assert.deepStrictEqual(
        stop.blocked,
        [6, 7, 8].map((turn) => ({ ...expected, turn }))
      )
      const { counts, blocked } = yield* guard.report
      assert.deepStrictEqual([counts.blocked, blocked], [3, stop.blocked])
    })
  )

  it.effect("lists the blocked calls of a plain model", () =>
    Effect.gen(function* () {
      const ask = LanguageModel.generateText({ prompt: "x", toolkit: Kit })
      const stop = yield* Effect.forever(ask).pipe(
        SafetyGuard.run({ loops: { reads: { nudge: 1, block: 1 } } }),
        stopOf,
        Effect.provide([same().layer, yield* asking(30)])
      )
      assert.deepInclude(stop.blocked[0], { tool: "look_up", turn: 2, pattern: "identical" })
    })
  )
})

it("describes a blocked call in a single line, for any name of a tool", () => {
  const line = blockedText({ tool: `a\nERROR forged ${"x".repeat(9_000)}`, pattern: "identical" })
  assert.isTrue(line.startsWith("the tool call a ERROR forged xxx"))
  assert.notInclude(line, "\n")
  assert.isBelow(line.length, 300)
})

it("lists at most the last hundred calls, with shortened texts", () => {
  let calls = BlockedCalls.none
  for (let turn = 1; turn <= 250; turn++)
    calls = BlockedCalls.add(calls, {
      tool: "t".repeat(9_000),
      turn,
      pattern: "identical",
      message: "m".repeat(9_000)
    })
  assert.strictEqual(calls.count, 250)
  assert.deepStrictEqual([calls.last.length, calls.last[0]?.turn, calls.last.at(-1)?.turn], [100, 151, 250])
  assert.isBelow(JSON.stringify(calls.last[0]).length, 1_400)
})
