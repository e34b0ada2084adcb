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
import { Duration, Effect, Exit, Fiber, Option } from "effect"
import type { Scope } from "effect"
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
import { isCallOfProgram, isProviders } from "./PartKind.ts"
import type { StreamPart } from "./PartKind.ts"
import { Override, overTotal, StillRunning, StreamedAnswer } from "./StreamedAnswer.ts"
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

/** An attempt for a whole answer. */
interface Asked {
  readonly attempt: Attempt
  readonly request: AttemptRequest.AttemptRequest
  /** `undefined`: the answer is requested whole. */
  readonly streamed: StreamedAnswer | undefined
  readonly answer: Effect.Effect<Parts, ProviderFailure | StillRunning, IdGenerator.IdGenerator>
}

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
      (parts) => this.#answered(attempt, parts, streamed ?? requestedAs(parts), failed)
    )
  }

  // ---------------------------------------------------------------------------
  // Two attempts at once
  // ---------------------------------------------------------------------------

  /** The answer of the attempt is late: another attempt may begin beside it. */
  #late(asked: Asked, answer: StillRunning["answer"]): Called {
    const raced = Effect.scopedWith((scope) =>
      Effect.flatMap(Effect.forkIn(answer, scope, { startImmediately: true }), (fiber) =>
        this.#raced({ asked, fiber }, scope)
      )
    )
    return Effect.flatMap(raced, ({ asked, exit }) => this.#settled(asked, exit))
  }

  /** The attempt that goes on alone, and how it has ended. */
  #raced(late: Runner, scope: Scope.Scope): Effect.Effect<Result, CallFailure, IdGenerator.IdGenerator> {
    const hedge = Effect.raceFirst(this.#run.late(), Effect.as(heard(late), undefined))
    return Effect.flatMap(hedge, (next) => {
      if (next === undefined) return this.#waitOn(late, scope)
      const asked = this.#ask(next)
      return Effect.flatMap(Effect.forkIn(asked.answer, scope, { startImmediately: true }), (fiber) => {
        const other: Runner = { asked, fiber }
        return Effect.flatMap(Effect.raceFirst(heard(late), heard(other)), () => {
          const [runner, rival] = isHeard(late) ? [late, other] : [other, late]
          return Effect.flatMap(this.#problem(runner), (failure) => {
            if (failure === undefined) {
              const isOver = Effect.andThen(
                Fiber.interrupt(rival.fiber),
                this.#run.overtaken(rival.asked.attempt)
              )
              return Effect.andThen(isOver, ended(runner))
            }
            const { attempt, request } = runner.asked
            const located = AttemptRequest.failureAt(attempt.target, request, failure)
            const failed = this.#ended.failed(attempt, located, "nothing")
            return Effect.andThen(failed, rival === late ? this.#waitOn(late, scope) : ended(rival))
          })
        })
      })
    })
  }

  /** The late attempt goes on alone. Asks for another one again after the same time. */
  #waitOn(late: Runner, scope: Scope.Scope): Effect.Effect<Result, CallFailure, IdGenerator.IdGenerator> {
    const after = Effect.as(Effect.sleep(this.#run.lateAfter(late.asked.attempt)), true)
    const isLater = Effect.raceFirst(Effect.as(heard(late), false), after)
    return Effect.flatMap(isLater, (isLater) => (isLater ? this.#raced(late, scope) : ended(late)))
  }

  /** Why the attempt does not answer, once it is heard: it has failed, or its answer is none. */
  #problem({ asked: { attempt, streamed }, fiber }: Runner): Effect.Effect<ProviderFailure | undefined> {
    const exit = fiber.pollUnsafe()
    if (streamed?.isAnswering === true || exit === undefined) return Effect.undefined
    if (Exit.isFailure(exit)) {
      const failure = Option.getOrUndefined(Exit.findErrorOption(exit))
      return Effect.succeed(failure instanceof StillRunning ? undefined : failure)
    }
    const finish = exit.value.findLast((part) => part.type === "finish")
    if (finish === undefined) return Effect.undefined
    const end = this.#endOf(attempt, exit.value, finish, streamed?.lacksCall ?? false)
    return end._tag === "Failed" ? End.failureOf(end, attempt.target.ref, "answer") : Effect.undefined
  }

  #endOf(attempt: Attempt, parts: Parts, finish: Finish, lacksCall: boolean): End.AttemptEnd {
    const judge = this.#run.judge(attempt)
    for (const part of parts) judge.saw(part)
    return End.of(finish, { judge, hasCall: parts.some(isCallOfProgram), lacksCall })
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
    const end = this.#endOf(attempt, parts, finish, lacksCall)
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

/** An attempt whose answer is under way. */
interface Runner {
  readonly asked: Asked
  readonly fiber: Fiber.Fiber<Parts, ProviderFailure | StillRunning>
}

/** How an attempt has ended. */
interface Result {
  readonly asked: Asked
  readonly exit: Exit.Exit<Parts, ProviderFailure | StillRunning>
}

/** Completes when the attempt answers or has ended. */
const heard = ({ asked, fiber }: Runner): Effect.Effect<unknown> =>
  asked.streamed === undefined
    ? Fiber.await(fiber)
    : Effect.raceFirst(Fiber.await(fiber), asked.streamed.answers)

const isHeard = ({ asked, fiber }: Runner): boolean =>
  asked.streamed?.isAnswering === true || fiber.pollUnsafe() !== undefined

/** How the attempt ends. */
const ended = ({ asked, fiber }: Runner): Effect.Effect<Result> =>
  Effect.map(Fiber.await(fiber), (exit) => ({ asked, exit }))

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
