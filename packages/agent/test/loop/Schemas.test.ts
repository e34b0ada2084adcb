/** The values of a run as JSON: they come back whole, and printing them shows no content. */
import { assert, describe, it } from "@effect/vitest"
import { Inspectable, Schema } from "effect"
import { Prompt } from "effect/ai"
import { inspect } from "node:util"
import { AgentEvent, AgentFailed } from "@outlast/agent"
import { SafetyStop } from "@outlast/agent/guard"
import { CompactionError } from "@outlast/agent/compaction"
import { Transcript } from "@outlast/agent/conversation"
import { failure } from "./runWorld.ts"

const secret = "a private sentence"
const prompt = Prompt.make([
  { role: "user", content: [{ type: "text", text: secret }] },
  { role: "assistant", content: [{ type: "text", text: "yes" }] }
])
const transcript = new Transcript.Transcript(prompt)

/** Writes a value as JSON text and reads it back. */
const through = <S extends Schema.Top>(schema: S, value: S["Type"]) => {
  const codec = Schema.toCodecJson(schema) as unknown as Schema.Codec<S["Type"], unknown>
  const written = JSON.stringify(Schema.encodeSync(codec)(value))
  return { written, read: Schema.decodeUnknownSync(codec)(JSON.parse(written)) }
}

const exhausted = new CompactionError.ContextExhausted({
  reason: "poor_gains",
  times: 3,
  tokens: 1_000,
  window: 900,
  limit: 800,
  arithmetic: "900 of the window - 100 for the answer"
})
const cannotFit = new CompactionError.CannotFit({
  window: 900,
  limit: 800,
  arithmetic: "900 of the window - 100 for the answer",
  tokens: 1_000,
  smallest: 850,
  uncuttable: [{ what: "system", tokens: 700 }],
  tried: [{ tier: "strip", outcome: "too_little", tokens: 850 }]
})

describe("a transcript as JSON", () => {
  it("has the whole conversation, while printing shows only its length", () => {
    const { written, read } = through(Transcript.schema, transcript)
    assert.include(written, secret)
    assert.deepStrictEqual(read.prompt, prompt)
    for (const printed of [
      String(transcript),
      JSON.stringify(transcript),
      inspect(transcript),
      Inspectable.toStringUnknown(transcript)
    ]) {
      assert.include(printed, "2 messages")
      assert.notInclude(printed, secret)
    }
  })
})

describe("errors of a run as JSON", () => {
  it.each([failure, exhausted, cannotFit])("AgentFailed keeps its reason: $_tag", (reason) => {
    const failed = new AgentFailed.AgentFailed({ reason, turn: 3, transcript })
    const { read } = through(AgentFailed.AgentFailed, failed)
    assert.instanceOf(read, AgentFailed.AgentFailed)
    assert.strictEqual(read.message, failed.message)
    assert.strictEqual(read.reason.constructor, reason.constructor)
    assert.deepStrictEqual(read.transcript.prompt, prompt)
    assert.notInclude([String(read), JSON.stringify(read), inspect(read)].join(), secret)
  })

  it("SafetyStop keeps its counts, its message and its conversation", () => {
    const stop = new SafetyStop.SafetyStop({
      reason: "tool_loop",
      subject: "look",
      counts: {
        events: 1,
        toolCalls: 2,
        turns: 3,
        tokens: 4,
        costUsd: 0.5,
        subagents: 0,
        blocked: 1,
        elapsed: 10,
        totalElapsed: 20,
        files: 0,
        lastFiles: []
      },
      blocked: [{ tool: "look", turn: 2, pattern: "identical", message: "again" }],
      transcript,
      message: "Forced stop."
    })
    const { read } = through(SafetyStop.SafetyStop, stop)
    assert.instanceOf(read, SafetyStop.SafetyStop)
    assert.strictEqual(read.message, "Forced stop.")
    assert.deepStrictEqual([read.counts, read.blocked], [stop.counts, stop.blocked])
    assert.deepStrictEqual(read.transcript.prompt, prompt)
    assert.notInclude([String(read), JSON.stringify(read), inspect(read)].join(), secret)
  })

  it("an event of the loop comes back as it was", () => {
    const event: AgentEvent.AgentEvent = {
      _tag: "AgentTransition",
      at: 5,
      turn: 1,
      transition: "compacted",
      cause: "refused"
    }
    assert.deepStrictEqual(through(AgentEvent.AgentEvent, event).read, event)
  })
})
