/**
 * Layer 3: hard limits around a program that nothing inside the program can change, skip or swallow.
 *
 * `run(limits)(program)` counts what the program's agents do, turns, tool calls, events of the transcript, tokens,
 * money, time, and watches for loops. Every call of a model and of a tool asks first. The one that would go over
 * never resumes: the program is interrupted, its finalizers run, and at this boundary, only here, the run fails with
 * {@link SafetyStop}. It is in no error channel inside, so that no retry, no `catchCause` and no layer ever sees it.
 *
 * **States** of a guard: closed, open, stopped. {@link make} gives it to the host, who may {@link Host.extend} it and
 * run again; what was counted stays.
 *
 * **Composition.** Agents, and models of `Failover` and `Direct`, find the guard by themselves, with all the tools that
 * they run. Another model is guarded when it stands around `run`; inside it needs {@link layerModel}. Handlers that a
 * program calls itself need {@link toolkit}. An agent that a tool runs is a sub-agent: one set of limits for the whole
 * tree. A guard inside of a guard makes limits narrower, never wider.
 *
 * **What it does not do.** It sees no work that is neither a model's nor a tool's, but for the time that it takes. It
 * cannot stop a synchronous loop. What an answer costs is known when it is there: calls under way at the same time may
 * go over `money` and `tokens`. Tools that the provider runs are counted when they are reported.
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
import { Clock, Context, Data, Duration, Effect, Layer, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import type { Tool, Toolkit } from "effect/ai"
import { ResilienceEvents } from "@outlast/resilience"
import { MissingService, Options as Check } from "@outlast/resilience"
import type { BlockedCall } from "./BlockedCalls.ts"
import * as Boundary from "./Boundary.ts"
import { branchOf, current } from "./Branch.ts"
import * as EditedFiles from "./EditedFiles.ts"
import type { Permission, Settings } from "./Guard.ts"
import { Guard } from "./Guard.ts"
import * as GuardedModel from "./GuardedModel.ts"
import * as GuardedTool from "./GuardedTool.ts"
import type { GuardExtended } from "./GuardEvent.ts"
import * as Limits from "./Limits.ts"
import * as LoopDetector from "./LoopDetector.ts"
import type { Input as LoopInput } from "./loops/LoopOptions.ts"
import type { SafetyStop } from "./SafetyStop.ts"
import type { Counts, Texts } from "./StopReason.ts"
import { textChecks, withOwn } from "./StopReason.ts"
import * as ToolNature from "./loops/ToolNature.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface Options extends Limits.Limits {
  /**
   * The effect of loops. Default `"strict"`: identical calls with identical outcomes, and cycles of them, are blocked and
   * stopped; other evidence nudges the model. `"soft"`: other evidence also blocks, at twice its count. `"tell"`: nothing
   * is blocked. `false`: loops are not looked for. An object sets the counts, and its `mode` is one of these words.
   */
  readonly loops?: LoopDetector.Mode | LoopInput | false | undefined
  /** Asked before each tool call; it may ask a person, and the wait is not active time. Default: all are allowed. */
  readonly permit?: Settings["permit"]
  /**
   * The file that a call edits, by whatever name is always the same; several, or none. Default: read from the
   * arguments.
   */
  readonly fileOf?: Settings["fileOf"] | undefined
  /** What is said, to the host and to the model. Default: in English. */
  readonly texts?: Partial<Texts> | undefined
  /** How often the host may extend the limits. Default 10, at most 1,000. */
  readonly extensions?: number | undefined
  /** What is stopped has so long for its finalizers; then nobody waits for it. Default 10 seconds. */
  readonly grace?: Duration.Input | undefined
}

export const defaults = { ...Limits.defaults, extensions: 10, grace: "10 seconds" } as const

export type { BlockedCall, Permission }

/** What has been taken, and of what. */
export interface Report {
  readonly counts: Counts
  /** Calls that were not run, by loops or without permission: the last 100, oldest first. */
  readonly blocked: ReadonlyArray<BlockedCall>
  readonly limits: Limits.Bounds
}

