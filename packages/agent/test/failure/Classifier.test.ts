import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import { Classifier } from "@outlast/agent"
import type { ReasonTag } from "#agent/failure/reasons/FailoverReason"
import * as Redaction from "#agent/secrets/Redaction"

const http = (status: number, body?: unknown, headers: Record<string, string> = {}) => ({
  message: `HTTP ${status}`,
  statusCode: status,
  responseHeaders: headers,
  ...(body === undefined ? {} : { responseBody: typeof body === "string" ? body : JSON.stringify(body) })
})
const anthropic = (type: string, message = "") => ({ type: "error", error: { type, message } })
const openai = (code: string | null, type = "invalid_request_error") => ({
  error: { message: "", type, param: null, code }
})
const google = (code: number, status: string, details?: ReadonlyArray<unknown>) => ({
  error: { code, message: "", status, ...(details === undefined ? {} : { details }) }
})
const caused = (...codes: ReadonlyArray<string>) =>
  codes.reduceRight<unknown>((cause, code) => Object.assign(new Error(code, { cause }), { code }), undefined)

const cases: ReadonlyArray<readonly [what: string, error: unknown, reason: ReasonTag, rule: string]> = [
  ["a bare 401", http(401), "Auth", "status/auth"],
  ["a bare 402", http(402), "Billing", "status/billing"],
  ["a bare 403", http(403), "Auth", "status/auth"],
  ["a bare 404", http(404), "ModelNotFound", "status/model"],
  ["a bare 408", http(408), "Timeout", "status/timeout"],
  ["a bare 413", http(413), "ContextOverflow", "status/too-large"],
  ["a bare 422", http(422), "Format", "status/request"],
  ["a bare 429", http(429), "RateLimit", "status/rate"],
  ["a bare 499", http(499), "Cancelled", "status/cancelled"],
  ["a bare 500", http(500), "ServerError", "status/server"],
  ["an HTML 502", http(502, "<html>Bad gateway</html>"), "Overloaded", "status/overloaded"],
  ["a bare 504", http(504), "Timeout", "status/timeout"],
  ["a bare 529", http(529), "Overloaded", "status/overloaded"],
  [
    "429 without money",
    http(429, openai("insufficient_quota", "insufficient_quota")),
    "Billing",
    "code/billing"
  ],
  [
    "a 400 with a bad key",
    http(400, google(400, "INVALID_ARGUMENT", [{ reason: "API_KEY_INVALID" }])),
    "Auth",
    "code/key"
  ],
  ["a 400 that overflows", http(400, openai("context_length_exceeded")), "ContextOverflow", "code/context"],
  ["a 403 without the model", http(403, openai("model_not_found")), "ModelNotFound", "code/model"],
  ["a 529 with a vague type", http(529, openai(null, "server_error")), "Overloaded", "status/overloaded"],
  ["google's 429 in an array", http(429, [google(429, "RESOURCE_EXHAUSTED")]), "RateLimit", "grpc/exhausted"],
  [
    "an error part of a 200 stream",
    anthropic("overloaded_error", "Overloaded"),
    "Overloaded",
    "code/overloaded-word"
  ],
  ["a bare error object", { type: "rate_limit_error", message: "Slow down" }, "RateLimit", "limit/rate"],
  ["a vague error part", anthropic("api_error", "Internal server error"), "ServerError", "transport/crashed"],
  ["a body as a string", JSON.stringify(anthropic("authentication_error")), "Auth", "code/key"],
  ["a refused connection", caused("X", "ECONNREFUSED"), "Network", "connection/broken"],
  [
    "a 200 that broke off",
    { ...http(200), cause: caused("terminated", "UND_ERR_SOCKET") },
    "Network",
    "connection/broken"
  ],
  ["a 200 with garbage", http(200, "<html>"), "Format", "status/response"],
  ["headers that never came", caused("UND_ERR_HEADERS_TIMEOUT"), "Timeout", "connection/headers-timeout"],
  ["a bad certificate", caused("x", "CERT_HAS_EXPIRED"), "PermanentNetwork", "connection/certificate"],
  ["an abort", Object.assign(new Error("x"), { name: "AbortError" }), "Cancelled", "name/aborted"],
  ["nothing known", new Error("?"), "Unknown", "none"],
  ["undefined", undefined, "Unknown", "none"],
  ["a symbol", Symbol("x"), "Unknown", "none"],
  [
    "an object whose getters throw",
    {
      get message(): string {
        throw new Error("no")
      }
    },
    "Unknown",
    "none"
  ]
]

