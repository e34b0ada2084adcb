/**
 * What only other packages of Outlast need. Without promise: it may change in any release.
 */
export * as AttemptRequest from "./failover/call/AttemptRequest.ts"
export * as Calls from "./failover/Calls.ts"
export * as Compacting from "./loop/Compacting.ts"
export * as Conversation from "./failover/call/Conversation.ts"
export * as EncodedPart from "./failover/target/EncodedPart.ts"
export * as Fields from "./config/Fields.ts"
export * as LoopGuard from "./guard/LoopGuard.ts"
export * as ModelHooks from "./failover/ModelHooks.ts"
