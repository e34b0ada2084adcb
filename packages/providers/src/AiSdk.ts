/**
 * Targets over any provider package of the AI SDK (specification version 3 or 4): Bedrock, Vertex, Azure,
 * Mistral, and the rest.
 *
 * A client is made per key with `create`, when the first request with that key comes, and kept. Clients retry
 * nothing at this level; a provider package that sends several requests for one call (Gemini's long decodes)
 * does that inside one attempt.
 *
 * **Example** (A model on Amazon Bedrock)
 *
 * ```ts
 * AiSdk.model({
 *   provider: "bedrock",
 *   model: "anthropic.claude-sonnet-4-5-20250929-v1:0",
 *   keys: ["AWS_BEARER_TOKEN_BEDROCK"],
 *   create: (key) => createAmazonBedrock({ apiKey: key })("anthropic.claude-sonnet-4-5-20250929-v1:0")
 * })
 * ```
 */
import type { TargetSpec } from "@outlast/agent/failover/ProviderModel"
import type { Options } from "./aisdk/Target.ts"
import * as Target from "./aisdk/Target.ts"

export type { CallSettings, Namespaced, SpecModel } from "./aisdk/Spec.ts"
export type { CommonOptions, Options } from "./aisdk/Target.ts"

/** One model at one endpoint. Without `keys` it needs none. */
export const model = (options: Options): TargetSpec => Target.make(options, { toolFiles: "result" })
