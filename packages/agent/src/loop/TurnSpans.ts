/**
 * One span for each turn of a run, where the program has a tracer. A turn has no effect of its own: its span begins with
 * its first action, is the parent of what its actions do, and ends when another turn begins or the run ends.
 */
import { Effect, Exit } from "effect"
import type { Fiber, Tracer } from "effect"
import * as Spans from "../telemetry/Spans.ts"
import type { Passed } from "./Transition.ts"

export class TurnSpans {
  readonly #fiber: Fiber.Fiber<unknown, unknown>
  #open: { readonly turn: number; readonly span: Tracer.Span } | undefined

  private constructor(fiber: Fiber.Fiber<unknown, unknown>) {
    this.#fiber = fiber
  }

  /** `undefined` for a program without a tracer. */
  static of(fiber: Fiber.Fiber<unknown, unknown>): TurnSpans | undefined {
    return Spans.isTraced(fiber) ? new TurnSpans(fiber) : undefined
  }

  /** Performs an action of a turn inside the span of the turn. */
  within<A, E, R>(turn: number, action: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    if (this.#open?.turn === turn) return Spans.inside(this.#open.span, action)
    this.end(Exit.void)
    return Effect.flatMap(Spans.make("outlast.turn", { attributes: { "outlast.turn": turn } }), (span) => {
      this.#open = { turn, span }
      return Spans.inside(span, action)
    })
  }

  /** The turn ended with these transitions; the last one says what comes next. */
  passed(transitions: ReadonlyArray<Passed>): void {
    const last = transitions.at(-1)
    if (last === undefined || this.#open === undefined) return
    Spans.annotate(this.#open.span, { "outlast.transition": last.transition })
  }

  /** Ends the span of the current turn. */
  end(exit: Exit.Exit<unknown, unknown>): void {
    if (this.#open === undefined) return
    Spans.end(this.#fiber, this.#open.span, exit)
    this.#open = undefined
  }
}
