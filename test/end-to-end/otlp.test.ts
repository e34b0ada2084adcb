/**
 * Traces, metrics and logs as OpenTelemetry collectors get them: a real run, Effect's OTLP exporter, and a receiver over
 * HTTP that decodes what was sent.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Metric, Redacted, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { FetchHttpClient } from "effect/http"
import { Otlp } from "effect/observability"
import { Agent, Failover, FailoverMetrics, KeySource, Outlast } from "@outlast/agent"
import { Metrics, ResilienceEvents } from "@outlast/resilience"
import { ScriptedModel } from "@outlast/testing"
import { receiver } from "./OtlpReceiver.ts"

const Look = Tool.make("look", { parameters: Schema.Struct({ at: Schema.String }), success: Schema.String })
const Kit = Toolkit.make(Look)

const planted = [
  "planted-key-Zx9Qw8Er7Ty6Ui5",
  "planted-prompt",
  "planted-argument",
  "planted-result"
] as const
const [key, prompt, argument, result] = planted

/** A run whose first attempt is refused, with everything that exports it. */
const program = (exporter: Layer.Layer<never>) =>
  Effect.gen(function* () {
    const model = yield* ScriptedModel.make({
      provider: "anthropic",
      model: "m",
      endpoint: "https://models.example/v1",
      keys: ["KEY_A", "KEY_B"].map((name) => KeySource.value(name, Redacted.make(key))),
      plan: {
        faults: [
          { fault: { type: "status", status: 401, body: { error: { message: `wrong key ${key}` } } } }
        ],
        answers: [{ toolCalls: [{ name: "look", params: { at: argument } }] }, { text: "done" }]
      }
    })
    const layers = Layer.mergeAll(
      Kit.toLayer({ look: () => Effect.succeed(result) }),
      Failover.layer([model])
    ).pipe(
      Layer.provideMerge(Outlast.layerLog()),
      Layer.provideMerge(FailoverMetrics.layer()),
      Layer.provideMerge(Metrics.layer()),
      Layer.provideMerge(ResilienceEvents.layer()),
      Layer.provideMerge(exporter)
    )
    const outcome = yield* Agent.run({ prompt, toolkit: Kit }).pipe(Effect.provide(layers))
    assert.strictEqual(outcome.status, "completed")
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))

interface Attribute {
  readonly key: string
  readonly value: { readonly stringValue?: string; readonly intValue?: number | string }
}
interface Span {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly kind: number
  readonly attributes: ReadonlyArray<Attribute>
  readonly status: { readonly code: number; readonly message?: string }
}

