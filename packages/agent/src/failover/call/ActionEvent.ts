/** The event that an action of `CallState` leaves by itself, beside `AttemptStarted` and the waits. Pure. */
import type { ResilienceEvents } from "@outlast/resilience"
import type { Action } from "../decide/CallState.ts"
import type { CallEvent } from "./CallEvent.ts"

/** The call, and its attempt that the event is about. */
export interface Numbers {
  readonly call: number
  readonly attempt: number
}

/** `undefined`: nothing but an attempt or a wait. */
export const eventOf = (action: Action, numbers: Numbers): ResilienceEvents.NoTime<CallEvent> | undefined => {
  switch (action._tag) {
    case "Attempt":
    case "Wait":
    // The shell tells what ended the other attempt.
    case "Await":
    // Its event tells how many there are.
    case "LeaveOut":
      return undefined
    case "Switch": {
      const { from, target, failure } = action
      return { _tag: "TargetSwitched", ...numbers, from, target, reason: failure.reason._tag }
    }
    case "Continue": {
      const { from, target, failure, raisedTo } = action
      const reason = failure?.reason._tag
      return { _tag: "AnswerContinued", ...numbers, from, target, reason, limit: raisedTo }
    }
    case "RaiseOutputLimit":
      return { _tag: "OutputLimitRaised", ...numbers, target: action.target, limit: action.limit }
    case "LowerOutputLimit":
      return { _tag: "OutputLimitLowered", ...numbers, target: action.target, limit: action.limit }
    case "Compact":
      return { _tag: "CallCompacting", ...numbers, target: action.target }
    case "RenewKey":
      return { _tag: "KeyRenewing", ...numbers, target: action.target }
    case "Deliver":
      return { _tag: "CutAnswerDelivered", ...numbers }
    case "GiveUp": {
      const { failure } = action
      const reason = failure._tag === "AllTargetsOut" ? failure._tag : failure.reason._tag
      return { _tag: "CallGaveUp", ...numbers, reason, message: failure.message }
    }
  }
}
