/**
 * Runs the tool calls of one complete answer.
 *
 * Every call gets a result, so that the transcript stays valid. An unknown tool, invalid arguments, a timeout, a
 * rejected approval and a blocked call become error results, which the model reads. A failure that a
 * tool declares with `failureMode: "error"` ends the run, as in effect/ai.
 */
import type { Duration } from "effect"
import { Clock, Effect, Exit, Stream, Tracer } from "effect"
import { AiError, Response } from "effect/ai"
import type { Prompt, Tool, Toolkit } from "effect/ai"
import { Options as Check } from "@outlast/resilience"
import * as ActiveTime from "../conversation/ActiveTime.ts"
import { timed } from "../failover/target/Timed.ts"
import { limitInWords } from "../failure/reasons/ProviderFailure.ts"
import type { Refusal } from "../guard/Branch.ts"
import * as Spans from "../telemetry/Spans.ts"
import * as GuardedTool from "../guard/GuardedTool.ts"
import * as CallCheck from "./CallCheck.ts"
import type { Verdict } from "./RunAction.ts"
import type { Call } from "./RunTranscript.ts"

export type Kit = Toolkit.WithHandler<Record<string, Tool.Any>>
export type Result = Response.ToolResultPart<string, unknown, unknown>

export interface Settings {
  /** Time limit of each call. */
  readonly timeout: Duration.Duration
  /** Number of calls of a turn that run concurrently. */
  readonly concurrency: number
  /** Approves calls of tools that need approval. Without it they are rejected. */
  readonly approve:
    | ((call: { readonly tool: string; readonly params: unknown }) => Effect.Effect<boolean>)
    | undefined
}

