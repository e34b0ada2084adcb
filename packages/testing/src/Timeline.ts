/**
 * Records what a program does in virtual time, as lines that can be read and compared.
 *
 * {@link record} runs any program under a `TestClock`, moves the clock until the program ends, and returns its events:
 * attempts, waits, switches, circuits, retries, compactions, and your own {@link note}s. Times are relative to the
 * start. The random numbers of the program are fixed, so that two runs give the same lines.
 *
 * Inside a test with a `TestClock` the recorder moves that clock. Without one it brings its own.
 *
 * **Limits.** The program must not wait for anything outside of virtual time, such as a socket or a `ChainStore`: use
 * `ScriptedModel`, not `FakeProvider`. Events of an outer `ResilienceEvents` layer are not recorded, only those published inside.
 *
 * **Example** (What a chain does about a rate limit)
 *
 * ```ts
 * const timeline = yield* Timeline.record(program)
 * timeline.lines
 * // => [ "+0.000s attempt anthropic#1 → RateLimit (429)",
 * //      "+0.000s wait 1.500s (backoff)",
 * //      "+1.500s attempt anthropic#2 → answer",
 * //      "+1.500s end: success" ]
 * ```
 */
import { Cause, Clock, Duration, Effect, Exit, Fiber, Option, Predicate, Random } from "effect"
import { TestClock } from "effect/testing"
import { Options as Check, ResilienceEvents } from "@outlast/resilience"
import * as Lines from "./timeline/Lines.ts"
import { Pace } from "./timeline/Pace.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** A mark of the program in its own timeline. */
export interface Note extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "Note"
  readonly text: string
}

/** One line: its time in milliseconds since the start, and its text without the time. */
export type Entry = Lines.Entry

export interface Timeline<out A = unknown, out E = unknown> {
  /** Everything that was published, with `at` in milliseconds since the start. */
  readonly events: ReadonlyArray<ResilienceEvents.ResilienceEvent>
  readonly entries: ReadonlyArray<Entry>
  /** The entries as text: `+1.500s attempt anthropic#1 → RateLimit (429)`. The last line is the end. */
  readonly lines: ReadonlyArray<string>
  /** `undefined` when the program was still running after `limit`, and was then interrupted. */
  readonly exit: Exit.Exit<A, E> | undefined
  /** Milliseconds of virtual time until the end. */
  readonly elapsed: number
}

export interface Options {
  /** Virtual time after which a program that still runs is interrupted. Default 1 day. */
  readonly limit?: Duration.Input | undefined
  /** Seed of the program's random numbers. Default `"timeline"`. */
  readonly seed?: string | undefined
  /** Tags of the events to keep. Default: all. */
  readonly only?: ReadonlyArray<string> | undefined
}

export const defaults = { limit: "1 day", seed: "timeline" } as const

const { is } = Check

const checks: Check.Checks<Options> = {
  limit: is.duration(),
  seed: is.text,
  only: is.list(is.text)
}

// -----------------------------------------------------------------------------
// Recording
// -----------------------------------------------------------------------------

/** Adds a line to the timeline that records this program. Does nothing where none does. */
export const note = (text: string): Effect.Effect<void> =>
  ResilienceEvents.publishNow<Note>({ _tag: "Note", text })

/** Runs a program in virtual time and records its events. Never fails: the exit is part of the timeline. */
export const record = <A, E, R>(
  program: Effect.Effect<A, E, R>,
  options: Options = {}
): Effect.Effect<Timeline<A, E>, never, R> => {
  Check.fields("Timeline", options, checks)
  return Effect.clockWith((clock) =>
    isTestClock(clock)
      ? recorded(program, options, clock)
      : Effect.scoped(
          Effect.flatMap(TestClock.make(), (own) =>
            Effect.provideService(recorded(program, options, own), Clock.Clock, own)
          )
        )
  )
}

const isTestClock = (clock: Clock.Clock): clock is TestClock.TestClock =>
  Predicate.hasProperty(clock, "adjust") && Predicate.hasProperty(clock, "setTime")

const recorded = <A, E, R>(
  program: Effect.Effect<A, E, R>,
  { limit = defaults.limit, seed = defaults.seed, only }: Options,
  clock: TestClock.TestClock
): Effect.Effect<Timeline<A, E>, never, R> =>
  Effect.gen(function* () {
    const start = yield* Clock.currentTimeMillis
    const events: Array<ResilienceEvents.ResilienceEvent> = []
    let end = start
    const pace = new Pace(clock)
    const handler = ResilienceEvents.layerHandler((event) =>
      Effect.sync(() => {
        if (only?.includes(event._tag) !== false) events.push({ ...event, at: event.at - start })
      })
    )
    const fiber = yield* program.pipe(
      Effect.onExit(() => Effect.map(Clock.currentTimeMillis, (now) => void (end = now))),
      Effect.provide(handler),
      Random.withSeed(seed),
      (program) => pace.fork(program)
    )
    yield* pace.move(fiber, Duration.toMillis(limit))
    const running = fiber.pollUnsafe() === undefined
    if (running) yield* Fiber.interrupt(fiber)
    const exit = yield* Fiber.await(fiber)
    const elapsed = running ? (yield* Clock.currentTimeMillis) - start : end - start
    // Circuits publish from a fiber of their own, so their events may arrive late.
    events.sort((a, b) => a.at - b.at)
    const entries = [...Lines.of(events), { at: elapsed, text: ending(running ? undefined : exit) }]
    return {
      events,
      entries,
      lines: entries.map(Lines.text),
      exit: running ? undefined : exit,
      elapsed
    }
  })

const ending = (exit: Exit.Exit<unknown, unknown> | undefined): string => {
  if (exit === undefined) return "still running"
  if (Exit.isSuccess(exit)) return "end: success"
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (error !== undefined) return `end: failure (${nameOf(error)})`
  return Cause.hasInterruptsOnly(exit.cause) ? "end: interrupted" : "end: defect"
}

const nameOf = (error: unknown): string => {
  if (Predicate.hasProperty(error, "_tag") && typeof error._tag === "string") return error._tag
  return error instanceof Error ? error.name : typeof error === "string" ? error : typeof error
}

// -----------------------------------------------------------------------------
// Comparing
// -----------------------------------------------------------------------------

/**
 * Compares lines, and returns the differences as text: `-` is missing, `+` is too much. `undefined` when they are
 * equal.
 */
export const diff = (
  expected: ReadonlyArray<string>,
  actual: Pick<Timeline, "lines"> | ReadonlyArray<string>
): string | undefined => {
  const lines = "lines" in actual ? actual.lines : actual
  return Lines.diff(expected, lines)
}