describe("classifies", () => {
  for (const [what, error, reason, rule] of cases) {
    it(what, () => {
      const failure = Classifier.failureOf(error)
      assert.deepStrictEqual([failure.reason._tag, failure.evidence.rule], [reason, rule])
    })
  }

  it("keeps the side and the status of an error that may be about the request or the response", () => {
    assert.deepInclude(Classifier.failureOf(http(200, "x")).reason, { side: "response" })
    assert.deepInclude(Classifier.failureOf(http(400)).reason, { side: "request" })
    assert.deepInclude(Classifier.failureOf(http(400, undefined, { "request-id": "req_1" })).evidence, {
      status: 400,
      requestId: "req_1"
    })
  })

  it("handles a cyclic chain of causes", () => {
    const error = new Error("a")
    error.cause = Object.assign(new Error("b", { cause: error }), { code: "ECONNRESET" })
    assert.strictEqual(Classifier.failureOf(error).reason._tag, "Network")
    assert.strictEqual(Classifier.failureOf(error).evidence.depth, 1)
  })

  it("visits a body that contains itself many times only once", () => {
    const body: Array<unknown> = []
    for (let i = 0; i < 20; i++) body.push(body)
    assert.strictEqual(
      Classifier.failureOf({ statusCode: 429, body: { error: body } }).reason._tag,
      "RateLimit"
    )
  })

  it("gives every rule of the table a unique id", () => {
    const ids = Classifier.defaultRules.map(({ id }) => id)
    assert.strictEqual(new Set(ids).size, ids.length)
  })
})

describe("reads the wait that a server asked for", () => {
  const waits: ReadonlyArray<readonly [Record<string, string>, number | undefined]> = [
    [{ "retry-after": "7" }, 7_000],
    [{ "Retry-After": "7" }, 7_000],
    [{ "retry-after": "0" }, 0],
    [{ "retry-after": "1.5" }, 1_500],
    [{ "retry-after-ms": "250", "retry-after": "9" }, 250],
    [{ "retry-after": "Sat, 21 Nov 2026 10:00:30 GMT", date: "Sat, 21 Nov 2026 10:00:00 GMT" }, 30_000],
    [{ "retry-after": "Sat, 21 Nov 2026 09:59:00 GMT", date: "Sat, 21 Nov 2026 10:00:00 GMT" }, 0],
    [{ "retry-after": "Sat, 21 Nov 2026 10:00:30 GMT" }, undefined],
    [{ "retry-after": "-5" }, undefined],
    [{ "retry-after": "soon" }, undefined],
    [{ "retry-after": "1790000000" }, undefined],
    [{ "retry-after": "9".repeat(400) }, undefined]
  ]
  for (const [headers, expected] of waits) {
    it(JSON.stringify(headers).slice(0, 80), () => {
      const { retryAfter } = Classifier.failureOf(http(429, undefined, headers))
      assert.strictEqual(retryAfter === undefined ? undefined : Duration.toMillis(retryAfter), expected)
    })
  }
})

describe("Redaction", () => {
  it("removes known values, strings in the form of a key, and echoes of the prompt", () => {
    const text =
      "Key abc123 or sk-ant-api03-aaaaaaaa is wrong for: please write a long poem about spring today"
    const clean = Redaction.scrub(text, 300, {
      values: ["abc123", ""],
      prompt: ["Please: please write a long poem about spring"]
    })
    assert.strictEqual(clean, "Key [redacted] or [redacted] is wrong for[redacted] today")
  })

  const echoes: ReadonlyArray<readonly [what: string, prompt: string, said: string, leak: string]> = [
    ["a short prompt", "password: hunter2", "Cannot parse password: hunter2", "hunter2"],
    [
      "a prompt without blanks between words",
      "请用中文写一首关于春天的诗",
      "错误：请用中文写一首关于春天的诗",
      "春天的诗"
    ],
    [
      "the escapes of JSON",
      'say "yes"\nand then leave the house',
      '{"input":"say \\"yes\\"\\nand then leave the house"}',
      "leave the house"
    ],
    [
      "the escapes of a URL",
      "where is my blue umbrella",
      "GET /?q=where%20is%20my%20blue%20umbrella failed",
      "umbrella"
    ]
  ]
  for (const [what, prompt, said, leak] of echoes) {
    it(`masks an echo: ${what}`, () => {
      assert.notInclude(Redaction.scrub(said, 300, { prompt: [prompt] }), leak)
    })
  }

  it("masks a key with URL escapes, and a key that the limit would cut", () => {
    assert.notInclude(Redaction.scrub("key=a%2Fb%2Bsecret", 300, { values: ["a/b+secret"] }), "secret")
    const failure = Classifier.failureOf({ message: `${"x".repeat(290)} my-private-credential-0123` })
    const target = { id: "t", provider: "p", model: "m", endpoint: "", key: "K" }
    assert.notInclude(failure.at(target, { values: ["my-private-credential-0123"] }).message, "my-priv")
  })

  it("cuts to the limit and keeps one line", () => {
    assert.strictEqual(Redaction.scrub("a\n\nb  c", 300), "a b c")
    assert.strictEqual(Redaction.scrub("x".repeat(50), 10).length, 10)
  })
})
