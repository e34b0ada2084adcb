import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Stream } from "effect"
import { AiError, LanguageModel } from "effect/ai"
import { Classifier, Failover, FailoverReason } from "@outlast/agent"
import { ForeignModel } from "@outlast/agent/failover"
import * as ErrorFacts from "#agent/failure/facts/ErrorFacts"
import * as Rule from "#agent/failure/rules/Rule"
import { inTime, policy } from "../support.ts"

const reasonOf = (error: unknown, provider = "") => Classifier.failureOf(error, { provider }).reason

describe("ignores words that only look like a signal", () => {
  const unknown: ReadonlyArray<string> = [
    "Failed while we generate the answer",
    "The keyword was odd",
    "request 429c1f broke",
    "see req_4290000401 for more",
    "we got 429 tokens",
    "moderate weather"
  ]
  for (const message of unknown) {
    it(message, () => assert.strictEqual(reasonOf({ message })._tag, "Unknown"))
  }

  const pairs: ReadonlyArray<readonly [message: string, tag: FailoverReason.ReasonTag]> = [
    ["context deadline exceeded", "Timeout"],
    ["context length exceeded", "ContextOverflow"],
    ["invalid token", "Auth"],
    ["Unexpected token < in JSON at position 0", "Format"],
    ["input tokens exceed the limit of 200000 tokens for the model", "ContextOverflow"],
    ["tokens per minute limit exceeded", "RateLimit"],
    [
      "Rate limit reached for gpt-4o on requests per min. Add a payment method to your account to increase your rate limit.",
      "RateLimit"
    ],
    ["context canceled", "Cancelled"]
  ]
  for (const [message, tag] of pairs) {
    it(`${message} is ${tag}`, () => assert.strictEqual(reasonOf({ message })._tag, tag))
  }

  it("does not read a listing about error 401 inside a 200 answer as a rejection", () => {
    const listing =
      "if (response.status === 401) throw new Error('error 401: invalid api key') // 429: rate limit"
    const reason = reasonOf({ message: "Invalid JSON response", statusCode: 200, responseBody: listing })
    assert.deepInclude(reason, { _tag: "Format", side: "response" })
    const facts = ErrorFacts.fromUnknown({ statusCode: 200, message: "", responseBody: listing })
    assert.strictEqual(Classifier.classify(facts).reason._tag, "Format")
  })

  it("reads the same sentence as used-up credit at OpenAI and as a rate limit at Google", () => {
    const message = "You exceeded your current quota, please check your plan and billing details."
    assert.strictEqual(reasonOf({ message }, "openai")._tag, "Billing")
    assert.strictEqual(reasonOf({ message }, "google")._tag, "RateLimit")
  })
})

describe("reads each provider's own words", () => {
  const said: ReadonlyArray<
    readonly [status: number, code: string, message: string, tag: FailoverReason.ReasonTag]
  > = [
    [
      401,
      "invalid_request_error",
      "You must be a member of an organization to use the API. Please contact us to get added to a new organization",
      "Auth"
    ],
    [401, "mismatched_project", "OpenAI-Project header should match project for API key", "Auth"],
    [
      400,
      "bad_request",
      "too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs",
      "ContextOverflow"
    ],
    [429, "", "Too many tokens, please wait before trying again.", "RateLimit"],
    [404, "previous_response_not_found", "Previous response with id 'resp_x' not found.", "Format"],
    [404, "not_found_error", "File not found: file_x", "Format"],
    [404, "invalid_request_error", "No such File object: file-x", "Format"],
    [404, "not_found_error", "model: claude-x", "ModelNotFound"],
    [404, "not_found_error", "The model for this response does not exist", "ModelNotFound"],
    [403, "", "Your account was closed", "Auth"],
    [403, "PERMISSION_DENIED", "Permission denied", "Auth"]
  ]
  for (const [statusCode, code, message, tag] of said) {
    it(`${statusCode} ${message.slice(0, 60)} is ${tag}`, () => {
      const reason = reasonOf({ statusCode, responseBody: JSON.stringify({ error: { code, message } }) })
      assert.strictEqual(reason._tag, tag)
      if (reason._tag === "Format") assert.strictEqual(reason.side, "request")
    })
  }
})

describe("does not take an error of the user's own program for one of a provider", () => {
  const bare: ReadonlyArray<Error> = [
    new TypeError("Cannot read properties of undefined (reading 'x')"),
    Object.assign(new Error("EACCES: permission denied, open '/var/x'"), { code: "EACCES" }),
    new Error("[Errno 13] Permission denied: '/var/x'"),
    new Error("Bank account was closed"),
    new Error("The DNS was odd"),
    new Error("battery needs a recharge"),
    new Error("The plan to visit Rome has long expired"),
    new Error("Command failed with exit status 1"),
    new Error("The engine is full of oil"),
    new Error("x must be a number"),
    new Error("The list should not be frozen")
  ]
  for (const error of bare) {
    it(error.message, () => assert.strictEqual(reasonOf(error)._tag, "Unknown"))
  }
})

