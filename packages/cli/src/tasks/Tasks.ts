/**
 * `outlast tasks`: durable tasks, listed, shown, watched, cancelled, resumed, decided and removed.
 *
 * It opens the store itself and runs nothing. Workers see what it asks for within half a second.
 */
import { userInfo } from "node:os"
import type { Verdict } from "@outlast/tasks"
import { Tasks } from "@outlast/tasks"
import { Clock, Console, Effect, Layer, Option, Stream } from "effect"
import * as When from "../dlq/When.ts"
import * as StoreClient from "../dlq/StoreClient.ts"
import { UsageError } from "../command/UsageError.ts"
import * as Report from "./Report.ts"
import type { State } from "./TaskStates.ts"

export interface StoreFlags {
  readonly store: Option.Option<string>
  readonly prefix: string
  readonly json: boolean
}

/** Tasks of a list when no limit is given. */
const usualLimit = 50

const withTasks = <A, E>({ store, prefix }: StoreFlags, use: (tasks: Tasks.Service) => Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const address = yield* StoreClient.addressOf(store, "tasks")
    const client = yield* StoreClient.clientOf(address, { store: "tasks" })
    const file = StoreClient.nameOf(address)
    return yield* Effect.flatMap(Tasks.Tasks, use).pipe(
      Effect.provide(Tasks.layerClient({ prefix, file, create: false }).pipe(Layer.provide(client)))
    )
  })

export const list = (
  flags: StoreFlags & {
    readonly state: ReadonlyArray<State>
    readonly task: Option.Option<string>
    readonly limit: Option.Option<number>
  }
) =>
  Effect.gen(function* () {
    const limit = Option.getOrElse(flags.limit, () => usualLimit)
    if (limit < 1) return yield* new UsageError({ message: "--limit must be at least 1." })
    const filter = {
      state: flags.state.length === 0 ? undefined : flags.state,
      task: Option.getOrUndefined(flags.task)
    }
    const found = yield* withTasks(flags, ({ list }) =>
      Stream.runCollect(Stream.take(list(filter), limit + 1))
    )
    const shown = found.slice(0, limit)
    if (flags.json) {
      for (const status of shown) yield* Console.log(JSON.stringify(Report.summary(status)))
      return true
    }
    if (shown.length === 0) {
      yield* Console.log("No tasks.")
      return true
    }
    yield* Console.log(Report.table(shown).join("\n"))
    if (found.length > limit) yield* Console.log(`The newest ${limit}. There are more: see --limit.`)
    return true
  })

export const show = (flags: StoreFlags & { readonly id: string; readonly answer: boolean }) =>
  Effect.gen(function* () {
    const found = yield* withTasks(flags, ({ status, result }) =>
      Effect.gen(function* () {
        const status_ = yield* status(flags.id)
        if (Option.isNone(status_)) return undefined
        if (!Report.hasEnded(status_.value.state)) return { status: status_.value, end: undefined }
        const end = yield* result(flags.id).pipe(
          Effect.map((outcome): Report.End => ({ outcome })),
          Effect.catchTag("TaskFailed", (failure) => Effect.succeed<Report.End>({ failure }))
        )
        return { status: status_.value, end }
      })
    )
    if (found === undefined) {
      yield* Console.error(`outlast tasks: There is no task ${flags.id}. See outlast tasks list.`)
      return false
    }
    yield* Console.log(
      flags.json
        ? JSON.stringify(Report.full(found.status, found.end, flags.answer))
        : Report.lines(found.status, found.end, flags.answer).join("\n")
    )
    return true
  })

/** True when the task is done; a task that failed or was cancelled ends the command with 1. */
export const watch = (flags: StoreFlags & { readonly id: string }) =>
  withTasks(flags, ({ watch }) =>
    Stream.runFoldEffect(
      watch(flags.id),
      () => false,
      (_, status) =>
        Effect.as(
          Console.log(
            flags.json
              ? JSON.stringify(Report.summary(status))
              : `${new Date(status.since).toISOString()}  ${Report.words(status.state)}`
          ),
          status.state._tag === "Done"
        )
    )
  )

type Many = StoreFlags & { readonly ids: ReadonlyArray<string> }

