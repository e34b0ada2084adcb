/**
 * Fixtures for calls, streams and runs: virtual time, a record of the events, and a target with scripted parts.
 */
import { Clock, Duration, Effect, Fiber, Option, Redacted, Stream } from "effect"
import type { AiError, Response } from "effect/ai"
import { TestClock } from "effect/testing"
import { FailoverReason, KeySource, Outlast, ProviderFailure, RecoveryPolicy } from "@outlast/agent"
import type { FailoverEvent, ModelInfo, ProviderModel } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"

export const key = (name: string) => KeySource.value(name, Redacted.make(`secret-of-${name}`))
/** The default policy with exact waits and without hedges: `Hedge.test.ts` tests those. */
export const policy: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive),
  hedge: false
}

/** Circuits that open after five consecutive failures, and that allow no call as a last resort. */
export const consecutive = {
  circuits: { trip: { consecutive: { failures: 5 } } },
  lastResort: false
} as const satisfies Partial<RecoveryPolicy.RecoveryPolicy>

/** The policy with cooldowns that the failures of a single call can open. */
export const provenByOneCall = (policy: RecoveryPolicy.RecoveryPolicy): RecoveryPolicy.RecoveryPolicy => ({
  ...policy,
  // Object.entries forgets the key type. The keys are those of `rows`.
  rows: Object.fromEntries(
    Object.entries<RecoveryPolicy.Row>(policy.rows).map(([name, row]) => [
      name,
      { ...row, cooldown: row.cooldown && { ...row.cooldown, proof: "one-call" } }
    ])
  ) as RecoveryPolicy.RecoveryPolicy["rows"]
})

export type Chain = readonly [ProviderModel.TargetSpec, ...Array<ProviderModel.TargetSpec>]

export const rateLimited = (seconds: number): FaultPlan.Fault => ({
  type: "status",
  status: 429,
  headers: { "retry-after": String(seconds) }
})
/** The conversation is larger than the window. */
export const overflow: FaultPlan.Fault = {
  type: "status",
  status: 400,
  body: { type: "error", error: { type: "invalid_request_error", message: "prompt is too long" } }
}

export const status = (code: number): FaultPlan.Fault => ({ type: "status", status: code })

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

export const recording = () => {
  const events: Array<FailoverEvent.FailoverEvent> = []
  const layer = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => {
      // Besides the failover only circuits publish events in these tests.
      if (!event._tag.startsWith("Circuit")) events.push(event as FailoverEvent.FailoverEvent)
    })
  )
  const of = <Tag extends FailoverEvent.FailoverEvent["_tag"]>(tag: Tag) =>
    events.filter(
      (event): event is Extract<FailoverEvent.FailoverEvent, { readonly _tag: Tag }> => event._tag === tag
    )
  return { events, layer, tags: () => events.map((event) => event._tag), of }
}

export const failureOf = <A, R>(effect: Effect.Effect<A, AiError.AiError, R>) =>
  Effect.map(Effect.flip(effect), (error) => Option.getOrThrow(Outlast.failureOf(error)))

// -----------------------------------------------------------------------------
// Parts
// -----------------------------------------------------------------------------

export type Part = Response.StreamPartEncoded

export const text = {
  start: (id = "0"): Part => ({ type: "text-start", id }),
  delta: (delta: string, id = "0"): Part => ({ type: "text-delta", id, delta }),
  end: (id = "0"): Part => ({ type: "text-end", id }),
  /** A complete block. */
  block: (delta: string, id = "0"): ReadonlyArray<Part> => [
    text.start(id),
    text.delta(delta, id),
    text.end(id)
  ]
}

const signature = (signed: string) => ({ vendor: { signature: signed } })

export const thinking = {
  start: (id = "r"): Part => ({ type: "reasoning-start", id }),
  delta: (delta: string, id = "r"): Part => ({ type: "reasoning-delta", id, delta }),
  end: (signed: string, id = "r"): Part => ({ type: "reasoning-end", id, metadata: signature(signed) }),
  block: (delta: string, signed: string, id = "r"): ReadonlyArray<Part> => [
    thinking.start(id),
    thinking.delta(delta, id),
    thinking.end(signed, id)
  ]
}

