/** The runs of the service: started by a request, shown as server-sent events, listed on the status page. */
import { Cause, Clock, Effect, Queue, Stream, Struct } from "effect"
import { Activity, Agent, SafetyGuard } from "@outlast/agent"
import { Host } from "@outlast/node"
import * as Workspace from "../chat/Workspace.ts"
import * as Frames from "./Frames.ts"

/** Runs at a time. Further ones are refused. */
const maxRunning = 20

/** Runs that have ended, and are still listed. */
const maxEnded = 50

/** Events of one run that wait for its reader. Then the run waits, too. */
const bufferSize = 64

interface Run {
  readonly id: number
  readonly startedAt: number
  readonly state: string
  readonly turns: number
  readonly tools: number
  readonly endedAt: number | undefined
  /** The limits that are set for it, and what it has used of each. */
  readonly limits: ReadonlyArray<Limit>
}

interface Limit {
  readonly limit: keyof typeof counted
  /** Milliseconds for `time` and `totalTime`, US dollars for `money`, else a number. */
  readonly used: number
  readonly of: number
}

/** The count of each limit. */
const counted = {
  turns: "turns",
  toolCalls: "toolCalls",
  tokens: "tokens",
  money: "costUsd",
  time: "elapsed",
  totalTime: "totalElapsed",
  events: "events",
  subagents: "subagents"
} as const satisfies Partial<Record<keyof SafetyGuard.Report["limits"], keyof SafetyGuard.Report["counts"]>>

/** The limits of a guard that are set. */
const limitsOf = ({ counts, limits }: SafetyGuard.Report): ReadonlyArray<Limit> =>
  Struct.keys(counted)
    .map((limit) => ({ limit, used: counts[counted[limit]], of: limits[limit] }))
    .filter(({ of }) => of !== Infinity)

export interface Runs {
  /** The events of a new run; `undefined` when too many run. A reader that leaves ends the run. */
  readonly start: (prompt: string) => Effect.Effect<Stream.Stream<string, never, Needed> | undefined>
  readonly list: Effect.Effect<ReadonlyArray<Run>>
}

/** Services that a run needs. */
export type Needed = Host.Host | Agent.Services<typeof Workspace.kit.tools>

const failed = (message: string): string => Frames.frame("failed", { message })

export const make = (limits: Effect.Effect<SafetyGuard.Options>): Effect.Effect<Runs> =>
  Effect.sync(() => {
    const running = new Map<number, Run>()
    const guards = new Map<number, SafetyGuard.Host>()
    const counting = (run: Run): Effect.Effect<Run> => {
      const guard = guards.get(run.id)
      return guard === undefined
        ? Effect.succeed(run)
        : Effect.map(guard.report, (report) => ({ ...run, limits: limitsOf(report) }))
    }
    let ended: ReadonlyArray<Run> = []
    let count = 0
    const change = (id: number, of: (run: Run) => Partial<Run>): void => {
      const run = running.get(id)
      if (run !== undefined) running.set(id, { ...run, ...of(run) })
    }
    const end = (id: number) =>
      Effect.gen(function* () {
        const endedAt = yield* Clock.currentTimeMillis
        const run = running.get(id)
        if (run === undefined) return
        const last = yield* counting(run)
        running.delete(id)
        guards.delete(id)
        ended = [{ ...last, endedAt }, ...ended].slice(0, maxEnded)
      })

    const note = (id: number, part: Agent.Part): void => {
      if (part.type === "tool-call") change(id, ({ tools }) => ({ tools: tools + 1 }))
      else if (part.type === "transition") change(id, () => ({ turns: part.turn }))
      else if (part.type === "outcome") change(id, () => ({ state: part.outcome.status }))
    }

    const carryOut = (id: number, prompt: string, emit: (frame: string) => Effect.Effect<unknown>) =>
      Effect.gen(function* () {
        const guard = yield* SafetyGuard.make(yield* limits)
        guards.set(id, guard)
        yield* guard.runStream(Agent.stream({ prompt, toolkit: Workspace.kit })).pipe(
          Stream.runForEach((part) => {
            note(id, part)
            const frame = Frames.ofPart(part)
            return frame === undefined ? Effect.void : emit(frame)
          }),
          Effect.catch((failure) => {
            change(id, () => ({ state: "failed" }))
            const { message } = failure._tag === "AgentFailed" ? failure.reason : failure
            return emit(failed(message))
          })
        )
      })

    return {
      start: (prompt) =>
        Effect.map(Clock.currentTimeMillis, (startedAt) => {
          if (running.size >= maxRunning) return undefined
          const id = ++count
          return Stream.callback<string, never, Needed>(
            (queue) => {
              // Only now: a reader that has left before never starts the run.
              running.set(id, {
                id,
                startedAt,
                state: "running",
                turns: 0,
                tools: 0,
                endedAt: undefined,
                limits: []
              })
              const emit = (frame: string) => Queue.offer(queue, frame)
              return emit(Frames.frame("run", { id })).pipe(
                Effect.andThen(carryOut(id, prompt, emit)),
                Effect.provideService(Activity.CurrentRun, `run ${id}`),
                // The shutdown lets runs end by themselves for a while.
                Host.run("runs", { name: `run ${id}`, drain: "5 seconds" }),
                Effect.onInterrupt(() => Effect.sync(() => change(id, () => ({ state: "interrupted" })))),
                Effect.catchCause((cause) =>
                  Cause.hasInterrupts(cause)
                    ? emit(failed("The service is shutting down. Send the prompt again."))
                    : Effect.andThen(
                        Effect.logError("A run ended with a defect.", cause),
                        emit(failed("This should not happen. The log has the cause."))
                      )
                ),
                Effect.ensuring(end(id)),
                Effect.andThen(Queue.end(queue))
              )
            },
            { bufferSize, strategy: "suspend" }
          )
        }),
      list: Effect.suspend(() =>
        Effect.map(Effect.forEach([...running.values()], counting), (now) => [...now, ...ended])
      )
    }
  })
