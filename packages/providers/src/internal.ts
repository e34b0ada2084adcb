/**
 * What only other packages of Outlast need. Without promise: it may change in any release.
 */
export * as BodyLimit from "./aisdk/BodyLimit.ts"
export * as ClientCall from "./aisdk/ClientCall.ts"
export * as Connection from "./aisdk/Connection.ts"
export * as Endpoint from "./aisdk/Endpoint.ts"
export * as Copies from "./aisdk/Copies.ts"
export * as OriginalPart from "./aisdk/OriginalPart.ts"
export * as Secrets from "./aisdk/Secrets.ts"
export * as ServedError from "./aisdk/ServedError.ts"
export * as ServedPrompt from "./aisdk/ServedPrompt.ts"
export * as ServedRequest from "./aisdk/ServedRequest.ts"
export * as ServedTools from "./aisdk/ServedTools.ts"
export * as StaleSocket from "./aisdk/StaleSocket.ts"
export * as ToAiSdk from "./aisdk/ToAiSdk.ts"
export * as Wiring from "./aisdk/Wiring.ts"
