/**
 * The boundary of a guarded program. The program runs in its own fiber, raced against the stop of its guard.
 *
 * A stopped guard decides the result, however the program ends: by a value, an error, a defect, or not at all. After
 * a stop, running tools may finish, except after a timeout. Then the program is interrupted and its finalizers run.
 * Each of the two phases takes at most the grace period; whatever takes longer is abandoned.
 * When the program ends by itself, calls that it left in detached fibers are interrupted.
 */
import { Context, Effect, Fiber, Option, Queue, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { ResilienceEvents } from "@outlast/resilience"
import * as ActiveTime from "../conversation/ActiveTime.ts"
import { Branch, place } from "./Branch.ts"
import type { Guard } from "./Guard.ts"
import * as GuardedModel from "./GuardedModel.ts"
import type { GuardStopped } from "./GuardEvent.ts"
import type { SafetyStop } from "./SafetyStop.ts"

/** Runs a program under a guard. `service` is added to the context of the program. */
export const run = <A, E, R, S>(
  guard: Guard,
  service: Context.Context<S>,
  program: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SafetyStop, Exclude<R, S>> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.withFiber((fiber) => {
      if (guard.stopped !== undefined) return stopped(guard)
      const branch = Branch.program(guard, fiber)
      const model = Context.getOption(fiber.context, LanguageModel.LanguageModel)
      const own = Context.merge(service, branch.context)
      // The type of the program does not mention the model: a model in the context is replaced with a guarded one.
      const context: Context.Context<S> = Option.isNone(model)
        ? own
        : Context.add(own, LanguageModel.LanguageModel, GuardedModel.bound(model.value, branch))
      return Effect.gen(function* () {
        const watching = yield* Effect.forkDetach(guard.watch, immediately)
        const placed = Effect.withFiber((own) => {
          place(own, branch)
          return Effect.provideContext(program, context)
        })
        const running = yield* Effect.forkDetach(placed, immediately)
        const leave = Effect.sync(() => {
          watching.interruptUnsafe()
          branch.end()
          guard.close()
        })
        yield* restore(Effect.raceFirst(Effect.asVoid(Fiber.await(running)), guard.whenStopped)).pipe(
          Effect.onInterrupt(() => Effect.andThen(ended(guard, running), leave))
        )
        // The guard may have stopped at the moment when the program ended.
        if (guard.stopped === undefined) {
          yield* leave
          return yield* yield* Fiber.await(running)
        }
        if (guard.stopped.reason !== "timeout") yield* finished(guard)
        guard.interrupt()
        yield* ended(guard, running)
        // Build the error first: once everything has left, the host may extend the guard.
        const failing = stopped(guard)
        yield* leave
        return yield* failing
      })
    })
  )

/** Like {@link run}, for a stream. Waiting for the consumer is not active time. */
export const runStream = <A, E, R, S>(
  guard: Guard,
  service: Context.Context<S>,
  program: Stream.Stream<A, E, R>,
  bufferSize: number
): Stream.Stream<A, E | SafetyStop, Exclude<R, S>> =>
  Stream.callback<A, E | SafetyStop, Exclude<R, S>>(
    (queue) =>
      run(
        guard,
        service,
        Stream.runForEachArray(program, (elements) => ActiveTime.resting(Queue.offerAll(queue, elements)))
      ).pipe(
        Effect.andThen(Queue.end(queue)),
        Effect.catchCause((cause) => Queue.failCause(queue, cause))
      ),
    { bufferSize }
  )

/** Starts synchronously, like a program without a guard. */
const immediately = { startImmediately: true }

/** Waits for admitted tools to finish, at most for the grace period. A half-done tool is worse than one more result. */
const finished = (guard: Guard): Effect.Effect<void> =>
  Effect.raceFirst(guard.quiet, Effect.sleep(guard.settings.grace))

/** Interrupts the program and waits for its finalizers. After a stop it waits at most for the grace period. */
const ended = (guard: Guard, running: Fiber.Fiber<unknown, unknown>): Effect.Effect<void> =>
  Effect.raceFirst(
    Fiber.interrupt(running),
    Effect.andThen(guard.whenStopped, Effect.sleep(guard.settings.grace))
  )

/** Fails with the stop as it is now. The first caller also publishes `GuardStopped`. */
const stopped = (guard: Guard): Effect.Effect<never, SafetyStop> => {
  const stop = guard.stop()
  if (!guard.tell()) return Effect.fail(stop)
  const { reason, limit, subject, counts } = stop
  return Effect.andThen(
    ResilienceEvents.publishNow<GuardStopped>({ _tag: "GuardStopped", reason, limit, subject, counts }),
    Effect.fail(stop)
  )
}
