/**
 * Interprets a run in this process: performs each action, feeds its event to the machine, publishes the transitions.
 *
 * An interruption is an event of the machine, too, so the transition that it publishes is that of the phase. Within
 * limits on time, a watcher stops the run when its time is up.
 */
import { Cause, Clock, Deferred, Effect, Exit, Fiber } from "effect"
import { ErrorText, ResilienceEvents } from "@outlast/resilience"
import * as ActiveTime from "../conversation/ActiveTime.ts"
import { Transcript } from "../conversation/Transcript.ts"
import { current } from "../guard/Branch.ts"
import type { Tripped } from "../guard/StopReason.ts"
import type { AgentEvent } from "./AgentEvent.ts"
import { AgentFailed, leaving } from "./AgentFailed.ts"
import type { Outcome } from "./Outcome.ts"
import type { Ending, RunAction } from "./RunAction.ts"
import type { RunEvent } from "./RunEvent.ts"
import { endingOf } from "./RunEnd.ts"
import type { Moved, RunState } from "./RunModel.ts"
import { step } from "./RunState.ts"
import type { RunTranscript } from "./RunTranscript.ts"
import * as Transcripts from "./RunTranscript.ts"
import type { Carry, RunWorld } from "./RunWorld.ts"
import { now } from "./RunWorld.ts"
import type { Hold } from "./Share.ts"
import { spentBy } from "./Share.ts"
import type { Step, Steps, ToolStep } from "./Steps.ts"
import { StepNames } from "./Steps.ts"
import * as Suspended from "./Suspended.ts"
import type { Passed } from "./Transition.ts"
import { TurnSpans } from "./TurnSpans.ts"

export interface Running<F = never> {
  readonly world: RunWorld
  /** The run so far, and the event that begins or resumes it. */
  readonly from: { readonly state: RunState; readonly transcript: RunTranscript }
  readonly first: RunEvent
  /** Events that another interpreter has executed, `first` included. They are folded and not published again. */
  readonly replayed: ReadonlyArray<RunEvent>
  /** Stores an event. Its transitions are published afterwards. */
  readonly record: ((event: RunEvent) => Effect.Effect<void>) | undefined
  /** Carries out each action as a step whose result is stored. Absent: each runs as it is. */
  readonly steps: Steps<F> | undefined
  /** Receives the transitions, beside the events. */
  readonly emit: ((passed: Passed) => Effect.Effect<void>) | undefined
  /** Cancels the run when it ends. */
  readonly cancel: Effect.Effect<unknown> | undefined
  /** The run's part of the limits of the run around it. */
  readonly hold: Hold | undefined
}

/** The run has to end before its action has. */
type Halt = { readonly _tag: "Cancelled" } | { readonly _tag: "TimedOut"; readonly tripped: Tripped }

