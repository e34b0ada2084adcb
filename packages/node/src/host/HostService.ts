/** The service behind `Host`: what is registered, readiness, and the shutdown that runs the phases. */
import { Cause, Clock, Context, Deferred, Duration, Effect, Exit, Option } from "effect"
import type { Scope } from "effect"
import { EventDefinition, InvalidOption, ResilienceEvents, Warnings } from "@outlast/resilience"
import * as Check from "@outlast/resilience/Options"
import type { HostEvent } from "./HostEvent.ts"
import { definitions } from "./HostEvent.ts"
import * as Limited from "./Limited.ts"
import * as Shutdown from "./ShutdownState.ts"
import type { Phase, Plan, StepEnd } from "./ShutdownState.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [name: string]: Json }

/** One action of a phase. Steps of one phase run concurrently. */
export interface Step<E, R> {
  /** The name in logs and in the report, unique within its phase. */
  readonly name: string
  /** Longest time of this step. Default: the limit of its phase, which also bounds it. */
  readonly limit?: Duration.Input | undefined
  readonly run: Effect.Effect<unknown, E, R>
}

export interface Readiness {
  readonly isReady: boolean
  /** Names of the checks that passed. */
  readonly passed: ReadonlyArray<string>
  /** Why it is not ready, by the name of the check. */
  readonly reasons: ReadonlyArray<{ readonly name: string; readonly reason: string }>
}

/** The outcome of a shutdown. */
export interface Report {
  readonly reason: string
  readonly ends: ReadonlyArray<StepEnd>
  /** True when every step has ended without an error. */
  readonly isComplete: boolean
  /** Milliseconds. */
  readonly took: number
}

/** Where the shutdown is. */
export type Status = "running" | "draining" | Phase | "ended"

export interface Service {
  readonly ready: <R>(
    name: string,
    check: Effect.Effect<boolean | string, unknown, R>
  ) => Effect.Effect<void, never, R | Scope.Scope>
  readonly onShutdown: <E, R>(phase: Phase, step: Step<E, R>) => Effect.Effect<void, never, R | Scope.Scope>
  readonly onAbort: <R>(
    name: string,
    run: Effect.Effect<unknown, unknown, R>
  ) => Effect.Effect<void, never, R | Scope.Scope>
  readonly section: <R>(
    name: string,
    read: Effect.Effect<Json, unknown, R>
  ) => Effect.Effect<void, never, R | Scope.Scope>
  /** Runs all checks. Not ready from the start of a shutdown on. */
  readonly readiness: Effect.Effect<Readiness>
  /** True until the process ends, also in a shutdown: a restart would not help. */
  readonly isLive: Effect.Effect<boolean>
  /** Reads all sections. One that fails or is late has the field `error`. */
  readonly sections: Effect.Effect<{ readonly [name: string]: Json }>
  readonly status: Effect.Effect<Status>
  /** Starts the shutdown, or joins the one under way, and waits for its end. */
  readonly shutdown: (reason: string) => Effect.Effect<Report>
  /** Runs what must be done before a second signal ends the process, for a quarter of a second at most. */
  readonly abort: Effect.Effect<void>
  /** Waits for the end of a shutdown, without starting one. */
  readonly ended: Effect.Effect<Report>
}

export class Host extends Context.Service<Host, Service>()("@outlast/node/host/Host") {}

// -----------------------------------------------------------------------------
// Constructor
// -----------------------------------------------------------------------------

/** Milliseconds between a second signal and the end of the process. */
const abortLimit = 250

/** Checks or readers, by name. Each one answers within the limit of a check. */
type Registered<A> = Map<string, Effect.Effect<Option.Option<Exit.Exit<A>>>>

interface RegisteredStep {
  readonly name: string
  readonly limit: number
  readonly run: Effect.Effect<unknown, unknown>
}

const module = "Host"

/** Milliseconds for which the shutdown waits for the handlers of one event. */
const longestPublish = 500

const stepChecks: Check.Checks<Step<unknown, unknown>> = {
  name: Check.is.required(Check.is.text),
  limit: Check.is.duration(),
  run: Check.is.required(Check.is.effect)
}

