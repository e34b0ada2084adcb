/** Complete answers of the vendors' targets, streamed inside: they equal the answers to plain requests. */
import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource, RecoveryPolicy } from "@outlast/agent"
import type { ModelInfo, ProviderModel } from "@outlast/agent"
import { Anthropic, Google, OpenAi, OpenAiCompatible, toAiSdk } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import { ResilienceEvents } from "@outlast/resilience"
import { generateText } from "ai"
import { Deferred, Duration, Effect, Redacted, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import * as Net from "node:net"
import * as Support from "./support.ts"

const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789abcdef"))]
type Info = ModelInfo.ModelInfo

const vendors = {
  anthropic: (server: FakeProvider.FakeProvider, info: Info = {}) =>
    Anthropic.model("claude-sonnet-4-5", { keys, info, baseUrl: server.baseUrl("anthropic") }),
  openai: (server: FakeProvider.FakeProvider, info: Info = {}) =>
    OpenAi.chatModel("gpt-4o", { keys, info, baseUrl: server.baseUrl("openai") }),
  responses: (server: FakeProvider.FakeProvider, info: Info = {}) =>
    OpenAi.model("gpt-5", { keys, info, baseUrl: server.baseUrl("openai") }),
  google: (server: FakeProvider.FakeProvider, info: Info = {}) =>
    Google.model("gemini-3-flash", { keys, info, baseUrl: server.baseUrl("google") })
}
const compatible = (server: FakeProvider.FakeProvider, info: Info = {}) =>
  OpenAiCompatible.model({ name: "local", model: "gpt-4o", keys, info, baseUrl: server.baseUrl("openai") })

const Weather = Toolkit.make(
  Tool.make("weather", { parameters: Schema.Struct({ city: Schema.String }), success: Schema.String })
)
const weather = Weather.toLayer({ weather: () => Effect.succeed("sunny") })

const call: FaultPlan.FaultPlan["answers"] = [
  {
    reasoning: "Where is it warm?",
    text: "I look it up.",
    toolCalls: [{ id: "call_1", name: "weather", params: { city: "Oslo" } }],
    // Anthropic's streams send tools in a slightly different form, which the fake server would count.
    usage: { input: 40, output: 10 }
  }
]
const askCall = LanguageModel.generateText({ prompt: "Where is it warm?", toolkit: Weather }).pipe(
  Effect.provide(weather)
)

const object: FaultPlan.FaultPlan["answers"] = [{ text: '{"city":"Oslo"}' }]
const askObject = LanguageModel.generateObject({
  prompt: "Where is it warm?",
  schema: Schema.Struct({ city: Schema.String })
})

/** Fields that servers and clients generate for each response. */
const invented = new Set([
  "id",
  "itemId",
  "responseId",
  "timestamp",
  "signature",
  "thoughtSignature",
  "endpoint"
])

/** The part as plain data, with a dot for each generated field. */
const plain = (part: unknown): unknown =>
  JSON.parse(JSON.stringify(part), (field, value: unknown) => (invented.has(field) ? "." : value))

type Targets = (server: FakeProvider.FakeProvider, info?: Info) => ProviderModel.TargetSpec

/** The parts of an answer, streamed inside and requested plainly. */
const inBoth = <E>(
  target: Targets,
  answers: FaultPlan.FaultPlan["answers"],
  ask: Effect.Effect<
    Pick<LanguageModel.GenerateTextResponse<{}>, "text" | "usage"> & {
      readonly content: ReadonlyArray<unknown>
    },
    E,
    LanguageModel.LanguageModel
  >
) =>
  Effect.forEach(["stream", "request"] as const, (wholeAnswers) =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers } })
      const answer = yield* ask.pipe(Effect.provide(Failover.layer([target(server, { wholeAnswers })])))
      const [request] = yield* server.requests
      assert.strictEqual(request?.streaming, wholeAnswers === "stream")
      const parts = answer.content.map(plain)
      return { parts, text: answer.text, usage: answer.usage }
    })
  )

