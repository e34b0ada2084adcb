/**
 * A toolkit whose handlers have a time limit, a circuit and, where safe, retries.
 *
 * The layer wraps the handlers; programs, toolkits and handlers do not change. From outside to inside each handler
 * has retry, circuit, time limit. The circuit `tool/<name>` counts every attempt.
 *
 * **Tools that are retried.** Only tools that are annotated as safe to call again, with effect/ai's own
 * `Tool.Readonly` or `Tool.Idempotent`. No policy can retry another tool, because its effects before the failure
 * are unknown. A `retry` in the policy of one tool is checked by its type, which {@link readonly} and {@link
 * idempotent} mark, and again when the layer is built, because annotations are not part of the type.
 *
 * **Failures that are retried.** Timeouts, errors with `isRetryable: true`, and failures that the `Classifier`
 * takes for a rate limit, an overload, a server error or a network failure. Other failures are the tool's answer:
 * they are not retried and do not count for its circuit. `classify` overrides this. Defects count for the circuit
 * and are never retried.
 *
 * **Errors.** The handler's own failure is returned unchanged after the last attempt. A timeout or an open circuit
 * follows the tool's `failureMode`: "return" gives the model a sentence, "error" fails with `ToolFailed`.
 *
 * **Limits.** Arguments are checked before the handler and results after it, so failures of these checks are not
 * retried. Preliminary results of a failed attempt have already been shown.
 *
 * **Example** (Searches are retried, payments are not)
 *
 * ```ts
 * const Search = Resilient.readonly(Tool.make("search", { parameters, success }))
 * const Kit = Toolkit.make(Search, Pay)
 *
 * const Tools = Resilient.toolkit(Kit, { timeout: "20 seconds", tools: { pay: { timeout: "1 minute" } } }).pipe(
 *   Layer.provide(Kit.toLayer({ search, pay })),
 *   Layer.provide(CircuitBreaker.layer())
 * )
 * ```
 */
import { Context, Duration, Effect, Layer, Predicate } from "effect"
import { AiError, Tool } from "effect/ai"
import type { Toolkit } from "effect/ai"
import { Backoff, CircuitBreaker, InvalidOption, ResilienceEvents, Retry } from "@outlast/resilience"
import { MissingService, Options as Check } from "@outlast/resilience"
import * as Classifier from "../failure/Classifier.ts"
import * as Kind from "../options/Kind.ts"
import * as Passing from "./Passing.ts"
import type { ToolTimeout } from "./ToolEvent.ts"
import { fromFailure, ToolRefused, ToolTimedOut } from "./ToolFailed.ts"

// -----------------------------------------------------------------------------
// Declarations
// -----------------------------------------------------------------------------

const { is } = Check

declare const repeatable: unique symbol

/** Type mark of a tool that may be called again. At run time the annotation counts. */
export interface Repeatable {
  readonly [repeatable]: true
}

/** Annotates a tool that changes nothing. Call this last: other methods of a tool return its type without the mark. */
export const readonly = <T extends Tool.Any>(tool: T): T & Repeatable =>
  // `annotate` returns the same type of tool.
  tool.annotate(Tool.Readonly, true) as unknown as T & Repeatable

/**
 * Annotates a tool for which a second call with the same arguments changes nothing more. Call it last, as {@link
 * readonly}.
 */
export const idempotent = <T extends Tool.Any>(tool: T): T & Repeatable =>
  // See `readonly`.
  tool.annotate(Tool.Idempotent, true) as unknown as T & Repeatable

/** True when a tool is annotated as safe to call again. */
const isRepeatable = ({ annotations }: Tool.Any): boolean =>
  Context.get(annotations, Tool.Readonly) || Context.get(annotations, Tool.Idempotent)

// -----------------------------------------------------------------------------
// Policy
// -----------------------------------------------------------------------------

/** Number, time and spacing of a tool's retries: see `Retry.Options`. */
export interface RetryPolicy extends Pick<
  Retry.Options<never>,
  "attempts" | "attemptsPerClass" | "backoff" | "retryAfter" | "maxRetryAfter" | "deadline"
> {}

/** Checks of the fields of {@link RetryPolicy}. */
export const retryChecks: Check.Checks<RetryPolicy> = {
  attempts: Kind.count,
  attemptsPerClass: is.record(Kind.count, "attempts by class, for example { RateLimit: 5 }"),
  backoff: Kind.backoff,
  retryAfter: is.oneOf(...Backoff.hints),
  maxRetryAfter: Kind.finiteDuration({ max: Backoff.maxDuration }),
  deadline: Kind.finiteDuration()
}

