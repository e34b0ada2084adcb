/**
 * Urgency of the calls inside, for limits that cannot admit all of them. A user waits for an interactive call; a
 * background call can wait.
 *
 * **Example** (A summary that can wait)
 *
 * ```ts
 * summarise.pipe(Effect.provideService(Priority.Priority, "background"))
 * ```
 */
import { Context } from "effect"

export type Priority = "interactive" | "background"

/** Default: `interactive`. */
export const Priority: Context.Reference<Priority> = Context.Reference<Priority>(
  "@outlast/agent/limiter/Priority",
  { defaultValue: () => "interactive" }
)
