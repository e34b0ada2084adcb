/**
 * A run that waits for a person to approve tool calls. Its schema writes it as JSON, so that it can wait in a store.
 *
 * `Agent.resume` continues it, in any process. Printing it shows no content of the conversation.
 */
import { Inspectable, Schema, SchemaTransformation } from "effect"
import { Prompt } from "effect/ai"
import { BlockedCall } from "../guard/BlockedCalls.ts"
import { RunState } from "./RunModel.ts"
import type { RunTranscript } from "./RunTranscript.ts"
import { callsOf } from "./RunTranscript.ts"

/** A call that waits for approval. */
export interface PendingCall {
  readonly id: string
  readonly tool: string
  readonly params: unknown
}

export class SuspendedRun {
  readonly #state: RunState
  readonly #transcript: RunTranscript

  constructor(state: RunState, transcript: RunTranscript) {
    this.#state = state
    this.#transcript = transcript
  }

  get state(): RunState {
    return this.#state
  }

  get transcript(): RunTranscript {
    return this.#transcript
  }

  /** The calls that wait, in order. */
  get pending(): ReadonlyArray<PendingCall> {
    return this.#transcript.open.flatMap(({ id, name, params }, i) =>
      this.#state.calls[i]?.verdict._tag === "Approve" ? [{ id, tool: name, params }] : []
    )
  }

  toString(): string {
    return `Suspended(${this.pending.length} calls)`
  }

  toJSON(): unknown {
    return this.toString()
  }

  [Inspectable.NodeInspectSymbol](): string {
    return this.toString()
  }
}

const Written = Schema.Struct({
  state: RunState,
  messages: Schema.Array(Prompt.Message),
  text: Schema.String,
  blocked: Schema.Struct({ count: Schema.Finite, last: Schema.Array(BlockedCall) })
})

/** Codec of a suspended run. The encoded form has the whole conversation. */
export const Suspended: Schema.Codec<SuspendedRun, typeof Written.Encoded> = Written.pipe(
  Schema.decodeTo(
    Schema.instanceOf(SuspendedRun),
    SchemaTransformation.transform({
      decode: ({ state, messages, text, blocked }: typeof Written.Type) => {
        const calls = callsOf(messages.slice(-1))
        return new SuspendedRun(state, { messages, text, blocked, calls, open: calls, closing: waiting })
      },
      encode: ({ state, transcript }: SuspendedRun) => ({
        state,
        messages: transcript.messages,
        text: transcript.text,
        blocked: transcript.blocked
      })
    })
  )
)
export type Suspended = SuspendedRun

export const make = (state: RunState, transcript: RunTranscript): Suspended =>
  new SuspendedRun(state, { ...transcript, closing: waiting })

const waiting = "This call waits for approval and was not run."
