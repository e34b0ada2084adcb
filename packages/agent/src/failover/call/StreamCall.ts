/**
 * One streamed call: attempts until one reaches its complete finish, shown to the consumer as one answer.
 *
 * `Answer` decides which parts may be shown, `StreamAttempt` reads them. This module moves from one attempt to the next.
 * An attempt is closed, its request aborted, before the next one begins. One exception: a hedge begins beside an attempt
 * whose first token is late (`Race`).
 */
import { Cause, Channel, Effect, Scope, Stream } from "effect"
import type { AiError, IdGenerator, LanguageModel, Response } from "effect/ai"
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { Chain } from "../chain/Chain.ts"
import { isRefused, RefusedAnswers } from "../decide/AnswerEnd.ts"
import { Answer } from "./Answer.ts"
import type { Attempt } from "./Attempt.ts"
import type { Cut } from "./AttemptEnd.ts"
import * as End from "./AttemptEnd.ts"
import { CallRun } from "./CallRun.ts"
import { EndedAttempts } from "./EndedAttempts.ts"
import type { ObjectFormat } from "./ObjectAnswer.ts"
import * as ObjectAnswer from "./ObjectAnswer.ts"
import type { StreamPart } from "./PartKind.ts"
import { race } from "./Race.ts"
import type { Parts, PullOf, StreamAttempt } from "./StreamAttempt.ts"
import * as Attempts from "./StreamAttempt.ts"
import { StreamRunner } from "./StreamRunner.ts"
import * as StrictCalls from "./StrictCalls.ts"
import * as Surface from "./Surface.ts"

type Out = ReadonlyArray<StreamPart>
type Finish = Response.FinishPartEncoded

/**
 * The consumer, and what it has asked for. Failures of the call are mapped by `toError`, and mistakes of the model by
 * `mistaken`: mapping the errors of the stream outside would cost every pull.
 */
interface Consumer<E> extends Surface.Surface {
  readonly options: LanguageModel.ProviderOptions
  readonly deliversRefused: boolean
  readonly toError: (failure: CallFailure, object?: string) => E
  readonly mistaken: (mistake: AiError.AiErrorReason) => E
}

type Open = (attempt: Attempt) => Effect.Effect<StreamAttempt, never, IdGenerator.IdGenerator>

/** The parts of one answer, whatever number of attempts it takes. */
export const streamText = <E>(
  chain: Chain,
  options: LanguageModel.ProviderOptions,
  toError: Consumer<E>["toError"],
  mistaken: Consumer<E>["mistaken"]
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
        const open: Open = (attempt) => Attempts.open(run, answer, attempt, scope)
        const opened = yield* run.begin.pipe(
          Effect.mapError((failure) => toError(failure)),
          Effect.flatMap(open)
        )
        const consumer = { ...surface, options, deliversRefused, toError, mistaken }
        return new StreamCall(run, answer, consumer, open, opened).pull
      })
    )
  )

class StreamCall<E> {
  readonly #run: CallRun
  readonly #answer: Answer
  readonly #ended: EndedAttempts
  readonly #consumer: Consumer<E>
  readonly #open: Open
  #opened: StreamAttempt
  /** The attempt that produced the last shown part. */
  #author: Attempt
  /** The consumer has been given something of the answer, and it was not taken back. */
  #isGiven = false
  constructor(run: CallRun, answer: Answer, consumer: Consumer<E>, open: Open, opened: StreamAttempt) {
    this.#run = run
    this.#answer = answer
    this.#ended = new EndedAttempts(run)
    this.#consumer = consumer
    this.#open = open
    this.#opened = opened
    this.#author = opened.attempt
    Attempts.begin(opened)
  }

