import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import { Classifier, ProviderFailure } from "@outlast/agent"
import { ErrorFacts } from "@outlast/agent/failure"
import * as Sizes from "#agent/failure/facts/Sizes"
import * as TextFacts from "#agent/failure/facts/TextFacts"

const first = (error: unknown) => ErrorFacts.fromUnknown(error)[0]

describe("keeps the numeric codes of providers", () => {
  const numbers: ReadonlyArray<readonly [error: unknown, codes: ReadonlyArray<string>, status?: number]> = [
    [{ error_code: 18, error_msg: "x" }, ["error_code/18"]],
    [{ error_code: "18", error_msg: "x" }, ["error_code/18"]],
    [{ errorCode: 336_003, errorMessage: "x" }, ["error_code/336003", "336003"]],
    [{ error_code: 429, error_msg: "x" }, [], 429],
    [{ error_code: 0, error_msg: "x" }, []],
    [{ code: 14, message: "x" }, ["14"]],
    [{ code: 0, message: "x" }, []],
    [{ error: { code: -32_603, message: "x" } }, ["-32603"]],
    [{ message: "", responseBody: { code: 8, message: "x" } }, ["8"]],
    [Object.assign(new Error("x"), { code: 1302 }), ["1302", "error"]],
    [Object.assign(new Error("x"), { code: 429 }), ["error"], 429],
    // The number is the kind of the exception: 8 is "not found" here and "exhausted" in gRPC.
    [new DOMException("x", "NotFoundError"), ["notfounderror"]]
  ]
  for (const [error, codes, status] of numbers) {
    it(JSON.stringify(codes) + JSON.stringify(error), () => {
      assert.deepStrictEqual(first(error).codes, codes)
      assert.strictEqual(first(error).status, status)
    })
  }
})

it("reads sentences under any of their field names", () => {
  for (const name of ["error_msg", "errmsg", "errorMessage", "error_message", "status_msg"]) {
    assert.strictEqual(first({ [name]: "Slow down" }).text, "slow down")
    assert.strictEqual(Classifier.failureOf({ [name]: "Slow down" }).detail, "Slow down")
  }
})

describe("describes a thrown value without a message", () => {
  class Strange {
    toString() {
      return "a strange thing"
    }
  }
  const things: ReadonlyArray<readonly [thing: unknown, detail: string]> = [
    [{ foo: "bar" }, '{"foo":"bar"}'],
    [{ foo: 7, bar: { baz: 1 }, qux: null }, '{"foo":7,"bar":…,"qux":…}'],
    [{}, ""],
    [42, "42"],
    [10n, "10"],
    [false, "false"],
    [Symbol("x"), "Symbol(x)"],
    [new Strange(), "a strange thing"]
  ]
  for (const [thing, detail] of things) {
    it(detail, () => {
      const failure = Classifier.failureOf(thing)
      assert.strictEqual(failure.detail, detail)
      assert.strictEqual(failure.reason._tag, "Unknown")
      assert.strictEqual(first(thing).text, "")
    })
  }
  it("describes it in a few words, and without secrets", () => {
    const secret = ["sk-", "a1B2c3D4e5F6g7H8i9J0"].join("")
    const wide = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`key${i}`, "x".repeat(60)]))
    assert.isBelow(Classifier.failureOf(wide).detail.length, 210)
    assert.notInclude(Classifier.failureOf({ foo: secret }).detail, secret)
    assert.notInclude(Classifier.failureOf({ foo: "y".repeat(1_000) }).detail, "y")
    assert.strictEqual(Classifier.failureOf({ toString: () => "z".repeat(1_000) }).detail.length, 200)
  })
  it("does not describe a body, or an error without a message", () => {
    assert.strictEqual(Classifier.failureOf({ responseBody: { story: "once" } }).detail, "")
    assert.strictEqual(Classifier.failureOf(new Error("")).detail, "")
  })
})

describe("reads a body in bytes", () => {
  const json = JSON.stringify({ error: { code: "insufficient_quota", message: "Pay first" } })
  const bytes = new TextEncoder().encode(json)
  const within = new Uint8Array(bytes.length + 10)
  within.set(bytes, 5)
  const bodies: ReadonlyArray<readonly [string, unknown]> = [
    ["Uint8Array", bytes],
    ["a part of a larger one", within.subarray(5, 5 + bytes.length)],
    ["ArrayBuffer", bytes.buffer],
    ["Buffer", Buffer.from(json)],
    ["DataView", new DataView(bytes.buffer)]
  ]
  for (const [name, body] of bodies) {
    it(name, () => {
      const failure = Classifier.failureOf({ message: "", statusCode: 429, body })
      assert.strictEqual(failure.reason._tag, "Billing")
      assert.strictEqual(failure.detail, "Pay first")
    })
  }
  it("reads bytes of any length, even invalid ones", () => {
    for (const body of [new Uint8Array(50_000_000), Buffer.alloc(3, 0xff), new ArrayBuffer(0)]) {
      assert.strictEqual(
        Classifier.failureOf({ message: "", statusCode: 503, body }).reason._tag,
        "Overloaded"
      )
    }
  })
})

