/** What a chain says and concludes about servers that are down, silent or strict follows what they did. */
import { assert, describe, it } from "@effect/vitest"
import { Failover, RecoveryPolicy } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"
import { Duration, Effect, Layer, Logger, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { createServer } from "node:net"
import type { AddressInfo } from "node:net"
import { policy, vendors } from "./Asked.ts"
import * as RawServer from "./RawServer.ts"
import * as Replies from "./Replies.ts"

/** The URL of a port on which nothing listens. */
const refused = Effect.callback<string>((resume) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    // A server that listens on a port has an address of this kind.
    const { port } = server.address() as AddressInfo
    server.close(() => resume(Effect.succeed(`http://127.0.0.1:${port}`)))
  })
})

const good = (text = "Here it is.") =>
  RawServer.start((response, hit) =>
    Replies.send[/messages/.test(hit.url) ? "anthropic" : "chat"]({
      text,
      end: Replies.ends[/messages/.test(hit.url) ? "anthropic" : "chat"].stop,
      tokens: 4
    })(response, hit)
  )

/** A program over a chain, with the events and the log of all its calls. */
const over = (
  targets: readonly [ProviderModel.TargetSpec, ...Array<ProviderModel.TargetSpec>],
  options: Partial<RecoveryPolicy.RecoveryPolicy> = {}
) => {
  const events: Array<ResilienceEvents.ResilienceEvent & Readonly<Record<string, unknown>>> = []
  const log: Array<string> = []
  const layer = Failover.layer(targets, { policy: { ...policy, ...options } }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        ResilienceEvents.layerHandler((event) => Effect.sync(() => void events.push({ ...event }))),
        Logger.layer([Logger.make(({ message }) => void log.push(String(message)))])
      )
    )
  )
  return { events, log, layer }
}

const ask = LanguageModel.generateText({ prompt: "x" })

const plain = { wholeAnswers: "request" } as const

