/**
 * A toolkit whose handlers have a time limit, a circuit and, where that does no harm, retries.
 *
 * It is a layer between the handlers and who calls them: programs, toolkits and handlers do not change. Around each
 * handler stand, from outside: retry, circuit, time limit. Every attempt is seen by the circuit `tool/<name>`.
 *
 * **Which tools are called again.** Only those that say that it does no harm, by effect/ai's own annotations:
 * `Tool.Readonly` or `Tool.Idempotent`. No policy can retry another tool: what it did before it failed is not known.
 * A `retry` in the policy of one tool is checked by its type, which {@link readonly} and {@link idempotent} mark, and
 * once more when the layer is made, because annotations are no types.
 *
 * **Which failures.** Timeouts; errors with `isRetryable: true`; what the `Classifier` takes for a rate limit, an
 * overload, a server or a network that failed. Others are the tool's answer: they are not repeated, and say nothing
 * about its circuit. `classify` decides otherwise. Defects count for the circuit and are never repeated.
 *
 * **How failures leave.** What the handler failed with leaves as it came, after the last attempt. A timeout and an open
 * circuit leave as the tool's `failureMode` wants it: "return" tells the model in a sentence, "error" fails with
 * `ToolFailed`.
 *
 * **What it does not do.** Arguments are checked before, results after: those failures pass it by. Preliminary results
 * of an attempt that failed have been seen.
 *
 * **Example** (Searches are repeated, payments are not)
 *
 * ```ts
 * const Search = Resilient.readonly(Tool.make("search", { … }))
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

/** The mark of a tool that may be called again. Only its type has it; the annotation is what counts at run time. */
export interface Repeatable {
  readonly [repeatable]: true
}

/**
 * Says of a tool that it changes nothing. The last thing to say of it: other methods of a tool give its type without
 * the mark.
 */
export const readonly = <T extends Tool.Any>(tool: T): T & Repeatable =>
  // The annotated tool is of the same type.
  tool.annotate(Tool.Readonly, true) as unknown as T & Repeatable

/** Says of a tool that a second call with the same arguments changes nothing more. As {@link readonly}. */
export const idempotent = <T extends Tool.Any>(tool: T): T & Repeatable =>
  // As above.
  tool.annotate(Tool.Idempotent, true) as unknown as T & Repeatable

/** Whether a tool says that calling it again does no harm. */
const isRepeatable = ({ annotations }: Tool.Any): boolean =>
  Context.get(annotations, Tool.Readonly) || Context.get(annotations, Tool.Idempotent)

// -----------------------------------------------------------------------------
// Policy
// -----------------------------------------------------------------------------

/** How often, how late and how long a tool is called again: see `Retry.Options`. */
export interface RetryPolicy extends Pick<
  Retry.Options<never>,
  "attempts" | "attemptsPerClass" | "backoff" | "retryAfter" | "maxRetryAfter" | "deadline"
> {}

/** The checks of the fields of {@link RetryPolicy}. */
export const retryChecks: Check.Checks<RetryPolicy> = {
  attempts: Kind.count,
  attemptsPerClass: is.record(Kind.count, "attempts by class, for example { RateLimit: 5 }"),
  backoff: Kind.backoff,
  retryAfter: is.oneOf(...Backoff.hints),
  maxRetryAfter: Kind.finiteDuration({ max: Backoff.maxDuration }),
  deadline: Kind.finiteDuration()
}

export interface ToolPolicy<E = unknown> {
  /** Of one attempt; the handler is interrupted. Default 1 minute; `false`: none. */
  readonly timeout?: Duration.Input | false | undefined
  /** Its name. Default `tool/<name>`; `false`: none. */
  readonly circuit?: string | false | undefined
  /** What to do about a failure of the handler. Default: see the module. */
  readonly classify?: ((error: E) => Retry.Verdict) | undefined
}

export interface RepeatableToolPolicy<E = unknown> extends ToolPolicy<E> {
  /** Default: that of all tools. */
  readonly retry?: RetryPolicy | false | undefined
}

/** What the handler of a tool can fail with. */
export type HandlerFailure<T> = Tool.Failure<T> | AiError.AiError | AiError.AiErrorReason

export interface Policy<Tools extends Record<string, Tool.Any>> extends Omit<ToolPolicy, "circuit"> {
  /** For the tools that may be called again. Default: 3 attempts; `false`: none is called again. */
  readonly retry?: RetryPolicy | false | undefined
  /** Whether tools have circuits. Default true. */
  readonly circuits?: boolean | undefined
  /** What differs for a tool. */
  readonly tools?:
    | {
        readonly [Name in keyof Tools]?: Tools[Name] extends Repeatable
          ? RepeatableToolPolicy<HandlerFailure<Tools[Name]>>
          : ToolPolicy<HandlerFailure<Tools[Name]>> & { readonly retry?: false | undefined }
      }
    | undefined
}

const retry = Kind.orFalse(Kind.object("false, or a policy such as { attempts: 3 }", retryChecks))

/** The name of one. */
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
 * The handlers of a toolkit, made resilient: provide the plain ones to it.
 *
 * Throws an `InvalidOption` (a `RangeError`) for an option that is unknown or not allowed, for a tool that the toolkit
 * does not have, and for `retry` of a tool that is not annotated as safe to call again.
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
        `is no tool of the toolkit. Tools: ${Object.keys(self.tools).join(", ")}`
      )
    }
  }
  const guards = Object.values<Tool.Any>(self.tools).map(
    // The types have seen to it that `classify` takes what the handler fails with.
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
        // Tools that run at the provider have none.
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
      // Handlers stand in the context under the ids of their tools.
      return Context.makeUnsafe<Tool.HandlersFor<Tools>>(wrapped)
    })
  )
}

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

/** The one of the environment. */
export const circuitBreaker = MissingService.get(
  CircuitBreaker.CircuitBreaker,
  "CircuitBreaker",
  "CircuitBreaker.layer()"
)

/** What effect/ai keeps of a handler. */
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
  // Options are checked where they are written.
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

/** The circuit's own word: `stopped` says that it is no failure of the handler. */
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

/** An error that says so itself is believed; of others the classifier knows what passes. */
const classify =
  (rules: ReadonlyArray<Classifier.Rule>) =>
  (error: unknown): Retry.Verdict =>
    Predicate.hasProperty(error, "isRetryable") &&
    typeof error.isRetryable === "boolean" &&
    !AiError.isAiError(error)
      ? Retry.classify(error as Retry.SaysRetryable)
      : Passing.verdict(Classifier.failureOf(error, { rules }))

/** As the tool's failure mode wants it: the sentence for the model, or an error of effect/ai. */
const leaving = (tool: Tool.Any, failure: ToolTimedOut | ToolRefused): unknown =>
  tool.failureMode === "error"
    ? fromFailure(failure)
    : ({
        type: failure._tag === "ToolRefused" ? "execution-denied" : "execution-interrupted",
        reason: failure.message
      } satisfies typeof Tool.ExecutionFailure.Type)