/** A guard in the hands of the host. Do not give it to what it guards. */
export interface Host {
  /** Runs a program under it. Programs that run at the same time share its limits. */
  readonly run: <A, E, R>(
    program: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | SafetyStop, Exclude<R, SafetyGuard>>
  /** The same for a stream. At most {@link bufferSize} elements wait for the consumer; that wait is not active time. */
  readonly runStream: <A, E, R>(
    program: Stream.Stream<A, E, R>
  ) => Stream.Stream<A, E | SafetyStop, Exclude<R, SafetyGuard>>
  /**
   * Adds to its limits, and makes it ready to run again if it was stopped: then it waits until all programs have ended
   * that ran under it. Published as `GuardExtended`.
   *
   * Dies with an `InvalidOption` for what is no addition, or too much.
   */
  readonly extend: (by: Limits.Extension) => Effect.Effect<void, ExtensionRefused>
  readonly report: Effect.Effect<Report>
}

export const bufferSize = 64

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

export { SafetyStop } from "./SafetyStop.ts"

/** The guard has been extended as often as it may be. */
export class ExtensionRefused extends Data.TaggedError("ExtensionRefused")<{ readonly extensions: number }> {
  override get message(): string {
    return `The guard has been extended ${this.extensions} times, as often as it may be. Begin anew with a guard of its own, or allow more \`extensions\`.`
  }
}

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** What a program may know of the guard that it runs under. It changes nothing. */
export class SafetyGuard extends Context.Service<SafetyGuard, { readonly report: Effect.Effect<Report> }>()(
  "@outlast/agent/guard/SafetyGuard"
) {}

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** A guard for the host. Throws an `InvalidOption` (a `RangeError`) for an option out of its range. */
export const make = (options: Options = {}): Effect.Effect<Host> => {
  const settings = settingsOf(options)
  return Effect.map(Clock.Clock, (clock) => hostOf(new Guard(settings, clock, GuardedModel.ambient)))
}

/**
 * Runs a program under a guard of its own.
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

/** {@link run} for a stream. */
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

/** Guards a foreign model that is provided inside of `run`, and the tools that it resolves: put it over the model. */
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

/** The handlers of a toolkit, guarded, for a program that calls them itself. Models and agents need no help. */
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
          : Effect.flatMap(Clock.currentTimeMillis, (at) => {
              const event: GuardExtended = { _tag: "GuardExtended", at, by, number }
              return ResilienceEvents.publish(event)
            })
      })
  }
}

/** Where a layer or a toolkit is made that says that it wants a guard. */
const here = Effect.flatMap(current, (branch) =>
  branch === undefined
    ? Effect.die(new MissingService.MissingService("SafetyGuard", "this inside of SafetyGuard.run({ … })"))
    : Effect.succeed(branch)
)

const settingsOf = (options: Options): Settings => {
  Check.fields<Options>(module, options, checks)
  const { loops, permit, fileOf = editedFiles, texts, extensions, grace, ...limits } = options
  return {
    bounds: Limits.make(limits),
    loops: loops === false ? undefined : LoopDetector.make(loops),
    permit,
    fileOf,
    texts: withOwn(texts),
    extensions: extensions ?? defaults.extensions,
    grace: Duration.toMillis(grace ?? defaults.grace)
  }
}

const { is } = Check

const isStream: Check.Check = (module, field, value) =>
  Check.check(Stream.isStream(value), module, field, value, "a Stream")

const checks: Check.Checks<Options> = {
  ...Limits.checks,
  // `LoopDetector.make` checks the fields.
  loops: is.falseOr(
    is.either(
      is.oneOf("strict", "soft", "tell"),
      is.record(is.anything, '"strict", "soft", "tell", or options such as { acts: { block: 3 } }')
    )
  ),
  permit: is.fn('(call) => Effect<"allow" | { refuse: string }>'),
  fileOf: is.fn("(call) => string | string[] | undefined"),
  texts: is.object(textChecks),
  extensions: is.integer({ min: 0, max: 1_000 }),
  grace: is.duration({ max: "1 hour" })
}

/** A tool whose name says that it only reads edits nothing, whatever its arguments are. */
const editedFiles: Settings["fileOf"] = ({ tool, arguments: args }) =>
  ToolNature.ofName(tool) === "read" ? undefined : EditedFiles.of(args)