describe("a whole answer that is streamed inside", () => {
  for (const [name, target] of Object.entries({ ...vendors, compatible })) {
    it.effect(`has the content and usage of the answer to a request: ${name}`, () =>
      Effect.gen(function* () {
        const [streamed, requested] = yield* inBoth(target, call, askCall)
        assert.deepStrictEqual(streamed, requested)
        assert.strictEqual(streamed?.text, "I look it up.")
        assert.isAbove(streamed?.usage.outputTokens.total ?? 0, 0)
      })
    )

    it.effect(`has the object of the answer to a request: ${name}`, () =>
      Effect.gen(function* () {
        const [streamed, requested] = yield* inBoth(target, object, askObject)
        assert.deepStrictEqual(streamed, requested)
        assert.strictEqual(streamed?.text, '{"city":"Oslo"}')
      })
    )
  }

  it.effect("is requested by the vendors' own targets only", () =>
    Effect.gen(function* () {
      for (const [name, target] of Object.entries({ ...vendors, compatible })) {
        const server = yield* FakeProvider.make({ plan: { answers: [{ text: "hello" }] } })
        yield* LanguageModel.generateText({ prompt: "hello" }).pipe(
          Effect.provide(Failover.layer([target(server)]))
        )
        const [request] = yield* server.requests
        assert.strictEqual(request?.streaming, name !== "compatible", name)
      }
    })
  )

  it.effect("is requested plainly under toAiSdk, which keeps the form of the call", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [{ text: "hello" }] } })
      const model = yield* Effect.acquireRelease(
        Effect.sync(() => toAiSdk(Failover.layer([vendors.anthropic(server)]))),
        (model) => Effect.promise(() => model.dispose())
      )
      const { text } = yield* Effect.promise(() => generateText({ model, prompt: "hello" }))
      const [request] = yield* server.requests
      assert.deepStrictEqual([text, request?.streaming], ["hello", false])
    })
  )
})

// -----------------------------------------------------------------------------
// Silent vendors
// -----------------------------------------------------------------------------

/** Accepts connections, reads the request, and answers with `said` only. */
const silent = (said = "") =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly hits: () => number; readonly close: () => void }>(
      (resume) => {
        let hits = 0
        const sockets = new Set<Net.Socket>()
        const server = Net.createServer((socket) => {
          sockets.add(socket)
          socket.on("error", () => {})
          socket.once("data", () => {
            hits++
            if (said !== "") socket.write(said)
          })
        })
        const close = () => {
          server.close()
          for (const socket of sockets) socket.destroy()
        }
        server.listen(0, "127.0.0.1", () => {
          // A server that listens on a port has an address of this kind.
          const { port } = server.address() as Net.AddressInfo
          resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, hits: () => hits, close }))
        })
      }
    ),
    ({ close }) => Effect.sync(close)
  )

/** The default policy with short limits, and without waits for a model that is out. */
const hasty: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive),
  patience: Duration.zero,
  limits: {
    ...RecoveryPolicy.interactive.limits,
    firstToken: Duration.millis(500),
    firstTokenReasoning: Duration.millis(500),
    total: Duration.seconds(30)
  }
}

const recorded = () => {
  const lines: Array<string> = []
  const layer = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => {
      const { _tag, rule, scope } = event as { _tag: string; rule?: string; scope?: string } // events are such records
      if (_tag === "AttemptFailed" || _tag === "CooldownOpened") lines.push(`${_tag} ${rule ?? scope}`)
    })
  )
  return { lines, layer }
}

