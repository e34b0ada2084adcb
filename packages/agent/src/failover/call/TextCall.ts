/**
 * One call for a whole answer, text or object: attempts until one is complete.
 *
 * A target is asked with a request, or with a stream that is folded (`StreamedAnswer`), as `ModelInfo.wholeAnswers`
 * says.
 *
 * An answer that the output limit cut may be repeated or continued (`Truncation`); its parts are joined to one
 * answer. A tool call in a cut answer is never handed on. An answer that is not the object that was asked for is a
 * failed attempt (`ObjectAnswer`), and so is one that the provider refused (`AnswerEnd`).
 */
import { Effect } from "effect"
import type { IdGenerator, LanguageModel, Response } from "effect/ai"
import * as ObjectText from "../../conversation/ObjectText.ts"
import * as WindowFull from "../../conversation/WindowFull.ts"
import * as Provenance from "../../conversation/Provenance.ts"
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import { Format, ServerError } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { isWrongObject, local } from "../../failure/reasons/ProviderFailure.ts"
import { isCallOfProgram, isText, Kept } from "../../recovery/Kept.ts"
import { namespace, written } from "../../conversation/Answered.ts"
import * as AnswerEnd from "../decide/AnswerEnd.ts"
import * as AttemptRequest from "./AttemptRequest.ts"
import type { Attempt } from "./Attempt.ts"
import type { Commit } from "../decide/CallState.ts"
import { CallRun } from "./CallRun.ts"
import type { Chain, Target } from "../chain/Chain.ts"
import type { WholeAnswers } from "../../conversation/ModelInfo.ts"
import type { ObjectFormat } from "./ObjectAnswer.ts"
import * as ObjectAnswer from "./ObjectAnswer.ts"
import { Override, overTotal, StreamedAnswer } from "./StreamedAnswer.ts"
import { closed } from "./Surface.ts"
import { either, next, timed } from "../target/Timed.ts"
import type { Usage } from "../../conversation/Usage.ts"
import { sum, unknown } from "../../conversation/Usage.ts"

type Part = Response.PartEncoded
type Parts = Array<Part>
type Called<A> = Effect.Effect<A, CallFailure, IdGenerator.IdGenerator>

/**
 * The parts of the first complete answer, with who answered in their metadata. What the call fails with goes through
 * `toError`, with the text of the last answer if that is why: it was not the object that was asked for.
 */
export const generateText = <E>(
  chain: Chain,
  options: LanguageModel.ProviderOptions,
  toError: (failure: CallFailure, object?: string) => E
): Effect.Effect<Parts, E, IdGenerator.IdGenerator> =>
  Effect.withFiber((fiber) => {
    const { responseFormat } = options
    /** What the last attempt said in place of an object. */
    let wrong: string | undefined
    /** The answer of the last attempt, if that was refused and is to be delivered all the same. */
    let refused: (Answer & { readonly attempt: Attempt }) | undefined
    const run = new CallRun(chain, options, closed, false, fiber)
    const override = fiber.getRef(Override)
    const kept = new Kept<Attempt>()
    const attempted = (attempt: Attempt): Called<Parts> => {
      const made = run.request(attempt, kept.text)
      const { target } = attempt
      const requested = () => requestedFrom(run, target, made)
      const streamed = streamsWhole(run, target, override) ? new StreamedAnswer(run, target, made) : undefined
      const failed = (failure: ProviderFailure, commit: Commit, usage?: Usage): Called<Parts> => {
        if (usage !== undefined) kept.forget(usage)
        if (!isWrongObject(failure)) wrong = undefined
        if (!AnswerEnd.isRefused(failure)) refused = undefined
        return Effect.flatMap(
          run.failed(attempt, AttemptRequest.failureAt(attempt.target, made, failure), commit, usage),
          (after) => (after === undefined ? keptCut(attempt) : attempted(after))
        )
      }
      const answered = (parts: Parts): Called<Parts> => {
        const { ref } = attempt.target
        const finish = parts.findLast((part) => part.type === "finish")
        if (finish === undefined) {
          return failed(local("answer/no-finish", new Format({ side: "response" }), ref), commitOf(parts))
        }
        switch (finish.reason) {
          case "error":
            return failed(local("answer/finish-error", new ServerError(), ref), commitOf(parts), finish.usage)
          case "length":
            return cut(attempt, { parts, finish }, streamed?.lacksCall === true)
          default: {
            const end = run.judge(attempt)
            for (const part of parts) end.saw(part)
            const problem = end.problem(finish)
            if (problem !== undefined) {
              if (fiber.getRef(AnswerEnd.RefusedAnswers) === "deliver") refused = { attempt, parts, finish }
              return failed(problem, commitOf(parts), finish.usage)
            }
            return responseFormat.type === "json" && ObjectAnswer.isDue(parts)
              ? judged(responseFormat, parts, finish)
              : complete(attempt, { parts, finish })
          }
        }
      }
      /** An answer that is to be an object. */
      const judged = (
        format: ObjectFormat,
        parts: Parts,
        finish: Response.FinishPartEncoded
      ): Called<Parts> => {
        const said = parts.map((part) => (part.type === "text" ? part.text : "")).join("")
        const text = ObjectText.of(said)
        return Effect.matchEffect(ObjectAnswer.read(format, text), {
          onSuccess: () =>
            complete(attempt, { parts: text === said ? parts : withText(parts, text), finish }),
          onFailure: (problem) => {
            wrong = said
            const failure = ObjectAnswer.failure(problem, attempt.target.ref)
            return failed(failure, commitOf(parts), finish.usage)
          }
        })
      }
      return either(
        streamed === undefined ? requested() : streamed.ask(requested),
        (failure) => failed(failure, streamed?.commit ?? "nothing", streamed?.usage),
        answered
      )
    }
    const complete = (attempt: Attempt, { parts, finish }: Answer): Called<Parts> => {
      if (kept.usage === undefined) return deliver(run, attempt, parts, finish, finish.usage)
      const joined = kept.join(parts, attempt)
      const whole = { ...finish, usage: sum(kept.usage, finish.usage) }
      return Effect.andThen(
        joined.verdict === undefined ? Effect.void : run.joined(attempt, joined.verdict),
        deliver(run, attempt, [...joined.parts, whole], whole, finish.usage)
      )
    }
    const cut = (attempt: Attempt, { parts, finish }: Answer, lacksCall: boolean): Called<Parts> => {
      const inToolCall = lacksCall || parts.some(isCallOfProgram)
      const characters = parts.reduce((sum, part) => sum + (part.type === "text" ? part.text.length : 0), 0)
      const report = {
        commit: commitOf(parts),
        usage: finish.usage,
        inToolCall,
        characters,
        hasText: parts.some(isText),
        byWindow: WindowFull.isMarked(finish)
      }
      return Effect.flatMap(run.cut(attempt, report), (after) => {
        // Also where it is repeated: the repeat may fail.
        const verdict = kept.keep(parts, finish.usage, attempt)
        const told = verdict === undefined ? Effect.void : run.joined(attempt, verdict)
        return Effect.andThen(told, after === undefined ? keptCut(attempt) : attempted(after))
      })
    }
    /** What there is of the answer, as cut as it is. */
    const keptCut = (attempt: Attempt): Called<Parts> => {
      const finish: Response.FinishPartEncoded = {
        type: "finish",
        reason: "length",
        usage: kept.usage ?? unknown,
        response: undefined
      }
      return deliver(run, kept.from ?? attempt, [...kept.parts, finish], finish, undefined)
    }
    const begun = Effect.suspend(() => next(run.begin, attempted))
    // As `Effect.onError`, which costs more even where nothing failed.
    const owned = Effect.onExitPrimitive(begun, (exit) =>
      exit._tag === "Failure" ? run.abandoned : undefined
    )
    return Effect.catch(owned, (failure) => {
      if (refused === undefined) return Effect.fail(toError(failure, wrong))
      const { attempt, parts, finish } = refused
      const { parts: content } = kept.join(
        parts.filter((part) => !isCallOfProgram(part)),
        attempt
      )
      const whole = { ...finish, usage: kept.usage ?? finish.usage }
      return Effect.succeed(signed(run, attempt, [...content, whole], whole, run.costOfFailed(attempt)))
    })
  })

