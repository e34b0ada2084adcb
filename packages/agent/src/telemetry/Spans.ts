/**
 * Spans of runs, turns, attempts, tools and compactions, for programs that provide a tracer.
 *
 * Names follow OpenTelemetry's conventions for generative AI: `invoke_agent`, `chat MODEL`, `execute_tool NAME`, with
 * `gen_ai.*` attributes. What they have no name for is `outlast.*`. `docs/do/telemetry.md` lists all of them. The span of a
 * call is the one that effect/ai makes: `LanguageModel.generateText`.
 *
 * A span has no content: no prompt, no answer, no arguments and no results of tools. The end of a span names the kind of
 * the error, and what Outlast itself says of it. Messages of tools and of providers may quote content and are left out.
 *
 * **Cost.** Without a tracer, which means with the default one of Effect, no span is made: each place looks up the tracer
 * of the fiber.
 */
import { Cause, Clock, Effect, Exit, Predicate, References, Tracer } from "effect"
import type { Fiber } from "effect"

export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>

/** True when the program has provided a tracer, and tracing is on. */
export const isTraced = (fiber: Fiber.Fiber<unknown, unknown>): boolean =>
  fiber.getRef(Tracer.Tracer) !== Tracer.nativeTracer && fiber.getRef(References.TracerEnabled)

/** Sets the attributes that have a value. */
export const annotate = (span: Tracer.Span, attributes: Attributes): void => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) span.attribute(name, value)
  }
}

export interface Options<A = unknown, E = unknown> {
  readonly kind?: Tracer.SpanKind | undefined
  readonly parent?: Tracer.AnySpan | undefined
  readonly attributes: Attributes
  /** Adds the attributes that are known at the end. */
  readonly ended?: ((exit: Exit.Exit<A, E>) => Attributes) | undefined
  /** Text for an error, without content. Default: its kind alone. */
  readonly messageOf?: ((error: unknown) => string | undefined) | undefined
}

/** Makes a span. The caller ends it with {@link end}. */
export const make = (
  name: string,
  { kind, parent, attributes }: Pick<Options, "attributes" | "kind" | "parent">
): Effect.Effect<Tracer.Span> =>
  Effect.map(Effect.makeSpan(name, { kind, parent }), (span) => {
    annotate(span, attributes)
    return span
  })

/** Runs the effect inside a new span. Without a tracer it returns the effect itself. */
export const around = <A, E, R>(
  name: string,
  options: Options<A, E>,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) =>
    isTraced(fiber)
      ? Effect.flatMap(make(name, options), (span) =>
          Effect.onExit(inside(span, effect), (exit) =>
            Effect.sync(() => {
              if (options.ended !== undefined) annotate(span, options.ended(exit))
              end(fiber, span, exit, options.messageOf)
            })
          )
        )
      : effect
  )

/** Runs the effect with `span` as the parent of the spans that it makes. */
export const inside = <A, E, R>(span: Tracer.Span, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.provideService(effect, Tracer.ParentSpan, span) as Effect.Effect<A, E, R>

/** Ends a span with the kind of its error in `error.type`. Ending it again changes nothing. */
export const end = (
  fiber: Fiber.Fiber<unknown, unknown>,
  span: Tracer.Span,
  exit: Exit.Exit<unknown, unknown>,
  messageOf?: Options["messageOf"]
): void => {
  if (span.status._tag === "Ended") return
  const now = fiber.getRef(Clock.Clock).currentTimeNanosUnsafe()
  if (Exit.isSuccess(exit)) return span.end(now, Exit.void)
  if (Cause.hasInterruptsOnly(exit.cause)) return span.end(now, Exit.interrupt())
  const error = Cause.squash(exit.cause)
  const kind = kindOf(error)
  annotate(span, { "error.type": kind })
  span.end(now, Exit.fail(shown(kind, messageOf?.(error) ?? kind)))
}

/** The reason of a failure, or the tag or the name of an error. */
export const kindOf = (error: unknown): string => {
  if (Predicate.hasProperty(error, "reason")) {
    const { reason } = error
    if (typeof reason === "string") return reason
    if (Predicate.hasProperty(reason, "_tag") && typeof reason._tag === "string") {
      return reason._tag === "ProviderFailure" ? kindOf(reason) : reason._tag
    }
  }
  if (Predicate.hasProperty(error, "_tag") && typeof error._tag === "string") return error._tag
  return Predicate.isError(error) ? error.name : "Error"
}

/** An error for the tracer, without a stack: exporters send the stacks of errors and of their causes. */
const shown = (kind: string, message: string): Error => {
  const error = new Error(message)
  error.name = kind
  error.stack = `${kind}: ${message}`
  return error
}