describe("a vendor that accepts and never answers", () => {
  const whole = Effect.map(LanguageModel.generateText({ prompt: "hello" }), ({ text }) => text)
  const streamed = LanguageModel.streamText({ prompt: "hello" }).pipe(
    Stream.runFold(
      () => "",
      (said, part) => (part.type === "text-delta" ? said + part.delta : said)
    )
  )
  for (const [name, first, second] of [
    ["whole, then streamed", whole, streamed],
    ["streamed, then whole", streamed, whole]
  ] as const) {
    it.live(`delays the first call by one limit, and later calls not at all: ${name}`, () =>
      Effect.gen(function* () {
        const { lines, layer } = recorded()
        const vendor = yield* silent()
        const ready = yield* FakeProvider.make({ plan: { answers: [{ text: "hello" }] } })
        const chain = Failover.layer(
          [Anthropic.model("claude-sonnet-4-5", { keys, baseUrl: vendor.url }), vendors.openai(ready)],
          { policy: hasty }
        )
        const said = yield* Effect.all([first, second, whole, streamed]).pipe(
          Effect.provide(chain),
          Effect.provide(layer)
        )
        assert.deepStrictEqual(said, ["hello", "hello", "hello", "hello"])
        assert.strictEqual(vendor.hits(), 1)
        assert.deepStrictEqual(lines, ["AttemptFailed limit/first-token", "CooldownOpened model"])
      }).pipe(Effect.scoped)
    )
  }

  it.live(
    "is detected by the total limit, too, when complete answers are requests, but not after its headers",
    () =>
      Effect.gen(function* () {
        const policy = { ...hasty, limits: { ...hasty.limits, total: Duration.millis(1_500) } }
        const ready = yield* FakeProvider.make({ plan: { answers: [{ text: "hello" }] } })
        for (const [said, expected] of [
          ["", ["AttemptFailed limit/total", "CooldownOpened model"]],
          [
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
            ["AttemptFailed limit/total"]
          ]
        ] as const) {
          const { lines, layer } = recorded()
          const vendor = yield* silent(said)
          const first = OpenAiCompatible.model({ name: "local", model: "gpt-4o", keys, baseUrl: vendor.url })
          const text = yield* whole.pipe(
            Effect.provide(Failover.layer([first, vendors.anthropic(ready)], { policy })),
            Effect.provide(layer)
          )
          assert.strictEqual(text, "hello")
          assert.deepStrictEqual(lines, [...expected])
        }
      }).pipe(Effect.scoped)
  )

  it.live("passes on its headers when they arrive, before the body", () =>
    Effect.gen(function* () {
      const vendor = yield* silent(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nX-Ratelimit-Remaining-Requests: 7\r\ncontent-length: 9\r\n\r\n{"
      )
      const heard = yield* Deferred.make<unknown>()
      const context = yield* Effect.context<never>()
      const spec = OpenAiCompatible.model({ name: "local", model: "m", keys, baseUrl: vendor.url })
      yield* Effect.forkChild(
        Support.generate(spec, "hello", {
          heard: (headers) => void Effect.runForkWith(context)(Deferred.succeed(heard, headers))
        })
      )
      assert.deepInclude(yield* Deferred.await(heard), { "x-ratelimit-remaining-requests": "7" })
    }).pipe(Effect.scoped)
  )
})

// -----------------------------------------------------------------------------
// Vendors that refuse to stream
// -----------------------------------------------------------------------------

describe("a vendor that refuses to stream", () => {
  const message = {
    type: "message",
    id: "msg_1",
    role: "assistant",
    model: "claude-sonnet-4-5",
    content: [{ type: "text", text: "hello" }],
    stop_reason: "end_turn",
    usage: { input_tokens: 1, output_tokens: 1 }
  }
  it.effect("gets a plain request, and after one refusal only such requests for the life of the layer", () =>
    Effect.gen(function* () {
      const { lines, layer } = recorded()
      const server = yield* Support.serve((response, { body }) => {
        if (body.stream !== true) return Support.json(response, message)
        const error = { type: "invalid_request_error", message: "Streaming is not supported for this model." }
        Support.json(response, { type: "error", error }, 400)
      })
      const ask = Effect.map(LanguageModel.generateText({ prompt: "hello" }), ({ text }) => text)
      const said = yield* Effect.all([ask, ask]).pipe(
        Effect.provide(
          Failover.layer([Anthropic.model("claude-sonnet-4-5", { keys, baseUrl: server.url })], {
            policy: { ...hasty, maxAttempts: 1 }
          })
        ),
        Effect.provide(layer)
      )
      assert.deepStrictEqual(said, ["hello", "hello"])
      assert.deepStrictEqual(
        server.hits.map(({ body }) => body.stream === true),
        [true, false, false]
      )
      assert.deepStrictEqual(lines, [])
    })
  )
})
