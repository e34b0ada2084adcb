/** What becomes of a call that a guard does not let through. */
import { Effect } from "effect"
import type { AnyFiber, Branch } from "./Branch.ts"

/**
 * Never resumes: the boundary of the guard that stopped interrupts its fiber.
 *
 * Finalizers cannot be interrupted. The call that trips the guard holds them all the same, because the boundary waits
 * only so long; a later call ends there as interrupted, so that the others have their turn.
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
  // Nobody waits at the boundary any more.
  for (const guard of closed) guard.interrupt()
  const never = tripped ? restore(Effect.never) : Effect.interruptible(Effect.never)
  return Effect.onExit(never, () => Effect.sync(leave))
}
