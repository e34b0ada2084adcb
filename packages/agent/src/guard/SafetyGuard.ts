/**
 * Layer 3: hard limits around a program. Nothing inside the program can change, skip or swallow them.
 *
 * `run(limits)(program)` counts turns, tool calls, events of the transcript, tokens, cost and time of the program's
 * agents, and detects loops. Every model call and every tool call is checked first. A call over a limit never resumes:
 * the program is interrupted, its finalizers run, and the run fails at this boundary with {@link SafetyStop}. The
 * error is in no error channel inside, so no retry, `catchCause` or layer sees it.
 *
 * **States** of a guard: closed, open, stopped. {@link make} gives the guard to the host, which may
 * {@link Host.extend} it and run again; the counts continue.
 *
 * **Composition.** Agents and models of `Failover` and `Direct` find the guard automatically, including all tools
 * that they run. Any other model is guarded when it surrounds `run`; inside, it needs {@link layerModel}. Handlers
 * that a program calls directly need {@link toolkit}. An agent that a tool runs is a sub-agent: the whole tree shares
 * one set of limits. A guard inside a guard can only narrow the limits.
 *
 * **What it does not do.** Of work outside of models and tools, it measures only the time. It cannot stop a
 * synchronous loop. The cost of an answer is known afterwards, so concurrent calls may exceed `money` and `tokens`.
 * Tools that a provider runs are counted when they are reported.
 *
 * **Example** (An agent that may delete three files)
 *
 * ```ts
 * const outcome = yield* Agent.run({ prompt, toolkit }).pipe(
 *   SafetyGuard.run({ time: "10 minutes", tools: { delete_file: 3 } }),
 *   Effect.catchTag("SafetyStop", (stop) => Console.log(stop.message))
 * )
 * ```
 */
