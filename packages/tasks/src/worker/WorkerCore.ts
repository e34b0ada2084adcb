/** State that the parts of a worker share. */
import type { Effect, Semaphore } from "effect"
import type { Service as Holders } from "../cluster/Holders.ts"
import type { Patient } from "../store/StoreOutage.ts"
import type { Alone } from "./Alone.ts"
import type { Control } from "./Control.ts"
import type { Definition } from "./Definition.ts"
import type { Ends } from "./Ends.ts"
import type { Handlers } from "./Handlers.ts"
import type { Parts } from "./Parts.ts"
import type { Reply } from "../workflow/Reply.ts"

/** How long a task may be queued before its status says that its agent is missing, in milliseconds. */
export const grace = 2_000

export interface WorkerCore {
  readonly name: string
  /** Identifies the start of this process. */
  readonly boot: string
  readonly store: Patient
  readonly maxRestarting: number
  /** Tasks that run here at a time, at most. */
  readonly concurrency: number
  readonly permits: Semaphore.Semaphore
  readonly alone: Alone
  readonly handlers: Handlers<Reply>
  /** The other workers of a cluster. */
  readonly holders: Holders | undefined
  /** False: the execution moves to another worker. */
  readonly holds: (executionId: string) => boolean
  readonly parts: Parts
  readonly running: Map<string, Control>
  /** Looks at the store at once. */
  readonly nudge: Effect.Effect<void>
  readonly ends: Ends
  readonly definitionOf: (agent: {
    readonly task: string
    readonly version: number
  }) => Definition | undefined
  readonly isDraining: () => boolean
  /** Completes when the worker stops. */
  readonly draining: Effect.Effect<void>
}
