/**
 * Shows what calls do right now: why each one waits, which attempts it made, what is running but retrying, which
 * circuits and cooldowns are open, and how the last minutes went.
 *
 * {@link make} folds the events of the surrounding `ResilienceEvents`, from then on. The view is plain JSON without keys
 * and prompts, for a status page (`Host.section` of `@outlast/node`) or a console. `ActivityState` has its bounds.
 *
 * **Limits.** It starts empty after a restart. Dropped circuit events are missing (see `ResilienceEvents`), so ask the
 * breaker where the exact phase matters.
 *
 * **Example** (A section of the status page)
 *
 * ```ts
 * const activity = yield* Activity.make
 * yield* Host.section("activity", Effect.map(activity.view, (view) => ({ ...view })))
 * ```
 */
import { Clock, Effect } from "effect"
import type { Scope } from "effect"
import { ResilienceEvents } from "@outlast/resilience"
import type { View } from "./ActivityState.ts"
import { ActivityState } from "./ActivityState.ts"

export { bounds } from "./ActivityState.ts"
export type { Alert, Call, Circuit, Cooldown, Minute, Notice, Step, View } from "./ActivityState.ts"

export interface Service {
  readonly view: Effect.Effect<View>
}

/** Follows the events until the scope ends. */
export const make: Effect.Effect<Service, never, Scope.Scope> = Effect.gen(function* () {
  const state = new ActivityState()
  yield* ResilienceEvents.tap((event) => Effect.sync(() => state.apply(event)))
  return { view: Effect.map(Clock.currentTimeMillis, (now) => state.view(now)) }
})
