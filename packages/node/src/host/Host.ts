/**
 * The lifecycle of a program: readiness, liveness and an orderly shutdown.
 *
 * Parts of a program register with the host: {@link ready} for checks of readiness, {@link onShutdown} for what must be
 * done at the end, {@link section} for a status page. A registration ends with its scope.
 *
 * **Shutdown.** {@link runMain} owns the signals. The first SIGTERM or SIGINT begins a shutdown: the program is no
 * longer ready, serves for another 5 s (0 on a terminal), and then runs the phases in order. Then the main program is
 * interrupted, so its layers are released.
 *
 * - `intake`: accept nothing new (close servers, end subscriptions)
 * - `loops`: end background loops and sessions
 * - `runs`: let agent runs end, or interrupt them with their transcript written. {@link run} does this
 * - `outbox`: flush what must be published, or leave it on disk
 * - `processes`: end supervised processes
 * - `last`: metrics, logs, traces
 *
 * Steps of one phase run concurrently. Each phase has a limit, and the whole shutdown, too (25 s). A step that has not
 * ended by then is interrupted, named in the log and left behind. The platform's own runner (`NodeRuntime.runMain`)
 * would interrupt the program before any phase: use {@link runMain} instead of it.
 *
 * **Limits.** A signal before `runMain` is called ends the process without a shutdown. So does a second signal, after what
 * {@link onAbort} was given. A program that ends by itself runs no phases: its scopes release what they hold. A step that
 * is registered after its phase has ended is not run.
 *
 * **Example** (A service)
 *
 * ```ts
 * const Service = Layer.effectDiscard(
 *   Effect.gen(function* () {
 *     const outbox = yield* Outbox.Outbox
 *     yield* Host.onShutdown("outbox", { name: "events", run: outbox.flush("4 seconds") })
 *   })
 * )
 * const Delivery = Outbox.layer().pipe(
 *   Layer.provide([NatsBus.layer({ servers: "localhost:4222" }), DeliveryStore.layerSql()]),
 *   Layer.provide(SqliteClient.layer({ filename: "outbox.db" }))
 * )
 * Host.runMain(Layer.launch(Service.pipe(Layer.provide(Delivery))))
 * ```
 */
import { Config, Duration, Effect, Fiber, Layer } from "effect"
import type { Context, Scope } from "effect"
import * as Check from "@outlast/resilience/Options"
import type { HostOptions } from "./HostOptions.ts"
import { checks, defaults, planOf } from "./HostOptions.ts"
import * as HostService from "./HostService.ts"
import type { Json, Readiness, Report, Status, Step } from "./HostService.ts"
import { Host } from "./HostService.ts"
import type { Phase } from "./ShutdownState.ts"
import { phases } from "./ShutdownState.ts"

export { Host } from "./HostService.ts"
export type { Json, Readiness, Report, Service, Status, Step } from "./HostService.ts"
export { defaults } from "./HostOptions.ts"
export type { HostOptions } from "./HostOptions.ts"
export { definitions } from "./HostEvent.ts"
export type { HostEvent, ShutdownEnded, ShutdownStarted, ShutdownStepEnded } from "./HostEvent.ts"
export { exitCodes, repeatWindow, runMain, runMainConfig } from "./RunMain.ts"
export type { RunMainOptions } from "./RunMain.ts"
export { phases } from "./ShutdownState.ts"
export type { Phase, Result, StepEnd } from "./ShutdownState.ts"

// -----------------------------------------------------------------------------
// Registering
// -----------------------------------------------------------------------------

/**
 * Adds a check of readiness until the scope closes. A string says why the program is not ready. A check that fails, or
 * is late, counts as not ready.
 */
export const ready = <R>(
  name: string,
  check: Effect.Effect<boolean | string, unknown, R>
): Effect.Effect<void, never, Host | R | Scope.Scope> =>
  Effect.flatMap(Host, (host) => host.ready(name, check))

/**
 * Adds a step to a phase of the shutdown until the scope closes. A step that is added while its phase runs is still
 * run. After its phase it is not: the scope of the program closes soon.
 */
export const onShutdown = <E, R>(
  phase: Phase,
  step: Step<E, R>
): Effect.Effect<void, never, Host | R | Scope.Scope> =>
  Effect.flatMap(Host, (host) => host.onShutdown(phase, step))

/**
 * Adds what must be done where a second signal ends the process at once, until the scope closes: for example to tell
 * clients that their answers are cut. It has a quarter of a second.
 */
export const onAbort = <R>(
  name: string,
  run: Effect.Effect<unknown, unknown, R>
): Effect.Effect<void, never, Host | R | Scope.Scope> =>
  Effect.flatMap(Host, (host) => host.onAbort(name, run))

