/**
 * One streamed call: attempts until one reaches its complete finish, shown to the consumer as one answer.
 *
 * `Answer` decides which parts may be shown, `StreamAttempt` reads them. This module moves from one attempt to the next.
 * An attempt is closed, its request aborted, before the next one begins.
 */
import { Cause, Channel, Effect, Scope, Stream } from "effect"
import type { AiError, IdGenerator, LanguageModel, Response } from "effect/ai"
import { sum } from "../../conversation/Usage.ts"
import type { Usage } from "../../conversation/Usage.ts"
import * as WindowFull from "../../conversation/WindowFull.ts"
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { isWrongObject } from "../../failure/reasons/ProviderFailure.ts"
import type { Chain } from "../chain/Chain.ts"
import { isRefused, RefusedAnswers } from "../decide/AnswerEnd.ts"
import { Answer } from "./Answer.ts"
import type { Attempt } from "./Attempt.ts"
import type { Cut } from "./AttemptEnd.ts"
import * as End from "./AttemptEnd.ts"
import { CallRun } from "./CallRun.ts"
import type { ObjectFormat } from "./ObjectAnswer.ts"
import * as ObjectAnswer from "./ObjectAnswer.ts"
import type { StreamPart } from "./PartKind.ts"
import type { Parts, PullOf } from "./StreamAttempt.ts"
import { StreamAttempt } from "./StreamAttempt.ts"
import * as StrictCalls from "./StrictCalls.ts"
import * as Surface from "./Surface.ts"

type Out = ReadonlyArray<StreamPart>
type Finish = Response.FinishPartEncoded

/**
 * Failures of the call are mapped by `toError`, and mistakes of the model by `mistaken`. Mapping the errors of the stream
 * outside would cost every pull.
 */
interface Errors<E> {
  readonly toError: (failure: CallFailure, object?: string) => E
  readonly mistaken: (mistake: AiError.AiErrorReason) => E
}

interface Consumer extends Surface.Surface {
  readonly deliversRefused: boolean
}

/** The parts of one answer, whatever number of attempts it takes. */
export const streamText = <E>(
  chain: Chain,
  options: LanguageModel.ProviderOptions,
  toError: Errors<E>["toError"],
  mistaken: Errors<E>["mistaken"]
): Stream.Stream<StreamPart, E, IdGenerator.IdGenerator> =>
  Stream.fromChannel(
    Channel.fromTransform((_, scope) =>
      Effect.gen(function* () {
        const surface = yield* Surface.taken
        const { format } = surface
        const asked = format === undefined ? options : { ...options, responseFormat: format }
        const deliversRefused = (yield* RefusedAnswers) === "deliver"
        const run = yield* Effect.withFiber((fiber) =>
          Effect.succeed(new CallRun(chain, asked, surface, true, fiber))
        )
        yield* Scope.addFinalizer(scope, run.abandoned)
        const answer = new Answer(run.requested, run.midStream, format !== undefined)
        const open = (attempt: Attempt) => StreamAttempt.make(run, answer, attempt, scope)
        const opened = yield* run.begin.pipe(
          Effect.mapError((failure) => toError(failure)),
          Effect.flatMap(open)
        )
        const consumer = { ...surface, deliversRefused }
        return new StreamCall(run, answer, options, consumer, { toError, mistaken }, open, opened).pull
      })
    )
  )

class StreamCall<E> {
  readonly #run: CallRun
  readonly #answer: Answer
  readonly #options: LanguageModel.ProviderOptions
  readonly #consumer: Consumer
  readonly #errors: Errors<E>
  readonly #open: (attempt: Attempt) => Effect.Effect<StreamAttempt, never, IdGenerator.IdGenerator>
  #opened: StreamAttempt
  /** The attempt that produced the last shown part. */
  #author: Attempt
  /** The consumer has been given something of the answer, and it was not taken back. */
  #isGiven = false
  /** The text of an answer that is not the object that was asked for, if that is what failed last. */
  #wrong: string | undefined
  /** Tokens of the attempts that failed or were cut, as far as they are known. */
  #spent: Usage | undefined

  constructor(
    run: CallRun,
    answer: Answer,
    options: LanguageModel.ProviderOptions,
    consumer: Consumer,
    errors: Errors<E>,
    open: (attempt: Attempt) => Effect.Effect<StreamAttempt, never, IdGenerator.IdGenerator>,
    opened: StreamAttempt
  ) {
    this.#run = run
    this.#answer = answer
    this.#options = options
    this.#consumer = consumer
    this.#errors = errors
    this.#open = open
    this.#opened = opened
    this.#author = opened.attempt
  }

