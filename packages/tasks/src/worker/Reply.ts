/** The reply of a step: what the engine stores. */
import { Schema } from "effect"
import { RunEvent, Steps } from "@outlast/agent/loop"
import { EffectRecord, FailReason } from "../TaskState.ts"

export const Reply = Schema.Union([
  Schema.TaggedStruct("Event", { event: RunEvent.RunEvent }),
  Schema.TaggedStruct("Tool", { step: Steps.ToolStep }),
  Schema.TaggedStruct("InDoubt", { effect: EffectRecord }),
  Schema.TaggedStruct("Failed", { reason: FailReason })
])
export type Reply = typeof Reply.Type
