/** The transcripts that `outlast compact` recognises, their format, and the errors for everything else. */
import { Result } from "effect"
import * as fc from "fast-check"
import { assert, describe, it } from "vitest"
import * as Detection from "#cli/compact/Detection"
import * as Json from "#cli/compact/Json"
import { problemOf } from "./transcripts.ts"
import * as Sweeps from "../../../test/sweeps.ts"

// -----------------------------------------------------------------------------
// Broken bodies and their error positions
// -----------------------------------------------------------------------------

describe("a broken body", () => {
  const anthropic = (...messages: ReadonlyArray<unknown>) => ({ system: "s", messages })
  const use = { role: "assistant", content: [{ type: "tool_use", id: "a", name: "read", input: {} }] }
  const answer = (...blocks: ReadonlyArray<object>) => ({ role: "user", content: blocks })
  const chat = (...messages: ReadonlyArray<unknown>) => ({ stop: [], messages })
  const asked = {
    role: "assistant",
    tool_calls: [{ id: "a", type: "function", function: { name: "read", arguments: "{}" } }]
  }
  const model = (...parts: ReadonlyArray<unknown>) => ({ contents: [{ role: "model", parts }] })
  const effect = (...content: ReadonlyArray<unknown>) => ({ content })
  const cases: ReadonlyArray<readonly [what: string, body: unknown, says: string]> = [
    [
      "no id",
      anthropic(use, answer({ type: "tool_result" })),
      "messages[1].content[0].tool_use_id: expected a string, got nothing"
    ],
    [
      "a result without its call",
      anthropic(use, answer({ type: "tool_result", tool_use_id: "b" })),
      "messages[1].content[0].tool_use_id: a result without its call: no open call of the message before has this id"
    ],
    [
      "two results",
      anthropic(
        use,
        answer({ type: "tool_result", tool_use_id: "a" }, { type: "tool_result", tool_use_id: "a" })
      ),
      "messages[1].content[1].tool_use_id: a result without its call: no open call of the message before has this id"
    ],
    [
      "a call without its result",
      anthropic(use, { role: "user", content: "Well?" }),
      "messages[0].content[0].id: a call without its result: none follows in the next message"
    ],
    [
      "no role",
      anthropic({ content: "x" }),
      'messages[0].role: expected "user" or "assistant" or "system", got nothing'
    ],
    [
      "a role of others",
      anthropic({ role: "bot", content: "x" }),
      'messages[0].role: expected "user" or "assistant" or "system", got a string'
    ],
    ["no content", anthropic({ role: "user" }), "messages[0].content: expected a list, got nothing"],
    ["a message that is none", anthropic(7), "messages[0]: expected an object, got a number"],
    [
      "arguments that are no object",
      anthropic({ role: "assistant", content: [{ type: "tool_use", id: "a", name: "read", input: "x" }] }),
      "messages[0].content[0].input: expected an object, got a string"
    ],
    [
      "a call of the user",
      anthropic(answer({ type: "tool_use" })),
      "messages[0].content[0].type: a call of a tool belongs into a message of the assistant"
    ],
    [
      "a limit that is none",
      { ...anthropic(), max_tokens: "many" },
      "max_tokens: expected a whole number of tokens"
    ],
    [
      "chat: no call",
      chat({ role: "tool", tool_call_id: "a", content: "x" }),
      "messages[0].tool_call_id: a result without its call: no open call of the message before has this id"
    ],
    [
      "chat: no result",
      chat(asked, { role: "user", content: "x" }),
      "messages[0].tool_calls[0].id: a call without its result: none follows in the next message"
    ],
    [
      "chat: arguments that are no text",
      chat({ role: "assistant", tool_calls: [{ id: "a", function: { name: "x", arguments: {} } }] }),
      "messages[0].tool_calls[0].function.arguments: expected a string, got an object"
    ],
    [
      "gemini: no name, in snake case",
      model({ function_call: {} }),
      "contents[0].parts[0].function_call.name: expected a string, got nothing"
    ],
    [
      "gemini: no name",
      model({ functionCall: {} }),
      "contents[0].parts[0].functionCall.name: expected a string, got nothing"
    ],
    ["gemini: a part that is none", model("x"), "contents[0].parts[0]: expected an object, got a string"],
    [
      "effect: a part of another role",
      effect({ role: "user", content: [{ type: "tool-call" }] }),
      'content[0].content[0].type: expected "text" or "file", got a string'
    ],
    [
      "effect: a field of another type",
      effect({ role: "user", content: [{ type: "text", text: 7 }] }),
      "content[0].content[0].text: not what a prompt of effect/ai has there"
    ],
    [
      "effect: no call",
      effect({
        role: "tool",
        content: [{ type: "tool-result", id: "a", name: "x", isFailure: false, result: 1 }]
      }),
      "content[0].content[0].id: a result without its call: no open call of the message before has this id"
    ]
  ]
  it.each(cases)("is reported with its position: %s", (_, body, says) => {
    assert.strictEqual(problemOf(body), says)
  })

  it("may end with calls that have not run yet", () => {
    assert.strictEqual(problemOf(anthropic({ role: "user", content: "Go." }, use)), "nothing")
  })
})