export interface ToolPolicy<E = unknown> {
  /** Time limit of one attempt, after which the handler is interrupted. Default 1 minute; `false`: none. */
  readonly timeout?: Duration.Input | false | undefined
  /** Name of the circuit. Default `tool/<name>`; `false`: no circuit. */
  readonly circuit?: string | false | undefined
  /** Decides what to do about a failure of the handler. Default: see the module. */
  readonly classify?: ((error: E) => Retry.Verdict) | undefined
}

export interface RepeatableToolPolicy<E = unknown> extends ToolPolicy<E> {
  /** Default: the policy of all tools. */
  readonly retry?: RetryPolicy | false | undefined
}

/** Failures that the handler of a tool may have. */
export type HandlerFailure<T> = Tool.Failure<T> | AiError.AiError | AiError.AiErrorReason

export interface Policy<Tools extends Record<string, Tool.Any>> extends Omit<ToolPolicy, "circuit"> {
  /** For the tools that may be called again. Default: 3 attempts; `false`: no retries. */
  readonly retry?: RetryPolicy | false | undefined
  /** True if tools have circuits. Default true. */
  readonly circuits?: boolean | undefined
  /** Options of single tools that differ from the others. */
  readonly tools?:
    | {
        readonly [Name in keyof Tools]?: Tools[Name] extends Repeatable
          ? RepeatableToolPolicy<HandlerFailure<Tools[Name]>>
          : ToolPolicy<HandlerFailure<Tools[Name]>> & { readonly retry?: false | undefined }
      }
    | undefined
}

const retry = Kind.orFalse(Kind.object("false, or a policy such as { attempts: 3 }", retryChecks))

/** Checks the name of a circuit. */
export const circuit = Kind.orFalse(
  Kind.where((value) => typeof value === "string" && value !== "", "false, or the name of a circuit")
)

const classifies = is.fn("(error) => verdict, for example Retry.again()")

const toolChecks: Check.Checks<RepeatableToolPolicy> = {
  timeout: Kind.orFalse(Kind.positiveDuration),
  circuit,
  classify: classifies,
  retry
}

const checks: Check.Checks<Policy<{}>> = {
  timeout: Kind.orFalse(Kind.positiveDuration),
  classify: classifies,
  retry,
  circuits: is.flag,
  tools: is.record(Kind.object("options of one tool", toolChecks), "options by the name of a tool")
}

export const defaults = { timeout: "1 minute", retry: { attempts: 3 }, circuits: true } as const

// -----------------------------------------------------------------------------
// Layer
// -----------------------------------------------------------------------------

/**
 * Makes the handlers of a toolkit resilient. Provide the plain handlers to this layer.
 *
 * Throws an `InvalidOption` (a `RangeError`) for an option that is unknown or out of range, for a tool that the
 * toolkit does not have, and for `retry` of a tool that is not annotated as safe to call again.
 */
export const toolkit = <Tools extends Record<string, Tool.Any>>(
  self: Toolkit.Toolkit<Tools>,
  policy: Policy<Tools> = {}
): Layer.Layer<Tool.HandlersFor<Tools>, never, Tool.HandlersFor<Tools> | CircuitBreaker.CircuitBreaker> => {
  Kind.toolkit("Resilient.toolkit", "toolkit", self)
  Check.fields<Policy<Tools>>("Resilient.toolkit", policy, checks)
  const own: Readonly<Record<string, RepeatableToolPolicy<never> | undefined>> = policy.tools ?? {}
  for (const name of Object.keys(own)) {
    if (!Object.hasOwn(self.tools, name)) {
      throw invalid(
        `tools.${name}`,
        `is not a tool of the toolkit. Tools: ${Object.keys(self.tools).join(", ")}`
      )
    }
  }
  const guards = Object.values<Tool.Any>(self.tools).map(
    // The types ensure that `classify` accepts the failures of the handler.
    (tool) => [tool, guardOf(tool, policy, own[tool.name] as RepeatableToolPolicy | undefined)] as const
  )
  return Layer.effectContext(
    Effect.gen(function* () {
      const around = yield* Effect.context<Tool.HandlersFor<Tools> | CircuitBreaker.CircuitBreaker>()
      const breaker = yield* circuitBreaker
      const rules = yield* Classifier.Rules
      const wrapped = new Map<string, unknown>()
      for (const [tool, guard] of guards) {
        const handler = around.mapUnsafe.get(tool.id) as AnyHandler | undefined
        // Tools that run at the provider have no handler.
        if (handler === undefined) continue
        wrapped.set(tool.id, {
          ...handler,
          handler: (params: unknown, context: unknown) =>
            Effect.provideService(
              guard(
                Effect.suspend(() => handler.handler(params, context)),
                rules
              ),
              CircuitBreaker.CircuitBreaker,
              breaker
            )
        })
      }
      // The context has handlers under the ids of their tools.
      return Context.makeUnsafe<Tool.HandlersFor<Tools>>(wrapped)
    })
  )
}

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

