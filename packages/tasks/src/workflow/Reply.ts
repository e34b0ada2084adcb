/** The stored result of a step. */
import { Schema } from "effect"
import { RunEvent, Steps } from "@outlast/agent/loop"
import { EffectRecord, FailReason } from "../state/TaskState.ts"

/** The effect of a step that was cut off after it began: whether it has happened is not known. */
const cutOff = { unknown: Schema.optional(EffectRecord) }

/** The reply of a step: what the store keeps. */
export const Reply = Schema.Union([
  Schema.TaggedStruct("Event", { event: RunEvent.RunEvent, ...cutOff }),
  Schema.TaggedStruct("Tool", { step: Steps.ToolStep, ...cutOff }),
  Schema.TaggedStruct("InDoubt", { effect: EffectRecord }),
  Schema.TaggedStruct("Failed", { reason: FailReason, ...cutOff })
])
export type Reply = typeof Reply.Type

export const replyJson = Schema.fromJsonString(Schema.toCodecJson(Reply))

/** The event of a step without an effect. */
export const eventJson = Schema.fromJsonString(Schema.toCodecJson(RunEvent.RunEvent))

/** True for a step that a cancellation or the time limit of the run has cut off. */
export const isCutOff = (reply: Reply): boolean =>
  reply._tag === "Tool"
    ? reply.step._tag !== "Ran"
    : reply._tag === "Event" && (reply.event._tag === "Interrupted" || reply.event._tag === "Stopped")