/**
 * Does the same to each task, and goes on after one that cannot be changed. `change` returns what it did where that is
 * not `done`.
 */
const each = <E extends { readonly message: string }>(
  flags: Many,
  done: string,
  change: (tasks: Tasks.Service, id: string) => Effect.Effect<string | void, E>
) =>
  withTasks(flags, (tasks) =>
    Effect.gen(function* () {
      let isRight = true
      for (const id of flags.ids) {
        const exit = yield* Effect.result(change(tasks, id))
        if (exit._tag === "Success") {
          const said = exit.success ?? done
          yield* Console.log(
            flags.json ? JSON.stringify({ id, [done]: said === done }) : `${Report.plain(id)}: ${said}`
          )
          continue
        }
        isRight = false
        yield* Console.error(`outlast tasks: ${exit.failure.message}`)
      }
      return isRight
    })
  )

/** A task that runs is cancelled by its worker, which is only asked for it here. */
export const cancel = (flags: Many) =>
  each(flags, "cancelled", ({ cancel, status }, id) =>
    Effect.gen(function* () {
      yield* cancel(id, `outlast tasks (${userInfo().username})`)
      const found = yield* status(id)
      if (Option.isNone(found) || found.value.state._tag === "Cancelled") return undefined
      const { state } = found.value
      return Report.hasEnded(state)
        ? `has ended before: ${Report.words(state)}`
        : `asked to cancel; its worker ends it (now: ${Report.words(state)})`
    })
  )

export const resume = (flags: Many) => each(flags, "resumed", ({ resume }, id) => resume(id))

export const decide = (
  flags: StoreFlags & {
    readonly id: string
    readonly happened: boolean
    readonly didNot: boolean
    readonly result: Option.Option<string>
    readonly approve: Option.Option<string>
    readonly key: Option.Option<string>
  }
) =>
  Effect.gen(function* () {
    const verdict = yield* verdictOf(flags)
    const key = Option.getOrUndefined(flags.key)
    return yield* each({ ...flags, ids: [flags.id] }, "decided", ({ decide }, id) => decide(id, verdict, key))
  })

const verdictOf = (flags: {
  readonly happened: boolean
  readonly didNot: boolean
  readonly result: Option.Option<string>
  readonly approve: Option.Option<string>
}): Effect.Effect<Verdict, UsageError> =>
  Effect.gen(function* () {
    const { happened, didNot, result, approve } = flags
    const given = [happened, didNot, Option.isSome(approve)].filter(Boolean).length
    if (given !== 1) {
      return yield* new UsageError({
        message: "Say what is so: --happened, --did-not, or --approve yes,no for calls that wait."
      })
    }
    if (Option.isSome(result) && !happened) {
      return yield* new UsageError({ message: "--result goes with --happened." })
    }
    if (Option.isSome(approve)) {
      const decisions = approve.value.split(",").map((word) => word.trim())
      if (!decisions.every((word) => word === "yes" || word === "no")) {
        return yield* new UsageError({ message: "--approve must be yes or no for each call: yes,no,yes." })
      }
      return { _tag: "Approved", decisions: decisions.map((word) => word === "yes") }
    }
    if (didNot) return { _tag: "DidNot" }
    if (Option.isNone(result)) return { _tag: "Happened" }
    const json = parse(result.value)
    if (json === undefined) {
      return yield* new UsageError({
        message: '--result must be JSON: what the tool would have returned, "ok".'
      })
    }
    return { _tag: "Happened", result: json.value }
  })

const parse = (text: string): { readonly value: unknown } | undefined => {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

export const prune = (flags: StoreFlags & { readonly olderThan: string }) =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const before = When.parse(flags.olderThan, now)
    if (before === undefined || before > now) {
      return yield* new UsageError({
        message: "--older-than must be an age such as 12h or 30d, or a date such as 2026-11-23T08:00:00Z."
      })
    }
    const { tasks } = yield* withTasks(flags, ({ prune }) => prune(now - before))
    yield* Console.log(
      flags.json ? JSON.stringify({ pruned: tasks }) : `${tasks} ${tasks === 1 ? "task" : "tasks"} removed.`
    )
    return true
  })
