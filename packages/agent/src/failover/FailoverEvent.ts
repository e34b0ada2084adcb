/**
 * Events of calls and targets: this package's part of the resilience events.
 *
 * **When.** Each attempt publishes one `AttemptStarted` when its request is sent: after every wait, and after
 * `TargetSwitched`, `AnswerContinued`, `OutputLimitRaised` or `OutputLimitLowered`, which describe the attempt. An
 * attempt that was not sent publishes nothing. A wait on our side publishes `CallWaiting` when it begins and
 * `CallWaited` when it ends. Other actions publish one of `CallCompacting`, `MediaDropped`, `ThinkingDropped`, `KeyRenewing`,
 * `CutAnswerDelivered` and `CallGaveUp`. A call ends with one of `CallSucceeded`, `CallGaveUp` and `CallAbandoned`.
 *
 * Durations are milliseconds. No event contains a key or a prompt. `FailoverMetrics` counts the events.
 */
import type { EventDefinition } from "@outlast/resilience"
import * as Call from "./call/CallEvent.ts"
import type { CallEvent } from "./call/CallEvent.ts"
import * as ChainStore from "./chain/ChainStoreEvent.ts"
import type { ChainStoreEvent } from "./chain/ChainStoreEvent.ts"
import * as Target from "./chain/TargetEvent.ts"
import type { TargetEvent } from "./chain/TargetEvent.ts"
import * as Key from "./target/KeyEvent.ts"
import type { KeyEvent } from "./target/KeyEvent.ts"

export type * from "./call/CallEvent.ts"
export type * from "./chain/ChainStoreEvent.ts"
export type * from "./chain/TargetEvent.ts"
export type * from "./target/KeyEvent.ts"

export type FailoverEvent = CallEvent | ChainStoreEvent | KeyEvent | TargetEvent

/** The definition of every event of this folder. */
export const definitions: EventDefinition.EventDefinitions<FailoverEvent> = {
  ...Call.definitions,
  ...ChainStore.definitions,
  ...Key.definitions,
  ...Target.definitions
}
