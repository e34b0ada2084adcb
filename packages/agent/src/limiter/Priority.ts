/**
 * How urgent the calls inside are, for limits that not all of them fit: somebody waits for an interactive call, nobody
 * for one in the background.
 *
 * **Example** (A summary that can wait)
 *
 * ```ts
 * summarise.pipe(Effect.provideService(Priority, "background"))
 * ```
 */
import { Context } from "effect"

export type Priority = "interactive" | "background"

/** Default: `interactive`. */
export const Priority: Context.Reference<Priority> = Context.Reference<Priority>(
  "@outlast/agent/limiter/Priority",
  { defaultValue: () => "interactive" }
)