describe("two vendors that refuse connections", () => {
  it.live("are never said to answer, and one backoff holds over both", () =>
    Effect.gen(function* () {
      const { events, layer, log } = over([
        vendors.anthropic(yield* refused)(plain),
        vendors.chat(yield* refused)(plain)
      ])
      yield* Effect.flip(ask).pipe(Effect.provide(layer))
      const started = events.filter(({ _tag }) => _tag === "AttemptStarted")
      assert.lengthOf(started, 2 * RecoveryPolicy.interactive.rows.Network.attempts)
      const asked = new Set<unknown>()
      for (const { target, waited } of started) {
        const { id } = target as { readonly id: string } // events of any kind are read here
        if (asked.has(id)) assert.isAbove(Number(waited), 0)
        asked.add(id)
      }
      assert.notInclude(
        events.map(({ _tag }) => _tag),
        "ModelChanged"
      )
      assert.notMatch(log.join("\n"), /Switched|answers again|back to/)
    })
  )

  for (const isStream of [false, true]) {
    const way = isStream ? "streamed" : "whole"
    it.live(`are told apart from one that answers: the change is told with its answer, ${way}`, () =>
      Effect.gen(function* () {
        const second = yield* good()
        const { events, layer, log } = over([
          vendors.anthropic(yield* refused)(plain),
          vendors.chat(second.url)(plain)
        ])
        const answer = isStream ? Stream.runDrain(LanguageModel.streamText({ prompt: "x" })) : ask
        yield* answer.pipe(Effect.provide(layer))
        const tags = events.map(({ _tag }) => _tag)
        assert.deepStrictEqual(
          tags.filter((tag) => tag === "ModelChanged"),
          ["ModelChanged"]
        )
        assert.isAbove(tags.indexOf("ModelChanged"), tags.lastIndexOf("AttemptStarted"))
        assert.lengthOf(second.hits, 1)
        assert.match(log.join("\n"), /^Switched from anthropic\/claude-x#KEY to openai\/gpt-x#KEY/m)
      })
    )
  }
})

describe("a stream that stalls behind text", () => {
  it.live("goes on at another target at once, and at the same one only when it is alone", () =>
    Effect.gen(function* () {
      const first = yield* RawServer.start((response, _, n) =>
        n === 0
          ? RawServer.events(response, [RawServer.chat.text("One, ")], true)
          : Replies.send.chat({ text: "two.", end: "stop", tokens: 2 })(
              response,
              first.hits[n] ?? assert.fail()
            )
      )
      const second = yield* good("two.")
      const patience = {
        patience: Duration.millis(100),
        limits: { ...policy.limits, idle: Duration.millis(200), firstToken: Duration.seconds(5) }
      }
      const text = (...targets: Parameters<typeof over>[0]) =>
        LanguageModel.streamText({ prompt: "x" }).pipe(
          Stream.runFold(
            () => "",
            (text, part) => (part.type === "text-delta" ? text + part.delta : text)
          ),
          Effect.provide(over(targets, patience).layer)
        )
      const here = vendors.chat(first.url)(plain)
      assert.strictEqual(yield* text(here, vendors.chat(second.url, "gpt-y")(plain)), "One, two.")
      assert.deepStrictEqual([first.hits.length, second.hits.length], [1, 1])
      const alone = yield* RawServer.start((response, hit, n) =>
        n === 0
          ? RawServer.events(response, [RawServer.chat.text("One, ")], true)
          : Replies.send.chat({ text: "two.", end: "stop", tokens: 2 })(response, hit)
      )
      assert.strictEqual(yield* text(vendors.chat(alone.url)(plain)), "One, two.")
      assert.strictEqual(alone.hits.length, 2)
    })
  )
})

const overflow = {
  error: {
    message:
      "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    type: "invalid_request_error",
    param: "messages",
    code: "context_length_exceeded"
  }
}

describe("a conversation that overflows a window", () => {
  it.live("goes to a model whose window is not known", () =>
    Effect.gen(function* () {
      const first = yield* RawServer.start((response) => RawServer.json(response, 400, overflow))
      const second = yield* good()
      const { layer } = over([vendors.chat(first.url)(plain), vendors.chat(second.url, "gpt-y")(plain)])
      assert.strictEqual((yield* ask.pipe(Effect.provide(layer))).text, "Here it is.")
      assert.lengthOf(first.hits, 1)
    })
  )
})

describe("a request with a feature that no model takes", () => {
  for (const [status, message] of [
    [400, "This model doesn't support the s3Uri field. Remove s3Uri and try again."],
    [400, "The model didn't accept the given logit_bias: not a valid token id"],
    [400, "Model cannot read documents larger than 4.5 MB"],
    [404, 'No endpoints found that support tool use. Try disabling "question".'],
    [404, "No endpoints found that can handle the requested parameters."],
    [400, "Your organization must be verified to generate reasoning summaries."],
    [400, "Your organization must be verified to stream this model."]
  ] as const) {
    it.live(`benches no model for the calls after it: ${message}`, () =>
      Effect.gen(function* () {
        const server = RawServer.start((response, hit) =>
          JSON.stringify(hit.body.messages).includes("refused")
            ? RawServer.json(response, status, { message })
            : Replies.send.chat({ text: "ok", end: "stop", tokens: 1 })(response, hit)
        )
        const [first, second] = [yield* server, yield* server]
        const { events, layer } = over([
          vendors.chat(first.url)(plain),
          vendors.chat(second.url, "gpt-y")(plain)
        ])
        yield* Effect.gen(function* () {
          const bad = Effect.flip(LanguageModel.generateText({ prompt: "refused" }))
          yield* bad
          yield* bad
          assert.strictEqual((yield* ask).text, "ok")
        }).pipe(Effect.provide(layer))
        assert.deepStrictEqual(
          events.filter(({ _tag }) => _tag === "CooldownOpened").map(({ reason }) => reason),
          []
        )
      })
    )
  }
})

describe("a key that is refused", () => {
  const invalid = {
    error: { message: "Incorrect API key provided.", type: "invalid_request_error", code: "invalid_api_key" }
  }
  const lengths = (isGoodFirst: boolean) =>
    Effect.gen(function* () {
      const first = yield* RawServer.start((response, hit, n) =>
        isGoodFirst && n === 0
          ? Replies.send.chat({ text: "ok", end: "stop", tokens: 1 })(response, hit)
          : RawServer.json(response, 401, invalid)
      )
      const second = yield* good()
      const { events, layer } = over([vendors.chat(first.url)(plain), vendors.anthropic(second.url)(plain)])
      yield* Effect.andThen(ask, ask).pipe(Effect.provide(layer))
      return events
        .filter(({ _tag }) => _tag === "CooldownOpened")
        .map(({ length }) => Math.round(Number(length)))
    })

  it.live("is out for seconds where it has just answered, and for minutes where it never has", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* lengths(true), [10_000])
      assert.deepStrictEqual(yield* lengths(false), [600_000])
    })
  )
})

