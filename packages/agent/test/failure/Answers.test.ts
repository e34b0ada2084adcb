import { assert, describe, it } from "@effect/vitest"
import { AiError } from "effect/ai"
import { Classifier } from "@outlast/agent"
import { ErrorFacts } from "@outlast/agent/failure"

const answered = (body: unknown) => ({ message: "", statusCode: 200, responseBody: JSON.stringify(body) })
const tagOf = (error: unknown) => Classifier.failureOf(error).reason._tag
const codesOf = (error: unknown) => ErrorFacts.fromUnknown(error)[0].codes
const textOf = (error: unknown) => ErrorFacts.fromUnknown(error)[0].text

const thrownBy = (run: () => unknown): unknown => {
  try {
    return run()
  } catch (error) {
    return error
  }
}
const ai = (reason: AiError.AiErrorReason) => AiError.make({ module: "Test", method: "generateText", reason })

describe("ignores words that an error only quotes from an answer", () => {
  const quotes = ["Rate limit handling", "overloaded_error: 529", "invalid api key 401"]
  for (const quote of quotes) {
    it(quote, () => {
      for (const error of [
        thrownBy(() => JSON.parse(quote)),
        new Error("", { cause: thrownBy(() => JSON.parse(quote)) }),
        ai(new AiError.InvalidOutputError({ description: `Expected a list, got "${quote}"` })),
        ai(
          new AiError.StructuredOutputError({
            description: `Expected a list, got "${quote}"`,
            responseText: quote
          })
        ),
        ai(new AiError.ToolNotFoundError({ toolName: quote, availableTools: [quote] })),
        ai(new AiError.ToolParameterValidationError({ toolName: "t", description: quote })),
        ai(new AiError.InvalidToolResultError({ toolName: "t", description: quote })),
        ai(new AiError.ToolResultEncodingError({ toolName: "t", toolResult: quote, description: quote }))
      ]) {
        for (const facts of ErrorFacts.fromUnknown(error)) assert.strictEqual(facts.text, "")
        assert.strictEqual(tagOf(error), "Format")
      }
    })
  }
})

describe("finds an error in a success only in the shape of an error", () => {
  const words = "rate limit exceeded"
  const answers: ReadonlyArray<readonly [what: string, body: object]> = [
    [
      "an error that is none",
      { error: "none", status: "ok", message: "The log shows: 401 invalid api key", data: words }
    ],
    [
      "OpenAI's response, which repeats the caller's own fields",
      {
        object: "response",
        status: "completed",
        error: null,
        incomplete_details: null,
        instructions: words,
        metadata: { error: words, code: "insufficient_quota", status: 429 },
        output: [{ type: "message", content: [{ type: "output_text", text: words }] }]
      }
    ],
    ["a message beside a code of success", { code: "Success", message: words }],
    ["data of a job", { id: "1", data: { error: words }, detail: words }]
  ]
  for (const [what, body] of answers) {
    it(what, () => {
      const { evidence } = Classifier.failureOf(answered(body))
      assert.deepInclude(evidence, { rule: "status/response" })
      assert.strictEqual(textOf(answered(body)), "")
      assert.deepStrictEqual(codesOf(answered(body)), [])
    })
  }

  it("finds no error in an answer that is thrown as it is", () => {
    const answer = { choices: [{ message: { content: words } }], metadata: { error: words } }
    assert.strictEqual(tagOf(answer), "Unknown")
    assert.strictEqual(tagOf({ responseBody: JSON.stringify(answer) }), "Unknown")
    assert.strictEqual(Classifier.failureOf(answer).detail, "")
  })

  it("reads the error of a success without its sibling fields", () => {
    const error = { code: "rate_limit_exceeded", message: "Slow down" }
    for (const body of [
      { error, metadata: { error: "insufficient_quota" } },
      { type: "response.failed", response: { error, metadata: { code: "insufficient_quota" } } },
      { success: false, errors: [error] },
      { Response: { Error: { Code: "rate_limit_exceeded", Message: "Slow down" } } },
      { error_code: 18, error_msg: "Slow down" },
      [{ error }]
    ]) {
      assert.strictEqual(tagOf(answered(body)), "RateLimit", JSON.stringify(body))
      assert.strictEqual(textOf(answered(body)), "slow down")
    }
    const event = { type: "response.failed", response: { error, metadata: { code: "insufficient_quota" } } }
    assert.notInclude(
      codesOf({ ...answered(0), responseBody: `data: ${JSON.stringify(event)}\n\n` }),
      "insufficient_quota"
    )
  })

  it("reads an event named `error` with data of any shape", () => {
    const responseBody = 'event: error\ndata: {"detail":"Slow down","data":{"code":"insufficient_quota"}}\n\n'
    const error = { statusCode: 200, message: "", responseBody }
    assert.strictEqual(textOf(error), "slow down")
    assert.deepStrictEqual(codesOf(error), ["insufficient_quota"])
    assert.strictEqual(textOf(answered({ error: { code: 1 }, detail: "Slow down" })), "slow down")
  })

  it("reads an error that was cut, but not a field that says there is no error", () => {
    const cut = (body: string) => codesOf({ statusCode: 200, message: "", responseBody: body })
    assert.deepStrictEqual(cut('{"error":{"code":"insufficient_quota","mess'), ["insufficient_quota"])
    assert.deepStrictEqual(cut('{"error":null,"metadata":{"code":"insufficient_quota","mess'), [])
  })
})

