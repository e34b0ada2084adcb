/**
 * What a user asks of a call after it has ended: why it failed, or who answered and what it cost.
 *
 * **Example** (Reading both)
 *
 * ```ts
 * const response = yield* LanguageModel.generateText({ prompt })
 * Option.map(Outlast.answeredBy(response.content), (by) => `${by.target} for $${by.costUsd}`)
 *
 * program.pipe(Effect.catchTag("AiError", (error) => Effect.logError(Outlast.failureOf(error))))
 * ```
 */
export { answeredBy } from "./Answered.ts"
export { CallFailed, failureOf } from "./CallFailed.ts"
