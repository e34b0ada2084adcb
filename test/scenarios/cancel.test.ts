/**
 * Cancels a program at every point at which it waits, and between its operations as if the scheduler yielded there.
 * After a cancel, no request is sent, no tool starts, no fiber and no sleep is left, and the call is
 * reported as abandoned, once.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Option } from "effect"
import type { LanguageModel } from "effect/ai"
import { FaultPlan } from "@outlast/testing"
import { agent, overloaded, say, status, stream, streamingAgent } from "./programs.ts"
import { inMemory, key, overHttp, place, toldInMemory } from "./Scenario.ts"
import * as VirtualTime from "./VirtualTime.ts"
import * as Sweeps from "../sweeps.ts"

const answers = [{ text: "It leaks." }]
const bill = [{ toolCalls: [{ name: "pay", params: { euros: 1, to: "her" } }] }, { text: "Paid." }]

/** All kinds of waits: for a limit, for a backoff, for silence, for slow words, for a tool, for another target. */
const trouble = (...faults: ReadonlyArray<FaultPlan.Fault>): ReadonlyArray<FaultPlan.Step> => [
  { when: key("A"), fault: status(429, { "retry-after": "2" }) },
  ...faults.map((fault): FaultPlan.Step => ({ when: key("A"), fault })),
  { when: key("A"), times: "always", fault: status(401) },
  { when: key("B"), fault: { type: "slow", delay: 100 } }
]

/** The first model is late, and the second one takes its time: both are under way. */
const hedged: FaultPlan.FaultPlan = {
  faults: [
    { when: key("A"), times: "always", fault: { type: "stall" } },
    { when: key("B"), fault: { type: "slow", delay: 1_000 } }
  ],
  answers
}

interface Case {
  readonly plan: FaultPlan.FaultPlan
  readonly program: Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>
}

const cases: Readonly<Record<string, Case>> = {
  generateText: { plan: { faults: trouble(overloaded(), { type: "stall" }), answers }, program: say },
  streamText: {
    plan: { faults: trouble({ type: "stall", after: 1 }), answers: [{ reasoning: "Hm.", ...answers[0] }] },
    program: stream
  },
  "generateText with two attempts at once": { plan: hedged, program: say },
  "streamText with two attempts at once": { plan: hedged, program: stream },
  "Agent.run with a tool": { plan: { faults: trouble(), answers: bill }, program: agent },
  "Agent.stream with a tool": {
    plan: { faults: [{ fault: { type: "reset", after: 1 } }], answers: bill },
    program: streamingAgent
  }
}

/** One world, interrupted at point `n`; `undefined` when its program had ended before. */
const cancelled = ({ plan, program }: Case, points: VirtualTime.Points, n: number) => {
  let asked = 0
  const tags: Array<string> = []
  const runner = Effect.map(FaultPlan.start(plan), ({ next }) => ({
    next: (request: FaultPlan.Request) =>
      Effect.andThen(
        Effect.sync(() => asked++),
        next(request)
      )
  }))
  const story = Effect.flatMap(runner, (plan) =>
    toldInMemory({
      chain: [place("anthropic", "A"), place("openai", "B")],
      plan,
      program,
      heard: (event) => void tags.push(event._tag)
    })
  )
  let before = { asked: 0, events: 0 }
  const exit = VirtualTime.interrupted(story, points, n, () => (before = { asked, events: tags.length }))
  if (exit === undefined) return undefined
  assert.isTrue(Exit.isFailure(exit) && Exit.hasInterrupts(exit), `at ${n}`)
  const abandoned = count(tags, "CallAbandoned")
  assert.isAtMost(abandoned, 1, `at ${n}`)
  return {
    asked: asked - before.asked,
    begun: count(
      tags.slice(before.events),
      "AttemptStarted",
      "TargetSwitched",
      "AnswerContinued",
      "ToolStarted"
    ),
    outcome: `${count(tags, "CallSucceeded")} succeeded, ${abandoned} abandoned`
  }
}

const count = (tags: ReadonlyArray<string>, ...wanted: ReadonlyArray<string>) =>
  tags.filter((tag) => wanted.includes(tag)).length

describe("a cancel leaves nothing behind", () => {
  for (const [name, program] of Object.entries(cases)) {
    // There are thousands of operations, so only every n-th is tested.
    const stride = Sweeps.full(1, 2) * (name.startsWith("Agent") ? 11 : 3)
    for (const [points, atLeast, step] of [
      ["awaits", 3, 1],
      ["operations", 300, stride]
    ] as const) {
      it(`${name}: at its ${points}`, () => {
        const outcomes = new Set<string>()
        let n = 0
        for (; ; n += step) {
          const seen = cancelled(program, points, n)
          if (seen === undefined) break
          // Between two operations the cancel may still be in flight to a fiber that is about to send a request.
          const onTheWay = points === "operations" ? 1 : 0
          assert.isAtMost(seen.asked, onTheWay, `at ${n}`)
          assert.isAtMost(seen.begun, onTheWay, `at ${n}`)
          outcomes.add(seen.outcome)
        }
        // The whole program was covered, not only its beginning.
        assert.isAbove(n, atLeast)
        assert.include([...outcomes], "0 succeeded, 1 abandoned")
        if (name.startsWith("Agent")) assert.include([...outcomes], "1 succeeded, 0 abandoned")
      })
    }
  }
})

describe("a cancel over HTTP", () => {
  for (const millis of [0, 1_000, 2_050, 2_250, 3_100, 60_000]) {
    it.live(`after ${millis} ms is the same as in memory, and no request follows`, () =>
      Effect.gen(function* () {
        const cancelled = stream.pipe(
          Effect.timeoutOption(millis),
          Effect.map(Option.isNone),
          // Leftover work would show up in this time.
          Effect.tap(() => Effect.sleep("1 hour"))
        )
        const scenario = {
          chain: [place("anthropic", "A"), place("openai", "B")],
          plan: {
            faults: [{ fault: status(429, { "retry-after": "2" }) }, { fault: { type: "slow", delay: 100 } }],
            answers: [{ text: "The roof has been leaking since March, and nobody has looked at it." }]
          },
          program: cancelled
        } as const
        const story = yield* inMemory(scenario)
        assert.deepStrictEqual(yield* overHttp(scenario), story)
        assert.strictEqual(story.lines.at(-1), story.result === true ? "CallAbandoned" : "CallSucceeded A")
        assert.strictEqual(story.result, millis < 60_000)
      })
    )
  }
})