/** The circuit breaker of the environment. */
export const circuitBreaker = MissingService.get(
  CircuitBreaker.CircuitBreaker,
  "CircuitBreaker",
  "CircuitBreaker.layer()"
)

/** The part of effect/ai's handler that is used here. */
interface AnyHandler {
  readonly handler: (params: unknown, context: unknown) => Effect.Effect<unknown, unknown>
}

type Guard = (
  handler: Effect.Effect<unknown, unknown>,
  rules: ReadonlyArray<Classifier.Rule>
) => Effect.Effect<unknown, unknown, CircuitBreaker.CircuitBreaker>

const guardOf = (
  tool: Tool.Any,
  all: Omit<Policy<{}>, "tools">,
  own: RepeatableToolPolicy | undefined = {}
): Guard => {
  const name = `tool/${tool.name}`
  const timeout = own.timeout ?? all.timeout ?? defaults.timeout
  const limit = timeout === false ? undefined : Duration.fromInputUnsafe(timeout)
  const circuit = own.circuit ?? ((all.circuits ?? defaults.circuits) ? name : false)
  const judge = own.classify ?? all.classify
  const mayRepeat = isRepeatable(tool)
  if (own.retry !== undefined && own.retry !== false && !mayRepeat) {
    throw invalid(
      `tools.${tool.name}.retry`,
      "needs a tool that is annotated as Tool.Readonly or Tool.Idempotent"
    )
  }
  const retry = own.retry ?? all.retry ?? defaults.retry
  const policy: RetryPolicy = mayRepeat && retry !== false ? retry : { attempts: 1 }
  const options = (rules: ReadonlyArray<Classifier.Rule>) => ({
    ...policy,
    name,
    classify: (error: unknown): Retry.Verdict =>
      error instanceof ToolTimedOut ? Retry.again({ class: "Timeout" }) : (judge ?? classify(rules))(error),
    ...(circuit === false ? undefined : { breaker: { circuit } })
  })
  // Out-of-range options throw here, where they are written.
  Retry.with(options([]))
  return (handler, rules) =>
    timed(tool.name, limit, mayRepeat, handler).pipe(
      Retry.with(options(rules)),
      Effect.mapError(({ failure, stopped }) => {
        if (failure instanceof ToolTimedOut) return leaving(tool, failure)
        if (stopped !== "refused" || !isRefusal(failure)) return failure
        const { circuit, retryAfter } = failure
        return leaving(tool, new ToolRefused({ tool: tool.name, circuit, retryAfter }))
      })
    )
}

/** True for a rejection by the circuit, which is not a failure of the handler. */
const isRefusal = (
  failure: unknown
): failure is { readonly circuit: string; readonly retryAfter: Duration.Duration | undefined } =>
  Predicate.isTagged(failure, "CircuitRefused")

const invalid = (field: string, problem: string): InvalidOption =>
  new InvalidOption("Resilient.toolkit", field, undefined, "", `Resilient.toolkit: ${field} ${problem}`)

const timed = (
  tool: string,
  limit: Duration.Duration | undefined,
  repeatable: boolean,
  handler: Effect.Effect<unknown, unknown>
): Effect.Effect<unknown, unknown> =>
  limit === undefined || !Duration.isFinite(limit)
    ? handler
    : Effect.timeoutOrElse(handler, {
        duration: limit,
        orElse: () =>
          Effect.andThen(
            ResilienceEvents.publishNow<ToolTimeout>({
              _tag: "ToolTimeout",
              tool,
              limit: Duration.toMillis(limit)
            }),
            Effect.fail(new ToolTimedOut({ tool, limit, repeatable }))
          )
      })

/** Uses the error's own `isRetryable`. Other errors are classified. */
const classify =
  (rules: ReadonlyArray<Classifier.Rule>) =>
  (error: unknown): Retry.Verdict =>
    Predicate.hasProperty(error, "isRetryable") &&
    typeof error.isRetryable === "boolean" &&
    !AiError.isAiError(error)
      ? Retry.classify(error as Retry.SaysRetryable)
      : Passing.verdict(Classifier.failureOf(error, { rules, waits: true }))

/** Returns the failure as the tool's failure mode requires: a sentence for the model, or an error of effect/ai. */
const leaving = (tool: Tool.Any, failure: ToolTimedOut | ToolRefused): unknown =>
  tool.failureMode === "error"
    ? fromFailure(failure)
    : ({
        type: failure._tag === "ToolRefused" ? "execution-denied" : "execution-interrupted",
        reason: failure.message
      } satisfies typeof Tool.ExecutionFailure.Type)
