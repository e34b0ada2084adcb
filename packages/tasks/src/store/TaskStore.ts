/**
 * Where tasks, the results of their steps and the intents of their effects are stored: rows, without policy.
 *
 * A row is what people and other processes see of a task. Every write of a running task names its generation and its
 * process, and changes nothing if the task has ended, or another process has claimed it.
 */
import { Context } from "effect"
import type { Effect, Option } from "effect"
import type { StoreError } from "@outlast/resilience"
import type { Deaths } from "../restart/Deaths.ts"
import type { KeyReused, NoSuchTask, NotNow, QueueFull, StaleDecision } from "../state/TaskErrors.ts"
import type { EffectRecord, StateTag, TaskState, Unreadable } from "../state/TaskState.ts"

export interface NewTask {
  readonly id: string
  readonly task: string
  readonly version: number
  readonly key: string
  /** Hash of the parameters and the history. */
  readonly hash: string
  /** JSON. */
  readonly params: string
  readonly history: string | undefined
  readonly at: number
}

export interface Row extends Omit<NewTask, "at"> {
  /** Counts the rows of the store. A `resume` gives a new one. */
  readonly seq: number
  readonly generation: number
  readonly state: TaskState | Unreadable
  readonly since: number
  readonly submittedAt: number
  readonly restarts: number
  readonly costUsd: number | undefined
  /** JSON of the result; only of a task that ended. */
  readonly result: string | undefined
  /** True once the engine knows this generation. */
  readonly started: boolean
  /** True when the engine has to look again: its last worker stopped in good order. */
  readonly parked: boolean
  readonly cancelBy: string | undefined
  /** Name of what it waits for, and the time at which that ends by itself. */
  readonly wait: string | undefined
  readonly dueAt: number | undefined
  /** JSON of the decision about the wait. */
  readonly verdict: string | undefined
  /** The start of the process that carries out its steps. Absent when it has handed the task back in good order. */
  readonly boot: string | undefined
  /** Deaths of its process since its last recorded step. */
  readonly deaths: Deaths | undefined
}

/** A generation of a task, and the process that writes for it. */
export interface Run {
  readonly id: string
  readonly generation: number
  /** The process that has claimed the task. A write of another one changes nothing. */
  readonly runner: string
}

/** State of a task, as its worker reports it. */
export interface Report extends Run {
  readonly state: TaskState
  readonly since: number
  readonly restarts: number
}

export interface Wait extends Run {
  readonly name: string
  readonly state: TaskState
  readonly at: number
  readonly dueAt?: number | undefined
  readonly restarts?: number | undefined
}

/** The result of a step, and who stores it. */
interface StepRow {
  readonly task: string
  readonly generation: number
  readonly name: string
  /** JSON. */
  readonly reply: string
  /** The process that runs the task, as it has claimed it. */
  readonly runner: string
}

/** What the store says to a worker that writes: it runs the task no longer. */
export interface Lost {
  readonly _tag: "Lost"
}
export const lost: Lost = { _tag: "Lost" }

interface Filter {
  readonly state?: ReadonlyArray<StateTag> | undefined
  readonly task?: string | undefined
  /** Rows of a page, at most. */
  readonly limit: number
  /** `seq` of the last row of the page before. */
  readonly before?: number | undefined
}

/** JSON of results, by the names of their steps. */
export type Steps = Map<string, string>

type Fails = StoreError.StoreError

export interface Service {
  /** Writes one row, as a submission would: fails while the store takes no writes. */
  readonly probe: Effect.Effect<void, Fails>
  /** Adds a task, or finds that the same one is there. */
  readonly submit: (
    task: NewTask,
    bound: number
  ) => Effect.Effect<{ readonly isNew: boolean }, QueueFull | KeyReused | Fails>
  readonly get: (id: string) => Effect.Effect<Option.Option<Row>, Fails>
  /** Newest first. */
  readonly list: (filter: Filter) => Effect.Effect<ReadonlyArray<Row>, Fails>
  /** Number of queued tasks before this one. */
  readonly ahead: (seq: number) => Effect.Effect<number, Fails>

