/**
 * Commits events to the store in groups, from one fiber, and makes room in a full outbox.
 *
 * Events that arrive during a commit form the next group. The commit runs in a fiber of the layer, so the interruption or the
 * transaction of a caller does not reach it.
 */
import { Clock, Effect, Exit } from "effect"
import type { Drain } from "./Drain.ts"
import type { LaneCell, Pending } from "./Lanes.ts"
import * as Lane from "./LaneState.ts"
import type { StoreError } from "@outlast/resilience"
import type { Core } from "./OutboxCore.ts"
import { isClosed } from "./OutboxCore.ts"
import { OutboxFull } from "./OutboxFull.ts"
import * as Pressure from "./Pressure.ts"

/** Bytes in one commit, at most, unless a single event has more. */
const commitBytes = 8_388_608

export type Writer = ReturnType<typeof make>

export const make = (core: Core, { drain }: Drain) => {
  const { run, settings, state, store, tell } = core
  const { cap, whenFull } = settings
  const { counts, lanes, queue, settled, writable } = state

  /** Hands an event to the writer, whose lane counts it already; or says why not. */
  const enqueue = (pending: Pending): OutboxFull | StoreError.StoreError | undefined => {
    const what = state.ended ? undefined : state.refusal(pending.row.bytes)
    if (state.ended || what !== undefined) {
      pending.at = "done"
      pending.lane.state = Lane.notCommitted(pending.lane.state, 1)
      state.tidy(pending.lane)
      return what === undefined ? isClosed() : new OutboxFull({ what, limit: cap[what] })
    }
    state.load = Pressure.add(state.load, 1, pending.row.bytes)
    pending.at = "queued"
    queue.add(pending)
    writable.openUnsafe()
    return undefined
  }

  const takeBatch = (): ReadonlyArray<Pending> => {
    const batch: Array<Pending> = []
    let bytes = 0
    for (const pending of queue) {
      bytes += pending.row.bytes
      if (batch.length === settings.commitBatch || (batch.length > 0 && bytes > commitBytes)) break
      batch.push(pending)
      queue.delete(pending)
      pending.at = "writing"
    }
    return batch
  }

  /** Makes the oldest events dead letters until what is counted fits the cap. */
  const shed = Effect.gen(function* () {
    let total = 0
    while (state.load.events > cap.events || state.load.bytes > cap.bytes) {
      const over = Math.min(1_000, Math.max(1, state.load.events - cap.events))
      const at = yield* Clock.currentTimeMillis
      const buried = yield* core.bury(
        { oldest: over },
        { reason: "shed", detail: "The outbox was full, and this was the oldest event.", at }
      )
      if (buried === 0) break
      total += buried
    }
    if (total === 0) return
    yield* tell({ _tag: "EventsShed", at: yield* Clock.currentTimeMillis, events: total })
    yield* core.trimDead
  })

  const writeBatch = (batch: ReadonlyArray<Pending>) => {
    const { publisher } = state
    return Effect.flatMap(
      Effect.exit(
        Effect.andThen(
          whenFull === "shedOldest" ? shed : Effect.void,
          store.insert(
            publisher,
            batch.map(({ row }) => row)
          )
        )
      ),
      (exit) =>
        Effect.sync(() => {
          state.commit = 0
          const perLane = new Map<LaneCell, number>()
          for (const pending of batch) {
            pending.at = "done"
            perLane.set(pending.lane, (perLane.get(pending.lane) ?? 0) + 1)
          }
          if (Exit.isSuccess(exit)) {
            counts.stored += batch.length
            state.storedAs(publisher)
          } else
            state.reduce(
              batch.length,
              batch.reduce((sum, { row }) => sum + row.bytes, 0)
            )
          for (const [cell, events] of perLane) {
            if (Exit.isSuccess(exit) && !cell.state.draining && lanes.size > settings.maxSubjects) {
              // Not to be remembered: a sweep finds it again when there is room.
              state.overflow = true
              cell.state = Lane.notCommitted(cell.state, events)
              state.tidy(cell)
            } else if (Exit.isSuccess(exit)) {
              const [begin, next] = Lane.committed(cell.state, events)
              cell.state = next
              if (begin) run(drain(cell))
            } else {
              cell.state = Lane.notCommitted(cell.state, events)
              state.tidy(cell)
            }
          }
          for (const pending of batch) {
            pending.resume(
              Exit.isSuccess(exit)
                ? Effect.succeed({ id: pending.row.id, safe: "store" })
                : Effect.failCause(exit.cause)
            )
          }
        })
    )
  }

  /** The only writer. Events that arrive during a commit form the next group. */
  const loop: Effect.Effect<never> = Effect.gen(function* () {
    while (true) {
      yield* writable.await
      // Everything that is runnable now joins the group.
      yield* Effect.yieldNow
      yield* Effect.uninterruptible(
        Effect.suspend(() => {
          const batch = takeBatch()
          if (queue.size === 0) writable.closeUnsafe()
          if (batch.length === 0) {
            return whenFull === "shedOldest" ? Effect.catchCause(shed, core.onStoreFailure) : Effect.void
          }
          state.commit = batch.length
          return Effect.ensuring(
            writeBatch(batch),
            Effect.sync(() => {
              if (queue.size === 0) settled.pulse()
            })
          )
        })
      )
    }
  })

  return { enqueue, loop }
}