describe("reads exceptions that are members of an AWS event stream", () => {
  const members = [
    ["throttlingException", "RateLimit"],
    ["internalServerException", "ServerError"],
    ["validationException", "Format"],
    ["serviceUnavailableException", "Overloaded"],
    ["modelTimeoutException", "Timeout"]
  ] as const
  for (const [member, reason] of members) {
    it(member, () => {
      const part = { [member]: { message: "What was said" } }
      for (const error of [part, answered(part), { message: "", responseBody: part }]) {
        assert.include(codesOf(error), member.toLowerCase())
        assert.strictEqual(textOf(error), "what was said")
        assert.strictEqual(tagOf(error), reason)
      }
      const stream = `data: ${JSON.stringify(part)}\n\n`
      assert.strictEqual(tagOf({ statusCode: 200, message: "", responseBody: stream }), reason)
    })
  }
  it("reads modelStreamErrorException", () => {
    assert.deepStrictEqual(codesOf({ modelStreamErrorException: { message: "x" } }), [
      "modelstreamerrorexception"
    ])
  })
})

describe("turns the finish reason of a stopped answer into a code", () => {
  const ends: ReadonlyArray<readonly [code: string, body: object]> = [
    ["end/safety", { promptFeedback: { blockReason: "SAFETY" } }],
    ["end/safety", { candidates: [{ finishReason: "SAFETY" }] }],
    ["end/refusal", { type: "message", content: [], stop_reason: "refusal" }],
    ["end/refusal", { type: "message_delta", delta: { stop_reason: "refusal" } }],
    ["end/guardrail_intervened", { output: { message: {} }, stopReason: "guardrail_intervened" }],
    ["end/guardrail_intervened", { messageStop: { stopReason: "guardrail_intervened" } }],
    ["end/content_filter", { choices: [{ finish_reason: "content_filter" }] }],
    ["end/content_filter", { object: "response", incomplete_details: { reason: "content_filter" } }],
    [
      "end/content_filter",
      { type: "response.incomplete", response: { incomplete_details: { reason: "content_filter" } } }
    ]
  ]
  for (const [code, body] of ends) {
    it(JSON.stringify(body), () => {
      assert.include(codesOf(answered(body)), code)
      const stream = `data: {"x":1}\n\ndata: ${JSON.stringify(body)}\n\n`
      assert.include(codesOf({ statusCode: 200, message: "", responseBody: stream }), code)
    })
  }
  it("reads the finish reason of an AI SDK error", () => {
    const error = Object.assign(new Error("No object generated."), { finishReason: "content-filter" })
    assert.include(codesOf(error), "end/content_filter")
  })
  it("gives no code to an answer that is complete, cut by a limit, or asks for a tool", () => {
    for (const reason of [
      "stop",
      "end_turn",
      "length",
      "max_tokens",
      "MAX_TOKENS",
      "tool_calls",
      "tool-calls"
    ]) {
      assert.deepStrictEqual(codesOf(answered({ stop_reason: reason })), [])
      assert.deepStrictEqual(codesOf(answered({ choices: [{ finish_reason: reason }] })), [])
    }
  })
})

it("prefixes MiniMax's numbers, even through a gateway", () => {
  const body = { base_resp: { status_code: 1002, status_msg: "slow down" } }
  for (const provider of ["minimax", "proxy", "zhipu", undefined]) {
    assert.strictEqual(Classifier.failureOf(answered(body), { provider }).reason._tag, "RateLimit")
  }
  assert.deepStrictEqual(codesOf(answered(body)), ["base_resp/1002"])
  assert.deepStrictEqual(codesOf(body), ["base_resp/1002"])
  assert.deepStrictEqual(codesOf({ base_resp: { status_code: "1008", status_msg: "" } }), ["base_resp/1008"])
  assert.deepStrictEqual(codesOf({ base_resp: { status_code: 0, status_msg: "success" } }), [])
})
