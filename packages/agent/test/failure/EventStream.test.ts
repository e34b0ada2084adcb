import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import { Classifier } from "@outlast/agent"
import { ErrorFacts } from "@outlast/agent/failure"
import type { ReasonTag } from "#agent/failure/reasons/FailoverReason"

const answered = (body: string, statusCode = 200) => ({
  message: "Failed to process the response",
  statusCode,
  responseBody: body
})
const verdict = (error: unknown) => {
  const { reason, evidence } = Classifier.failureOf(error)
  return [reason._tag, evidence.rule]
}
const data = (...events: ReadonlyArray<unknown>) =>
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")
const delta = (content: string) => ({ id: "c1", choices: [{ index: 0, delta: { content } }] })
const unusable = ["Format", "status/response"]

describe("an answer of events is not an error, whatever it talks about", () => {
  const talk = [
    "error 401: invalid api key. Error code: 429, rate limit exceeded, overloaded_error",
    "This model's maximum context length is 4097 tokens. insufficient_quota",
    'The server said {"error":{"type":"overloaded_error","code":529}} and then "error": "x"',
    'data: {"error":{"type":"overloaded_error"}}',
    "\n\nevent: error\ndata: {}\n\n",
    "read ECONNRESET, please try again in 20s"
  ]
  for (const text of talk) {
    it(text.slice(0, 60), () => {
      const openai = `${data(delta("Hello"), delta(text))}data: [DONE]\n\n`
      assert.deepStrictEqual(verdict(answered(openai)), unusable)
      const anthropic = `event: content_block_delta\ndata: ${JSON.stringify({
        type: "content_block_delta",
        index: 0,
        delta: { type: "text_delta", text }
      })}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n`
      assert.deepStrictEqual(verdict(answered(anthropic)), unusable)
      assert.deepStrictEqual(verdict(answered(anthropic.replaceAll("\n", "\r\n"))), unusable)
      const google = data({ candidates: [{ content: { parts: [{ text }] } }] })
      assert.deepStrictEqual(verdict(answered(google)), unusable)
      assert.strictEqual(Classifier.failureOf(answered(openai)).retryAfter, undefined)
      assert.strictEqual(verdict({ responseBody: openai })[0], "Unknown")
      assert.strictEqual(verdict(openai)[0], "Unknown")
      assert.notInclude(JSON.stringify(Classifier.failureOf(answered(openai))), text.slice(0, 20))
    })
  }

  it("finds no error in a page, or a piece of JSON, inside a success", () => {
    for (const body of [
      "<html>error code 401: overloaded_error</html>",
      'Sure: the body is {"type":"overloaded_error","status":429,"retry_after":5}',
      '{"choices":[{"message":{"content":"it is {\\"code\\":\\"overloaded_error\\"} then'
    ]) {
      assert.deepStrictEqual(verdict(answered(body)), unusable, body)
      assert.strictEqual(Classifier.failureOf(answered(body)).retryAfter, undefined)
    }
  })

  it("finds no error in a code of success", () => {
    for (const code of [0, 200, "0", "200"]) {
      const event = { code, message: "rate limit exceeded", choices: [{ delta: { content: "x" } }] }
      assert.deepStrictEqual(verdict(answered(data(event, event))), unusable)
    }
  })

  it("ignores a line that was cut", () => {
    assert.deepStrictEqual(
      verdict(
        answered(`${data(delta("Hello"))}data: {"choices":[{"delta":{"content":"overloaded_error, status 429`)
      ),
      unusable
    )
  })
})

describe("finds an error among the events", () => {
  const overloaded = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }
  const parts: ReadonlyArray<readonly [what: string, part: string, reason: ReasonTag]> = [
    ["Anthropic's", `event: error\ndata: ${JSON.stringify(overloaded)}\n\n`, "Overloaded"],
    ["one without blanks", `event:error\ndata:${JSON.stringify(overloaded)}`, "Overloaded"],
    [
      "one over several lines",
      `event: error\ndata: {"type": "error",\ndata: "error": {"type": "overloaded_error"}}\n\n`,
      "Overloaded"
    ],
    ["one without a name", data(overloaded), "Overloaded"],
    [
      "OpenAI's",
      data({ error: { message: "Slow down", type: "requests", code: "rate_limit_exceeded" } }),
      "RateLimit"
    ],
    [
      "OpenRouter's",
      data({ id: "g", error: { code: 429, message: "busy" }, choices: [{ finish_reason: "error" }] }),
      "RateLimit"
    ],
    [
      "that of the Responses API",
      `event: response.failed\n${data({ type: "response.failed", response: { status: "failed", error: { code: "rate_limit_exceeded", message: "x" } } })}`,
      "RateLimit"
    ],
    [
      "the error event of the Responses API",
      data({ type: "error", code: "rate_limit_exceeded", message: "x" }),
      "RateLimit"
    ],
    [
      "DashScope's",
      `id:1\nevent:error\n:HTTP_STATUS/400\ndata:${JSON.stringify({ code: "InvalidApiKey", message: "Invalid API-key provided.", request_id: "r" })}\n\n`,
      "Auth"
    ],
    ["MiniMax's", data({ base_resp: { status_code: 1008, status_msg: "insufficient balance" } }), "Billing"],
    ["one in words", data({ error: "rate limit exceeded" }), "RateLimit"],
    ["a bare sentence", "event: error\ndata: The server is overloaded\n\n", "Overloaded"]
  ]
  for (const [what, part, reason] of parts) {
    it(what, () => {
      const body = data(delta("Hello"), delta("error 401: invalid api key")) + part
      assert.strictEqual(verdict(answered(body))[0], reason)
      assert.strictEqual(verdict(answered(body.replaceAll("\n", "\r\n")))[0], reason)
      assert.strictEqual(verdict(answered(part))[0], reason)
      assert.strictEqual(verdict(part)[0], reason)
      assert.strictEqual(verdict(answered(`: ping\n\n${body}data: [DONE]\n\n`))[0], reason)
    })
  }

  it("reads the wait and the sentence of the error, and not the answer", () => {
    const error = { code: 429, message: "Slow down", details: [{ retryDelay: "12s" }] }
    const failure = Classifier.failureOf(answered(data(delta("my long and private answer"), { error })))
    assert.deepStrictEqual(failure.retryAfter, Duration.seconds(12))
    assert.strictEqual(failure.detail, "Slow down")
  })

  it("finds an error after a megabyte of answer", () => {
    const body = data(...Array.from({ length: 15_000 }, () => delta("the answer goes on and on")), overloaded)
    assert.isAbove(body.length, 1_000_000)
    assert.strictEqual(verdict(answered(body))[0], "Overloaded")
  })
})

it("reads MiniMax's error in a success: its own number, and a sentence", () => {
  const body = (status_code: number, status_msg: string) =>
    JSON.stringify({ id: "x", choices: null, base_resp: { status_code, status_msg } })
  assert.strictEqual(verdict(answered(body(1008, "insufficient balance")))[0], "Billing")
  const { codes } = ErrorFacts.fromUnknown(answered(body(1039, "x")))[0]
  assert.deepStrictEqual(codes, ["base_resp/1039"])
  assert.deepStrictEqual(verdict(answered(body(0, "success"))), unusable)
  assert.deepStrictEqual(verdict(answered(data({ base_resp: { status_code: 0, status_msg: "" } }))), unusable)
})

it("treats a sentence that begins like an event as a sentence", () => {
  assert.strictEqual(verdict("data: connection reset by peer")[0], "Network")
  assert.strictEqual(verdict({ statusCode: 500, responseBody: "data: rate limit exceeded" })[0], "RateLimit")
})