/** A host with these limits. `onStatus` is called when the status changes, before the phase of that status. */
export const make = (
  plan: Plan,
  checkLimit: number,
  onStatus: (status: Status) => void = () => {}
): Effect.Effect<Service> =>
  Effect.sync(() => {
    const checks: Registered<boolean | string> = new Map()
    const readers: Registered<Json> = new Map()
    const aborts: Registered<unknown> = new Map()
    const steps = new Map<Phase, Map<string, RegisteredStep>>(
      Shutdown.phases.map((phase) => [phase, new Map()])
    )
    const report = Deferred.makeUnsafe<Report>()
    let state = Shutdown.initial
    // Lines and events go where the last registered part sends its own.
    let surroundings: Context.Context<never> = Context.empty()
    // A handler of events may wait. After one that never ended, no other one is waited for.
    let publishLimit = longestPublish

    const register = <A>(into: Map<string, A>, field: string, name: string, entry: A) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          if (into.has(name)) {
            const message = `${module}: ${field} \`${name}\` is registered already. Give each one a name of its own.`
            throw new InvalidOption(module, field, name, "a name of its own", message)
          }
          into.set(name, entry)
        }),
        () => Effect.sync(() => into.delete(name))
      )

    const inContext = <A, E, R>(
      effect: Effect.Effect<A, E, R>,
      use: (effect: Effect.Effect<A, E>) => Effect.Effect<void, never, Scope.Scope>
    ) =>
      Effect.contextWith((context: Context.Context<R>) => {
        // Only its references are read: the loggers and the destination of events.
        surroundings = context as Context.Context<never>
        return use(Effect.provideContext(effect, context))
      })

    const publish = (event: ResilienceEvents.NoTime<HostEvent>): Effect.Effect<void> =>
      Effect.flatMap(Clock.currentTimeMillis, (at) => {
        // The tag leads to the definition of this event.
        const full = { ...event, at } as HostEvent
        const line = EventDefinition.lineOf(definitions, full)
        return Effect.andThen(
          Effect.map(Limited.run(ResilienceEvents.publish(full), publishLimit), (exit) => {
            if (Option.isNone(exit)) publishLimit = 0
          }),
          line === undefined ? Effect.void : Warnings.write(line)
        )
      }).pipe(Effect.provideContext(surroundings))

    const runStep = (phase: Phase, { limit, name, run }: RegisteredStep, phaseLimit: number) =>
      Effect.gen(function* () {
        const start = yield* Clock.currentTimeMillis
        const exit = yield* Limited.run(run, Math.min(limit, phaseLimit))
        const took = (yield* Clock.currentTimeMillis) - start
        const result: Shutdown.Result = Option.match(exit, {
          onNone: () => "blocked",
          onSome: (exit) => (Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? "done" : "failed")
        })
        const end: StepEnd = { phase, name, result, took }
        yield* publish({ _tag: "ShutdownStepEnded", ...end })
        if (Option.isSome(exit) && Exit.isFailure(exit.value) && result === "failed") {
          const line = Effect.logError(exit.value.cause)
          yield* Effect.ignoreCause(Effect.provideContext(line, surroundings))
        }
        return end
      })

    const withSteps = (): ReadonlySet<Phase> =>
      new Set(Shutdown.phases.filter((phase) => (steps.get(phase)?.size ?? 0) > 0))

    const advance = (event: Shutdown.Event): Shutdown.Action => {
      const [action, next] = Shutdown.step(plan, state, event)
      if (next !== state) {
        state = next
        onStatus(statusOf(state))
      }
      return action
    }

    /** Runs the steps of a phase, also those that are registered meanwhile. */
    const runPhase = (phase: Phase, limit: number) =>
      Effect.gen(function* () {
        const endsAt = (yield* Clock.currentTimeMillis) + limit
        const begun = new Set<RegisteredStep>()
        const ends: Array<StepEnd> = []
        for (let left = limit; begun.size === 0 || left > 0;) {
          const due = [...(steps.get(phase)?.values() ?? [])].filter((step) => !begun.has(step))
          if (due.length === 0) break
          for (const step of due) begun.add(step)
          const time = left
          ends.push(
            ...(yield* Effect.forEach(due, (step) => runStep(phase, step, time), {
              concurrency: "unbounded"
            }))
          )
          left = endsAt - (yield* Clock.currentTimeMillis)
        }
        return ends
      })

    const runPhases = (reason: string, first: Shutdown.Action) =>
      Effect.gen(function* () {
        const start = yield* Clock.currentTimeMillis
        yield* publish({ _tag: "ShutdownStarted", reason })
        let action = first
        for (;;) {
          switch (action._tag) {
            case "Wait": {
              yield* Effect.sleep(action.millis)
              action = advance({
                _tag: "Waited",
                now: yield* Clock.currentTimeMillis,
                withSteps: withSteps()
              })
              break
            }
            case "Run": {
              const ends = yield* runPhase(action.phase, action.limit)
              const now = yield* Clock.currentTimeMillis
              action = advance({ _tag: "PhaseEnded", now, ends, withSteps: withSteps() })
              break
            }
            case "End": {
              const { ends } = action
              const took = (yield* Clock.currentTimeMillis) - start
              const incomplete = ends.filter(({ result }) => result !== "done").length
              yield* publish({ _tag: "ShutdownEnded", reason, took, incomplete })
              return { reason, ends, isComplete: incomplete === 0, took }
            }
            case "Ignore":
              return { reason, ends: [], isComplete: true, took: 0 }
          }
        }
      })

    const shutdown = (reason: string): Effect.Effect<Report> =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const action = advance({ _tag: "Asked", now: yield* Clock.currentTimeMillis })
          // In a fiber of its own: the caller may be interrupted by the shutdown.
          if (action._tag !== "Ignore") {
            // Also for a defect, so that the program ends.
            const phases = Effect.flatMap(Effect.exit(runPhases(reason, action)), (exit) =>
              Deferred.done(report, exit)
            )
            yield* Effect.forkDetach(phases, { startImmediately: true, uninterruptible: false })
          }
          return yield* restore(Deferred.await(report))
        })
      )

    const readiness = Effect.gen(function* () {
      const found = yield* Effect.forEach(
        checks,
        ([name, check]) => Effect.map(check, (exit) => ({ name, reason: reasonOf(exit, checkLimit) })),
        { concurrency: "unbounded" }
      )
      const reasons = found.flatMap(({ name, reason }) => (reason === undefined ? [] : [{ name, reason }]))
      const passed = found.flatMap(({ name, reason }) => (reason === undefined ? [name] : []))
      // Read last: the shutdown may have begun meanwhile.
      return state._tag === "Running"
        ? { isReady: reasons.length === 0, passed, reasons }
        : { isReady: false, passed, reasons: [{ name: "host", reason: "shutting down" }, ...reasons] }
    })

    const sections = Effect.map(
      Effect.forEach(
        readers,
        ([name, read]) => Effect.map(read, (exit) => [name, contentOf(exit)] as const),
        { concurrency: "unbounded" }
      ),
      (entries) => Object.fromEntries(entries)
    )

    return {
      ready: (name, check) => {
        Check.is.text(module, "ready.name", name)
        Check.effect(module, "ready.check", check)
        return inContext(check, (check) =>
          register(checks, "ready", name, Limited.single(Effect.orDie(check), checkLimit))
        )
      },
      onShutdown: (phase, step) => {
        Check.oneOf(module, "phase", phase, Shutdown.phases)
        Check.fields(module, step, stepChecks)
        const limit = step.limit === undefined ? Infinity : Duration.toMillis(step.limit)
        return inContext(step.run, (run) =>
          register(steps.get(phase) ?? new Map<string, RegisteredStep>(), phase, step.name, {
            name: step.name,
            limit,
            run
          })
        )
      },
      onAbort: (name, run) => {
        Check.is.text(module, "onAbort.name", name)
        Check.effect(module, "onAbort.run", run)
        return inContext(run, (run) =>
          register(aborts, "onAbort", name, Limited.run(Effect.orDie(run), abortLimit))
        )
      },
      section: (name, read) => {
        Check.is.text(module, "section.name", name)
        Check.effect(module, "section.read", read)
        return inContext(read, (read) =>
          register(readers, "section", name, Limited.single(Effect.orDie(read), checkLimit))
        )
      },
      readiness,
      isLive: Effect.succeed(true),
      sections,
      status: Effect.sync(() => statusOf(state)),
      shutdown,
      abort: Effect.suspend(() =>
        Effect.forEach(aborts.values(), (run) => run, { concurrency: "unbounded", discard: true })
      ),
      ended: Deferred.await(report)
    }
  })

const statusOf = (state: Shutdown.State): Status => {
  switch (state._tag) {
    case "Running":
      return "running"
    case "Draining":
      return "draining"
    case "Stopping":
      return state.phase
    case "Ended":
      return "ended"
  }
}

const late = (limit: number): string => `no answer within ${Duration.format(Duration.millis(limit))}`

const reasonOf = (exit: Option.Option<Exit.Exit<boolean | string>>, limit: number): string | undefined => {
  if (Option.isNone(exit)) return late(limit)
  if (Exit.isFailure(exit.value)) return "its check failed"
  const answer: unknown = exit.value.value
  if (answer === true) return undefined
  return typeof answer === "string" && answer !== "" ? answer : "not ready"
}

const contentOf = (exit: Option.Option<Exit.Exit<Json>>): Json =>
  Option.isNone(exit)
    ? { error: "It did not answer in time." }
    : Exit.isSuccess(exit.value)
      ? exit.value.value
      : { error: "It could not be read." }