describe("sets the fields of a reason", () => {
  it("sets `permanent` of Auth for a disabled organisation, but not for an invalid key", () => {
    assert.deepInclude(reasonOf({ message: "This organization has been disabled.", statusCode: 400 }), {
      _tag: "Auth",
      permanent: true
    })
    assert.deepInclude(reasonOf({ message: "invalid x-api-key", statusCode: 401 }), {
      _tag: "Auth",
      permanent: false
    })
  })

  const sizes: ReadonlyArray<
    readonly [message: string, limit: number | undefined, requested: number | undefined]
  > = [
    ["prompt is too long: 208310 tokens > 200000 maximum", 200_000, 208_310],
    [
      "input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000, decrease input length",
      200_000,
      207_653
    ],
    [
      "This model's maximum context length is 4097 tokens. However, your messages resulted in 4294 tokens.",
      4_097,
      4_294
    ],
    [
      "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (132000 in the messages)",
      131_072,
      140_000
    ],
    [
      "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
      1_048_575,
      1_196_265
    ],
    [
      "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
      131_072,
      537_812
    ],
    ["Your input exceeds the context window of this model.", undefined, undefined]
  ]
  for (const [message, limit, requested] of sizes) {
    it(message.slice(0, 60), () => {
      const reason = reasonOf({ message, statusCode: 400 })
      assert.strictEqual(reason._tag, "ContextOverflow")
      if (reason._tag === "ContextOverflow")
        assert.deepStrictEqual([reason.limit, reason.requested], [limit, requested])
    })
  }

  it("detects a rate limit that waiting cannot lift", () => {
    const large = "Request too large for gpt-4 on tokens per min (TPM): Limit 30000, Requested 61337."
    const busy =
      "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 1.242s."
    assert.deepInclude(reasonOf({ message: large, statusCode: 429 }), { _tag: "RateLimit", liftable: false })
    assert.deepInclude(reasonOf({ message: busy, statusCode: 429 }), { _tag: "RateLimit", liftable: true })
  })

  it("sets the phase of a timeout, and whether it is local", () => {
    const phase = (code: string) => reasonOf({ message: "fetch failed", cause: { code, message: "" } })
    assert.deepInclude(phase("UND_ERR_CONNECT_TIMEOUT"), { phase: "connect", local: true })
    assert.deepInclude(phase("UND_ERR_HEADERS_TIMEOUT"), { phase: "first-token", local: true })
    assert.deepInclude(phase("UND_ERR_BODY_TIMEOUT"), { phase: "idle", local: true })
    assert.deepInclude(phase("ETIMEDOUT"), { phase: "connect", local: false })
    const signal = new DOMException("The operation was aborted due to timeout", "TimeoutError")
    assert.deepInclude(reasonOf(signal), { _tag: "Timeout", local: true })
    const sdk = Object.assign(new Error("Request timed out."), { name: "APIConnectionTimeoutError" })
    assert.deepInclude(reasonOf(sdk), { _tag: "Timeout", local: true })
    // A timeout of a gateway's client is not local.
    const gateway = { statusCode: 500, message: "fetch failed: UND_ERR_HEADERS_TIMEOUT" }
    assert.deepInclude(reasonOf(gateway), { phase: "first-token", local: false })
    assert.deepInclude(reasonOf({ statusCode: 504, message: "" }), { _tag: "Timeout", local: false })
  })

  it("classifies Effect's own timeout and interruption as local", () => {
    assert.deepInclude(reasonOf(Cause.fail(new Cause.TimeoutError())), { _tag: "Timeout", local: true })
    assert.strictEqual(reasonOf(Exit.interrupt(1))._tag, "Cancelled")
    assert.strictEqual(reasonOf(Cause.interrupt(1))._tag, "Cancelled")
  })

  it("uses the most specific error of an AggregateError", () => {
    const errors = [new Error("fetch failed"), { message: "x", statusCode: 429 }, new Error("fetch failed")]
    assert.strictEqual(reasonOf(new AggregateError(errors, "all failed"))._tag, "RateLimit")
  })
})

