/** The agent: turns of model and tools until it is done. */
export * as Agent from "./Agent.ts"
export * as AgentEvent from "./AgentEvent.ts"
export * as AgentFailed from "./AgentFailed.ts"
export * as Outcome from "./Outcome.ts"
export * as Transition from "./Transition.ts"
