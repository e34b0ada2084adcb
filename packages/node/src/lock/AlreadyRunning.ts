/** The error of a program that another instance keeps from starting. */
import { Runtime, Schema } from "effect"
import { ErrorText } from "@outlast/resilience"

/** Exit code of a program that did not start because another instance runs: `EX_TEMPFAIL` of `sysexits.h`. */
export const exitCode = 75

/**
 * - `held`: another process holds the lock
 * - `timeout`: it still held the lock after the wait
 * - the others: a takeover was refused, see `TakeOverState.Refusal`
 */
const reasons = [
  "held",
  "timeout",
  "self",
  "unidentified",
  "elsewhere",
  "noProc",
  "notPermitted",
  "overtaken",
  "survived"
] as const

export type Reason = (typeof reasons)[number]

export class AlreadyRunning extends Schema.TaggedError<AlreadyRunning>("@outlast/node/lock/AlreadyRunning")(
  "AlreadyRunning",
  {
    reason: Schema.Literals(reasons),
    /** Path of the lock. */
    path: Schema.String,
    /** The holder in words. */
    holder: Schema.String
  }
) {
  /** `Host.runMain` and `NodeRuntime.runMain` exit with this code. */
  override readonly [Runtime.errorExitCode]: number = exitCode

  /** True when a later start may succeed without anyone acting. */
  get isRetryable(): boolean {
    return this.reason === "held" || this.reason === "timeout" || this.reason === "overtaken"
  }

  override get message(): string {
    return `Another instance is running: ${this.holder} (lock ${this.path}). ${next[this.reason]}`
  }
}

ErrorText.printedOnce(AlreadyRunning)

const next: Readonly<Record<Reason, string>> = {
  held: "End it first, or start with `whenHeld` set to wait or to take over.",
  timeout: "It did not end in time. End it, or wait longer.",
  self: "This process has the lock already: acquire it once.",
  unidentified:
    "Nothing was signalled: the pid file does not name a running process. End the holder by hand.",
  elsewhere:
    "Nothing was signalled: the holder is in another PID namespace (a container). Stop that container.",
  noProc: "Nothing was signalled: without /proc a process cannot be identified. End the holder by hand.",
  notPermitted: "It could not be signalled: it belongs to another user. End it as that user.",
  overtaken: "It started at the same time and was first.",
  survived: "It was killed and has not ended. Look at its state with `ps`."
}
