/** The event bus over NATS JetStream. Needs the packages `@nats-io/transport-node` and `@nats-io/jetstream`. */
export * as NatsBus from "./NatsBus.ts"
export type { CheckOptions, Finding, Problem } from "./NatsStreams.ts"
