/** Holds a call that a guard does not admit. */
import { Effect } from "effect"
import type { AnyFiber, Branch } from "./Branch.ts"

/**
 * Never resumes: the boundary of the stopped guard interrupts the fiber.
 *
 * Inside a finalizer a fiber cannot be interrupted. The call that trips the guard waits there anyway, because the
 * boundary waits only for the grace period. Later calls end as interrupted, so that other finalizers can run.
 */
export const held = (
  branch: Branch,
  fiber: AnyFiber,
  restore: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>,
  tripped: boolean
): Effect.Effect<never> => {
  const closed = branch.guards.filter((guard) => guard.isClosed)
  if (closed.some((guard) => guard.stopped === undefined)) {
    return Effect.die(
      new Error("SafetyGuard: called after the guarded run had ended. Call it inside of `run`.")
    )
  }
  const leave = branch.enter(fiber)
  branch.held()
  // No boundary waits for a closed guard, so interrupt here.
  for (const guard of closed) guard.interrupt()
  const never = tripped ? restore(Effect.never) : Effect.interruptible(Effect.never)
  return Effect.onExit(never, () => Effect.sync(leave))
}