/** A turn whose tools run. */
export interface Running {
  readonly kit: Kit
  /** What happens to each call. */
  readonly verdicts: ReadonlyArray<Verdict>
  readonly settings: Settings
  /** Called for every call that a guard around the run blocks. */
  readonly blocked: (at: number, why: Refusal) => void
  /** Called for every result as it arrives, with its duration in milliseconds. */
  readonly finished: (at: number, result: Result, elapsed: number) => Effect.Effect<void>
  /** Called for every call that the time limit of its tool ends. */
  readonly timedOut: (at: number) => void
  /** Wraps the run of one call. */
  readonly around: <A, E, R>(at: number, run: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** The call as the guard sees it. */
const guarded = (kit: Kit, { id, name, params }: Call) => ({
  id,
  name,
  params,
  hints: GuardedTool.hintsOf(kit.tools[name])
})

/** Runs a call of an answer, or says why it does not run. `E` are the failures that the tools declare. */
export const runCall = <E, R>(call: Call, at: number, running: Running): Effect.Effect<Result, E, R> =>
  Effect.withFiber((fiber) => {
    const clock = fiber.getRef(Clock.Clock)
    const startedAt = clock.monotonicTimeNanosUnsafe()
    const verdict = running.verdicts[at]
    const result =
      verdict?._tag === "Block"
        ? Effect.succeed(refused(call, verdict.type, verdict.message))
        : GuardedTool.run(guarded(running.kit, call), {
            run: running.around(at, handled<E, R>(call, at, running)),
            refused: (message) => refused(call, "execution-denied", message),
            blocked: (why) => running.blocked(at, why),
            resultOf: ({ encodedResult, isFailure }) => ({ encoded: encodedResult, isFailure })
          })
    return Effect.flatMap(result, (result) => {
      const elapsed = Number(clock.monotonicTimeNanosUnsafe() - startedAt) / 1_000_000
      return Effect.as(running.finished(at, result, elapsed), result)
    })
  })

/** Asks for approval where a call needs it, and runs its tool. */
const handled = <E, R>(
  call: Call,
  at: number,
  { kit, settings, verdicts, timedOut }: Running
): Effect.Effect<Result, E, R> => {
  const problem = CallCheck.misfit(kit.tools, call)
  if (problem !== undefined) return Effect.succeed(refused(call, "invalid-call", problem))
  const run = timed(
    handle(kit, call),
    settings.timeout,
    () =>
      Effect.sync(() => {
        timedOut(at)
        return late(call, settings.timeout)
      })
    // The kit's own types are erased here. The signature of `Agent.run` has them.
  ) as Effect.Effect<Result, E, R>
  if (verdicts[at]?._tag !== "Approve") return run
  return Effect.matchEffect(CallCheck.check(kit.tools, call), {
    onFailure: (problem) => Effect.succeed(refused(call, "invalid-call", problem)),
    onSuccess: () =>
      Effect.flatMap(ActiveTime.parked(asked(settings, call)), (approved) =>
        approved ? run : Effect.succeed(refused(call, "execution-denied", "This call was not approved."))
      )
  })
}

const asked = ({ approve }: Settings, call: Call): Effect.Effect<boolean> => {
  if (approve === undefined) return Effect.succeed(false)
  const answer = approve({ tool: call.name, params: call.params })
  return Check.returned("Agent", "approve", answer, "an Effect<boolean>")
}

/** An error result for a call that does not run. */
const refused = (call: Call, type: string, reason: string): Result => {
  const result = { type, reason }
  return Response.makePart("tool-result", {
    id: call.id,
    name: call.name,
    providerExecuted: false,
    preliminary: false,
    isFailure: true,
    result,
    encodedResult: result
  })
}

const late = (call: Call, limit: Duration.Duration): Result =>
  refused(call, "execution-timeout", `The tool gave no result within ${limitInWords(limit)}.`)

/** Runs a tool in a span of its own, where the program has a tracer. */
const handle = (kit: Kit, call: Call) =>
  Effect.scoped(
    Effect.withFiber((fiber) =>
      // effect/ai writes the arguments into the span around it, which must not be one of the program.
      Spans.isTraced(fiber) || fiber.context.mapUnsafe.has(Tracer.ParentSpanKey)
        ? inSpan(call, (span) =>
            Effect.provideService(answered(kit, call), Tracer.ParentSpan, withoutParameters(span))
          )
        : answered(kit, call)
    )
  )

const answered = (kit: Kit, call: Call) =>
  // `never`: the arguments are unchecked. `handle` decodes them.
  Effect.matchEffect(kit.handle(call.name, call.params as never, call.id, { errors: "all" }), {
    // No handler has run before the stream of its results begins.
    onFailure: (error) =>
      AiError.isAiError(error) ? Effect.succeed(invalid(call, error)) : Effect.fail(error),
    onSuccess: (results) => Effect.suspend(() => lastOf(call, results))
  })

/** The last result of a tool. Earlier ones are preliminary. */
const lastOf = <E, R>(
  call: Call,
  results: Stream.Stream<Tool.HandlerResult<Tool.Any>, E, R>
): Effect.Effect<Result, E, R> => {
  let last: Tool.HandlerResult<Tool.Any> | undefined
  return Stream.runForEachArray(results, (some) => {
    last = some.findLast(({ preliminary }) => !preliminary) ?? last
    return Effect.void
  }).pipe(
    Effect.map(() => (last === undefined ? empty(call) : resultOf(call, last))),
    Effect.catch((error) =>
      AiError.isAiError(error) ? Effect.succeed(failed(call, error)) : Effect.fail(error)
    )
  )
}

const resultOf = (call: Call, handled: Tool.HandlerResult<Tool.Any>): Result => {
  const { result, encodedResult, isFailure, failureOrigin, modelOutput } = handled
  if (failureOrigin === "parameters" && AiError.isAiError(result)) return invalid(call, result)
  return Response.makePart("tool-result", {
    id: call.id,
    name: call.name,
    providerExecuted: false,
    preliminary: false,
    isFailure,
    result,
    encodedResult,
    ...(modelOutput === undefined ? {} : { modelOutput })
  })
}

const empty = (call: Call): Result => refused(call, "execution-empty", "The tool gave no result.")

const failed = (call: Call, { reason }: AiError.AiError): Result =>
  refused(call, "execution-failed", reason.message)

/** The result of a call whose arguments do not match the schema of the tool. */
const invalid = (call: Call, error: AiError.AiError): Result =>
  error.reason._tag === "ToolParameterValidationError"
    ? refused(call, "invalid-call", CallCheck.wrong(error.reason.description))
    : failed(call, error)

/** The span of a tool that runs. Its name is one of the toolkit, because calls of unknown tools do not run. */
const inSpan = <E, R>(
  { id, name }: Call,
  use: (span: Tracer.Span) => Effect.Effect<Result, E, R>
): Effect.Effect<Result, E, R> =>
  Effect.flatMap(
    Spans.make(`execute_tool ${name}`, {
      attributes: {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": id,
        "gen_ai.tool.type": "function"
      }
    }),
    (span) =>
      Effect.onExit(use(span), (exit) =>
        Effect.withFiber((fiber) => {
          if (Exit.isSuccess(exit) && exit.value.isFailure) span.attribute("error.type", "tool_error")
          Spans.end(fiber, span, exit)
          return Effect.void
        })
      )
  )

/** Removes the arguments that effect/ai writes into the span, because they are content of the conversation. */
const withoutParameters = (span: Tracer.Span): Tracer.Span =>
  new Proxy(span, {
    get: (target, key) => {
      if (key === "attribute") {
        return (name: string, value: unknown) => {
          if (name !== "parameters") target.attribute(name, value)
        }
      }
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === "function" ? value.bind(target) : value
    }
  })

/**
 * True for a call that needs approval, by its tool; `undefined` for a tool whose calls never do. An invalid call needs
 * none, because it does not run. A check that dies asks for approval.
 */
export const needsApproval = (
  kit: Kit,
  call: Call,
  messages: ReadonlyArray<Prompt.Message>
): Effect.Effect<boolean> | undefined => {
  const tool = Object.hasOwn(kit.tools, call.name) ? kit.tools[call.name] : undefined
  const check = tool?.needsApproval
  if (check === undefined || check === false) return undefined
  return Effect.matchEffect(CallCheck.check(kit.tools, call), {
    onFailure: () => Effect.succeed(false),
    onSuccess: ({ params }) =>
      typeof check !== "function"
        ? Effect.succeed(true)
        : Effect.suspend(() => {
            const answer = check(params, { toolCallId: call.id, messages })
            return Effect.isEffect(answer) ? answer : Effect.succeed(answer)
          }).pipe(
            Effect.catchDefect(() => Effect.succeed(true))
            // The services of the check are those of the handler, which the type of `Agent.run` requires.
          )
  }) as Effect.Effect<boolean>
}
