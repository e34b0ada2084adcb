/** A tracer that keeps its spans, as an exporter would see them. */
import { Cause, Layer, Option, Tracer } from "effect"

export interface Seen {
  readonly name: string
  readonly parent: string | undefined
  readonly kind: Tracer.SpanKind
  readonly attributes: Readonly<Record<string, unknown>>
  readonly events: ReadonlyArray<readonly [name: string, attributes: Record<string, unknown>]>
  /** `ok`, `interrupted`, the text of its error, or `open` for a span that has not ended. */
  readonly end: string
}

export const tracing = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  const seen = (): ReadonlyArray<Seen> =>
    spans.map((span) => ({
      name: span.name,
      parent: Option.match(span.parent, {
        onNone: () => undefined,
        onSome: (parent) => (parent._tag === "Span" ? parent.name : "external")
      }),
      kind: span.kind,
      attributes: Object.fromEntries(span.attributes),
      events: span.events.map(([name, , attributes]) => [name, attributes ?? {}] as const),
      end: endOf(span)
    }))
  return {
    layer: Layer.succeed(Tracer.Tracer, tracer),
    seen,
    named: (name: string) => seen().filter((span) => span.name === name),
    /** All that an exporter may send, as one text. */
    text: () =>
      JSON.stringify([
        seen(),
        spans.map(({ status }) => (status._tag === "Ended" ? printed(status.exit) : ""))
      ])
  }
}

type Exit = Extract<Tracer.SpanStatus, { readonly _tag: "Ended" }>["exit"]

const endOf = ({ status }: Tracer.Span): string => {
  if (status._tag === "Started") return "open"
  if (status.exit._tag === "Success") return "ok"
  if (Cause.hasInterruptsOnly(status.exit.cause)) return "interrupted"
  return Cause.prettyErrors(status.exit.cause)[0]?.message ?? "failed"
}

const printed = (exit: Exit): string =>
  exit._tag === "Success"
    ? ""
    : Cause.prettyErrors(exit.cause, { includeCauseInStack: true })
        .map(({ name, message, stack }) => `${name} ${message} ${stack}`)
        .join("\n")
