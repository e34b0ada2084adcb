/**
 * What the loop detector says about a trace: each call is asked about, then taken in as it went. Pure.
 *
 * A trace is stopped at the first call that would not have run, whether it would have been blocked or the run stopped.
 * What the model would have done then is not in the trace.
 */
import { LoopDetector } from "@outlast/agent"

export type Judged =
  | { readonly verdict: "ok"; readonly at: null; readonly reason: null }
  | {
      readonly verdict: "stop"
      /** Index of the call that would not have run, from 0. */
      readonly at: number
      readonly reason: LoopDetector.Kind
      /** In words. */
      readonly message: string
    }

const detector = LoopDetector.make()

/** A trace that is being read. */
export interface Progress {
  readonly calls: number
  readonly state: LoopDetector.State
  readonly judged: Judged
}

export const start: Progress = {
  calls: 0,
  state: LoopDetector.initial(detector),
  judged: { verdict: "ok", at: null, reason: null }
}

/** With the next call. */
export const next = ({ calls, state, judged }: Progress, call: LoopDetector.Observation): Progress => {
  if (judged.verdict === "stop") return { calls: calls + 1, state, judged }
  const verdict = LoopDetector.before(detector, state, call)
  if (verdict._tag === "Block" || verdict._tag === "Stop") {
    const { kind: reason, message } = verdict
    return { calls: calls + 1, state, judged: { verdict: "stop", at: calls, reason, message } }
  }
  return { calls: calls + 1, state: LoopDetector.observe(detector, state, call), judged }
}
