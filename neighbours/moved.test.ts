/**
 * Programs with other packages for fallback models, before and after they moved to Outlast.
 */
import { OpenTelemetry } from "@ai-sdk/otel"
import { context, trace } from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base"
import { outlast } from "@outlast/ai-sdk"
import { assert, describe, it } from "@effect/vitest"
import { generateText, registerTelemetry } from "ai"
import { createFallback } from "ai-fallback"
import { createRetryableModel, httpStatus } from "ai-retry/language-model"
import { world } from "./support.ts"

const said = [{ text: "Hello." }]

describe("ai-retry", () => {
  it("switches to the second model, and so does Outlast, which then leaves the first one alone", async () => {
    await using before = await world(said)
    const retryable = createRetryableModel({
      model: before.first,
      retries: [httpStatus(401).switch({ model: before.second })]
    })
    for (let i = 0; i < 3; i++) {
      const { text } = await generateText({ model: retryable, prompt: "Hi", maxRetries: 0 })
      assert.strictEqual(text, "Hello.")
    }
    await using after = await world(said)
    for (let i = 0; i < 3; i++) {
      const { text } = await generateText({ model: after.agent.model, prompt: "Hi" })
      assert.strictEqual(text, "Hello.")
    }
    assert.deepStrictEqual(await after.requests(), { refused: 1, answered: 3 })
    assert.isAtLeast((await before.requests()).refused, 1)
  })
})

describe("ai-fallback", () => {
  it("falls back to the second model, and so does Outlast", async () => {
    await using before = await world(said)
    const fallback = createFallback({ models: [before.first, before.second] })
    assert.strictEqual((await generateText({ model: fallback, prompt: "Hi", maxRetries: 0 })).text, "Hello.")
    await using after = await world(said)
    assert.strictEqual((await generateText({ model: after.agent.model, prompt: "Hi" })).text, "Hello.")
  })

  it("may be a model of the chain, while a program moves", async () => {
    await using it = await world(said)
    const fallback = createFallback({ models: [it.first, it.second] })
    await using agent = outlast({ models: [fallback], log: false })
    assert.strictEqual((await generateText({ ...agent.with(), prompt: "Hi" })).text, "Hello.")
  })
})

describe("OpenTelemetry", () => {
  it("shows calls and attempts below the spans of the AI SDK", async () => {
    const exporter = new InMemorySpanExporter()
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    trace.setGlobalTracerProvider(provider)
    registerTelemetry(new OpenTelemetry())
    await using it = await world(said)
    await using agent = outlast({
      models: [it.first, it.second],
      tracer: trace.getTracer("outlast"),
      log: false
    })
    await generateText({ ...agent.with(), prompt: "Hi" })
    const spans = exporter.getFinishedSpans()
    const own = spans.filter(({ instrumentationScope }) => instrumentationScope.name === "outlast")
    assert.isAtLeast(own.length, 3)
    const theirs = new Set(
      spans.filter((span) => !own.includes(span)).map((span) => span.spanContext().spanId)
    )
    assert.isAtLeast(theirs.size, 1)
    assert.isTrue(own.every(({ parentSpanContext }) => theirs.has(parentSpanContext?.spanId ?? "")))
  })
})