/** A part without content: a keep-alive. */
export const keepAlive: Part = { type: "response-metadata", id: "response" }

export const toolCall = (
  id: string,
  options: { readonly providerExecuted?: boolean; readonly name?: string } = {}
) => ({ type: "tool-call", id, name: "search", params: {}, ...options }) satisfies Part

const usage = (tokens: number): Response.FinishPartEncoded["usage"] => ({
  inputTokens: { uncached: 0, total: 0, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: tokens, text: tokens, reasoning: undefined }
})

export const finish = (reason: Response.FinishReason = "stop", tokens = 1): Response.FinishPartEncoded => ({
  type: "finish",
  reason,
  usage: usage(tokens)
})

// -----------------------------------------------------------------------------
// A target with scripted parts
// -----------------------------------------------------------------------------

export const failure = (reason: FailoverReason.FailoverReason) =>
  ProviderFailure.local("test", reason, undefined)
/** A rate limit with a Retry-After. */
export const limited = (seconds: number) =>
  new ProviderFailure.ProviderFailure({
    reason: new FailoverReason.RateLimit(),
    evidence: { rule: "test", signal: "local", depth: 0 },
    detail: "",
    retryAfter: Duration.seconds(seconds)
  })
export const serverError = failure(new FailoverReason.ServerError())

/**
 * A stream of these parts. A number is a wait before the next part, in milliseconds. Without a finish the stream is
 * cut.
 */
export const say = (...items: ReadonlyArray<Part | number>): Stream.Stream<Part> => {
  const batches: Array<{ readonly wait: number; readonly parts: Array<Part> }> = [{ wait: 0, parts: [] }]
  for (const item of items) {
    if (typeof item === "number") batches.push({ wait: item, parts: [] })
    else batches.at(-1)?.parts.push(item)
  }
  return Stream.fromIterable(batches).pipe(
    Stream.mapEffect(({ wait, parts }) =>
      wait === 0 ? Effect.succeed(parts) : Effect.as(Effect.sleep(wait), parts)
    ),
    Stream.flattenIterable
  )
}

type Answer = Effect.Effect<Array<Response.PartEncoded>, ProviderFailure.ProviderFailure>

export interface Played extends ProviderModel.TargetSpec {
  /** The requests so far. */
  readonly requests: ReadonlyArray<{ readonly time: number; readonly request: ProviderModel.ProviderRequest }>
}

/** Request n gets stream or answer n. The last one is used for all further requests. */
export const played = (options: {
  readonly streams?: ReadonlyArray<Stream.Stream<Part, ProviderFailure.ProviderFailure>>
  readonly answers?: ReadonlyArray<Answer>
  readonly model?: string
  readonly keys?: ReadonlyArray<KeySource.KeySource>
  readonly info?: ModelInfo.ModelInfo
}): Played => {
  const { streams = [], answers = [], model = "m", keys = [], info = {} } = options
  const requests: Array<Played["requests"][number]> = []
  const ask = (request: ProviderModel.ProviderRequest) =>
    Effect.map(Clock.currentTimeMillis, (time) => requests.push({ time, request }) - 1)
  return {
    provider: "vendor",
    model,
    endpoint: "",
    keys,
    requests,
    build: Effect.succeed({
      info,
      generateText: (request) =>
        Effect.flatMap(ask(request), (n) => answers[n] ?? answers.at(-1) ?? Effect.fail(serverError)),
      streamText: (request) =>
        Stream.unwrap(
          Effect.map(ask(request), (n) => streams[n] ?? streams.at(-1) ?? Stream.fail(serverError))
        )
    })
  }
}

export const timesOf = ({ requests }: Played) => requests.map(({ time }) => time)

/** A complete answer. */
export const answer = (said: string, reason: Response.FinishReason = "stop", tokens = 1): Answer =>
  Effect.succeed([{ type: "text", text: said }, finish(reason, tokens)])

/** The text of the parts of a stream, joined. */
export const textOf = (parts: Iterable<{ readonly type: string; readonly delta?: unknown }>): string =>
  [...parts].map((part) => (part.type === "text-delta" ? String(part.delta) : "")).join("")
