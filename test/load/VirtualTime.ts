/**
 * Runs an Effect in virtual time, to its end and synchronously: a heap of sleeps, and a clock that jumps to the next
 * one when every fiber waits. A run takes as long as its fibers compute, however long they sleep.
 *
 * TestClock is for tests that advance time by hand. TestClock searches a sorted array of sleeps, and returns to
 * the event loop between steps. This clock advances automatically.
 *
 * **Limits.** A program that waits for anything but Effects (a promise, a socket) never continues.
 */
import { Clock, Context, Duration, Effect, Scheduler } from "effect"
import type { Exit } from "effect"

interface Sleep {
  readonly at: number
  /** Sleeps that end at the same time end in the order in which they began. */
  readonly order: number
  /** `undefined` after an interruption. */
  wake: (() => void) | undefined
}

/** More tasks than this at one instant are a loop without a wait. */
const maxTasksAtOnce = 5_000_000

/** The exit of `effect`, or `undefined` when it still waits and no sleep is left, or none before `until` (ms). */
export const run = <A, E>(
  effect: Effect.Effect<A, E>,
  { until = Infinity }: { readonly until?: number | undefined } = {}
): Exit.Exit<A, E> | undefined => {
  const tasks: Array<() => void> = []
  const sleeps: Array<Sleep> = []
  let now = 0
  let order = 0

  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: () => now,
    currentTimeNanosUnsafe: () => BigInt(now) * 1_000_000n,
    monotonicTimeNanosUnsafe: () => BigInt(now) * 1_000_000n,
    currentTimeMillis: Effect.sync(() => now),
    currentTimeNanos: Effect.sync(() => BigInt(now) * 1_000_000n),
    monotonicTimeNanos: Effect.sync(() => BigInt(now) * 1_000_000n),
    sleep: (duration) =>
      Effect.callback<void>((resume) => {
        // Whole milliseconds, as in real timers.
        const millis = Math.max(0, Math.ceil(Duration.toMillis(duration)))
        if (millis === Infinity) return undefined
        const sleep: Sleep = { at: now + millis, order: order++, wake: () => resume(Effect.void) }
        push(sleeps, sleep)
        return Effect.sync(() => {
          sleep.wake = undefined
        })
      })
  }
  const dispatcher: Scheduler.SchedulerDispatcher = {
    scheduleTask: (task) => void tasks.push(task),
    flush: () => {}
  }
  const scheduler: Scheduler.Scheduler = {
    executionMode: "async",
    shouldYield: (fiber) => fiber.currentOpCount >= fiber.cache.maxOpsBeforeYield,
    makeDispatcher: () => dispatcher
  }
  /** Runs the fibers until each of them waits. */
  const settle = (): void => {
    for (let i = 0; i < tasks.length; i++) {
      if (i > maxTasksAtOnce) throw new Error(`The program runs on and on at ${now} ms, without a wait.`)
      tasks[i]?.()
    }
    tasks.length = 0
  }

  const services = Context.make(Clock.Clock, clock).pipe(Context.add(Scheduler.Scheduler, scheduler))
  const fiber = Effect.runForkWith(services)(effect)
  settle()
  while (fiber.pollUnsafe() === undefined) {
    const next = pop(sleeps)
    if (next === undefined || next.at > until) return undefined
    if (next.wake === undefined) continue
    now = next.at
    next.wake()
    settle()
  }
  return fiber.pollUnsafe()
}

const isBefore = (a: Sleep, b: Sleep): boolean => a.at < b.at || (a.at === b.at && a.order < b.order)

const push = (heap: Array<Sleep>, sleep: Sleep): void => {
  let child = heap.push(sleep) - 1
  while (child > 0) {
    const parent = (child - 1) >> 1
    const above = heap[parent]
    if (above === undefined || !isBefore(sleep, above)) break
    heap[child] = above
    child = parent
  }
  heap[child] = sleep
}

const pop = (heap: Array<Sleep>): Sleep | undefined => {
  const first = heap[0]
  const last = heap.pop()
  if (last === undefined || last === first) return first
  let parent = 0
  for (;;) {
    const left = heap[2 * parent + 1]
    const right = heap[2 * parent + 2]
    const isRight = left !== undefined && right !== undefined && isBefore(right, left)
    const below = isRight ? right : left
    if (below === undefined || !isBefore(below, last)) break
    heap[parent] = below
    parent = 2 * parent + (isRight ? 2 : 1)
  }
  heap[parent] = last
  return first
}
