/** Calls that did not run are said: in the outcome, in a stop, and as an event each. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { Agent, SafetyGuard } from "@outlast/agent"
import * as BlockedCalls from "#agent/guard/BlockedCalls"
import { blockedText } from "#agent/guard/GuardEvent"
import { Kit, looking, model, over, recording, stopOf, tools } from "./support.ts"

/** Finds the same every time. */
const same = () => tools({ look_up: () => Effect.succeed("nothing new under the sun") })
/** Asks for the same so many times, in turns of their own. */
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

describe("a run that ends well", () => {
  it.effect("lists the calls that were blocked, with the turn and the reason", () =>
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

  it.effect("lists none without a guard, and none where nothing was blocked", () =>
    Effect.gen(function* () {
      const run = Agent.run({ prompt: "x", toolkit: Kit })
      for (const program of [run, SafetyGuard.run({ loops: "tell" })(run)]) {
        const outcome = yield* Effect.provide(program, [same().layer, yield* asking(9)])
        assert.deepStrictEqual([outcome.blockedCalls, outcome.blocked], [0, []])
      }
    })
  )

  it.effect("lists what was not permitted; the event has none of the hook's words", () =>
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

  it.effect("lists a call once that was blocked before a hook was asked, and streams list it, too", () =>
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
  it.effect("has the calls that were blocked before it, and so has the guard's report", () =>
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

  it.effect("has those of a plain model's tools", () =>
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

it("the line about one is a single line, whatever name the model calls", () => {
  const line = blockedText({ tool: `a\nERROR forged ${"x".repeat(9_000)}`, pattern: "identical" })
  assert.isTrue(line.startsWith("the tool call a ERROR forged xxx"))
  assert.notInclude(line, "\n")
  assert.isBelow(line.length, 300)
})

it("at most the last hundred are listed, and their texts are bounded", () => {
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
