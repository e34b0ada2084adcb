/**
 * Hooks of a run: functions of the host that see each tool call, each result and the end, and may stop them.
 *
 * A reply is `"continue"`, `{ block: message }` or `{ stop: message }`. `block` keeps a call from running, hides a
 * result, or sends the model back to work; the model reads the message. `stop` ends the run; the outcome has the
 * message. Hooks are asked one after the other, in the order of the calls. Waiting for one is not active time.
 *
 * **Limits.** A hook is not called for a call that is blocked already. A hook that dies ends the run.
 */
import { Effect } from "effect"
import { Options as Check } from "@outlast/resilience"
import * as ActiveTime from "../conversation/ActiveTime.ts"
import type { HookReply } from "./RunEvent.ts"
import type { HookPoint } from "./RunSettings.ts"

export type Reply = "continue" | { readonly block: string } | { readonly stop: string }

/** A tool call before it runs. */
export interface ToolCall {
  readonly turn: number
  readonly id: string
  readonly tool: string
  readonly params: unknown
}

/** A tool call with its result, as the model will read it. */
export interface FinishedCall extends ToolCall {
  readonly result: unknown
  readonly isFailure: boolean
}

/** The end of a run. */
export interface Ended {
  readonly turn: number
  /** The text of the last answer. */
  readonly text: string
}

export interface Hooks {
  readonly beforeTool?: ((call: ToolCall) => Effect.Effect<Reply>) | undefined
  readonly afterTool?: ((call: FinishedCall) => Effect.Effect<Reply>) | undefined
  readonly beforeStop?: ((ended: Ended) => Effect.Effect<Reply>) | undefined
}

const { is } = Check

export const checks: Check.Checks<Hooks> = {
  beforeTool: is.fn("(call) => Effect<Reply>"),
  afterTool: is.fn("(call) => Effect<Reply>"),
  beforeStop: is.fn("(ended) => Effect<Reply>")
}

/** The points at which the hooks are asked. */
export const pointsOf = (hooks: Hooks | undefined): ReadonlyArray<HookPoint> =>
  hooks === undefined ? [] : points.filter((point) => hooks[point] !== undefined)

const points: ReadonlyArray<HookPoint> = ["beforeTool", "afterTool", "beforeStop"]

/** Asks a hook about each of `all`, in their order. After a `stop` no more are asked. */
export const ask = <A>(
  point: HookPoint,
  hook: ((about: A) => Effect.Effect<Reply>) | undefined,
  all: ReadonlyArray<A>
): Effect.Effect<ReadonlyArray<HookReply>> =>
  Effect.gen(function* () {
    const replies: Array<HookReply> = []
    for (const about of all) {
      const asked = hook?.(about) ?? Effect.succeed<Reply>("continue")
      const effect = Check.returned("Agent", `hooks.${point}`, asked, "an Effect<Reply>")
      const reply = read(point, yield* ActiveTime.parked(effect))
      replies.push(reply)
      if (reply._tag === "Stop") break
    }
    return replies
  })

/** Untyped programs may return any value. */
const read = (point: HookPoint, reply: Reply): HookReply => {
  if (reply === "continue") return { _tag: "Continue" }
  if (typeof reply === "object" && reply !== null) {
    if ("block" in reply && typeof reply.block === "string") {
      // Providers reject a message without text.
      return { _tag: "Block", message: reply.block.trim() === "" ? "Blocked by a hook." : reply.block }
    }
    if ("stop" in reply && typeof reply.stop === "string") return { _tag: "Stop", message: reply.stop }
  }
  throw new TypeError(`Agent: hooks.${point} must give "continue", { block: message } or { stop: message }.`)
}