describe("custom rules", () => {
  const seats = Rule.text({
    id: "gateway/seats",
    why: "Our gateway has a fixed number of seats.",
    phrases: ["no (free |)seats"],
    reason: new FailoverReason.Overloaded()
  })

  it.effect("come before the built-in rules", () =>
    Effect.gen(function* () {
      const error = { message: "429: no free seats", statusCode: 429 }
      assert.strictEqual((yield* Classifier.failure(error)).reason._tag, "RateLimit")
      const failure = yield* Classifier.failure(error).pipe(Effect.provide(Classifier.layerWith([seats])))
      assert.strictEqual(failure.reason._tag, "Overloaded")
      assert.deepInclude(failure.evidence, {
        rule: "gateway/seats",
        signal: "text",
        matched: "no free seats"
      })
    })
  )

  it.effect("change the policy's decision, in texts and streams", () =>
    Effect.gen(function* () {
      const attempts = (rules: ReadonlyArray<Rule.Rule>, stream: boolean) =>
        Effect.gen(function* () {
          let asked = 0
          const refused = AiError.make({
            module: "Vendor",
            method: "generateText",
            reason: new AiError.InvalidRequestError({ description: "no free seats" })
          })
          const fail = Effect.suspend(() => {
            asked++
            return Effect.fail(refused)
          })
          const target = ForeignModel.target({
            provider: "vendor",
            model: "v1",
            layer: Layer.effect(
              LanguageModel.LanguageModel,
              LanguageModel.make({ generateText: () => fail, streamText: () => Stream.fromEffect(fail) })
            )
          })
          const ask = stream
            ? Stream.runDrain(LanguageModel.streamText({ prompt: "x" }))
            : LanguageModel.generateText({ prompt: "x" })
          yield* inTime(
            Effect.flip(ask).pipe(
              Effect.provide(Failover.layer([target], { policy })),
              Effect.provide(Classifier.layerWith(rules))
            )
          )
          return asked
        })
      for (const stream of [false, true]) {
        assert.strictEqual(yield* attempts([], stream), 1)
        assert.isAbove(yield* attempts([seats], stream), 1)
      }
    })
  )

  it("match words and providers in any case", () => {
    const full = Rule.text({
      id: "gateway/full",
      why: "Our gateway shouts.",
      phrases: ["No Seats"],
      providers: ["OurGateway"],
      reason: new FailoverReason.Overloaded()
    })
    const reason = (provider: string) =>
      Classifier.failureOf(new Error("no SEATS left"), { provider, rules: [full] }).reason._tag
    assert.strictEqual(reason("ourgateway"), "Overloaded")
    assert.strictEqual(reason("OURGATEWAY"), "Overloaded")
    assert.strictEqual(reason("other"), "Unknown")
  })

  it("throw for invalid options where they are written", () => {
    const common = { id: "a/b", why: "It is a test.", reason: new FailoverReason.Overloaded() }
    const wrong: ReadonlyArray<readonly [make: () => Rule.Rule, says: RegExp]> = [
      ...["", " ", "…", "(a|)", "*", "* *"].map(
        (source) =>
          [
            () => Rule.text({ ...common, phrases: ["x", source] }),
            /"a\/b": phrases\[1\].*every text/
          ] as const
      ),
      [() => Rule.text({ ...common, phrases: ["((a|b)c)"] }), /"a\/b": phrases\[0\].*group/],
      [() => Rule.text({ ...common, phrases: [] }), /"a\/b": phrases is an empty list/],
      [() => Rule.text({ ...common, phrases: ["x"], also: [""] }), /"a\/b": also\[0\]/],
      [() => Rule.text({ ...common, phrases: ["x"], unless: ["…"] }), /"a\/b": unless\[0\]/],
      [() => Rule.code({ ...common, codes: [] }), /"a\/b": codes is an empty list/],
      [() => Rule.code({ ...common, codes: [""] }), /"a\/b": codes\[0\] \(""\) is empty/],
      [() => Rule.status({ ...common, statuses: [] }), /"a\/b": statuses is an empty list/],
      [() => Rule.status({ ...common, statuses: () => false }), /"a\/b": statuses is an empty list/],
      [() => Rule.status({ ...common, statuses: [429], providers: [] }), /"a\/b": providers is an empty/],
      [() => Rule.status({ ...common, id: "", statuses: [429] }), /id is empty/]
    ]
    for (const [make, says] of wrong) assert.throws(make, says)
  })

  it.effect("of two layers add up when one is provided to the other, the outer ones first", () =>
    Effect.gen(function* () {
      const layerOf = (id: string, phrase: string) =>
        Classifier.layerWith([
          Rule.text({ id, why: "It is a test.", phrases: [phrase], reason: new FailoverReason.Overloaded() })
        ])
      const both = Layer.provide(layerOf("x/first", "alpha"), layerOf("x/second", "(alpha|beta)"))
      const rule = (message: string) =>
        Classifier.failure(new Error(message)).pipe(
          Effect.map(({ evidence }) => evidence.rule),
          Effect.provide(both)
        )
      assert.strictEqual(yield* rule("alpha"), "x/first")
      assert.strictEqual(yield* rule("beta"), "x/second")
    })
  )

  it("do not match when they throw", () => {
    const broken: Rule.Rule = {
      id: "x/y",
      why: "It is broken.",
      match: () => {
        throw new Error("no")
      }
    }
    const chain = ErrorFacts.fromUnknown({ message: "", statusCode: 429 })
    const { reason } = Classifier.classify(chain, { rules: [broken, ...Classifier.defaultRules] })
    assert.strictEqual(reason._tag, "RateLimit")
  })
})
