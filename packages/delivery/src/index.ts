/**
 * Events that survive broker outages. Each namespace is one module. NATS JetStream is at `@outlast/delivery/nats`.
 */
export { BusError } from "./bus/BusError.ts"
export * as DeadLetters from "./dead/DeadLetters.ts"
export type { DeadLetter, Filter, NewDeadLetter, Reason as DeadReason } from "./store/DeadLetter.ts"
export * as DeliveryMetrics from "./telemetry/DeliveryMetrics.ts"
export type { DeliveryEvent } from "./telemetry/DeliveryEvent.ts"
export { type NewEvent, type OutboxEvent, idHeader, TooLarge } from "./Event.ts"
export * as EventBus from "./bus/EventBus.ts"
export * as MemoryBus from "./bus/MemoryBus.ts"
export * as Outbox from "./outbox/Outbox.ts"
export { OutboxFull } from "./outbox/OutboxFull.ts"
export * as DeliveryStore from "./store/Stores.ts"