export const interpret = <E, R, F = never>(
  running: Running<F>
): Effect.Effect<Outcome, AgentFailed | E | F, R> =>
  Effect.gen(function* () {
    const { world, from, hold, steps } = running
    const clock = yield* Clock.Clock
    const events = yield* ResilienceEvents.ResilienceEvents
    const publish = ResilienceEvents.publisher(events, clock)<AgentEvent>
    const branch = yield* current
    const around = yield* ActiveTime.ActiveTime
    let { state, transcript } = from
    // One fiber for all actions, which ends with the run.
    const cancelled =
      running.cancel === undefined || steps !== undefined
        ? undefined
        : yield* Effect.forkChild(running.cancel)
    /** A step may outlive this interpreter, so it waits for the cancellation itself. */
    const isCancelled: Effect.Effect<unknown> | undefined =
      cancelled === undefined ? running.cancel : Fiber.await(cancelled)

    /** Feeds an event to both folds. Synchronous, so that no interruption comes between them. */
    const feed = (event: RunEvent): Moved => {
      const moved = step(state, event)
      transcript = Transcripts.add(transcript, state, event, moved)
      state = moved.state
      return moved
    }
    const spans =
      steps === undefined
        ? yield* Effect.withFiber((fiber) => Effect.succeed(TurnSpans.of(fiber)))
        : undefined
    const announced = ({ turn, transition, cause }: Passed) =>
      publish({ _tag: "AgentTransition", turn, transition, cause })
    const { emit } = running
    /** Nothing listens in most programs. A turn then pays for no Effect. */
    const isSilent = events === ResilienceEvents.nowhere && emit === undefined
    const told = ({ transitions }: Moved): Effect.Effect<void> =>
      isSilent || transitions.length === 0
        ? Effect.void
        : Effect.forEach(
            transitions,
            (passed) =>
              emit === undefined ? announced(passed) : Effect.andThen(announced(passed), emit(passed)),
            { discard: true }
          )

    const begun = running.replayed[0] ?? running.first
    const { limits } = begun._tag === "Started" ? begun.settings : from.state.settings
    const watch = limits === undefined ? undefined : new Watch(clock, around)
    /** Adds the time that an action took, where time is limited. */
    const timed = <A extends object, E2, R2>(made: Effect.Effect<A, E2, R2>): Effect.Effect<A, E2, R2> => {
      if (watch === undefined) return made
      return Effect.suspend(() => {
        const [elapsed, active] = [now(clock), watch.active]
        return Effect.map(made, (event) => ({
          ...event,
          elapsed: now(clock) - elapsed,
          active: watch.active - active
        }))
      }).pipe(Effect.provideService(ActiveTime.ActiveTime, watch.activity))
    }

    /** An effect, unless the run is cancelled or its time is up before. */
    const unlessHalted = <A extends object, B, E2, R2>(
      run: Effect.Effect<A, E2, R2>,
      halted: (halt: Halt) => B
    ): Effect.Effect<A | B, E2, R2> => {
      if (isCancelled === undefined && watch === undefined) return run
      return Effect.suspend(() => {
        if (cancelled?.pollUnsafe() !== undefined) return Effect.succeed(halted({ _tag: "Cancelled" }))
        const made = timed(run)
        const halts: Array<Effect.Effect<Halt>> = []
        if (isCancelled !== undefined) halts.push(Effect.as(isCancelled, { _tag: "Cancelled" }))
        if (watch !== undefined && (limits?.time !== undefined || limits?.totalTime !== undefined)) {
          const { active, elapsed } = state.guard
          const [time = Infinity, totalTime = Infinity] = [limits.time, limits.totalTime]
          halts.push(
            Effect.map(watch.until(time - active, totalTime - elapsed), (subject) => ({
              _tag: "TimedOut",
              tripped: { reason: "timeout", limit: subject === "active" ? time : totalTime, subject }
            }))
          )
        }
        return halts.length === 0
          ? made
          : Effect.raceFirst(made, Effect.map(Effect.raceAllFirst(halts), halted))
      })
    }
    const haltedAs = (halt: Halt): RunEvent => {
      const { done, partial } = world
      return halt._tag === "TimedOut"
        ? { _tag: "Stopped", tripped: halt.tripped, ...resultsIn(state, done) }
        : {
            _tag: "Interrupted",
            ...resultsIn(state, done),
            ...(state.phase === "asking" && partial.length > 0 ? { partial } : {})
          }
    }

    const names = new StepNames()
    /** False while steps only return what is stored: their transitions were published when they were carried out. */
    let isFresh = true
    let isRestored = false
    const fresh = <A, E2, R2>(run: Effect.Effect<A, E2, R2>): Effect.Effect<A, E2, R2> =>
      Effect.suspend(() => {
        isFresh = true
        if (isRestored) return run
        isRestored = true
        return Effect.andThen(world.restore(state), run)
      })
    /** An action without failures of its own, as a step. */
    const asStep = <R2>(
      kind: Step["kind"],
      run: Effect.Effect<RunEvent, never, R2>
    ): Effect.Effect<RunEvent, F, R2> => {
      if (steps === undefined) return run
      const { turn } = state
      return steps.event({ name: names.next(turn, kind), turn, kind }, fresh(run))
    }
    const plain: Carry<E, R, E> = (_call, _at, _tool, run) => run
    /** The calls of a turn, each as a step. */
    const toolSteps = (
      own: Steps<F>,
      here: { readonly state: RunState; readonly transcript: RunTranscript },
      action: Extract<RunAction, { readonly _tag: "RunTools" }>
    ): Effect.Effect<RunEvent, F, R> => {
      // Named in the order of the calls, whatever the order in which they begin.
      const called = transcript.open.map(({ id }) => names.next(state.turn, `tool/${id}`))
      const carry: Carry<E, R, F> = ({ id, name: toolName, params }, at, tool, run) => {
        const name = called[at]
        // A blocked call does nothing.
        if (name === undefined || action.verdicts[at]?._tag === "Block") return Effect.orDie(run)
        const halted = (halt: Halt): ToolStep =>
          halt._tag === "TimedOut" ? { _tag: "Stopped", tripped: halt.tripped } : { _tag: "Cancelled" }
        const call = { id, tool: toolName, params }
        return own.tool({ name, turn: state.turn, call, tool }, fresh(unlessHalted(run, halted)))
      }
      return Effect.flatMap(world.tools<E, R, F>(here, action, publish, carry), (event) =>
        world.compacts ? asStep("results", world.admitted(here, event)) : Effect.succeed(event)
      )
    }

    const perform = (action: RunAction): Effect.Effect<RunEvent, E | F, R> => {
      const here = { state, transcript }
      isFresh = steps === undefined
      switch (action._tag) {
        case "Fit":
          // Without compaction every conversation fits: nothing to store.
          return world.compacts
            ? asStep("fit", unlessHalted(world.fit(here, action), haltedAs))
            : world.fit(here, action)
        case "Ask":
          return asStep("ask", unlessHalted(world.ask(here, action), haltedAs))
        case "RunTools": {
          if (steps !== undefined) return toolSteps(steps, here, action)
          const tools = world.tools<E, R>(here, action, publish, plain)
          return unlessHalted(
            Effect.flatMap(tools, (event) => world.admitted(here, event)),
            haltedAs
          )
        }
        case "AskHook":
          return asStep(action.point, unlessHalted(world.hook(here, action), haltedAs))
        case "AskApproval": {
          if (steps === undefined) return Effect.die(new Error("Agent: AskApproval has no event."))
          const { pending } = Suspended.make(state, transcript)
          return Effect.flatMap(steps.approve(names.next(state.turn, "approval"), pending), (decisions) =>
            asStep("approved", Effect.succeed({ _tag: "Approved", decisions }))
          )
        }
        default:
          return Effect.die(new Error(`Agent: ${action._tag} has no event.`))
      }
    }

    const inTurn = (action: RunAction): Effect.Effect<RunEvent, E | F, R> =>
      spans === undefined ? perform(action) : spans.within(state.turn, perform(action))

    const outcomeOf = (ending: Ending): Outcome => ({
      ...ending,
      text: transcript.text,
      blocked: transcript.blocked.last,
      transcript: new Transcript(Transcripts.promptOf(transcript))
    })

    const run = Effect.gen(function* () {
      const { first, replayed, record } = running
      const [again, ...others] = replayed
      isFresh = steps === undefined
      const begins =
        steps === undefined
          ? first
          : yield* steps.event({ name: "start", turn: 0, kind: "start" }, fresh(Effect.succeed(first)))
      let moved = feed(again ?? begins)
      for (const event of others) moved = feed(event)
      if (again === undefined) {
        if (record !== undefined) yield* record(first)
        if (isFresh) yield* told(moved)
      }
      while (true) {
        const { action } = moved
        if (action._tag === "Finish") return outcomeOf(action.ending)
        if (action._tag === "Fail") {
          const { reason, turn } = action
          if (reason === undefined) return yield* Effect.die(new Error("Agent: a tool ended the run."))
          const left = new Transcript(Transcripts.promptOf(transcript))
          return yield* Effect.fail(
            ErrorText.brief(new AgentFailed({ reason, turn, transcript: left }), "reason", "transcript")
          )
        }
        if (action._tag === "AskApproval" && steps === undefined) {
          const suspended = Suspended.make(state, transcript)
          return { ...outcomeOf(endingOf(state, "suspended")), suspended }
        }
        const over = hold?.report(spentBy(state))
        const event = over === undefined ? yield* inTurn(action) : stoppedBy(over)
        moved = feed(event)
        spans?.passed(moved.transitions)
        if (record !== undefined) yield* record(event)
        if (!isSilent && isFresh) yield* told(moved)
      }
    })

    return yield* run.pipe(
      Effect.onInterrupt(() =>
        Effect.suspend(() => {
          // A durable run that is interrupted goes on later, from its steps.
          if (steps !== undefined || state.phase === "ended" || state.phase === "new") return Effect.void
          const moved = feed({ _tag: branch?.isStopped === true ? "Stopped" : "Interrupted" })
          return Effect.forEach(moved.transitions, announced, { discard: true })
        })
      ),
      Effect.catchCause((cause) => {
        // The error of a run that has ended has its transcript.
        if (Cause.hasInterruptsOnly(cause) || state.phase === "ended") return Effect.failCause(cause)
        const isTool = state.phase === "tools"
        const moved = feed({ _tag: "ToolFailed", ...resultsIn(state, world.done) })
        const left = leaving(cause, new Transcript(Transcripts.promptOf(transcript)))
        return isTool && isFresh
          ? Effect.andThen(told(moved), Effect.failCause(left))
          : Effect.failCause(left)
      }),
      Effect.onExit((exit) =>
        Effect.sync(() => {
          spans?.end(exit)
          hold?.report(spentBy(state))
          hold?.end()
          watch?.end()
          cancelled?.interruptUnsafe()
        })
      )
    )
  })

