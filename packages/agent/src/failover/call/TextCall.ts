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
import { Duration, Effect } from "effect"
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
import { either, next, timed, watched } from "../target/Timed.ts"
import { Answer } from "./Answer.ts"
import type { Attempt } from "./Attempt.ts"
import type { Cut } from "./AttemptEnd.ts"
import * as End from "./AttemptEnd.ts"
import * as AttemptRequest from "./AttemptRequest.ts"
import { CallRun } from "./CallRun.ts"
import { Lateness } from "./Lateness.ts"
import { EndedAttempts } from "./EndedAttempts.ts"
import { Fold, unfolded } from "./Fold.ts"
import * as ObjectAnswer from "./ObjectAnswer.ts"
import { isProviders } from "./PartKind.ts"
import type { StreamPart } from "./PartKind.ts"
import { Override, overTotal, StillRunning, StreamedAnswer } from "./StreamedAnswer.ts"
import { race } from "./Race.ts"
import { closed } from "./Surface.ts"
import { endOf, WholeRunner } from "./WholeRunner.ts"
import type { Asked, Parts } from "./WholeRunner.ts"

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
    const asked = this.#ask(attempt)
    return this.#settled(asked, asked.answer)
  }

  /** Prepares the attempt. It is sent when its answer is run. */
  #ask(attempt: Attempt): Asked {
    const { target } = attempt
    const run = this.#run
    const request = run.request(attempt, this.#cut?.answer.shown.text.all ?? "")
    if (!streamsWhole(run, target, this.#override))
      return { attempt, request, streamed: undefined, answer: watchedRequest(run, attempt, request) }
    const streamed = new StreamedAnswer(run, attempt, request)
    const answer = streamed.ask(() => requestedFrom(run, attempt, request))
    return { attempt, request, streamed, answer }
  }

  /** Goes on with what the attempt has given. */
  #settled(asked: Asked, answer: Asked["answer"]): Called {
    const { attempt, request, streamed } = asked
    const failed = (failure: ProviderFailure, commit: Commit, usage?: Usage): Called =>
      this.#failed(attempt, AttemptRequest.failureAt(attempt.target, request, failure), commit, usage)
    return either(
      answer,
      (failure) =>
        failure instanceof StillRunning
          ? this.#late(asked, failure.answer)
          : failed(failure, streamed?.commit ?? "nothing"),
      (parts) => this.#answered(asked, parts, failed)
    )
  }

  // ---------------------------------------------------------------------------
  // Two attempts at once
  // ---------------------------------------------------------------------------

  /** The answer of the attempt is late: another attempt may begin beside it. */
  #late(asked: Asked, answer: StillRunning["answer"]): Called {
    const raced = Effect.scopedWith((scope) => {
      const begun = (asked: Asked, answer: Asked["answer"]) =>
        Effect.map(
          Effect.forkIn(answer, scope, { startImmediately: true }),
          (fiber) => new WholeRunner(this.#run, asked, fiber)
        )
      const open = (attempt: Attempt) => {
        const asked = this.#ask(attempt)
        return begun(asked, asked.answer)
      }
      const caller = { run: this.#run, ended: this.#ended, open }
      const rest = (runner: WholeRunner): Effect.Effect<WholeRunner, CallFailure, IdGenerator.IdGenerator> =>
        Effect.flatMap(race(runner, caller), (runner) => {
          const after = this.#run.lateAfter(runner.attempt)
          // No other one was made, or it has failed: asks for one again after the same time.
          if (runner.isHeard || after === Infinity) return Effect.succeed(runner)
          const isHeard = Effect.as(runner.heard, true)
          return Effect.flatMap(Effect.raceFirst(isHeard, Effect.as(Effect.sleep(after), false)), (isHeard) =>
            isHeard ? Effect.succeed(runner) : rest(runner)
          )
        })
      return begun(asked, answer).pipe(
        Effect.flatMap(rest),
        Effect.flatMap(({ asked, exit }) => Effect.map(exit, (exit) => ({ asked, exit })))
      )
    })
    return Effect.flatMap(raced, ({ asked, exit }) => this.#settled(asked, exit))
  }

  #failed(attempt: Attempt, failure: ProviderFailure, commit: Commit, usage: Usage | undefined): Called {
    if (!isRefused(failure)) this.#refused = undefined
    return Effect.flatMap(this.#ended.failed(attempt, failure, commit, usage), (after) =>
      this.#goOn(attempt, after)
    )
  }

  #answered(
    asked: Asked,
    parts: Parts,
    failed: (failure: ProviderFailure, commit: Commit, usage?: Usage) => Called
  ): Called {
    const { attempt } = asked
    const { ref } = attempt.target
    const commit = asked.streamed?.commit ?? (parts.some(isProviders) ? "tool" : "nothing")
    const finish = parts.findLast((part) => part.type === "finish")
    if (finish === undefined)
      return failed(local("answer/no-finish", new Format({ side: "response" }), ref), commit)
    const end = endOf(this.#run, asked, parts, finish)
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

const streamsWhole = (run: CallRun, { ref, info }: Target, override: WholeAnswers | undefined): boolean =>
  (override ?? info.wholeAnswers) === "stream" && !run.chain.memory.refusesStreams.has(ref.id)

const requestedFrom = (
  run: CallRun,
  attempt: Attempt,
  request: AttemptRequest.AttemptRequest
): Effect.Effect<Parts, ProviderFailure, IdGenerator.IdGenerator> =>
  timed(AttemptRequest.generateText(attempt.target, request), run.chain.policy.limits.total, () =>
    overTotal(run, attempt, reportsHeaders(attempt))
  )

/** As {@link requestedFrom}, and fails with {@link StillRunning} when the answer is late. */
const watchedRequest = (
  run: CallRun,
  attempt: Attempt,
  request: AttemptRequest.AttemptRequest
): Asked["answer"] => {
  if (run.lateAfter(attempt) === Infinity) return requestedFrom(run, attempt, request)
  return Effect.suspend(() => {
    const startedAt = run.awake()
    const waited = (): number => run.awake() - startedAt
    const lateness = new Lateness(run, attempt, "whole")
    return watched(
      AttemptRequest.generateText(attempt.target, request),
      () => Duration.toMillis(run.chain.policy.limits.total) - waited(),
      () => overTotal(run, attempt, reportsHeaders(attempt)),
      {
        untilLate: () => lateness.left(waited()),
        orLate: (running, fiber) => StillRunning.fail(run, running, fiber)
      }
    )
  })
}

/** Only a model that hands on headers shows that nothing came. */
const reportsHeaders = ({ target }: Attempt): boolean => target.model.reportsHeaders === true

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