describe("a request that is larger than the plan allows (Gentleman-Programming/gentle-ai#97)", () => {
  it.live("moves on after one request, and the key stays for shorter ones", () =>
    Effect.gen(function* () {
      const message = "Extra usage is required for long context requests."
      const first = yield* RawServer.start((response, hit) =>
        JSON.stringify(hit.body.messages).includes("long")
          ? RawServer.json(response, 429, { type: "error", error: { type: "rate_limit_error", message } })
          : Replies.send.anthropic({ text: "short", end: "end_turn", tokens: 1 })(response, hit)
      )
      const second = yield* good("other")
      const { layer } = over([vendors.anthropic(first.url)(plain), vendors.chat(second.url)(plain)])
      const said = yield* Effect.all([LanguageModel.generateText({ prompt: "long" }), ask]).pipe(
        Effect.provide(layer)
      )
      assert.deepStrictEqual(
        said.map(({ text }) => text),
        ["other", "short"]
      )
      assert.strictEqual(first.hits.length, 2)
      const alone = over([vendors.anthropic(first.url)(plain)])
      const error = yield* Effect.flip(LanguageModel.generateText({ prompt: "long" })).pipe(
        Effect.provide(alone.layer)
      )
      assert.include(String(error.message), "shorten the request")
    })
  )
})

describe("a quota that the server renews after hours", () => {
  for (const [message, code] of [
    ["Daily request limit of 50 reached.", "rate_limit_exceeded"],
    [
      "You have reached your token limit for today. Please reduce the length of your prompt.",
      "rate_limit_error"
    ],
    ["You've exceeded your weekly limit.", "usage_limit_reached"],
    ["You're out of extra usage. Add more at claude.ai/settings/usage and keep going.", "rate_limit_error"],
    [
      "You've reached your usage limit for this billing cycle. Your quota will be refreshed in the next cycle.",
      "permission_error"
    ]
  ]) {
    it.live(`keeps its key out for an hour, after one request: ${message}`, () =>
      Effect.gen(function* () {
        const first = yield* RawServer.start((response) =>
          RawServer.json(response, 429, { error: { message, code } })
        )
        const second = yield* good()
        const { events, layer } = over([vendors.chat(first.url)(plain), vendors.anthropic(second.url)(plain)])
        yield* Effect.all([ask, ask, ask]).pipe(Effect.provide(layer))
        assert.deepStrictEqual([first.hits.length, second.hits.length], [1, 3])
        assert.deepStrictEqual(
          events
            .filter(({ _tag }) => _tag === "CooldownOpened")
            .map(({ reason, length }) => [reason, Math.round(Number(length))]),
          [["RateLimit", 3_600_000]]
        )
        assert.notInclude(
          events.map(({ _tag }) => _tag),
          "CallCompacting"
        )
      })
    )
  }

  it.live("keeps its key out until the time that its sentence names", () =>
    Effect.gen(function* () {
      const first = yield* RawServer.start((response) => {
        response.writeHead(429, { "content-type": "application/json", date: "Sun, 29 Nov 2026 06:00:00 GMT" })
        response.end(
          JSON.stringify({ error: { message: "Usage limit reached · resets 3pm (America/New_York)" } })
        )
      })
      const second = yield* good()
      const { events, layer } = over([vendors.chat(first.url)(plain), vendors.anthropic(second.url)(plain)])
      yield* ask.pipe(Effect.provide(layer))
      assert.deepStrictEqual(
        events
          .filter(({ _tag }) => _tag === "CooldownOpened")
          .map(({ length }) => Math.round(Number(length))),
        [14 * 3_600_000]
      )
    })
  )
})

describe("a gateway's 500", () => {
  for (const [message, reason] of [
    [
      "litellm.BadRequestError: AnthropicException - prompt is too long: 208310 tokens > 200000 maximum",
      "ContextOverflow"
    ],
    ["Error from provider: You have exceeded the rate limit for requests per minute", "RateLimit"],
    ["upstream returned: Incorrect API key provided", "Auth"]
  ]) {
    it.live(`is read by the sentence inside: ${reason}`, () =>
      Effect.gen(function* () {
        const first = yield* RawServer.start((response) =>
          RawServer.json(response, 500, { error: { message, type: "internal_server_error", code: "500" } })
        )
        const second = yield* good()
        const { events, layer } = over([vendors.chat(first.url)(plain), vendors.anthropic(second.url)(plain)])
        yield* ask.pipe(Effect.provide(layer))
        const failed = events.find(({ _tag }) => _tag === "AttemptFailed")
        assert.strictEqual(failed?.["reason"], reason)
      })
    )
  }
})
