import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { Prompt } from "effect/ai"
import * as fc from "fast-check"
import { LoopDetector } from "@outlast/agent/guard"
import { RunState, RunTranscript } from "@outlast/agent/loop"
import type { Event, Folded } from "./runWorld.ts"
import {
  answer,
  assertLegal,
  bytes,
  detector,
  fold,
  reply,
  result,
  settings,
  started,
  stored
} from "./runWorld.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

const written = ({ transcript }: Folded) =>
  Schema.encodeUnknownSync(Prompt.Prompt)(RunTranscript.promptOf(transcript))

const isOver = ({ action }: Folded): boolean => action._tag === "Finish" || action._tag === "Fail"

/** The events of a run, until it ends. */
const played = (rules: Parameters<typeof started>[0], draw: (n: number) => number): ReadonlyArray<Event> => {
  const events: Array<Event> = [started(rules)]
  // A turn has at most: a fit, an ask, two repeats with a fit each, three hooks, an approval and the tools.
  const most = 1 + rules.maxTurns * 11
  while (!isOver(fold(events))) {
    assert.isBelow(events.length, most, "the run does not end")
    events.push(reply(fold(events), draw))
  }
  return events
}

const drawn = fc.tuple(settings, fc.infiniteStream(fc.nat(1_000_000)))

const sampled =
  (numbers: Iterator<number>) =>
  (n: number): number =>
    (numbers.next().value ?? 0) % n

describe("RunState", () => {
  it("ends every run within its limits, with a legal conversation at every moment", () => {
    fc.assert(
      fc.property(drawn, ([rules, numbers]) => {
        const events = played(rules, sampled(numbers[Symbol.iterator]()))
        for (let n = 1; n <= events.length; n++) {
          const { state, transcript, transitions } = fold(events.slice(0, n))
          assertLegal(RunTranscript.promptOf(transcript))
          assert.isAtMost(state.turn, rules.maxTurns)
          // Each event but the first and the ones inside a turn has a transition; only the last ends the run.
          const last = transitions.at(-1)
          if (n === events.length) assert.isDefined(last)
        }
        const { action } = fold(events)
        if (action._tag !== "Finish") return
        const { limits } = rules
        const { ending } = action
        if (limits?.toolCalls !== undefined && ending.subagents.toolCalls === 0) {
          const blocked = ending.toolCalls - limits.toolCalls
          const { guard } = fold(events).state
          assert.isAtMost(guard.toolCalls, limits.toolCalls, `${blocked}`)
        }
        if (ending.status === "guard_stopped") assert.isDefined(ending.stop)
      }),
      { numRuns: Sweeps.runs(300) }
    )
  })

  it("gives the same state, byte for byte, from stored events and from any stored prefix", () => {
    fc.assert(
      fc.property(drawn, ([rules, numbers]) => {
        const events = played(rules, sampled(numbers[Symbol.iterator]()))
        const again = events.map(stored)
        const whole = fold(events)
        assert.strictEqual(bytes(fold(again).state), bytes(whole.state))
        assert.deepStrictEqual(fold(again).transitions, whole.transitions)
        assert.deepStrictEqual(written(fold(again)), written(whole))
        // A run that goes on from a prefix publishes what is left, and nothing twice.
        for (let n = 1; n < events.length; n++) {
          const before = fold(again.slice(0, n)).transitions
          assert.deepStrictEqual(whole.transitions.slice(0, before.length), before)
        }
      }),
      { numRuns: Sweeps.runs(100) }
    )
  })

  it("has at most 16 KB as JSON after 400 calls", () => {
    const rules = {
      maxTurns: 1_000,
      hooks: ["beforeTool", "afterTool", "beforeStop"],
      suspends: true,
      loops: "tell",
      limits: { toolCalls: 1_000, turns: 1_000, fileEdits: 100, tools: { write_file: 1_000 } },
      maxReactive: 2
    } as const
    const events: Array<Event> = [started(rules)]
    const memory = {
      thrash: { turn: 100, last: 99, poor: 1 },
      calibration: {
        model: "claude-sonnet-4-5",
        errors: Array.from({ length: 10 }, (_, i) => i / 7),
        covariance: Array.from({ length: 55 }, (_, i) => Math.round(1e7 / (i + 3)) / 1e7)
      }
    }
    let { state, transcript } = fold(events)
    const feed = (event: Event) => {
      const moved = RunState.step(state, event)
      transcript = RunTranscript.add(transcript, state, event, moved)
      state = moved.state
      return moved
    }
    for (let i = 0; state.tally.toolCalls < 400; i++) {
      const calls = Array.from({ length: 4 }, (_, n) => ({
        id: `toolu_01A09q90qw90lq91783${i}_${n}`,
        name: "write_file",
        params: {
          path: `/home/user/project/packages/some/long/path/module-${i}-${n}.ts`,
          content: `x = ${i}`
        }
      }))
      feed({
        _tag: "Fitted",
        edits: [],
        compacted: false,
        summaries: { calls: 0, tokens: 0, costUsd: undefined },
        memory
      })
      const by = { target: `anthropic/model-${i % 20}#KEY`, provider: "anthropic", model: `model-${i % 20}` }
      feed(
        answer(calls, { by, costUsd: 0.012345, memory, calls: calls.map(({ id, name }) => ({ id, name })) })
      )
      feed({ _tag: "HookReplied", replies: calls.map(() => ({ _tag: "Continue" })) })
      const results = calls.map(({ id, name, params }, n) => {
        const value = `wrote ${i} ${n} of some words that differ: ${"word".repeat(i % 9)}`
        return result(id, name, value, {
          evidence: LoopDetector.evidence(detector, {
            turn: i,
            tool: name,
            arguments: params,
            result: value,
            failed: false
          })
        })
      })
      feed({ _tag: "ToolsFinished", results, elapsed: 12.345, active: 12.345 })
      feed({ _tag: "HookReplied", replies: calls.map(() => ({ _tag: "Continue" })) })
      assert.isAtMost(bytes(state).length, 16_384, `after ${i} turns`)
    }
    assert.strictEqual(state.tally.toolCalls, 400)
    assert.strictEqual(state.version, 1)
  })

  it("throws for an event that does not answer the last action", () => {
    const { state } = fold([started({ maxTurns: 3, hooks: [], suspends: false })])
    assert.throws(
      () => RunState.step(state, { _tag: "ToolsFinished", results: [] }),
      /ToolsFinished does not fit a run that is asking/
    )
  })
})
