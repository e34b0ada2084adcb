/**
 * One call for a whole answer, text or object: attempts until one is complete.
 *
 * A target is asked with a request, or with a stream that is folded (`StreamedAnswer`), as `ModelInfo.wholeAnswers`
 * says. Nothing of a failed attempt is in the answer.
 *
 * An answer that the output limit cut may be repeated or continued (`Truncation`). The answers that continue each other,
 * and those that are to be an object, go through `Answer`, as the parts of a stream do. An answer that is not the object
 * that was asked for is a failed attempt (`ObjectAnswer`), and so is one that the provider refused (`AnswerEnd`).
 */
import { Effect } from "effect"
import type { IdGenerator, LanguageModel, Response } from "effect/ai"
import type { WholeAnswers } from "../../conversation/ModelInfo.ts"
import * as Provenance from "../../conversation/Provenance.ts"
import type { Usage } from "../../conversation/Usage.ts"
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import { Format } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import type { Chain, Target } from "../chain/Chain.ts"
import { isRefused, RefusedAnswers } from "../decide/AnswerEnd.ts"
import type { Commit } from "../decide/CallState.ts"
import { either, next, timed } from "../target/Timed.ts"
import { Answer } from "./Answer.ts"
import type { Attempt } from "./Attempt.ts"
import type { Cut } from "./AttemptEnd.ts"
import * as End from "./AttemptEnd.ts"
import * as AttemptRequest from "./AttemptRequest.ts"
import { CallRun } from "./CallRun.ts"
import { EndedAttempts } from "./EndedAttempts.ts"
import { Fold, unfolded } from "./Fold.ts"
import * as ObjectAnswer from "./ObjectAnswer.ts"
import { isCallOfProgram, isProviders } from "./PartKind.ts"
import type { StreamPart } from "./PartKind.ts"
import { Override, overTotal, StreamedAnswer } from "./StreamedAnswer.ts"
import { closed } from "./Surface.ts"

type Parts = Array<Response.PartEncoded>
type Finish = Response.FinishPartEncoded
type Called = Effect.Effect<Parts, CallFailure, IdGenerator.IdGenerator>

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
    const run = new CallRun(chain, options, closed, false, fiber)
    const call = new TextCall(run, options.responseFormat, fiber.getRef(Override))
    const begun = Effect.suspend(() => next(run.begin, call.attempted))
    // As `Effect.onError`, which costs more even where nothing failed.
    const owned = Effect.onExitPrimitive(begun, (exit) =>
      exit._tag === "Failure" ? run.abandoned : undefined
    )
    return Effect.catch(owned, (failure) => {
      const refused = fiber.getRef(RefusedAnswers) === "deliver" ? call.refused : undefined
      return refused === undefined ? Effect.fail(toError(failure, call.wrong)) : Effect.succeed(refused)
    })
  })

/** An answer, the attempt that wrote last in it, and its parts so far, without those that `Answer` holds. */
interface Written {
  readonly answer: Answer
  readonly attempt: Attempt
  readonly fold: Fold
}

class TextCall {
  readonly #run: CallRun
  readonly #ended: EndedAttempts
  readonly #format: LanguageModel.ProviderOptions["responseFormat"]
  readonly #override: WholeAnswers | undefined
  /** The answer that was cut last, with what it continues. */
  #cut: Written | undefined
  /** The answer of the last attempt, if that was refused. */
  #refused: { readonly attempt: Attempt; readonly parts: Parts; readonly finish: Finish } | undefined

  constructor(
    run: CallRun,
    format: LanguageModel.ProviderOptions["responseFormat"],
    override: WholeAnswers | undefined
  ) {
    this.#run = run
    this.#ended = new EndedAttempts(run)
    this.#format = format
    this.#override = override
  }

  get wrong(): string | undefined {
    return this.#ended.wrong
  }

