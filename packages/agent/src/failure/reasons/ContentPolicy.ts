/**
 * The provider refused the content of the request or of the answer.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { id, never } from "./ReasonDefinition.ts"

/** The provider refused the content of the request or of the answer. */
export class ContentPolicy extends Schema.TaggedClass<ContentPolicy>(id("ContentPolicy"))(
  "ContentPolicy",
  {}
) {}

export const contentPolicy: ReasonDefinition<ContentPolicy> = {
  label: "content_policy",
  samples: [new ContentPolicy()],
  happened: ({ status }) => `the provider refused the content${status}`,
  advice: () => "Repeating cannot help: change the content.",
  notice: () => "refused the content",
  nearest: ({ description }) => new AiError.ContentPolicyError({ description }),
  isTransient: never,
  needsPerson: false,
  isItsFault: never,
  wait: "field",
  remedies: ["target", "stop"]
}