  // Queries of workers, every half second.
  /** Tasks that are not started and whose agent (`triage@3`) is known, oldest first. */
  readonly queued: (known: ReadonlyArray<string>, limit: number) => Effect.Effect<ReadonlyArray<Row>, Fails>
  /** Queued tasks that are not started and whose agent is not known, submitted before. */
  readonly unknown: (
    known: ReadonlyArray<string>,
    before: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Row>, Fails>
  /** Open and started tasks that are cancelled, decided, due or parked. */
  readonly attention: (now: number, limit: number) => Effect.Effect<ReadonlyArray<Row>, Fails>
  /** The engine knows this generation. */
  readonly started: (id: string, generation: number) => Effect.Effect<void, Fails>
  /**
   * This process runs the task from now on, so an earlier one stores no more of its steps. Returns the row; none if the
   * generation has ended.
   */
  readonly claim: (id: string, generation: number, runner: string) => Effect.Effect<Option.Option<Row>, Fails>
  readonly report: (reports: ReadonlyArray<Report>) => Effect.Effect<void, Fails>
  /** Says that tasks wait for a worker, unless one has begun them. */
  readonly reportQueued: (reports: ReadonlyArray<Omit<Report, "runner">>) => Effect.Effect<void, Fails>

  // Writes of a running task.
  /** A process carries out its steps from now on. */
  readonly begin: (run: Run, deaths: Deaths | undefined) => Effect.Effect<void, Fails>
  /** Sets the deaths of a task that this process still has. */
  readonly setDeaths: (run: Run, deaths: Deaths | undefined) => Effect.Effect<void, Fails>
  /** A process that stops in good order has no tasks any more: its end is not the death of one. */
  readonly leave: (boot: string) => Effect.Effect<void, Fails>
  /** Waits. A step that waits is recorded, so no death counts any more. */
  readonly wait: (wait: Wait) => Effect.Effect<void, Fails>
  /** As `wait`, unless `bound` tasks wait for a restart already. */
  readonly waitForRestart: (wait: Wait, bound: number) => Effect.Effect<boolean, Fails>
  /** The wait of this name is over. */
  readonly woken: (id: string, generation: number, name: string) => Effect.Effect<void, Fails>
  /** Hands a task back. `state`: what it shows until a worker resumes it, unless it waits for something else. */
  readonly park: (run: Run, state: TaskState) => Effect.Effect<void, Fails>
  /** Ends the task. False where another process has claimed it, or it has ended otherwise. */
  readonly finish: (
    end: Run & {
      readonly state: TaskState
      readonly result: string
      readonly costUsd: number | undefined
      readonly at: number
    }
  ) => Effect.Effect<boolean, Fails>

  // Requests of people.
  /**
   * Cancels a task at once that is not started, and asks for it otherwise. Does nothing for one that ended. Returns true
   * if the task ended at once.
   */
  readonly cancel: (ask: {
    readonly id: string
    readonly by: string
    readonly at: number
    /** Result of a task that is not started. */
    readonly result: string
  }) => Effect.Effect<boolean, NoSuchTask | Fails>
  /**
   * The first decision counts, and the same one again changes nothing. One with a `key` counts only for what has this
   * `decisionKey`. From then on the task waits for its worker.
   */
  readonly decide: (
    id: string,
    verdict: {
      readonly json: string
      readonly for: ReadonlyArray<StateTag>
      readonly key?: string | undefined
    }
  ) => Effect.Effect<void, NoSuchTask | NotNow | StaleDecision | Fails>
  /** Begins a new generation with this history. */
  readonly resume: (ask: {
    readonly id: string
    readonly generation: number
    /** Absent: that of the generation before. */
    readonly history: string | undefined
    readonly at: number
  }) => Effect.Effect<void, NoSuchTask | NotNow | Fails>
  /** Tasks that ended before, the oldest first. */
  readonly endedBefore: (before: number, limit: number) => Effect.Effect<ReadonlyArray<Row>, Fails>
  /** Deletes tasks with their steps and intents, unless they were resumed. Returns how many. */
  readonly remove: (rows: ReadonlyArray<Row>) => Effect.Effect<number, Fails>

  // Steps and the journal. Those that are written at once, by whatever tasks, share a commit.
  /** The stored results of a generation's steps, by their names. */
  readonly steps: (id: string, generation: number) => Effect.Effect<Steps, Fails>
  /** Stores the result of a step. Returns what is stored under its name: the first result counts. */
  readonly record: (step: StepRow) => Effect.Effect<string | Lost, Fails>
  /** Writes the intent of the process that it names. Returns the record that is there already. */
  readonly intend: (record: EffectRecord) => Effect.Effect<Option.Option<EffectRecord> | Lost, Fails>
  /** The intents of a task. */
  readonly intents: (task: string) => Effect.Effect<ReadonlyArray<EffectRecord>, Fails>
  /** Makes the process that the record names the one that has begun the effect. False where another has the task. */
  readonly takeOver: (record: EffectRecord) => Effect.Effect<boolean, Fails>
}

/** The state of a task that no worker runs. */
export const waitingFor = (needs: string): TaskState => ({ _tag: "WaitingForWorker", needs })

/** The agent of a task, with its version: `triage@3`. */
export const agentOf = ({ task, version }: { readonly task: string; readonly version: number }): string =>
  `${task}@${version}`

export class TaskStore extends Context.Service<TaskStore, Service>()("@outlast/tasks/store/TaskStore") {}
