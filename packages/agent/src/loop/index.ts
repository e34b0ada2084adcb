/** The agent loop: turns of model and tools until the task is done. */
export * as Agent from "./Agent.ts"
export * as AgentEvent from "./AgentEvent.ts"
export * as AgentFailed from "./AgentFailed.ts"
export * as Outcome from "./Outcome.ts"
export * as Transition from "./Transition.ts"
