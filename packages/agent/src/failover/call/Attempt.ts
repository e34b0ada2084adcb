/**
 * One attempt of a call, as `CallRun` hands it to whoever makes it.
 */
import type { Tracer } from "effect"
import * as Provenance from "../../conversation/Provenance.ts"
import type { Unpriced } from "../../conversation/Answered.ts"
import type { CallState } from "../decide/State.ts"
import { isAnew, isContinuing, isSeen } from "../decide/AnswerSoFar.ts"
import { attemptsOf, outputLimitAt, switchesOf, wasCut } from "../decide/State.ts"
import type { Target } from "../chain/Chain.ts"
import type { Sending } from "../decide/Sending.ts"
import type { CallContext } from "./CallContext.ts"

/** One attempt to make. */
export interface Attempt {
  readonly target: Target
  readonly answered: Omit<Unpriced, "requested">
  /** What is written into the parts that it makes. */
  readonly maker: Provenance.Provenance
  /** Monotonic milliseconds. */
  readonly startedAt: number
  /** The partial answer is to be continued: what ended it. */
  readonly continues: "interrupted" | "cut" | undefined
  /** What the consumer has seen is void. */
  readonly rewind: boolean
  /** It begins the answer anew, behind a refusal that the consumer has seen and cannot take back. */
  readonly apart: boolean
  /** The user message that goes with it. */
  readonly nudge: string | undefined
  /** The last failure of the call, by the tag of its reason. */
  readonly failed: string | undefined
  readonly outputLimit: number | undefined
  /** Its span, where the program has a tracer. */
  readonly span?: Tracer.Span | undefined
}

interface Surroundings extends Pick<CallContext, "raised" | "range"> {
  /** The conversation that is sent is the program's own, unchanged. */
  readonly isAsHad: boolean
  /** Monotonic milliseconds. */
  readonly now: number
}

/** The attempt of an action. */
export const attemptOf = (
  action: Sending,
  target: Target,
  state: CallState,
  { isAsHad, now, raised, range }: Surroundings
): Attempt => {
  const { ref, info } = target
  const outputLimit = outputLimitAt(state, ref)
  const nudge = "nudge" in action ? action.nudge : undefined
  const isBound = info.capabilities?.bindsThinking === true && (nudge !== undefined || !isAsHad)
  const failed = state.made.failure?.reason._tag
  const switched = switchesOf(state) > 0 ? failed : undefined
  const answered = {
    target: ref.id,
    provider: ref.provider,
    model: ref.model,
    attempts: attemptsOf(state),
    ...(switched === undefined ? {} : { switched })
  }
  return {
    target,
    answered,
    maker: isBound ? Provenance.apart(ref) : Provenance.of(ref),
    startedAt: now,
    continues: !isContinuing(state.answer) ? undefined : wasCut(state) ? "cut" : "interrupted",
    rewind: "rewind" in action && action.rewind,
    apart: isAnew(state.answer) && isSeen(state.answer) && !state.call.rewindable,
    nudge,
    failed,
    outputLimit: raised === undefined ? outputLimit : raised.at(ref.id, outputLimit, range)
  }
}