const stoppedBy = (tripped: Tripped): RunEvent => ({ _tag: "Stopped", tripped })

/** The results so far, while tools run. */
const resultsIn = ({ phase }: RunState, results: RunWorld["done"]): { readonly results?: RunWorld["done"] } =>
  phase === "tools" ? { results } : {}

/** Measures the active time of a run. */
class Watch {
  readonly activity: ActiveTime.Activity
  readonly #watch: ActiveTime.Stopwatch
  #resumed = Deferred.makeUnsafe<void>()

  constructor(clock: Clock.Clock, around: ActiveTime.Activity | undefined) {
    this.#watch = new ActiveTime.Stopwatch(clock, () => void Deferred.doneUnsafe(this.#resumed, Exit.void))
    const top = new ActiveTime.Activity([], this.#watch)
    this.activity = new ActiveTime.Activity(around === undefined ? [top] : [around, top])
  }

  /** Milliseconds. */
  get active(): number {
    return this.#watch.elapsed
  }

  /** Completes when the active time or the total time that is left has passed. */
  until(active: number, total: number): Effect.Effect<"active" | "total"> {
    const end = this.active + active
    const wait: Effect.Effect<"active"> = Effect.suspend(() => {
      const left = end - this.active
      if (left <= 0) return Effect.succeed("active")
      if (!this.#watch.isPaused) return Effect.andThen(Effect.sleep(Math.ceil(left)), wait)
      if (Deferred.isDoneUnsafe(this.#resumed)) this.#resumed = Deferred.makeUnsafe<void>()
      return Effect.andThen(Deferred.await(this.#resumed), wait)
    })
    const over: Effect.Effect<"total"> = Effect.as(Effect.sleep(Math.ceil(Math.max(0, total))), "total")
    return total === Infinity
      ? active === Infinity
        ? Effect.never
        : wait
      : active === Infinity
        ? over
        : Effect.raceFirst(wait, over)
  }

  end(): void {
    this.activity.end()
  }
}
