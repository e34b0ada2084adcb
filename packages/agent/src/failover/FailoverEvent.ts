/**
 * What happens to calls and targets: this package's part of the resilience events.
 *
 * **When.** An attempt leaves `AttemptStarted` when its request is sent: behind every wait, and behind `TargetSwitched`,
 * `AnswerContinued`, `OutputLimitRaised` or `OutputLimitLowered`, which say what is different about it. So each attempt
 * has one `AttemptStarted`, and nothing is told of an attempt that was not sent. A wait on our side leaves `CallWaiting`
 * when it begins and `CallWaited` when it ends. Other actions leave one of `CallCompacting`, `MediaDropped`, `KeyRenewing`,
 * `CutAnswerDelivered` and `CallGaveUp`. A call ends with one of `CallSucceeded`, `CallGaveUp` and `CallAbandoned`.
 *
 * Durations are milliseconds. No event has a key or a prompt in it. `FailoverMetrics` counts them.
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
