/** What happens to the targets of a chain, whichever call finds it: plain data, without keys. */
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Scope } from "../decide/PolicyModel.ts"

/** Something is not chosen for a while. */
export interface CooldownOpened {
  readonly _tag: "CooldownOpened"
  readonly at: number
  readonly scope: Scope
  readonly target: TargetRef
  readonly reason: ReasonTag
  /** `undefined`: until it is reset. */
  readonly length: number | undefined
}

/** A target could not be built and is never chosen. */
export interface TargetDead {
  readonly _tag: "TargetDead"
  readonly at: number
  readonly target: TargetRef
  readonly message: string
}

export type TargetEvent = CooldownOpened | TargetDead
