/**
 * Runs a program with a virtual clock: the program runs until it is idle, then time jumps to the end of the next
 * sleep. A wait of 30 s takes no real time, and is the same 30 s over real sockets and in memory.
 *
 * A program is idle when the scheduler has had no task for some turns of the event loop, and {@link Io} reports
 * nothing in flight. An idle program without a sleep is stuck, which is a defect. A program that ends and leaves
 * a fiber or a sleep behind is a defect, too.
 *
 * {@link run} is for programs with real I/O; {@link stepped} and {@link interrupted} step through programs without any,
 * task by task.
 */
import type { Exit, Fiber } from "effect"
import { Clock, Duration, Effect, Metric, Random, Scheduler } from "effect"

/** Activity outside of Effect. */
export interface Io {
  /** True while data is in flight. */
  readonly pending: () => boolean
  /** A counter that grows with each activity. */
  readonly moved: () => number
}

const noIo: Io = { pending: () => false, moved: () => 0 }

/** Turns of the event loop without a task after which a program is idle. Promise chains take no turn each. */
const stillTurns = 8

/** Later than any wait in a test: a program that still runs then never ends. */
const endOfTime = Duration.toMillis("365 days")

class VirtualClock implements Clock.Clock {
  /** Sorted by their ends. */
  #sleeps: Array<{ readonly until: number; readonly wake: () => void }> = []
  #now = 0

