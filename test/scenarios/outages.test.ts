/** Providers that fail: overloads, errors, a primary that comes and goes, all of them at once. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { FaultPlan } from "@outlast/testing"
import { overloaded, say, status } from "./programs.ts"
import { inMemory, key, overHttp, place, policy, tells, wires } from "./Scenario.ts"

const answers = [{ text: "The roof is leaking." }]
const said = "The roof is leaking."

describe("an overload", () => {
  for (const wire of wires) {
    tells(`that passes is waited for, a little longer each time: ${wire}`, {
      chain: [place(wire, "A")],
      plan: { faults: [{ times: 2, fault: overloaded() }], answers },
      program: say,
      expect: {
        result: said,
        took: 3_000,
        asked: ["A", "A", "A"],
        lines: [
          "AttemptStarted A",
          "AttemptFailed A Overloaded",
          "CallWaiting A backoff +1000",
          "AttemptStarted A",
          "AttemptFailed A Overloaded",
          "CallWaiting A backoff +2000",
          "AttemptStarted A",
          "CallSucceeded A"
        ]
      }
    })

    const fallback = wire === "google" ? "anthropic" : "google"
    tells(`three times in a row is left for another model: ${wire}`, {
      chain: [place(wire, "A"), place(fallback, "B")],
      plan: { faults: [{ when: key("A"), times: "always", fault: overloaded() }], answers },
      program: say,
      expect: {
        result: said,
        took: 3_000,
        asked: ["A", "A", "A", "B"],
        lines: [
          "AttemptStarted A",
          "AttemptFailed A Overloaded",
          "CallWaiting A backoff +1000",
          "AttemptStarted A",
          "AttemptFailed A Overloaded",
          "CallWaiting A backoff +2000",
          "AttemptStarted A",
          "AttemptFailed A Overloaded",
          "TargetSwitched B Overloaded",
          "AttemptStarted B",
          "CallSucceeded B"
        ]
      }
    })
  }
})

describe("a broken connection", () => {
  tells("is made again", {
    chain: [place("anthropic", "A")],
    plan: { faults: [{ times: 2, fault: { type: "reset" } }], answers },
    program: say,
    expect: { result: said, took: 3_000, asked: ["A", "A", "A"] }
  })
  tells("in the middle of a whole answer is one, too", {
    chain: [place("openai", "A")],
    plan: { faults: [{ fault: { type: "reset", after: 2 } }], answers },
    program: say,
    expect: { result: said, took: 1_000, asked: ["A", "A"] }
  })
  tells("is made again once, then another endpoint is asked", {
    chain: [place("anthropic", "A"), place("anthropic", "B")],
    plan: { faults: [{ when: key("A"), times: "always", fault: { type: "reset" } }], answers },
    program: say,
    expect: { result: said, took: 1_000, asked: ["A", "A", "B"] }
  })
})

describe("a complete answer that never arrives", () => {
  for (const wire of wires) {
    const chain = [place(wire, "A"), place(wire === "openai" ? "anthropic" : "openai", "B")] as const
    const plan: FaultPlan.FaultPlan = {
      faults: [{ when: key("A"), times: "always", fault: { type: "stall" } }],
      answers
    }
    tells(`is waited for ten seconds, and another model answers: ${wire}`, {
      chain,
      plan,
      program: Effect.all([say, say]),
      expect: { result: [said, said], took: 10_000, asked: ["A", "B", "B"] }
    })
    tells(`is waited for ten minutes if it is asked for with a request, without a hedge: ${wire}`, {
      chain: [{ ...chain[0], info: { wholeAnswers: "request" } }, chain[1]],
      policy: { ...policy, hedge: false },
      plan,
      program: say,
      expect: { result: said, took: 600_000, asked: ["A", "B"] }
    })
    tells(`is left when it stops for as long as between tokens: ${wire}`, {
      chain,
      plan: { faults: [{ when: key("A"), fault: { type: "stall", after: 2 } }], answers },
      program: say,
      expect: { result: said, took: 60_000, asked: ["A", "B"] }
    })
  }
})

describe("a page in place of an answer", () => {
  for (const wire of wires) {
    tells(`is not one: ${wire}`, {
      chain: [place(wire, "A"), place("anthropic", "B")],
      plan: {
        faults: [
          { when: key("A"), times: "always", fault: { type: "garbage", body: "<html>Log in</html>" } }
        ],
        answers
      },
      program: say,
      expect: { result: said }
    })
  }
})

/** Two calls in which A fails three times each, within three seconds each: A cools down for 10 seconds. */
const cooled = ["A", "A", "A", "B", "A", "A", "A", "B"]

