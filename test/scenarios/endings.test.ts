/** Answers with a misleading end: false finish reasons, cut arguments, windows that are too small. */
import { describe } from "@effect/vitest"
import type { Schema } from "effect"
import { Effect } from "effect"
import type { FaultPlan } from "@outlast/testing"
import { OutputLimit } from "@outlast/agent/failover"
import { agent, inArguments, paidOnce, payment, say, status, stream, streamingAgent } from "./programs.ts"
import type { Wire } from "./Scenario.ts"
import { place, tells, wires } from "./Scenario.ts"

describe("a finish reason that hides a cut tool call", () => {
  for (const wire of wires) {
    // Gemini sends a call complete or not at all.
    if (wire === "google") continue
    for (const reason of ["stop", "tool-calls"] as const) {
      const plan: FaultPlan.FaultPlan = {
        faults: [{ fault: { type: "finish", reason, after: inArguments } }],
        // Cut arguments count as the model's mistake: the model gets an error result and repeats the call.
        answers: [...payment.slice(0, 1), ...payment]
      }
      for (const [how, program] of [
        ["whole", agent],
        ["streamed", streamingAgent]
      ] as const) {
        tells(
          `with ${reason}: the model is told and the tool runs once, ${how}: ${wire} (vllm#58228, hermes-agent#7693)`,
          {
            chain: [place(wire, "A")],
            plan,
            program,
            expect: { result: paidOnce, asked: ["A", "A", "A"] }
          }
        )
      }
    }
  }

  // In memory the cut is visible.
  tells(
    "in a whole answer of Anthropic that is not streamed, which has no arguments then: the tool does not run",
    {
      memory: false,
      chain: [{ ...place("anthropic", "A"), info: { wholeAnswers: "request" } }],
      plan: { faults: [{ fault: { type: "finish", reason: "stop", after: inArguments } }], answers: payment },
      program: agent,
      expect: { result: { ...paidOnce, paid: [] } }
    }
  )
})

describe("an answer that is cut by its output limit", () => {
  const said = "The roof has been leaking since March, and nobody has looked at it."
  const plan: FaultPlan.FaultPlan = {
    faults: [{ fault: { type: "finish", reason: "length", after: 5 } }],
    answers: [{ text: said }]
  }
  for (const wire of wires) {
    for (const [how, program] of [
      ["whole", say],
      ["streamed", stream]
    ] as const) {
      tells(`is made whole, ${how}: ${wire}`, {
        chain: [place(wire, "A")],
        plan,
        program,
        expect: { result: said, asked: ["A", "A"] }
      })
    }
    for (const [how, program] of [
      ["whole", agent],
      ["streamed", streamingAgent]
    ] as const) {
      tells(
        `asks again for its tool call and runs no half one, ${how}: ${wire} (NousResearch/hermes-agent#7693)`,
        {
          chain: [place(wire, "A")],
          plan: {
            faults: [{ fault: { type: "finish", reason: "length", after: inArguments } }],
            answers: payment
          },
          program,
          expect: { result: paidOnce, asked: ["A", "A", "A"] }
        }
      )
    }
  }
})

describe("a conversation that does not fit", () => {
  const bodies: Record<Wire, Schema.Json> = {
    anthropic: {
      type: "error",
      error: { type: "invalid_request_error", message: "prompt is too long: 212391 tokens > 200000 maximum" }
    },
    openai: {
      error: {
        message:
          "This model's maximum context length is 1047576 tokens. However, your messages resulted in 1100000 tokens. Please reduce the length of the messages.",
        type: "invalid_request_error",
        param: "messages",
        code: "context_length_exceeded"
      }
    },
    responses: {
      error: {
        message:
          "Your input exceeds the context window of this model. Please adjust your input and try again.",
        type: "invalid_request_error",
        param: "input",
        code: "context_length_exceeded"
      }
    },
    google: {
      error: {
        code: 400,
        message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        status: "INVALID_ARGUMENT"
      }
    }
  }
  const answers = [{ text: "The roof is leaking." }]
  for (const wire of wires) {
    const overflow = status(400, {}, bodies[wire])
    tells(`goes to a target with a larger window: ${wire} (langchain-ai/langchain#37533)`, {
      chain: [
        { ...place(wire, "A"), info: { contextWindow: 100_000 } },
        { ...place(wire, "B"), info: { contextWindow: 50_000 } },
        { ...place(wire, "C"), info: { contextWindow: 500_000 } }
      ],
      plan: { faults: [{ fault: overflow }], answers },
      program: say,
      expect: { result: "The roof is leaking.", took: 0, asked: ["A", "C"] }
    })
    tells(`fails at once where there is none: ${wire}`, {
      chain: [place(wire, "A", "B")],
      plan: { faults: [{ times: "always", fault: overflow }], answers },
      program: say,
      expect: {
        result: { failed: "ContextOverflow" },
        took: 0,
        asked: ["A"],
        lines: ["AttemptStarted A", "AttemptFailed A ContextOverflow", "CallGaveUp ContextOverflow"]
      }
    })
  }

  tells("with its output limit: the limit is lowered", {
    chain: [{ ...place("anthropic", "A"), info: { contextWindow: 200_000 } }],
    plan: {
      faults: [
        {
          fault: status(
            400,
            {},
            {
              type: "error",
              error: {
                type: "invalid_request_error",
                message:
                  "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again"
              }
            }
          )
        }
      ],
      answers
    },
    program: Effect.provideService(say, OutputLimit.OutputLimit, 21_333),
    expect: { result: "The roof is leaking.", took: 0, asked: ["A", "A"] }
  })
})