  /** The next parts for the consumer. */
  readonly pull: PullOf<E> = Effect.suspend(() => {
    const { end } = this.#answer
    if (end === undefined) return Attempts.pull(this.#opened, this)
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
    const { end } = this.#answer
    const { format } = this.#consumer
    if (end?._tag === "Whole") {
      const { finish } = end
      return format === undefined || !ObjectAnswer.isDue(out)
        ? this.#finished(out, finish)
        : this.#judged(format, out, finish)
    }
    if (isShown(out)) this.#isGiven = true
    return this.#shownOr(hasNews ? [...this.#news(), ...out] : out)
  }

  #judged(format: ObjectFormat, out: Out, finish: Finish): PullOf<E> {
    const text = this.#answer.shown.text.all
    return Effect.matchEffect(ObjectAnswer.read(format, text), {
      onSuccess: () => this.#finished(out, finish),
      onFailure: (problem) => {
        // Shown text cannot be taken back: the consumer checks the object and decides.
        if (this.#isGiven && !this.#consumer.rewindable) return this.#finished(out, finish)
        this.#answer.refuse(this.#isGiven)
        return this.failed(this.#ended.wrongObject(this.#opened.attempt, problem, text))
      }
    })
  }

  #finished(out: Out, finish: Finish): PullOf<E> {
    const { attempt } = this.#opened
    return Effect.flatMap(this.#run.succeeded(attempt, finish.usage), (costUsd) => {
      const mistake = StrictCalls.mistakeIn(this.#consumer.options, out)
      if (mistake !== undefined) return Effect.fail(this.#consumer.mistaken(mistake))
      const [head, ...tail] = [...this.#news(), ...out]
      const last = this.#ended.finish(attempt, finish, costUsd)
      return Effect.succeed(head === undefined ? [last] : [head, ...tail, last])
    })
  }

  readonly failed = (failure: ProviderFailure): PullOf<E> => {
    const { attempt, silence } = this.#opened
    const { end, shown } = this.#answer
    if (shown.commit === "text") this.#author = attempt
    const located = Attempts.located(this.#opened, failure)
    const next = this.#ended.failed(attempt, located, shown.commit, End.usageOf(end), silence.millis)
    return Effect.matchEffect(Effect.andThen(Attempts.close(this.#opened), next), {
      onSuccess: (next) => this.#goOn(next),
      onFailure: (given) => {
        const refused = end?._tag === "Failed" && isRefused(failure) ? end.part : undefined
        if (!this.#consumer.deliversRefused || refused?.type !== "finish")
          return Effect.fail(this.#consumer.toError(given, this.#ended.wrong))
        const costUsd = this.#run.costOfFailed(attempt)
        return this.#shownOr(this.#ended.delivered(this.#answer, attempt, costUsd, refused))
      }
    })
  }

  #cut(end: Cut): PullOf<E> {
    const { attempt } = this.#opened
    const { shown } = this.#answer
    this.#author = attempt
    return Attempts.close(this.#opened).pipe(
      Effect.andThen(this.#ended.cut(attempt, end, shown.commit, shown)),
      Effect.mapError((failure) => this.#consumer.toError(failure)),
      Effect.flatMap((next) => this.#goOn(next))
    )
  }

  /** Opens the next attempt, or ends the answer as cut as it is. */
  #goOn(next: Attempt | undefined): PullOf<E> {
    if (next === undefined) {
      const author = this.#author
      return Effect.flatMap(this.#run.succeeded(author, undefined), (costUsd) =>
        this.#shownOr(this.#ended.delivered(this.#answer, author, costUsd))
      )
    }
    const void_ = next.rewind ? this.#answer.rewind() : next.apart ? this.#answer.close() : []
    if (next.rewind) this.#isGiven = false
    const said = [...void_, ...this.#news()]
    return Effect.flatMap(this.#open(next), (opened) => {
      this.#opened = opened
      Attempts.begin(opened)
      return this.#shownOr(said)
    })
  }

  // ---------------------------------------------------------------------------
  // Two attempts at once
  // ---------------------------------------------------------------------------

  /** The first token of the attempt is late: another attempt may begin beside it. */
  get late(): PullOf<E> {
    const open = (attempt: Attempt) => Effect.map(this.#open(attempt), (opened) => new StreamRunner(opened))
    const caller = { run: this.#run, ended: this.#ended, open }
    return Effect.matchEffect(race(new StreamRunner(this.#opened), caller), {
      onFailure: (failure) => Effect.fail(this.#consumer.toError(failure)),
      onSuccess: (runner) => this.#alone(runner)
    })
  }

  /** Goes on with one attempt. */
  #alone({ opened, parts }: StreamRunner): PullOf<E> {
    if (opened !== this.#opened) {
      this.#opened = opened
      Attempts.begin(opened)
    }
    const now = this.#run.now()
    const next =
      parts.length === 0 ? this.pull : Attempts.take(opened, parts, now, this.#run.awake(now), this)
    if (!opened.silence.hasBegun) opened.silence.waitOn()
    return next
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
