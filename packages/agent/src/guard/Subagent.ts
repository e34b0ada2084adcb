/** Runs an agent as a branch of the tree: the first agent of a guarded program, or a sub-agent of another one. */
import { Effect } from "effect"
import { branchOf } from "./Branch.ts"
import { branchOfModel } from "./GuardedModel.ts"
import { held } from "./Held.ts"

/** Runs an agent if the limits allow one more. Outside of a guard it always runs. */
export const run = <A, E, R>(agent: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    const around = branchOf(fiber) ?? branchOfModel(fiber)
    if (around === undefined) return agent
    return Effect.uninterruptibleMask((restore) => {
      const wasOpen = around.isOpen
      const branch = around.agent(fiber)
      if (branch === undefined) return held(around, fiber, restore, wasOpen)
      return Effect.onExit(restore(Effect.provideContext(agent, branch.context)), () =>
        Effect.sync(() => around.leave(branch))
      )
    })
  })
