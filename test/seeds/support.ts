/** Fixtures: scripted models in virtual time, the lines of the log, and events. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Clock, Effect, Fiber, Logger, Option, Random, Redacted } from "effect"
import type { AiError } from "effect/ai"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Classifier, KeySource, Outlast, ProviderFailure } from "@outlast/agent"
import type { EventLine, FailoverReason } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"

export const ask = LanguageModel.generateText({ prompt: "What is the plan?" })

export const status = (code: number, headers: Record<string, string> = {}): FaultPlan.Fault => ({
  type: "status",
  status: code,
  headers
})
export const reset: FaultPlan.Fault = { type: "reset" }
export const always = (fault: FaultPlan.Fault): FaultPlan.Step => ({ times: "always", fault })

export const key = (name: string) => KeySource.value(name, Redacted.make(`secret-of-${name}`))

/** A provider's model with these failures, which then answers hello. */
export const model = (
  provider: string,
  name: string,
  faults: ReadonlyArray<FaultPlan.Step> = [],
  options: Partial<ScriptedModel.Options> = {}
) =>
  ScriptedModel.make({
    provider,
    model: name,
    plan: { answers: () => ({ text: "hello" }), faults },
    ...options
  })

export const timesOf = (target: ScriptedModel.ScriptedModel) =>
  Effect.map(target.requests, (requests) => requests.map(({ time }) => time))

/** The milliseconds between each request to a target and the next. */
export const waitsOf = (target: ScriptedModel.ScriptedModel) =>
  Effect.map(timesOf(target), (times) => times.slice(1).map((time, n) => time - (times[n] ?? 0)))

/** Makes every draw this number: the shortest waits with 0, the longest with 1. */
export const drawing = (draw: number) =>
  Effect.provideService(Random.Random, { nextDoubleUnsafe: () => draw, nextIntUnsafe: () => 0 })

/** Runs an effect in virtual time, far enough for it to end. */
export const inTime = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect)
    yield* TestClock.adjust("2 hours")
    return yield* Fiber.join(fiber)
  })

/** The result of an effect, and the milliseconds of virtual time that it took. */
export const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const began = yield* Clock.currentTimeMillis
    const value = yield* effect
    return { value, took: (yield* Clock.currentTimeMillis) - began }
  })

export const failureOf = <A, R>(effect: Effect.Effect<A, AiError.AiError, R>) =>
  Effect.map(Effect.flip(effect), (error) => Option.getOrThrow(Outlast.failureOf(error)))

/** Collects the log lines of a program. */
export const logged = () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => lines.push(`${logLevel}: ${String(message)}`))
  return { lines, layer: Logger.layer([logger]) }
}

/** Collects the events of a program. */
export const recorded = () => {
  const events: Array<EventLine.Event> = []
  // The programs of these tests publish events of these packages only.
  const layer = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => void events.push(event as unknown as EventLine.Event))
  )
  const of = <Tag extends EventLine.Event["_tag"]>(tag: Tag) =>
    events.filter((event): event is Extract<EventLine.Event, { readonly _tag: Tag }> => event._tag === tag)
  return { layer, events, of }
}

/** The failure that the classifier makes of an error with this text. */
export const classified = (text: string): ProviderFailure.ProviderFailure =>
  Effect.runSync(Classifier.failure(new Error(text)))

export const failed = (reason: FailoverReason.FailoverReason) =>
  ProviderFailure.local("test", reason, undefined)

/** A folder of this test, removed at the end of the scope. */
export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "outlast-seeds-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
)