it.live("a collector gets traces, metrics and logs as JSON, which belong together and have no secret", () =>
  Effect.gen(function* () {
    const { received, url } = yield* receiver
    const exporter = Otlp.layerJson({
      baseUrl: url,
      resource: { serviceName: "otlp-test" },
      loggerMergeWithExisting: false
    }).pipe(Layer.provide(FetchHttpClient.layer))
    yield* program(exporter)
    const bodies = (path: string) =>
      received.filter((one) => one.path === path).map(({ body }) => body.toString("utf8"))
    assert.deepStrictEqual([...new Set(received.map(({ path, type }) => `${path} ${type}`))].toSorted(), [
      "/v1/logs application/json",
      "/v1/metrics application/json",
      "/v1/traces application/json"
    ])

    const spans = bodies("/v1/traces").flatMap((body) =>
      (
        JSON.parse(body) as {
          resourceSpans: ReadonlyArray<{ scopeSpans: ReadonlyArray<{ spans: ReadonlyArray<Span> }> }>
        }
      ).resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
    )
    const byId = new Map(spans.map((span) => [span.spanId, span]))
    const tree = spans.map(
      ({ name, parentSpanId }) => `${byId.get(parentSpanId ?? "")?.name ?? "-"} > ${name}`
    )
    assert.deepStrictEqual(tree.toSorted(), [
      "- > invoke_agent",
      "LanguageModel.generateText > chat m",
      "LanguageModel.generateText > chat m",
      "LanguageModel.generateText > chat m",
      "invoke_agent > outlast.turn",
      "invoke_agent > outlast.turn",
      "outlast.turn > LanguageModel.generateText",
      "outlast.turn > LanguageModel.generateText",
      "outlast.turn > execute_tool look"
    ])
    assert.strictEqual(new Set(spans.map(({ traceId }) => traceId)).size, 1)
    const failed = spans.find(({ status }) => status.code === 2)
    assert.strictEqual(failed?.name, "chat m")
    const attributes = failed?.attributes ?? []
    assert.deepInclude([...attributes], { key: "error.type", value: { stringValue: "Auth" } })
    assert.deepInclude([...attributes], {
      key: "gen_ai.provider.name",
      value: { stringValue: "anthropic" }
    })
    // 3 is a span of a client.
    assert.strictEqual(failed?.kind, 3)

    const metrics = bodies("/v1/metrics").join("\n")
    for (const name of ["outlast_attempts_total", "outlast_attempt_failures_total", "outlast_calls_total"]) {
      assert.include(metrics, `"name":"${name}"`)
    }

    const logs = bodies("/v1/logs").join("\n")
    assert.match(logs, /→ anthropic\/m#KEY_B, attempt 2 after 0\.0 s: Auth \(HTTP 401, rule [\w/-]+\)/)
    // A line of a call names the trace of its run.
    assert.include(logs, `"traceId":"${failed?.traceId}"`)

    const all = received.map(({ body }) => body.toString("utf8")).join("\n")
    for (const secret of planted) assert.notInclude(all, secret)
  }).pipe(Effect.scoped)
)

/** The texts in a protobuf message, found by walking its fields: nested messages and texts have the same wire type. */
const textsIn = (bytes: Buffer): ReadonlyArray<string> => {
  const texts: Array<string> = []
  let at = 0
  const varint = (): number => {
    let value = 0
    for (let shift = 1; ; shift *= 128) {
      const byte = bytes[at++]
      if (byte === undefined) throw new Error("The message is cut.")
      value += (byte & 127) * shift
      if (byte < 128) return value
    }
  }
  while (at < bytes.length) {
    const wire = varint() & 7
    if (wire === 0) varint()
    else if (wire === 1) at += 8
    else if (wire === 5) at += 4
    else if (wire === 2) {
      const length = varint()
      const inner = bytes.subarray(at, at + length)
      if (inner.length < length) throw new Error("The message is cut.")
      at += length
      try {
        texts.push(...textsIn(inner))
      } catch {
        // It is a text and not a message.
      }
      texts.push(inner.toString("utf8"))
    } else throw new Error(`Unknown wire type ${wire}.`)
  }
  if (at !== bytes.length) throw new Error("The message is cut.")
  return texts
}

it.live("a collector gets the same as protobuf", () =>
  Effect.gen(function* () {
    const { received, url } = yield* receiver
    const exporter = Otlp.layerProtobuf({
      baseUrl: url,
      resource: { serviceName: "otlp-test" },
      loggerMergeWithExisting: false
    }).pipe(Layer.provide(FetchHttpClient.layer))
    yield* program(exporter)
    assert.deepStrictEqual([...new Set(received.map(({ type }) => type))], ["application/x-protobuf"])
    const texts = (path: string) =>
      received.filter((one) => one.path === path).flatMap(({ body }) => textsIn(body))
    assert.includeMembers(
      [...texts("/v1/traces")],
      ["invoke_agent", "chat m", "execute_tool look", "gen_ai.request.model"]
    )
    assert.includeMembers([...texts("/v1/metrics")], ["outlast_attempts_total", "outlast_calls_total"])
    assert.isTrue(texts("/v1/logs").some((text) => text.startsWith("→ anthropic/m#KEY_B, attempt 2 after")))
    const all = received.map(({ body }) => body.toString("latin1")).join("\n")
    for (const secret of planted) assert.notInclude(all, secret)
  }).pipe(Effect.scoped)
)
