/**
 * How an attempt has ended, streamed or whole: by its last part, and by what came before. Nothing behind it is read.
 */
import { Effect } from "effect"
import type { Response } from "effect/ai"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Usage } from "../../conversation/Usage.ts"
import * as Classifier from "../../failure/Classifier.ts"
import { Format, ServerError } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import type { AnswerEnd } from "../decide/AnswerEnd.ts"

type Finish = Response.FinishPartEncoded

export type AttemptEnd = Whole | Cut | Failed

/** The answer is complete, or is delivered as it is. */
interface Whole {
  readonly _tag: "Whole"
  readonly finish: Finish
}

/** The output limit cut the answer. */
export interface Cut {
  readonly _tag: "Cut"
  readonly finish: Finish
  /** There is a tool call in it, which must not run. */
  readonly inToolCall: boolean
}

/** The last part says that the attempt failed, or the answer is none. */
export interface Failed {
  readonly _tag: "Failed"
  readonly part: Response.ErrorPartEncoded | Finish
  /** The failure, where the finish is intact. */
  readonly problem: ProviderFailure | undefined
}

/** What the parts before the finish say. */
export interface Before {
  /** Has seen them. */
  readonly judge: AnswerEnd | undefined
  /** There is a tool call of the program in them. */
  readonly hasCall: boolean
  /** A tool call of the program was begun and never made. */
  readonly lacksCall: boolean
}

export const of = (finish: Finish, { judge, hasCall, lacksCall }: Before): AttemptEnd => {
  if (finish.reason === "error") return { _tag: "Failed", part: finish, problem: undefined }
  if (finish.reason === "length") return { _tag: "Cut", finish, inToolCall: hasCall || lacksCall }
  // The answer is cut, whatever its end says. One that was refused may be.
  const problem = lacksCall && finish.reason !== "content-filter" ? cutArguments : judge?.problem(finish)
  return problem === undefined ? { _tag: "Whole", finish } : { _tag: "Failed", part: finish, problem }
}

const cutArguments = local(
  "stream/cut-arguments",
  new Format({ side: "response" }),
  undefined,
  "The arguments of a tool call were cut."
)

/** Tokens of an attempt that is not the answer, where its finish came. */
export const usageOf = (end: AttemptEnd | undefined): Usage | undefined => {
  if (end?._tag === "Cut") return end.finish.usage
  return end?._tag === "Failed" && end.part.type === "finish" ? end.part.usage : undefined
}

/** The failure that the end says. `source` names the rule of a finish with the reason error. */
export const failureOf = (
  { part, problem }: Failed,
  target: TargetRef,
  source: "stream" | "answer"
): Effect.Effect<ProviderFailure> =>
  part.type === "error"
    ? Classifier.failure(part.error, { target, waits: true })
    : Effect.succeed(problem ?? local(`${source}/finish-error`, new ServerError(), undefined))