import { Clock, Context, Data, Effect, Layer, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import type { Tool, Toolkit } from "effect/ai"
import { ResilienceEvents } from "@outlast/resilience"
import { MissingService, Options as Check } from "@outlast/resilience"
import type { BlockedCall } from "./BlockedCalls.ts"
import * as Boundary from "./Boundary.ts"
import { branchOf, current } from "./Branch.ts"
import type { Permission } from "./Guard.ts"
import { Guard } from "./Guard.ts"
import * as GuardedModel from "./GuardedModel.ts"
import * as GuardedTool from "./GuardedTool.ts"
import type { GuardExtended } from "./GuardEvent.ts"
import type { Options } from "./GuardSettings.ts"
import { settingsOf } from "./GuardSettings.ts"
import type * as Limits from "./Limits.ts"
import type { SafetyStop } from "./SafetyStop.ts"
import type { Counts } from "./StopReason.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export type { Options } from "./GuardSettings.ts"
export { defaults } from "./GuardSettings.ts"

export type { BlockedCall, Permission }

/** Usage of a guard, and its limits. */
export interface Report {
  readonly counts: Counts
  /** Calls blocked by loops or refused permission: the last 100, oldest first. */
  readonly blocked: ReadonlyArray<BlockedCall>
  readonly limits: Limits.Bounds
}

/** A guard for the host. Do not pass it to the guarded program. */
export interface Host {
  /** Runs a program under the guard. Concurrent programs share its limits. */
  readonly run: <A, E, R>(
    program: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | SafetyStop, Exclude<R, SafetyGuard>>
  /**
   * Like {@link run}, for a stream. At most {@link bufferSize} elements are buffered for the consumer. Waiting for
   * the consumer is not active time.
   */
  readonly runStream: <A, E, R>(
    program: Stream.Stream<A, E, R>
  ) => Stream.Stream<A, E | SafetyStop, Exclude<R, SafetyGuard>>
  /**
   * Raises the limits. A stopped guard can run again: `extend` first waits until all programs under it have ended.
   * Published as `GuardExtended`.
   *
   * Dies with an `InvalidOption` for an invalid extension.
   */
  readonly extend: (by: Limits.Extension) => Effect.Effect<void, ExtensionRefused>
  readonly report: Effect.Effect<Report>
}

export const bufferSize = 64

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

export { SafetyStop } from "./SafetyStop.ts"

/** The guard has reached its maximum number of extensions. */
export class ExtensionRefused extends Data.TaggedError("ExtensionRefused")<{ readonly extensions: number }> {
  override get message(): string {
    return `The guard has been extended ${this.extensions} times, which is its limit. Start a new guard, or raise \`extensions\`.`
  }
}

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** Read-only view of the guard, for the program that runs under it. */
export class SafetyGuard extends Context.Service<SafetyGuard, { readonly report: Effect.Effect<Report> }>()(
  "@outlast/agent/guard/SafetyGuard"
) {}

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** Creates a guard for the host. Throws an `InvalidOption` (a `RangeError`) for an invalid option. */
export const make = (options: Options = {}): Effect.Effect<Host> => {
  const settings = settingsOf(options)
  return Effect.map(Clock.Clock, (clock) => hostOf(new Guard(settings, clock, GuardedModel.ambient)))
}

/**
 * Runs a program under its own guard.
 *
 * Throws an `InvalidOption` (a `RangeError`) for an option out of its range.
 */
export const run = (
  options: Options = {}
): (<A, E, R>(
  program: Effect.Effect<A, E, R>
) => Effect.Effect<A, E | SafetyStop, Exclude<R, SafetyGuard>>) => {
  const made = make(options)
  return (program) => {
    Check.effect(module, "program", program)
    return Effect.flatMap(made, (host) => host.run(program))
  }
}

/** Like {@link run}, for a stream. */
export const runStream = (
  options: Options = {}
): (<A, E, R>(
  program: Stream.Stream<A, E, R>
) => Stream.Stream<A, E | SafetyStop, Exclude<R, SafetyGuard>>) => {
  const made = make(options)
  return (program) => {
    isStream(module, "program", program)
    return Stream.unwrap(Effect.map(made, (host) => host.runStream(program)))
  }
}

// -----------------------------------------------------------------------------
// Layers and combinators
// -----------------------------------------------------------------------------

/**
 * Guards another model that is provided inside of `run`, and the tools that it resolves. Place it over the layer of
 * the model.
 */
export const layerModel: Layer.Layer<
  LanguageModel.LanguageModel,
  never,
  LanguageModel.LanguageModel | SafetyGuard
> = Layer.effect(
  LanguageModel.LanguageModel,
  Effect.gen(function* () {
    const model = yield* MissingService.get(
      LanguageModel.LanguageModel,
      "LanguageModel",
      "the layer that SafetyGuard.layerModel guards"
    )
    return GuardedModel.bound(model, yield* here)
  })
)

/** Guards the handlers of a toolkit for a program that calls them directly. Models and agents do this automatically. */
export const toolkit = <Tools extends Record<string, Tool.Any>>(
  self: Toolkit.Toolkit<Tools>
): Effect.Effect<Toolkit.WithHandler<Tools>, never, Tool.HandlersFor<Tools> | SafetyGuard> =>
  Effect.gen(function* () {
    const kit = yield* self
    const branch = yield* here
    return GuardedTool.toolkit(kit, (fiber) => branchOf(fiber) ?? branch)
  })

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

const module = "SafetyGuard"

const hostOf = (guard: Guard): Host => {
  const report = Effect.sync((): Report => ({
    counts: guard.counts,
    blocked: guard.blocked,
    limits: guard.bounds
  }))
  const service = Context.make(SafetyGuard, { report })
  return {
    run: (program) => Boundary.run(guard, service, Check.effect(module, "program", program)),
    runStream: (program) => {
      isStream(module, "program", program)
      return Boundary.runStream(guard, service, program, bufferSize)
    },
    report,
    extend: (by) =>
      Effect.flatMap(guard.settled, () => {
        const number = guard.extend(by)
        return number === undefined
          ? new ExtensionRefused({ extensions: guard.settings.extensions })
          : ResilienceEvents.publishNow<GuardExtended>({ _tag: "GuardExtended", by, number })
      })
  }
}

/** The current branch. Dies when a layer or toolkit that needs a guard is built outside of one. */
const here = Effect.flatMap(current, (branch) =>
  branch === undefined
    ? Effect.die(new MissingService.MissingService("SafetyGuard", "this inside of SafetyGuard.run({ … })"))
    : Effect.succeed(branch)
)

const isStream: Check.Check = (module, field, value) =>
  Check.check(Stream.isStream(value), module, field, value, "a Stream")
