/**
 * Runs the tool calls of one complete answer.
 *
 * Every call gets a result, so that the transcript stays valid. An unknown tool, invalid arguments, a timeout, a
 * rejected approval and a call that the guard blocks become error results, which the model reads. A failure that a
 * tool declares with `failureMode: "error"` ends the run, as in effect/ai.
 */
import type { Cause } from "effect"
import { Clock, Duration, Effect, Option, Stream, Tracer } from "effect"
import { AiError, Response } from "effect/ai"
import type { Prompt, Tool, Toolkit } from "effect/ai"
import { Options as Check } from "@outlast/resilience"
import * as ActiveTime from "../conversation/ActiveTime.ts"
import type { BlockedCall } from "../guard/BlockedCalls.ts"
import * as GuardedTool from "../guard/GuardedTool.ts"
import * as CallCheck from "./CallCheck.ts"

export type Kit = Toolkit.WithHandler<Record<string, Tool.Any>>
type Call = Response.ToolCallPart<string, unknown>
type Result = Response.ToolResultPart<string, unknown, unknown>

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
  /** True when the answer is complete, so that its calls may run. */
  readonly whole: boolean
  /** The conversation before the answer. */
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly settings: Settings
  /** Called for every call that the guard blocks. */
  readonly blocked: (call: Omit<BlockedCall, "turn">) => void
  /** Called for every result as it arrives, with its duration in milliseconds. */
  readonly finished: (result: Result, elapsed: number) => Effect.Effect<void>
}

/** The call as the guard sees it. */
const guarded = (kit: Kit, { id, name, params }: Call) => ({
  id,
  name,
  params,
  hints: GuardedTool.hintsOf(kit.tools[name])
})

/**
 * Returns the results of all calls of an answer, in the order of the calls. When a tool ends the run, `ended` gets
 * the results that the transcript needs: the finished ones, and an error for each of the others.
 */
export const runCalls = <E, R>(
  calls: ReadonlyArray<Call>,
  running: Running,
  ended: (cause: Cause.Cause<E>, results: ReadonlyArray<Result>) => Effect.Effect<never, E>
): Effect.Effect<ReadonlyArray<Result>, E, R> => {
  const done = new Map<string, Result>()
  const one = (call: Call): Effect.Effect<Result, E, R> =>
    Effect.gen(function* () {
      const startedAt = yield* Clock.monotonicTimeNanos
      const result = yield* running.whole
        ? GuardedTool.run(guarded(running.kit, call), {
            run: runCall<E, R>(running.kit, call, running.messages, running.settings),
            refused: (message) => refused(call, "execution-denied", message),
            blocked: (refusal) => running.blocked({ tool: call.name, ...refusal }),
            resultOf: ({ encodedResult, isFailure }) => ({ encoded: encodedResult, isFailure })
          })
        : Effect.succeed(refused(call, "execution-interrupted", "The answer was cut: the call was not run."))
      const elapsed = Number((yield* Clock.monotonicTimeNanos) - startedAt) / 1_000_000
      done.set(call.id, result)
      yield* running.finished(result, elapsed)
      return result
    })
  return Effect.forEach(calls, one, { concurrency: running.settings.concurrency }).pipe(
    Effect.catchCause((cause) =>
      ended(
        cause,
        calls.map((call) => done.get(call.id) ?? refused(call, "execution-failed", "A tool ended the run."))
      )
    )
  )
}

/** Runs one call. `E` are the failures that the tools declare. */
const runCall = <E, R>(
  kit: Kit,
  call: Call,
  messages: ReadonlyArray<Prompt.Message>,
  settings: Settings
): Effect.Effect<Result, E, R> =>
  Effect.gen(function* () {
    const checked = yield* Effect.result(CallCheck.check(kit.tools, call))
    if (checked._tag === "Failure") return refused(call, "invalid-call", checked.failure)
    if (yield* needsApproval(checked.success, call, messages)) {
      const approved = yield* ActiveTime.parked(asked(settings, call))
      if (!approved) return refused(call, "execution-denied", "This call was not approved.")
    }
    const last = yield* handle(kit, call).pipe(
      Effect.timeoutOrElse({
        duration: settings.timeout,
        orElse: () => Effect.succeed(timedOut(call, settings.timeout))
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

const timedOut = (call: Call, limit: Duration.Duration): Result =>
  refused(call, "execution-timeout", `The tool gave no result within ${Duration.format(limit)}.`)

const handle = (kit: Kit, call: Call) =>
  Effect.scoped(
    Effect.useSpan(`tool ${call.name}`, { kind: "internal" }, (span) =>
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

/** Runs the tool's approval check. A check that dies rejects the call. */
const needsApproval = (
  { tool: { needsApproval }, params }: CallCheck.Checked,
  call: Call,
  messages: ReadonlyArray<Prompt.Message>
): Effect.Effect<boolean> => {
  if (typeof needsApproval !== "function") return Effect.succeed(needsApproval === true)
  return Effect.suspend(() => {
    const answer = needsApproval(params, { toolCallId: call.id, messages })
    return Effect.isEffect(answer) ? answer : Effect.succeed(answer)
  }).pipe(
    Effect.catchDefect(() => Effect.succeed(true))
    // The services of the check are those of the handler, which the type of `Agent.run` requires.
  ) as Effect.Effect<boolean>
}
