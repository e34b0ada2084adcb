/**
 * Spans of calls and attempts in the tracer of the program, as children of the span that is active when a call begins.
 *
 * The AI SDK runs a model call inside its own span (`registerTelemetry(new OpenTelemetry())` of `@ai-sdk/otel`), so calls
 * and attempts stand below it. Nothing of OpenTelemetry is imported: a tracer starts its spans in the active context.
 */
import { Cause, Context, Exit, Tracer } from "effect"
import { AsyncLocalStorage } from "node:async_hooks"

type Attribute = string | number | boolean
type Time = [seconds: number, nanoseconds: number]

interface OtelSpan {
  setAttribute(key: string, value: Attribute): unknown
  addEvent(name: string, attributes: Record<string, Attribute>, time: Time): unknown
  setStatus(status: { code: number; message?: string }): unknown
  end(time: Time): void
}

/** A tracer of OpenTelemetry, for example `trace.getTracer("my-app")`. */
export interface OtelTracer {
  startSpan(name: string, options: { kind: number; startTime: Time }): OtelSpan
}

const kinds: Readonly<Record<Tracer.SpanKind, number>> = {
  internal: 0,
  server: 1,
  client: 2,
  producer: 3,
  consumer: 4
}

/** The status of a failed span. */
const failed = 2

/** The context of a call that begins here: its spans are children of the active one. */
export const here = (tracer: OtelTracer): Context.Context<never> => {
  const active = AsyncLocalStorage.snapshot()
  return Context.make(
    Tracer.Tracer,
    Tracer.make({
      span: (options) =>
        new Span(
          options,
          active(() =>
            tracer.startSpan(options.name, {
              kind: kinds[options.kind],
              startTime: timeOf(options.startTime)
            })
          )
        )
    })
  )
}

class Span extends Tracer.NativeSpan {
  readonly #span: OtelSpan

  constructor(options: ConstructorParameters<typeof Tracer.NativeSpan>[0], span: OtelSpan) {
    super(options)
    this.#span = span
  }

  override attribute(key: string, value: unknown): void {
    super.attribute(key, value)
    this.#span.setAttribute(key, attributeOf(value))
  }

  override event(name: string, startTime: bigint, attributes: Record<string, unknown> = {}): void {
    super.event(name, startTime, attributes)
    const entries = Object.entries(attributes).map(([key, value]) => [key, attributeOf(value)])
    this.#span.addEvent(name, Object.fromEntries(entries), timeOf(startTime))
  }

  override end(endTime: bigint, exit: Exit.Exit<unknown, unknown>): void {
    super.end(endTime, exit)
    if (Exit.isFailure(exit)) {
      const error = Cause.squash(exit.cause)
      this.#span.setStatus({ code: failed, message: error instanceof Error ? error.message : "failed" })
    }
    this.#span.end(timeOf(endTime))
  }
}

const attributeOf = (value: unknown): Attribute =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? value
    : (JSON.stringify(value) ?? "")

const second = 1_000_000_000n

const timeOf = (nanoseconds: bigint): Time => [Number(nanoseconds / second), Number(nanoseconds % second)]