describe("a primary that comes and goes", () => {
  const after = (millis: number) => Effect.andThen(Effect.sleep(millis), say)
  tells(
    "is not paid for by every call, and asked again when its cooldown is over (pydantic/pydantic-ai#3023)",
    {
      chain: [place("anthropic", "A"), place("openai", "B")],
      plan: {
        faults: [
          { when: key("A"), times: 6, fault: status(500) },
          { when: key("A"), skip: 1, times: 6, fault: status(500) }
        ],
        answers
      },
      program: Effect.all([say, say, say, after(31_000), say, say, say, after(31_000)]),
      expect: {
        result: [said, said, said, said, said, said, said, said],
        // A fails three times in each of two calls and cools down. After a success it fails again, and the second
        // cooldown is as long as the first.
        asked: [...cooled, "B", "A", ...cooled, "B", "A"]
      }
    }
  )
})

describe("at the end of a cooldown", () => {
  // Two calls in six seconds, then ten seconds of cooldown: it ends after 16 s.
  const at = (millis: number) => Effect.andThen(Effect.sleep(millis), say)
  const chain = [place("anthropic", "A"), place("openai", "B")] as const
  tells("nobody is sent to the target before", {
    chain,
    plan: { faults: [{ when: key("A"), times: 6, fault: status(500) }], answers },
    program: Effect.all([say, say, at(9_000)]),
    expect: { result: [said, said, said], asked: [...cooled, "B"] }
  })
  tells("a call that looks finds out that it is back", {
    chain,
    plan: { faults: [{ when: key("A"), times: 6, fault: status(500) }], answers },
    program: Effect.all([say, say, at(11_000), say]),
    expect: { result: [said, said, said, said], asked: [...cooled, "A", "A"] }
  })
  tells("a look that fails costs one attempt, and the next one comes as late", {
    chain,
    plan: { faults: [{ when: key("A"), times: 7, fault: status(500) }], answers },
    program: Effect.all([say, say, at(11_000), at(8_000), at(3_000)]),
    expect: { result: [said, said, said, said, said], asked: [...cooled, "A", "B", "B", "A"] }
  })
})

describe("all out", () => {
  tells("and the first to be back is waited for", {
    chain: [place("anthropic", "A"), place("openai", "B")],
    plan: {
      faults: [
        { when: key("A"), fault: status(429, { "retry-after": "40" }) },
        { when: key("B"), times: "always", fault: overloaded() }
      ],
      answers
    },
    program: say,
    expect: { result: said, took: 40_000, asked: ["A", "B", "B", "B", "B", "B", "A"] }
  })

  it.live("permanently: the call ends (remorses/ai-fallback#7, alphaXiv/agents#57)", () =>
    Effect.gen(function* () {
      for (const fault of [overloaded(), status(500), { type: "reset" } as const]) {
        const scenario = {
          chain: [place("anthropic", "A", "B"), place("openai", "C")],
          plan: { faults: [{ times: "always", fault }], answers },
          program: say
        } as const
        const story = yield* inMemory(scenario)
        assert.deepStrictEqual(yield* overHttp(scenario), story)
        assert.isAtMost(story.asked.length, 12)
        assert.isAtMost(story.took, 120_000)
        assert.notStrictEqual(story.result, said)
        assert.includeMembers([...story.asked], ["A", "C"])
      }
    })
  )
})
