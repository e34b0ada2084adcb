import { assert, it } from "@effect/vitest"
import type { LanguageModelV4Prompt } from "@ai-sdk/provider"
import { Prompt } from "effect/ai"
import * as fc from "fast-check"
import * as ServedPrompt from "#providers/aisdk/ServedPrompt"
import * as Sweeps from "../../../test/sweeps.ts"

const json = fc.jsonValue({ maxDepth: 2 })
const options = fc.constantFrom<object>(
  {},
  { providerOptions: undefined },
  { providerOptions: { acme: { cache: true, none: undefined } } },
  { providerOptions: { acme: "text", outlast: null } }
)
const withOptions = (fields: Record<string, fc.Arbitrary<unknown>>) =>
  fc.tuple(fc.record(fields), options).map(([part, more]) => ({ ...part, ...more }))
// A program in JavaScript may send anything.
const text = fc.oneof({ weight: 12, arbitrary: fc.string() }, fc.constantFrom<unknown>(undefined, 7))
const name = fc.oneof({ weight: 12, arbitrary: fc.constant("read") }, fc.constantFrom<unknown>(undefined, 7))

const textPart = withOptions({ type: fc.constant("text"), text })
const reasoning = withOptions({ type: fc.constant("reasoning"), text })
const file = withOptions({
  type: fc.constant("file"),
  mediaType: fc.constant("image/png"),
  data: fc.constant({ type: "data", data: "aGVsbG8=" })
})
const call = withOptions({
  type: fc.constant("tool-call"),
  toolCallId: fc.constant("1"),
  toolName: name,
  input: json,
  providerExecuted: fc.constantFrom(undefined, true, false)
})
const output = fc.oneof(
  fc.record({ type: fc.constantFrom("text", "error-text"), value: fc.string() }),
  fc.record({ type: fc.constantFrom("json", "error-json"), value: json }),
  fc.constant({ type: "execution-denied" }),
  fc.record({ type: fc.constant("content"), value: fc.array(textPart, { maxLength: 2 }) })
)
const result = withOptions({
  type: fc.constant("tool-result"),
  toolCallId: fc.constant("1"),
  toolName: name,
  output
})
const approval = withOptions({
  type: fc.constant("tool-approval-response"),
  approvalId: fc.constant("1"),
  approved: fc.boolean()
})
const list = (...parts: ReadonlyArray<fc.Arbitrary<unknown>>) =>
  fc.array(fc.oneof(...parts), { maxLength: 2 })
const message = fc.oneof(
  withOptions({ role: fc.constant("system"), content: text }),
  withOptions({ role: fc.constant("user"), content: list(textPart, textPart, textPart, file) }),
  withOptions({ role: fc.constant("assistant"), content: list(textPart, reasoning, call, result) }),
  withOptions({ role: fc.constant("tool"), content: list(result, result, approval) })
)
// See above.
const prompts = fc.array(message, { maxLength: 3 }) as unknown as fc.Arbitrary<LanguageModelV4Prompt>

/** The value without the symbols that carry originals. */
const plain = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]))
}

it("prompts have the messages that the schema of effect/ai makes, and those that it rejects are rejected", () => {
  let read = 0
  let rejected = 0
  for (const prompt of fc.sample(prompts, { numRuns: Sweeps.runs(400), seed: 7 })) {
    let made: Prompt.Prompt | undefined
    try {
      made = ServedPrompt.decode(prompt)
    } catch {
      rejected++
      continue
    }
    read++
    const content = plain(made.content)
    // Decoding leaves a decoded message as it is, and rejects one that is wrong.
    assert.deepStrictEqual(content, plain(Prompt.make(content as Prompt.RawInput)["content"]))
  }
  const quarter = Sweeps.runs(400) / 4
  assert.isAbove(read, quarter)
  assert.isAbove(rejected, quarter / 4)
})