/** Adds a section to the status of the program until the scope closes. Do not include secrets. */
export const section = <R>(
  name: string,
  read: Effect.Effect<Json, unknown, R>
): Effect.Effect<void, never, Host | R | Scope.Scope> =>
  Effect.flatMap(Host, (host) => host.section(name, read))

export interface RunOptions {
  /** The name in logs and in the report, unique within its phase. */
  readonly name: string
  /** Time in which it may still end by itself, before it is interrupted. Default 0. */
  readonly drain?: Duration.Input | undefined
  /** Longest time of all, with its finalizers. Default: the limit of the phase. */
  readonly limit?: Duration.Input | undefined
}

const module = "Host"

const runChecks: Check.Checks<RunOptions> = {
  name: Check.is.required(Check.is.text),
  drain: Check.is.duration(),
  limit: Check.is.duration()
}

/**
 * Runs an effect that the shutdown interrupts in its phase, after `drain`. The shutdown waits for its finalizers. An
 * effect that would start during or after its phase is interrupted at once.
 *
 * **Example** (A run whose transcript is kept)
 *
 * ```ts
 * Agent.run(options).pipe(
 *   Effect.onInterrupt(() => save("interrupted")),
 *   Host.run("runs", { name: "run 12", drain: "5 seconds" })
 * )
 * ```
 */
export const run =
  (phase: Phase, options: RunOptions) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, Host | R> => {
    Check.oneOf(module, "phase", phase, phases)
    Check.fields(module, options, runChecks)
    const { drain = Duration.zero, limit, name } = options
    return Effect.contextWith((context: Context.Context<R>) =>
      Effect.gen(function* () {
        const host = yield* Host
        let fiber: Fiber.Fiber<A, E> | undefined
        let isMissed = false
        const end = Effect.suspend(() => {
          if (fiber === undefined) {
            isMissed = true
            return Effect.void
          }
          // The limit of the step also bounds the finalizers of the effect.
          return Effect.andThen(Effect.timeoutOption(Fiber.await(fiber), drain), Fiber.interrupt(fiber))
        })
        yield* host.onShutdown(phase, { name, limit, run: end })
        if (isMissed || hasReached(yield* host.status, phase)) return yield* Effect.interrupt
        // In its own context: what the effect acquires belongs to the scope of the caller.
        fiber = yield* Effect.forkScoped(Effect.provideContext(effect, context), { startImmediately: true })
        return yield* Fiber.join(fiber)
      }).pipe(Effect.scoped)
    )
  }

const hasReached = (status: Status, phase: Phase): boolean =>
  status === "ended" ||
  (status !== "running" && status !== "draining" && phases.indexOf(status) >= phases.indexOf(phase))

// -----------------------------------------------------------------------------
// Using
// -----------------------------------------------------------------------------

/** Runs all checks of readiness. */
export const readiness: Effect.Effect<Readiness, never, Host> = Effect.flatMap(Host, (host) => host.readiness)

/** True until the process ends. */
export const isLive: Effect.Effect<boolean, never, Host> = Effect.flatMap(Host, (host) => host.isLive)

/** Where the shutdown is. */
export const status: Effect.Effect<Status, never, Host> = Effect.flatMap(Host, (host) => host.status)

/** Starts the shutdown, or joins the one under way, and waits for its end. Must not be used in a step. */
export const shutdown = (reason: string): Effect.Effect<Report, never, Host> =>
  Effect.flatMap(Host, (host) => host.shutdown(reason))

// -----------------------------------------------------------------------------
// Layer
// -----------------------------------------------------------------------------

/** A host without signals, for tests: {@link shutdown} starts its shutdown. {@link runMain} provides its own. */
export const layer = (options: HostOptions = {}): Layer.Layer<Host> => {
  Check.fields(module, options, checks)
  const checkLimit = Duration.toMillis(options.checkLimit ?? defaults.checkLimit)
  return Layer.effect(Host, HostService.make(planOf(options, false), checkLimit))
}

/**
 * {@link layer} with settings from `effect/Config`, such as environment variables. A field that is not named keeps its
 * default. {@link runMainConfig} does the same for {@link runMain}.
 *
 * **Example**
 *
 * ```ts
 * Host.layerConfig({ total: Config.Duration("SHUTDOWN_TOTAL") })
 * ```
 */
export const layerConfig = (options: Config.Wrap<HostOptions>): Layer.Layer<Host, Config.ConfigError> =>
  Layer.unwrap(Effect.map(Config.unwrap<HostOptions>(options), layer))
