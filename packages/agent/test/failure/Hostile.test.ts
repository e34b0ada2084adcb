import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import { Classifier, FailoverReason } from "@outlast/agent"
import * as ErrorFacts from "#agent/failure/facts/ErrorFacts"

const revoked = (of: object = {}): object => {
  const { proxy, revoke } = Proxy.revocable(of, {})
  revoke()
  return proxy
}
const no = (): never => {
  throw new Error("no")
}
const throwing = (of: object = {}): object =>
  new Proxy(of, { get: no, has: no, ownKeys: no, getPrototypeOf: no, getOwnPropertyDescriptor: no })
const boobyTrapped = (...keys: ReadonlyArray<string>): object =>
  Object.defineProperties({}, Object.fromEntries(keys.map((key) => [key, { get: no, enumerable: true }])))

const poisons: ReadonlyArray<readonly [name: string, make: () => unknown]> = [
  ["a revoked proxy", () => revoked()],
  ["a revoked proxy of a list", () => revoked([])],
  ["a revoked proxy of an error", () => revoked(new Error("x"))],
  ["a revoked proxy of a function", () => revoked(() => 1)],
  ["a proxy that throws", () => throwing()],
  ["a list that throws", () => throwing([])],
  ["getters that throw", () => boobyTrapped("message", "code", "_tag", "length", "entries", "status")],
  ["an object without a prototype", () => Object.create(null)],
  ["a symbol", () => Symbol("x")],
  ["a bigint", () => 10n ** 400n],
  ["a function", () => no],
  ["a WeakMap", () => new WeakMap()],
  ["a date that is none", () => new Date(Number.NaN)],
  ["a list full of holes", () => Array(1_000_000_000)],
  ["what cannot become a string", () => ({ toString: no, valueOf: no, [Symbol.toPrimitive]: no })]
]
const fields = [
  "message",
  "name",
  "code",
  "type",
  "_tag",
  "reason",
  "body",
  "responseBody",
  "error",
  "errors",
  "lastError",
  "data",
  "response",
  "http",
  "headers",
  "responseHeaders",
  "rawHeaders",
  "retryAfter",
  "retryDelay",
  "cause",
  "metadata"
]

describe("skips only the properties that throw", () => {
  for (const [name, make] of poisons) {
    it(`${name} in any field`, () => {
      for (const field of fields) {
        for (const error of [
          { message: "x", statusCode: 429, responseHeaders: { "retry-after": "7" } },
          Object.assign(new Error("x"), { statusCode: 429, headers: { "retry-after": "7" } })
        ]) {
          const spare = "headers" in error ? "headers" : "responseHeaders"
          if (field === spare) continue
          Object.defineProperty(error, field, { value: make(), enumerable: true })
          const { reason, retryAfter } = Classifier.failureOf(error)
          assert.strictEqual(reason._tag, "RateLimit", field)
          assert.deepStrictEqual(retryAfter, Duration.seconds(7), field)
          assert.strictEqual(Classifier.failureOf(new Error("y", { cause: error })).reason._tag, "RateLimit")
        }
      }
    })

    it(`${name} deep inside a body, a header, a list`, () => {
      const error = { statusCode: 429, message: "x" }
      const inside = { x: make(), details: make(), error: { details: [make(), { retryDelay: "7s" }] } }
      assert.deepStrictEqual(Classifier.failureOf({ ...error, body: inside }).retryAfter, Duration.seconds(7))
      const headers = { "x-a": make(), "retry-after": "7", "x-b": make() }
      assert.deepStrictEqual(Classifier.failureOf({ ...error, headers }).retryAfter, Duration.seconds(7))
      const pairs = [make(), ["x-a", make()], [make(), "1"], ["retry-after", "7"]]
      assert.deepStrictEqual(
        Classifier.failureOf({ ...error, headers: pairs }).retryAfter,
        Duration.seconds(7)
      )
    })

    it(`${name} among other errors of an AggregateError`, () => {
      const errors = [make(), { message: "", statusCode: 429 }, make()]
      assert.strictEqual(Classifier.failureOf(new AggregateError(errors, "x")).reason._tag, "RateLimit")
    })

    it(`${name} as the error itself`, () => {
      for (const error of [make(), { cause: make() }, { statusCode: make() }]) {
        assert.include(FailoverReason.reasonTags, Classifier.failureOf(error).reason._tag)
      }
    })
  }

  it("skips a getter that throws in a header or a field", () => {
    const headers = Object.defineProperties(
      {},
      {
        "x-a": { get: no, enumerable: true },
        "retry-after": { value: "7", enumerable: true }
      }
    )
    const failure = Classifier.failureOf(
      Object.assign(boobyTrapped("message", "body", "cause", "name"), { statusCode: 503, headers })
    )
    assert.strictEqual(failure.reason._tag, "Overloaded")
    assert.deepStrictEqual(failure.retryAfter, Duration.seconds(7))
  })
})