  /** The next parts for the consumer. */
  readonly pull: PullOf<E> = Effect.suspend(() => {
    const { end } = this.#answer
    if (end === undefined) return this.#opened.pull(this.received, this.failed)
    if (end._tag === "Whole") return Cause.done()
    return end._tag === "Cut"
      ? this.#cut(end)
      : Effect.flatMap(End.failureOf(end, this.#opened.attempt.target.ref, "stream"), this.failed)
  })

  readonly received = (out: Out, isFirst: boolean): PullOf<E> => {
    const { attempt } = this.#opened
    const { seam } = this.#answer
    const told = isFirst ? this.#run.answers(attempt) : undefined
    const next = this.#shown(out, told !== undefined)
    const joined = seam === undefined ? next : Effect.andThen(this.#run.joined(attempt, seam), next)
    return told === undefined ? joined : Effect.andThen(told, joined)
  }

  #shown(out: Out, hasNews: boolean): PullOf<E> {
    const { finish } = this.#answer
    const { format } = this.#consumer
    if (finish !== undefined) {
      return format === undefined || !ObjectAnswer.isDue(out)
        ? this.#finished(out, finish)
        : this.#judged(format, out, finish)
    }
    if (isShown(out)) this.#isGiven = true
    return this.#shownOr(hasNews ? [...this.#news(), ...out] : out)
  }

  #judged(format: ObjectFormat, out: Out, finish: Finish): PullOf<E> {
    return Effect.matchEffect(ObjectAnswer.read(format, this.#answer.text), {
      onSuccess: () => this.#finished(out, finish),
      onFailure: (problem) => {
        // Shown text cannot be taken back: the consumer checks the object and decides.
        if (this.#isGiven && !this.#consumer.rewindable) return this.#finished(out, finish)
        this.#wrong = this.#answer.text
        this.#answer.refuse(this.#isGiven)
        return this.failed(ObjectAnswer.failure(problem, this.#opened.attempt.target.ref))
      }
    })
  }

  #finished(out: Out, finish: Finish): PullOf<E> {
    return Effect.flatMap(this.#run.succeeded(this.#opened.attempt, finish.usage), (costUsd) => {
      const mistake = StrictCalls.mistakeIn(this.#options, out)
      if (mistake !== undefined) return Effect.fail(this.#errors.mistaken(mistake))
      const last = this.#answer.priced(finish, { usage: sum(this.#spent, finish.usage), costUsd })
      const [head, ...tail] = [...this.#news(), ...out]
      return Effect.succeed(head === undefined ? [last] : [head, ...tail, last])
    })
  }

  readonly failed = (failure: ProviderFailure): PullOf<E> => {
    const { attempt, silence } = this.#opened
    const { commit, end } = this.#answer
    if (commit === "text") this.#author = attempt
    if (!isWrongObject(failure)) this.#wrong = undefined
    const usage = End.usageOf(end)
    if (usage !== undefined) this.#spent = sum(this.#spent, usage)
    const next = this.#opened.close.pipe(
      Effect.andThen(this.#run.failed(attempt, this.#opened.located(failure), commit, usage, silence))
    )
    return Effect.matchEffect(next, {
      onSuccess: (next) => this.#goOn(next),
      onFailure: (given) => {
        const part = end?._tag === "Failed" && isRefused(failure) ? end.part : undefined
        if (!this.#consumer.deliversRefused || part?.type !== "finish")
          return Effect.fail(this.#errors.toError(given, this.#wrong))
        const total = { usage: this.#spent, costUsd: this.#run.costOfFailed(attempt) }
        return this.#shownOr(this.#answer.deliverRefused(part, attempt.answered, total))
      }
    })
  }

  #cut({ finish, inToolCall }: Cut): PullOf<E> {
    const { attempt } = this.#opened
    const { usage } = finish
    const { commit, gained: characters, hasText } = this.#answer
    this.#author = attempt
    this.#spent = sum(this.#spent, usage)
    const byWindow = WindowFull.isMarked(finish)
    return this.#opened.close.pipe(
      Effect.andThen(this.#run.cut(attempt, { commit, usage, inToolCall, characters, hasText, byWindow })),
      Effect.mapError((failure) => this.#errors.toError(failure)),
      Effect.flatMap((next) => this.#goOn(next))
    )
  }

  /** Opens the next attempt, or ends the answer as cut as it is. */
  #goOn(next: Attempt | undefined): PullOf<E> {
    if (next === undefined) {
      const author = this.#author
      return Effect.flatMap(this.#run.succeeded(author, undefined), (costUsd) =>
        this.#shownOr(this.#answer.deliverCut(author.answered, { usage: this.#spent, costUsd }))
      )
    }
    const void_ = next.rewind ? this.#answer.rewind() : next.apart ? this.#answer.close() : []
    if (next.rewind) this.#isGiven = false
    const said = [...void_, ...this.#news()]
    return Effect.flatMap(this.#open(next), (opened) => {
      this.#opened = opened
      return this.#shownOr(said)
    })
  }

  #shownOr(out: Out): PullOf<E> {
    return isShown(out) ? Effect.succeed(out) : this.pull
  }

  /** Changes of model, as parts, where the consumer can be told of them. */
  #news(): Out {
    const notices = this.#run.takeNotices()
    return this.#consumer.rewindable ? notices.map(Surface.carrier) : nothing
  }
}

const nothing: Out = []

const isShown = (parts: Out): parts is Parts => parts.length > 0