/** The parts with one text, in the place of the first. */
const withText = (parts: Parts, text: string): Parts => {
  const first = parts.find((part) => part.type === "text")
  return parts
    .filter((part) => part.type !== "text" || part === first)
    .map((part) => (part.type === "text" ? { ...part, text } : part))
}

/** A complete answer, or one that the output limit cut. */
interface Answer {
  readonly parts: Parts
  readonly finish: Response.FinishPartEncoded
}

/** A tool that the provider runs itself has had its effect. Nothing else of a whole answer is seen before its end. */
const commitOf = (parts: Parts): Commit =>
  parts.some((part) => part.type === "tool-call" && part.providerExecuted === true) ? "tool" : "nothing"

const streamsWhole = (run: CallRun, { ref, info }: Target, override: WholeAnswers | undefined): boolean =>
  (override ?? info.wholeAnswers) === "stream" && !run.chain.memory.refusesStreams.has(ref.id)

const requestedFrom = (
  run: CallRun,
  target: Target,
  request: AttemptRequest.AttemptRequest
): Effect.Effect<Parts, ProviderFailure, IdGenerator.IdGenerator> =>
  timed(AttemptRequest.generateText(target, request), run.chain.policy.limits.total, () =>
    // Only a model that hands on headers shows that nothing came.
    overTotal(run, target, target.model.reportsHeaders === true)
  )

const deliver = (
  run: CallRun,
  attempt: Attempt,
  parts: Parts,
  finish: Response.FinishPartEncoded,
  own: Usage | undefined
): Effect.Effect<Parts> =>
  next(run.succeeded(attempt, own), (costUsd) => Effect.succeed(signed(run, attempt, parts, finish, costUsd)))

/** The parts with who made them, and the finish with who answered and for how much. */
const signed = (
  run: CallRun,
  { answered: by, maker }: Attempt,
  parts: Parts,
  finish: Response.FinishPartEncoded,
  costUsd: number | undefined
): Parts => {
  const answered = written({ requested: run.requested, ...by, costUsd })
  const first = parts.find((part) => part.type === "text")
  return parts.map((part) => {
    if (part === finish) return { ...part, metadata: { ...part.metadata, [namespace]: answered } }
    const own = Provenance.signed(part)
    const author = own === undefined ? maker : { ...maker, ...own }
    return Provenance.sign(part, part === first ? { ...answered, ...author } : author)
  })
}
