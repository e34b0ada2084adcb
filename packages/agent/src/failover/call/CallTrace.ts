/**
 * The spans of one call, where the program has a tracer.
 *
 * The span of the call is the one that effect/ai makes. It gets the outcome of the call, and an event for each wait on
 * our side. Each attempt is a child of it: a `chat MODEL` span with the `gen_ai.*` attributes. Tokens stand at attempts
 * alone, so that a sum over all spans counts them once.
 */
import { Clock, Effect, Exit } from "effect"
import type { Fiber, Tracer } from "effect"
import type { LanguageModel, Response } from "effect/ai"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { whatHappened } from "../../failure/reasons/ProviderFailure.ts"
import * as Spans from "../../telemetry/Spans.ts"
import * as OutputLimit from "../decide/OutputLimit.ts"
import type { Attempt } from "./Attempt.ts"
import type { CallWaited } from "./CallEvent.ts"

/** How a call ended. The counter `outlast_calls_total` has the same words. */
export type Outcome = "answered" | "recovered" | "failed" | "abandoned"

type Spanned = Pick<Attempt, "span">

export class CallTrace {
  readonly #fiber: Fiber.Fiber<unknown, unknown>
  readonly #call: Tracer.Span
  /** Spans of the attempts in flight. */
  readonly #open = new Set<Tracer.Span>()
  #attempts = 0
  #failed = 0
  #hasEnded = false

  private constructor(fiber: Fiber.Fiber<unknown, unknown>, call: Tracer.Span) {
    this.#fiber = fiber
    this.#call = call
  }

  /** `undefined` for a program without a tracer. */
  static of(
    fiber: Fiber.Fiber<unknown, unknown>,
    { span }: LanguageModel.ProviderOptions
  ): CallTrace | undefined {
    return Spans.isTraced(fiber) ? new CallTrace(fiber, span) : undefined
  }

  /** Begins the span of an attempt. */
  begin({ target, outputLimit }: Pick<Attempt, "outputLimit" | "target">): Effect.Effect<Tracer.Span> {
    const { ref, info } = target
    const span = Spans.make(`chat ${ref.model}`, {
      kind: "client",
      parent: this.#call,
      attributes: {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": providerOf(ref),
        "gen_ai.request.model": ref.model,
        "gen_ai.request.max_tokens": OutputLimit.within(outputLimit, info),
        "server.address": hostOf(ref),
        "outlast.attempt": ++this.#attempts,
        "outlast.target": ref.id
      }
    })
    return Effect.map(span, (span) => {
      this.#open.add(span)
      return span
    })
  }

  /** The attempt failed. The provider's own sentence is left out: it may quote the request. */
  failed({ span }: Spanned, failure: ProviderFailure): void {
    this.#failed++
    if (span === undefined) return
    const { evidence, reason } = failure
    Spans.annotate(span, {
      "error.type": reason._tag,
      "http.response.status_code": evidence.status,
      "outlast.evidence.rule": evidence.rule
    })
    this.#end(span, Exit.fail(failure), `${failure.target?.id}: ${whatHappened(failure)}.`)
  }

  /** The attempt gave an answer, or a part of one that the output limit cut. */
  answered({ span }: Spanned): void {
    this.#end(span, Exit.void)
  }

  /** Another attempt of the call has sent content first, and this one was aborted. */
  overtaken({ span }: Spanned): void {
    if (span === undefined) return
    Spans.annotate(span, { "outlast.overtaken": true })
    this.#end(span, Exit.interrupt())
  }

  /** A wait on our side is over. */
  waited({ reason, target, elapsed }: Pick<CallWaited, "elapsed" | "reason" | "target">): void {
    const now = this.#fiber.getRef(Clock.Clock).currentTimeNanosUnsafe()
    this.#call.event("outlast.waited", now, { reason, target: target.id, seconds: elapsed / 1_000 })
  }

  /** The call is answered by `target`. */
  succeeded(attempt: Spanned, { id }: TargetRef, costUsd: number | undefined): void {
    this.answered(attempt)
    this.#outcome(this.#failed === 0 ? "answered" : "recovered", {
      "outlast.target": id,
      "outlast.cost_usd": costUsd
    })
  }

  gaveUp(failure: CallFailure): void {
    this.#outcome("failed", { "error.type": Spans.kindOf(failure) })
  }

  /** The program stopped waiting for the answer. */
  abandoned(): void {
    for (const span of this.#open) this.#end(span, Exit.interrupt())
    this.#outcome("abandoned", {})
  }

  /** The first outcome counts. */
  #outcome(outcome: Outcome, attributes: Spans.Attributes): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    Spans.annotate(this.#call, {
      "outlast.outcome": outcome,
      "outlast.attempts": this.#attempts,
      ...attributes
    })
  }

  #end(span: Tracer.Span | undefined, exit: Exit.Exit<unknown, unknown>, message?: string): void {
    if (span === undefined || !this.#open.delete(span)) return
    Spans.end(this.#fiber, span, exit, () => message)
  }
}

/** Writes what an answer says of itself into the span of its attempt. */
export const part = (span: Tracer.Span, part: Response.AllPartsEncoded): void => {
  if (part.type === "response-metadata") {
    Spans.annotate(span, { "gen_ai.response.id": part.id, "gen_ai.response.model": part.modelId })
  } else if (part.type === "finish") {
    span.attribute("gen_ai.response.finish_reasons", [part.reason])
    Spans.annotate(span, {
      "gen_ai.usage.input_tokens": part.usage.inputTokens.total,
      "gen_ai.usage.output_tokens": part.usage.outputTokens.total,
      "gen_ai.usage.cache_read.input_tokens": part.usage.inputTokens.cacheRead,
      "gen_ai.usage.cache_creation.input_tokens": part.usage.inputTokens.cacheWrite
    })
  }
}

/** The name of a provider in OpenTelemetry's conventions, where it differs from ours. */
const conventional: ReadonlyMap<string, string> = new Map([
  ["google", "gcp.gemini"],
  ["bedrock", "aws.bedrock"]
])

const providerOf = ({ provider }: TargetRef): string => conventional.get(provider) ?? provider

/** The host alone: an address may have a path, or a user. */
const hostOf = ({ endpoint }: TargetRef): string | undefined =>
  URL.canParse(endpoint) ? new URL(endpoint).hostname : undefined