describe("the format", () => {
  const formatOf = (body: unknown): string => {
    const found = Detection.formatOf(body)
    return Result.isSuccess(found) ? found.success : found.failure.message
  }
  const hello = { messages: [{ role: "user", content: "Hello." }] }

  it("is detected by the messages, then tools, then fields, then the model", () => {
    const block = (type: string) => ({ messages: [{ role: "user", content: [{ type }] }] })
    assert.strictEqual(formatOf({ ...block("tool_result"), response_format: {} }), "anthropic-messages")
    assert.strictEqual(formatOf({ ...block("image_url"), system: "x" }), "openai-chat")
    assert.strictEqual(
      formatOf({ ...hello, tools: [{ name: "a", input_schema: {} }], n: 1 }),
      "anthropic-messages"
    )
    assert.strictEqual(formatOf({ ...hello, tools: [{ function: {} }], top_k: 1 }), "openai-chat")
    assert.strictEqual(formatOf({ ...hello, system: "x", model: "gpt-4o" }), "anthropic-messages")
    assert.strictEqual(
      formatOf({ ...hello, max_completion_tokens: 1, model: "claude-opus-5" }),
      "openai-chat"
    )
    assert.strictEqual(formatOf({ ...hello, model: "claude-opus-5" }), "anthropic-messages")
    assert.strictEqual(formatOf({ ...hello, model: "qwen-plus" }), "openai-chat")
    assert.strictEqual(formatOf({ contents: [] }), "gemini")
    assert.strictEqual(formatOf({ content: [{ role: "user", content: "x" }] }), "effect-ai")
  })

  it("must be given when it cannot be detected", () => {
    assert.match(formatOf(hello), /Nothing in it tells Anthropic Messages from OpenAI Chat Completions/)
    assert.match(
      formatOf({ ...hello, system: "x", stop: "y" }),
      /both `system` and `stop`: it is of two formats\. Expected one JSON object/
    )
    assert.match(formatOf({ messages: [], contents: [] }), /both `messages` and `contents`/)
    assert.match(formatOf({ input: [] }), /OpenAI Responses, which is not read/)
    assert.match(formatOf({ role: "assistant", content: [{ type: "text" }] }), /it may be one message/)
    for (const none of [{}, [], "text", null, 7]) assert.match(formatOf(none), /Expected one JSON object/)
  })
})

// -----------------------------------------------------------------------------
// JSON
// -----------------------------------------------------------------------------

describe("JSON", () => {
  const parsed = (text: string) => Result.getOrThrow(Json.parse(text))

  it("keeps numbers that a double cannot represent", () => {
    const text =
      '{"id":12345678901234567890,"x":-9007199254740993,"big":1e400,"long":0.12345678901234567890,"a":[0.1,-0,1.5e3,12]}'
    assert.strictEqual(Json.written(parsed(text), text), text.replace("-0,1.5e3", "0,1500"))
  })

  it("is rejected when nested too deeply to be written again", () => {
    const found = Json.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`)
    assert.deepInclude(Result.isFailure(found) ? found.failure : {}, { problem: "deep" })
  })

  it("keeps its indentation", () => {
    for (const text of ['{"a":[1]}', '{\n  "a": [\n    1\n  ]\n}\n', '{\n\t"a": [\n\t\t1\n\t]\n}']) {
      assert.strictEqual(Json.written(parsed(text), text), text)
    }
  })

  const wrong: ReadonlyArray<readonly [text: string, line: number, column: number, problem?: "ended"]> = [
    ["", 1, 1, "ended"],
    ["abc", 1, 1],
    ['{"a":1,}', 1, 8],
    ['{"a":1\n "b":2}', 2, 2],
    ["[1 2]", 1, 4],
    ["[1,\n2,\n3", 3, 2, "ended"],
    ['{"a":', 1, 6, "ended"],
    ['{"a" 1}', 1, 6],
    ["{a:1}", 1, 2],
    ['["a\nb"]', 1, 4],
    ['["\\x"]', 1, 3],
    ["[01]", 1, 3],
    ["[1.]", 1, 3],
    ["[tru]", 1, 2],
    ["[nulls]", 1, 6],
    ["[1]]", 1, 4],
    ["{}\n{}", 2, 1],
    ["[}", 1, 2],
    ["{]", 1, 2],
    ["[,1]", 1, 2],
    ["[1,]", 1, 4],
    ['{"a":1', 1, 7, "ended"]
  ]
  it.each(wrong.map((one) => ({ one })))(
    "is reported with the position where it becomes invalid: $one",
    ({ one }) => {
      const [text, line, column, problem = "wrong"] = one
      const found = Json.parse(text)
      assert.deepStrictEqual(Result.isFailure(found) ? found.failure : found.success, {
        line,
        column,
        problem
      })
    }
  )

  it("has an error position exactly when it is invalid", () => {
    fc.assert(
      fc.property(
        fc.json(),
        fc.nat(),
        fc.constantFrom("", "}", "]", ",", ":", '"', "x", "1"),
        (text, at, sign) => {
          assert.isTrue(Result.isSuccess(Json.parse(text)))
          const i = at % (text.length + 1)
          const changed = text.slice(0, i) + sign + text.slice(i + 1)
          const found = Json.parse(changed)
          let isJson = true
          try {
            JSON.parse(changed)
          } catch (error) {
            isJson = false
            const said = / at position (\d+)/.exec(String(error))?.[1]
            if (said === undefined || Result.isSuccess(found)) return
            // Node reports the character inside a word or a number, we report its start. The text has one line.
            const after = Number(said) - (found.failure.column - 1)
            assert.isTrue(after >= 0 && after < 30, `${changed}: ${String(error)}, ${found.failure.column}`)
          }
          assert.strictEqual(Result.isSuccess(found), isJson)
        }
      ),
      { numRuns: Sweeps.runs(500) }
    )
  })
})