describe("limits the size of its facts", () => {
  const tree = (width: number, depth: number): Error =>
    depth === 0
      ? Object.assign(new Error("leaf"), { statusCode: 429 })
      : new AggregateError(
          Array.from({ length: width }, () => tree(width, depth - 1)),
          "branch"
        )

  it("reads 32 links of a tree of errors, the outer ones first", () => {
    const facts = ErrorFacts.fromUnknown(tree(5, 5))
    assert.isAtMost(facts.length, ErrorFacts.maxLinks)
    assert.strictEqual(ErrorFacts.maxLinks, 32)
    assert.deepStrictEqual(
      facts.slice(0, 7).map(({ depth }) => depth),
      [0, 1, 1, 1, 1, 1, 2]
    )
    assert.strictEqual(Classifier.failureOf(tree(5, 2)).reason._tag, "RateLimit")
  })

  it("reads five levels of causes", () => {
    let error: Error = Object.assign(new Error(""), { statusCode: 429 })
    for (let i = 0; i < 5; i++) error = new Error("outer", { cause: error })
    assert.deepInclude(Classifier.failureOf(error).evidence, { depth: 5, status: 429 })
    assert.strictEqual(Classifier.failureOf(new Error("outer", { cause: error })).reason._tag, "Unknown")
  })

  it("drops a request id of more than 200 characters", () => {
    const idOf = (id: string) =>
      Classifier.failureOf({ message: "", statusCode: 429, headers: { "x-request-id": id } }).evidence
        .requestId
    assert.strictEqual(idOf("x".repeat(200)), "x".repeat(200))
    assert.strictEqual(idOf("x".repeat(201)), undefined)
    assert.strictEqual(idOf("x".repeat(1_000_000)), undefined)
  })

  it("leaves out oversized headers, names and codes", () => {
    const giant = "x".repeat(1_000_000)
    const [facts] = ErrorFacts.fromUnknown({
      name: giant,
      code: giant,
      message: giant,
      _tag: giant,
      reason: giant,
      headers: { "x-amzn-errortype": giant, [giant]: "1", "retry-after": giant, "x-b": "2" },
      body: { error: Array.from({ length: 20 }, () => Array.from({ length: 20 }, () => giant)) }
    })
    assert.deepStrictEqual(Object.keys(facts.headers), ["x-b"])
    assert.isBelow(JSON.stringify(facts).length, 40_000)
  })
})

describe("reads headers in any form", () => {
  const forms: ReadonlyArray<readonly [name: string, headers: unknown]> = [
    ["numbers", { "Retry-After": 7 }],
    ["lists of one", { "retry-after": ["7"] }],
    ["lists of one number", { "retry-after": [7] }],
    ["Headers", new Headers({ "Retry-After": "7" })],
    [
      "a Map",
      new Map<string, unknown>([
        ["Retry-After", 7],
        ["x", {}]
      ])
    ],
    [
      "pairs",
      [
        ["Retry-After", "7"],
        ["Date", "x"]
      ]
    ],
    ["Node's flat list", ["Date", "x", "Retry-After", "7"]],
    [
      "Headers of another realm",
      {
        get: () => "7",
        entries: () => [["Retry-After", "7"]][Symbol.iterator]()
      }
    ],
    ["no prototype", Object.assign(Object.create(null), { "retry-after": "7" })]
  ]
  for (const [name, headers] of forms) {
    it(name, () => {
      for (const error of [
        { message: "", statusCode: 429, responseHeaders: headers },
        { message: "", statusCode: 429, headers },
        { message: "", response: { status: 429, headers } },
        { message: "", statusCode: 429, responseBody: { error: { message: "", headers } } }
      ]) {
        assert.deepStrictEqual(Classifier.failureOf(error).retryAfter, Duration.seconds(7))
      }
    })
  }

  it("reads the raw headers of Node's response", () => {
    const response = { statusCode: 429, rawHeaders: ["Retry-After", "7"] }
    assert.deepStrictEqual(Classifier.failureOf({ message: "", response }).retryAfter, Duration.seconds(7))
    const parsed = { ...response, headers: { "retry-after": "8" } }
    assert.deepStrictEqual(
      Classifier.failureOf({ message: "", response: parsed }).retryAfter,
      Duration.seconds(8)
    )
  })
})

describe("reads a wait as protobuf's Duration", () => {
  const waits: ReadonlyArray<readonly [delay: unknown, millis: number | undefined]> = [
    [{ seconds: 12, nanos: 500_000_000 }, 12_500],
    [{ seconds: "12", nanos: 500_000_000 }, 12_500],
    [{ seconds: 12 }, 12_000],
    [{ nanos: 250_000_000 }, 250],
    [{ seconds: 0, nanos: 1 }, 0],
    [{ seconds: 0 }, 0],
    [{ seconds: -1 }, undefined],
    [{ seconds: Number.NaN }, undefined],
    [{ seconds: 1e30 }, undefined],
    [{ seconds: "soon" }, undefined],
    [{ seconds: 12, nanos: -5 }, undefined],
    [{}, undefined],
    ["12s", 12_000]
  ]
  for (const [retryDelay, millis] of waits) {
    it(JSON.stringify(retryDelay), () => {
      const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay }]
      const error = { code: 429, status: "RESOURCE_EXHAUSTED", message: "Quota", details }
      for (const thrown of [
        { statusCode: 429, message: "", responseBody: JSON.stringify({ error }) },
        { statusCode: 429, message: "", body: { error } },
        { statusCode: 429, message: "", retryDelay }
      ]) {
        const { retryAfter } = Classifier.failureOf(thrown)
        assert.strictEqual(retryAfter === undefined ? undefined : Duration.toMillis(retryAfter), millis)
      }
    })
  }
})
