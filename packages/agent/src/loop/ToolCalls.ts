/**
 * Runs the tool calls of one complete answer.
 *
 * Every call gets a result, so that the transcript stays valid. An unknown tool, invalid arguments, a timeout, a
 * rejected approval and a blocked call become error results, which the model reads. A failure that a
 * tool declares with `failureMode: "error"` ends the run, as in effect/ai.
 */
import { Clock, Duration, Effect, Exit, Option, Stream, Tracer } from "effect"
import { AiError, Response } from "effect/ai"
import type { Prompt, Tool, Toolkit } from "effect/ai"
import { Options as Check } from "@outlast/resilience"
import * as ActiveTime from "../conversation/ActiveTime.ts"
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
  Effect.gen(function* () {
    const startedAt = yield* Clock.monotonicTimeNanos
    const verdict = running.verdicts[at]
    const result =
      verdict?._tag === "Block"
        ? refused(call, verdict.type, verdict.message)
        : yield* GuardedTool.run(guarded(running.kit, call), {
            run: running.around(at, handled<E, R>(call, at, running)),
            refused: (message) => refused(call, "execution-denied", message),
            blocked: (why) => running.blocked(at, why),
            resultOf: ({ encodedResult, isFailure }) => ({ encoded: encodedResult, isFailure })
          })
    const elapsed = Number((yield* Clock.monotonicTimeNanos) - startedAt) / 1_000_000
    yield* running.finished(at, result, elapsed)
    return result
  })

/** Checks a call, asks for approval, and runs its tool. */
const handled = <E, R>(
  call: Call,
  at: number,
  { kit, settings, verdicts, timedOut }: Running
): Effect.Effect<Result, E, R> =>
  Effect.gen(function* () {
    const checked = yield* Effect.result(CallCheck.check(kit.tools, call))
    if (checked._tag === "Failure") return refused(call, "invalid-call", checked.failure)
    if (verdicts[at]?._tag === "Approve") {
      const approved = yield* ActiveTime.parked(asked(settings, call))
      if (!approved) return refused(call, "execution-denied", "This call was not approved.")
    }
    const last = yield* handle(kit, call).pipe(
      Effect.timeoutOrElse({
        duration: settings.timeout,
        orElse: () =>
          Effect.sync(() => {
            timedOut(at)
            return late(call, settings.timeout)
          })
      })
    )
    return last
    // The kit's own types are erased here. The signature of `Agent.run` has them.
  }) as Effect.Effect<Result, E, R>

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
  refused(call, "execution-timeout", `The tool gave no result within ${Duration.format(limit)}.`)

const handle = (kit: Kit, call: Call) =>
  Effect.scoped(
    // Also without a tracer: effect/ai would write the arguments into the span around the run.
    inSpan(call, (span) =>
      // `never`: the arguments are unchecked. `handle` decodes them and fails with an AiError.
      kit.handle(call.name, call.params as never, call.id).pipe(
        Stream.unwrap,
        Stream.filter((result) => !result.preliminary),
        Stream.runLast,
        Effect.map(
          Option.match({
            onNone: () => refused(call, "execution-empty", "The tool gave no result."),
            onSome: ({ result, encodedResult, isFailure, modelOutput }) =>
              Response.makePart("tool-result", {
                id: call.id,
                name: call.name,
                providerExecuted: false,
                preliminary: false,
                isFailure,
                result,
                encodedResult,
                ...(modelOutput === undefined ? {} : { modelOutput })
              })
          })
        ),
        Effect.catchIf(AiError.isAiError, (error) =>
          Effect.succeed(refused(call, "execution-failed", error.reason.message))
        ),
        Effect.provideService(Tracer.ParentSpan, withoutParameters(span))
      )
    )
  )

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