  /** The answer that the provider refused, without tool calls of the program. */
  get refused(): Parts | undefined {
    if (this.#refused === undefined) return undefined
    const { attempt, parts, finish } = this.#refused
    const content = parts.filter((part) => part !== finish)
    return this.#delivered(this.#write(attempt, content), this.#run.costOfFailed(attempt), finish)
  }

  readonly attempted = (attempt: Attempt): Called => {
    const { target } = attempt
    const request = this.#run.request(attempt, this.#cut?.answer.shown.text.all ?? "")
    const requested = () => requestedFrom(this.#run, target, request)
    const streamed = streamsWhole(this.#run, target, this.#override)
      ? new StreamedAnswer(this.#run, target, request)
      : undefined
    const failed = (failure: ProviderFailure, commit: Commit, usage?: Usage): Called =>
      this.#failed(attempt, AttemptRequest.failureAt(target, request, failure), commit, usage)
    return either(
      streamed === undefined ? requested() : streamed.ask(requested),
      (failure) => failed(failure, streamed?.commit ?? "nothing"),
      (parts) => this.#answered(attempt, parts, streamed ?? requestedAs(parts), failed)
    )
  }

  #failed(attempt: Attempt, failure: ProviderFailure, commit: Commit, usage: Usage | undefined): Called {
    if (!isRefused(failure)) this.#refused = undefined
    return Effect.flatMap(this.#ended.failed(attempt, failure, commit, usage), (after) =>
      this.#goOn(attempt, after)
    )
  }

  #answered(
    attempt: Attempt,
    parts: Parts,
    { commit, lacksCall }: Pick<StreamedAnswer, "commit" | "lacksCall">,
    failed: (failure: ProviderFailure, commit: Commit, usage?: Usage) => Called
  ): Called {
    const { ref } = attempt.target
    const finish = parts.findLast((part) => part.type === "finish")
    if (finish === undefined)
      return failed(local("answer/no-finish", new Format({ side: "response" }), ref), commit)
    const judge = this.#run.judge(attempt)
    for (const part of parts) judge.saw(part)
    const end = End.of(finish, { judge, hasCall: parts.some(isCallOfProgram), lacksCall })
    if (end._tag === "Cut") return this.#keep(attempt, parts, end, commit)
    if (end._tag === "Failed") {
      this.#refused = { attempt, parts, finish }
      return Effect.flatMap(End.failureOf(end, ref, "answer"), (failure) =>
        failed(failure, commit, finish.usage)
      )
    }
    const succeeded = () => this.#run.succeeded(attempt, finish.usage)
    if (this.#format.type === "text" && attempt.continues === undefined) {
      return next(succeeded(), (costUsd) =>
        Effect.succeed(signed(parts, attempt.maker, this.#ended.finish(attempt, finish, costUsd)))
      )
    }
    const { answer, fold } = this.#write(attempt, parts)
    const deliver = Effect.andThen(
      this.#joined(attempt, answer),
      Effect.map(Effect.suspend(succeeded), (costUsd) => [
        ...fold.parts,
        this.#ended.finish(attempt, finish, costUsd)
      ])
    )
    if (this.#format.type === "text" || !ObjectAnswer.isDue(parts)) return deliver
    const text = answer.shown.text.all
    return Effect.matchEffect(ObjectAnswer.read(this.#format, text), {
      onSuccess: () => deliver,
      onFailure: (problem) => failed(this.#ended.wrongObject(attempt, problem, text), commit, finish.usage)
    })
  }

  /** Keeps an answer that was cut, also where it is repeated: the repeat may fail. */
  #keep(attempt: Attempt, parts: Parts, end: Cut, commit: Commit): Called {
    const cut = this.#write(attempt, parts)
    const { shown } = cut.answer
    // An answer without text never replaces one with text.
    if (!shown.text.isBlank || this.#cut?.answer.shown.text.isBlank !== false) this.#cut = cut
    return this.#joined(attempt, cut.answer).pipe(
      Effect.andThen(this.#ended.cut(attempt, end, commit, shown)),
      Effect.flatMap((after) => this.#goOn(attempt, after))
    )
  }

  /** Makes the next attempt, or ends the answer as cut as it is. */
  #goOn(last: Attempt, after: Attempt | undefined): Called {
    if (after !== undefined) return this.attempted(after)
    const cut = this.#cut ?? this.#write(last, [])
    return Effect.map(this.#run.succeeded(cut.attempt, undefined), (costUsd) => this.#delivered(cut, costUsd))
  }

  #delivered({ answer, attempt, fold }: Written, costUsd: number | undefined, refused?: Finish): Parts {
    fold.pushAll(this.#ended.delivered(answer, attempt, costUsd, refused))
    return fold.parts
  }

  /** Writes the parts into the answer that the attempt continues, or into a new one. */
  #write(attempt: Attempt, parts: Parts): Written {
    const before = attempt.continues === undefined ? undefined : this.#cut
    const answer = before?.answer ?? new Answer(this.#run.requested, "continue", this.#format.type === "json")
    const fold = before?.fold ?? new Fold()
    answer.begin(attempt)
    fold.pushAll(
      answer.push(parts.flatMap((part, i): ReadonlyArray<StreamPart> => unfolded(part, String(i))))
    )
    return { answer, attempt, fold }
  }

  #joined(attempt: Attempt, { seam }: Answer): Effect.Effect<void> {
    return seam === undefined ? Effect.void : this.#run.joined(attempt, seam)
  }
}

/** As `StreamedAnswer` has it, of an answer to a request, whose calls are whole. */
const requestedAs = (parts: Parts): Pick<StreamedAnswer, "commit" | "lacksCall"> => ({
  commit: parts.some(isProviders) ? "tool" : "nothing",
  lacksCall: false
})

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

/** A complete answer of one attempt, with its `finish`: each part with its maker, the first text with who answered. */
const signed = (parts: Parts, maker: Provenance.Provenance, finish: Finish): Parts => {
  const first = parts.find((part) => part.type === "text")
  const answered = Provenance.signed(finish)
  return parts.map((part) => {
    if (part.type === "finish") return finish
    const own = Provenance.signed(part)
    const author = own === undefined ? maker : { ...maker, ...own }
    return Provenance.sign(part, part === first ? { ...answered, ...author } : author)
  })
}