  currentTimeMillisUnsafe = () => this.#now
  currentTimeNanosUnsafe = () => BigInt(Math.round(this.#now * 1_000_000))
  monotonicTimeNanosUnsafe = () => this.currentTimeNanosUnsafe()
  readonly currentTimeMillis = Effect.sync(() => this.#now)
  readonly currentTimeNanos = Effect.sync(() => this.currentTimeNanosUnsafe())
  readonly monotonicTimeNanos = this.currentTimeNanos

  sleep(duration: Duration.Duration): Effect.Effect<void> {
    return Effect.callback((resume) => {
      const until = this.#now + Duration.toMillis(duration)
      const sleep = { until, wake: () => resume(Effect.void) }
      const later = this.#sleeps.findIndex((other) => other.until > until)
      this.#sleeps.splice(later < 0 ? this.#sleeps.length : later, 0, sleep)
      return Effect.sync(() => {
        this.#sleeps = this.#sleeps.filter((other) => other !== sleep)
      })
    })
  }

  get sleeping(): number {
    return this.#sleeps.length
  }

  /** Jumps to the end of the next sleep. `false` without a sleep that ends. */
  advance(): boolean {
    const next = this.#sleeps[0]
    if (next === undefined || next.until > endOfTime) return false
    this.#sleeps = this.#sleeps.slice(1)
    this.#now = Math.max(this.#now, next.until)
    next.wake()
    return true
  }
}

/** Counts the live fibers of a program. */
class Fibers implements Metric.FiberRuntimeMetricsService {
  alive = 0
  recordFiberStart() {
    this.alive++
  }
  recordFiberEnd() {
    this.alive--
  }
}

/** Always draws the middle, which means no jitter, and the same draws in every run. */
const random: typeof Random.Random.Service = { nextDoubleUnsafe: () => 0.5, nextIntUnsafe: () => 0 }

/** A program with its own clock, scheduler and random numbers. */
class World<A, E> {
  readonly clock = new VirtualClock()
  readonly fibers = new Fibers()
  readonly fiber: Fiber.Fiber<A, E>

  constructor(program: Effect.Effect<A, E>, scheduler: Scheduler.Scheduler) {
    this.fiber = program.pipe(
      Effect.provideService(Clock.Clock, this.clock),
      Effect.provideService(Random.Random, random),
      Effect.provideService(Metric.FiberRuntimeMetrics, this.fibers),
      (world) => Effect.runFork(world, { scheduler })
    )
  }

  /** The exit of an ended program. Throws if a fiber or a sleep is left. */
  end(): Exit.Exit<A, E> {
    const exit = this.fiber.pollUnsafe()
    if (exit === undefined) throw new Error("The program is stuck: it waits for nothing that could come.")
    const { alive } = this.fibers
    const { sleeping } = this.clock
    if (alive > 0 || sleeping > 0)
      throw new Error(`The program ended and left ${alive} fibers, ${sleeping} sleeping.`)
    return exit
  }
}

/** Runs a program to its end, in virtual time and with real I/O. */
export const run = <A, E>(program: Effect.Effect<A, E>, io: Io = noIo): Effect.Effect<A, E> =>
  Effect.flatMap(
    Effect.promise(async (signal) => {
      const tasks = new CountedTasks()
      const world = new World(program, tasks)
      signal.addEventListener("abort", () => world.fiber.interruptUnsafe())
      do {
        await nothingMoves(tasks, io)
      } while (world.fiber.pollUnsafe() === undefined && world.clock.advance())
      return world.end()
    }),
    (exit) => exit
  )

const nothingMoves = async (tasks: CountedTasks, io: Io): Promise<void> => {
  let seen = -1
  for (let still = 0; still < stillTurns; still++) {
    await new Promise<void>((resolve) => setImmediate(resolve))
    const moved = tasks.count + io.moved()
    if (moved !== seen || io.pending()) still = -1
    seen = moved
  }
}

class CountedTasks extends Scheduler.MixedScheduler {
  count = 0

  override makeDispatcher() {
    const dispatcher = super.makeDispatcher()
    const scheduleTask = dispatcher.scheduleTask.bind(dispatcher)
    dispatcher.scheduleTask = (task, priority) => {
      this.count++
      scheduleTask(task, priority)
    }
    return dispatcher
  }
}

/**
 * Points of interruption: wherever a program waits or yields to another fiber, or between all of its
 * operations, as if the scheduler yielded at each.
 */
export type Points = "awaits" | "operations"

/**
 * Runs a program without real I/O and interrupts it at point `n`. `undefined` if it ended earlier, so running all
 * `n` up to there covers every point.
 */
export const interrupted = <A, E>(
  program: Effect.Effect<A, E>,
  points: Points,
  n: number,
  onInterrupt: () => void
): Exit.Exit<A, E> | undefined => {
  const steps = new Steps(points)
  const world = new World(program, steps)
  for (let count = 0; count < n; count++) {
    if (!steps.next() && (world.fiber.pollUnsafe() !== undefined || !world.clock.advance())) break
  }
  if (world.fiber.pollUnsafe() !== undefined) return undefined
  onInterrupt()
  world.fiber.interruptUnsafe()
  while (steps.next()) {}
  return world.end()
}

/** Tasks of a program, at most: one that takes more never ends. */
const maxTasks = 100_000

/** Runs a program without real I/O to its end, at once: much faster than {@link run}. */
export const stepped = <A, E>(program: Effect.Effect<A, E>): Exit.Exit<A, E> => {
  const steps = new Steps("awaits")
  const world = new World(program, steps)
  let tasks = 0
  while (steps.next() || (world.fiber.pollUnsafe() === undefined && world.clock.advance())) {
    if (++tasks > maxTasks) throw new Error(`The program did not end within ${maxTasks} tasks.`)
  }
  return world.end()
}

/** A scheduler that runs one task at a time, on demand. */
class Steps extends Scheduler.MixedScheduler {
  readonly #points: Points
  #tasks: Array<() => void> = []

  constructor(points: Points) {
    super()
    this.#points = points
  }

  override shouldYield(fiber: Fiber.Fiber<unknown, unknown>): boolean {
    // The first operations of a fiber that resumes are the end of its yield.
    return this.#points === "operations" ? fiber.currentOpCount > 2 : super.shouldYield(fiber)
  }

  override makeDispatcher() {
    const dispatcher = super.makeDispatcher()
    dispatcher.scheduleTask = (task) => void this.#tasks.push(task)
    return dispatcher
  }

  /** Runs one task. `false` if there is none. */
  next(): boolean {
    const task = this.#tasks.shift()
    task?.()
    return task !== undefined
  }
}
