/** The one event that each action of `CallState` leaves. Pure. */
import type { Action } from "./CallState.ts"
import type { FailoverEvent } from "./FailoverEvent.ts"

/** An event before somebody looks at the clock. */
export type NoTime<E> = E extends FailoverEvent ? Omit<E, "at"> : never

/** The call, and its attempt that the event is about. */
export interface Numbers {
  readonly call: number
  readonly attempt: number
}

/** `now` is in monotonic milliseconds. */
export const eventOf = (action: Action, numbers: Numbers, now: number): NoTime<FailoverEvent> => {
  switch (action._tag) {
    case "Attempt":
      return { _tag: "AttemptStarted", ...numbers, target: action.target, delay: action.delay }
    case "Switch": {
      const { from, target, failure } = action
      return { _tag: "TargetSwitched", ...numbers, from, target, reason: failure.reason._tag }
    }
    case "Continue": {
      const { from, target, delay, failure } = action
      return { _tag: "AnswerContinued", ...numbers, from, target, delay, reason: failure?.reason._tag }
    }
    case "RaiseOutputLimit":
      return { _tag: "OutputLimitRaised", ...numbers, target: action.target, limit: action.limit }
    case "LowerOutputLimit":
      return { _tag: "OutputLimitLowered", ...numbers, target: action.target, limit: action.limit }
    case "Compact":
      return { _tag: "CallCompacting", ...numbers, target: action.target }
    case "RenewKey":
      return { _tag: "KeyRenewing", ...numbers, target: action.target }
    case "Wait":
      return { _tag: "CallWaiting", ...numbers, delay: action.until - now }
    case "Deliver":
      return { _tag: "CutAnswerDelivered", ...numbers }
    case "GiveUp":
      return { _tag: "CallGaveUp", ...numbers, message: action.failure.message }
  }
}
