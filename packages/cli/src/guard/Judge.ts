/**
 * Replays a trace: the loop detector judges each call, then gets its recorded result. Pure.
 *
 * A trace is stopped at the first call that would not have run, by a block or by the end of the run. The trace does not
 * show how the model would have continued.
 */
import { LoopDetector } from "@outlast/agent/guard"

/** The verdict on a trace. `told`: the model would have been informed about a loop, by a nudge or a stop. */
export type Judged =
  | { readonly verdict: "ok"; readonly at: null; readonly reason: null; readonly told: boolean }
  | {
      readonly verdict: "stop"
      /** Index of the call that would not have run, from 0. */
      readonly at: number
      readonly reason: LoopDetector.Kind
      readonly message: string
      readonly told: true
    }

/** The modes of the detector, the default first. */
export const modes = ["strict", "soft", "tell"] as const satisfies ReadonlyArray<LoopDetector.Mode>

const detectors = {
  strict: LoopDetector.make("strict"),
  soft: LoopDetector.make("soft"),
  tell: LoopDetector.make("tell")
}

/** A trace that is being read. */
export interface Progress {
  readonly calls: number
  readonly state: LoopDetector.State
  readonly judged: Judged
}

/** The state before the first call. */
export const start: Progress = {
  calls: 0,
  state: LoopDetector.initial,
  judged: { verdict: "ok", at: null, reason: null, told: false }
}

/** Judges a whole trace. */
export const all = (
  calls: ReadonlyArray<LoopDetector.Observation>,
  mode: LoopDetector.Mode = "strict"
): Judged => calls.reduce((progress, call) => next(progress, call, mode), start).judged

/** Processes the next call. */
export const next = (
  { calls, state, judged }: Progress,
  call: LoopDetector.Observation,
  mode: LoopDetector.Mode = "strict"
): Progress => {
  const detector = detectors[mode]
  if (judged.verdict === "stop") return { calls: calls + 1, state, judged }
  const verdict = LoopDetector.before(detector, state, call)
  if (verdict._tag === "Block" || verdict._tag === "Stop") {
    const { kind: reason, message } = verdict
    return { calls: calls + 1, state, judged: { verdict: "stop", at: calls, reason, message, told: true } }
  }
  return {
    calls: calls + 1,
    state: LoopDetector.observe(detector, state, call),
    judged: verdict._tag === "Nudge" ? { ...judged, told: true } : judged
  }
}
