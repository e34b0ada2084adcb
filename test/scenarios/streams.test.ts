/** Streams that stop: silent, cut, or with an error in the middle. The consumer reads one answer, or a failure. */
import { describe } from "@effect/vitest"
import type { FaultPlan } from "@outlast/testing"
import { inArguments, overloaded, paidOnce, payment, stream, streamingAgent } from "./programs.ts"
import { key, place, policy, tells, wires } from "./Scenario.ts"

const said = "The roof has been leaking since March, and nobody has looked at it."
const words = said.split(" ").length
const answers = [{ text: said }]

const once = (fault: FaultPlan.Fault): FaultPlan.FaultPlan => ({ faults: [{ fault }], answers })

describe("a stream that is silent", () => {
  for (const wire of wires) {
    const fallback = wire === "anthropic" ? "openai" : "anthropic"
    for (const [name, fault] of [
      ["from the start (anomalyco/opencode#37580, #40205)", { type: "stall" }],
      ["behind its head", { type: "stall", after: 0 }],
      ["but for keep-alives (anomalyco/opencode#43519)", { type: "stall", keepAlive: 5_000 }]
    ] as const) {
      tells(`${name}: ${wire}`, {
        chain: [place(wire, "A"), place(fallback, "B")],
        plan: { faults: [{ when: key("A"), times: "always", fault }], answers },
        program: stream,
        expect: {
          result: said,
          took: 10_000,
          asked: ["A", "B"],
          lines: [
            "AttemptStarted A",
            "CallHedged A",
            "AttemptStarted B",
            "AttemptOvertaken A",
            "CallSucceeded B"
          ]
        }
      })
    }
    for (const [name, keepAlive] of [
      ["after some words", undefined],
      ["after some words, but for keep-alives (anomalyco/opencode#43519)", 5_000]
    ] as const) {
      tells(`${name}: ${wire}`, {
        chain: [place(wire, "A")],
        plan: once({ type: "stall", after: 4, ...(keepAlive === undefined ? {} : { keepAlive }) }),
        program: stream,
        expect: {
          result: said,
          took: 61_000,
          asked: ["A", "A"],
          lines: [
            "AttemptStarted A",
            "AttemptFailed A Timeout",
            "CallWaiting A backoff +1000",
            "AnswerContinued A Timeout",
            "AttemptStarted A",
            "CallSucceeded A"
          ]
        }
      })
    }
    tells(`for a while, again and again, is only slow: ${wire}`, {
      chain: [place(wire, "A")],
      plan: once({ type: "slow", delay: 59_000 }),
      program: stream,
      expect: { result: said, took: words * 59_000, asked: ["A"] }
    })
  }
})

describe("a stream that is cut", () => {
  for (const wire of wires) {
    for (const type of ["cut", "reset"] as const) {
      const how = type === "cut" ? "in good order" : "by a reset"
      tells(`before the text, ${how}: ${wire} (anomalyco/opencode#26170)`, {
        chain: [place(wire, "A")],
        plan: once({ type, after: 0 }),
        program: stream,
        expect: {
          result: said,
          asked: ["A", "A"],
          lines: [
            "AttemptStarted A",
            "AttemptFailed A Network",
            "CallWaiting A backoff +1000",
            "AttemptStarted A",
            "CallSucceeded A"
          ]
        }
      })
      tells(`inside of the text, ${how}: ${wire} (BerriAI/litellm#29808, #32835)`, {
        chain: [place(wire, "A")],
        plan: once({ type, after: 5 }),
        program: stream,
        expect: {
          result: said,
          asked: ["A", "A"],
          lines: [
            "AttemptStarted A",
            "AttemptFailed A Network",
            "CallWaiting A backoff +1000",
            "AnswerContinued A Network",
            "AttemptStarted A",
            "CallSucceeded A"
          ]
        }
      })
      tells(`inside of the reasoning, ${how}: ${wire}`, {
        chain: [place(wire, "A")],
        plan: {
          faults: [{ fault: { type, after: 3 } }],
          answers: [{ reasoning: "A roof that leaks has a hole.", text: said }]
        },
        program: stream,
        expect: {
          result: said,
          asked: ["A", "A"],
          lines: [
            "AttemptStarted A",
            "AttemptFailed A Network",
            "CallWaiting A backoff +1000",
            "AttemptStarted A",
            "CallSucceeded A"
          ]
        }
      })
      tells(`inside of a tool call, ${how}: ${wire} (crewAIInc/crewAI#5802)`, {
        chain: [place(wire, "A")],
        plan: { faults: [{ fault: { type, after: inArguments } }], answers: payment },
        program: streamingAgent,
        expect: { result: paidOnce, asked: ["A", "A", "A"] }
      })
      tells(`behind a whole tool call, ${how}: ${wire} (crewAIInc/crewAI#5802)`, {
        chain: [place(wire, "A")],
        plan: { faults: [{ fault: { type, after: 999 } }], answers: payment },
        program: streamingAgent,
        expect: { result: paidOnce, asked: ["A", "A", "A"] }
      })
    }
    tells(
      `inside of the text fails when the policy does not want it continued: ${wire} (BerriAI/litellm#19077)`,
      {
        chain: [place(wire, "A"), place("openai", "B")],
        policy: { ...policy, midStream: "fail" },
        plan: once({ type: "cut", after: 5 }),
        program: stream,
        expect: {
          result: { failed: "Network" },
          asked: ["A"],
          lines: ["AttemptStarted A", "AttemptFailed A Network", "CallGaveUp Network"]
        }
      }
    )
    tells(`behind all of its text: ${wire} (anomalyco/opencode#26170)`, {
      chain: [place(wire, "A")],
      // The model adds nothing when it is asked to continue.
      plan: { faults: [{ fault: { type: "cut", after: words } }], answers: [...answers, { text: "" }] },
      program: stream,
      expect: { result: said, asked: ["A", "A"] }
    })
  }
})

describe("an error in the middle of a 200", () => {
  for (const wire of wires) {
    tells(`before the text is a failure like any other: ${wire} (mastra-ai/mastra#21876)`, {
      chain: [place(wire, "A"), place(wire === "google" ? "openai" : "google", "B")],
      plan: { faults: [{ when: key("A"), times: "always", fault: overloaded() }], answers },
      program: stream,
      expect: { result: said, took: 3_000, asked: ["A", "A", "A", "B"] }
    })
    tells(`inside of the text is continued: ${wire} (mastra-ai/mastra#21876)`, {
      chain: [place(wire, "A")],
      plan: once(overloaded(6)),
      program: stream,
      expect: {
        result: said,
        asked: ["A", "A"],
        lines: [
          "AttemptStarted A",
          "AttemptFailed A Overloaded",
          "CallWaiting A backoff +1000",
          "AnswerContinued A Overloaded",
          "AttemptStarted A",
          "CallSucceeded A"
        ]
      }
    })
  }
  for (const form of ["failed", "flat", "nested"] as const) {
    tells(`of the Responses API, as ${form} (openai/codex#43140)`, {
      chain: [place("responses", "A")],
      plan: once({
        type: "stream-error",
        after: 0,
        form,
        error: { type: "rate_limit_error", message: "Rate limit reached. Please try again in 3s." }
      }),
      program: stream,
      expect: {
        result: said,
        took: 3_000,
        lines: [
          "AttemptStarted A",
          "AttemptFailed A RateLimit",
          "CallWaiting A backoff +3000",
          "AttemptStarted A",
          "CallSucceeded A"
        ]
      }
    })
  }
})