describe("reads errors of AWS clients", () => {
  it("reads the fields in which AWS clients keep the raw response", () => {
    const error = Object.assign(new Error("x"), {
      $fault: "client",
      $metadata: { httpStatusCode: 429, requestId: "r" },
      $response: { statusCode: 429, headers: { "retry-after": "7" } }
    })
    const failure = Classifier.failureOf(error)
    assert.deepInclude(failure.evidence, { rule: "status/rate", status: 429 })
    assert.deepStrictEqual(failure.retryAfter, Duration.seconds(7))
    assert.include(first(error).codes, "$fault:client")
  })
  it("reads the status from either field alone", () => {
    for (const part of [{ $metadata: { httpStatusCode: 503 } }, { $response: { statusCode: 503 } }]) {
      assert.strictEqual(Classifier.failureOf(Object.assign(new Error("x"), part)).reason._tag, "Overloaded")
    }
  })
})

describe("reads a number in a sentence as a status only where the sentence says so", () => {
  const amounts = [
    "404 characters is the most",
    "404 is not a function",
    "429 items in cart",
    "500 tokens were requested, 400 are left",
    "500 of 1000 files",
    "exit code 401",
    "process exited with code 401",
    "exited with status 403",
    "The code: 403 lines were generated",
    "Error: 404 is not a function",
    "status: 429 items"
  ]
  for (const said of amounts) it(said, () => assert.isUndefined(TextFacts.status(said.toLowerCase())))

  const statuses: ReadonlyArray<readonly [said: string, status: number]> = [
    ["401 status code (no body)", 401],
    ["404 (no body)", 404],
    ["402 - Payment Required", 402],
    ['429 "rate limited"', 429],
    ["400 This model's maximum context length is 5", 400],
    ["400 Your organization must be verified", 400],
    ["400 tools.0.custom: bad", 400],
    ["400 messages: at least one", 400],
    ["429 Requests rate limit exceeded", 429],
    ["503", 503],
    ["Error: 429 Too Many Requests", 429],
    ["Error code: 401 - {", 401],
    ["bad response (code: 403)", 403],
    ["HTTP 404 Not Found", 404],
    ["Request failed with status code 429", 429]
  ]
  for (const [said, status] of statuses) {
    it(said, () => assert.strictEqual(TextFacts.status(said.toLowerCase()), status))
  }
})

it("takes a rate limit as permanent only if every limit in the text is 0", () => {
  assert.isFalse(Sizes.isLiftable("quota exceeded, limit: 0"))
  assert.isFalse(Sizes.isLiftable("quota exceeded, limit: 0, model: a, quota exceeded, limit: 0"))
  assert.isFalse(Sizes.isLiftable("limit 10000, requested 12000"))
  assert.isTrue(Sizes.isLiftable("quota exceeded, limit: 0, quota exceeded, limit: 20"))
  assert.isTrue(Sizes.isLiftable("limit: 0.5 requests per second"))
  assert.isTrue(Sizes.isLiftable("limit: 0.5, requested: 0.25"))
  assert.isTrue(Sizes.isLiftable("limit 10,000, requested 9,000"))
})

it("gives readable advice without a target", () => {
  const advice = (statusCode: number) =>
    ProviderFailure.whatToDo(Classifier.failureOf({ message: "", statusCode }))
  assert.strictEqual(
    advice(404),
    "Check the name of the model and whether the account of the key may use it. If both are right, check the path of the base URL."
  )
  assert.strictEqual(advice(401), "Set the key to a valid one, or add another key.")
})

it("reads an error part that a client could not parse", () => {
  const told = { error_type: "upstream_error", error_message: "prompt is too long: 9 tokens > 8 maximum" }
  const thrown = (value: unknown) =>
    Object.assign(new Error("Type validation failed"), { name: "AI_TypeValidationError", value })
  const inBody = (value: unknown) => ({
    statusCode: 200,
    responseBody: JSON.stringify({
      error: { name: "AI_TypeValidationError", message: "Stream error", value }
    })
  })
  const tag = (error: unknown) => Classifier.failureOf(error).reason._tag
  for (const error of [thrown, inBody]) {
    assert.strictEqual(tag(error(told)), "ContextOverflow")
    assert.strictEqual(tag(error({ error: { code: "insufficient_quota", message: "" } })), "Billing")
    // An answer may talk about anything.
    const answer = { choices: [{ delta: { content: "insufficient_quota: prompt is too long" } }] }
    assert.strictEqual(tag(error(answer)), "Format")
    assert.strictEqual(tag(error("insufficient_quota")), "Format")
  }
})

it("uses the last error of a long stream", () => {
  const last = `${'event: error\ndata: {"error":{"code":"x"}}\n\n'.repeat(1_000)}event: error\ndata: {"error":{"code":"insufficient_quota"}}\n\n`
  assert.strictEqual(Classifier.failureOf({ message: last }).reason._tag, "Billing")
})
