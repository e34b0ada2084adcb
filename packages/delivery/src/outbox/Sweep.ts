/** Renews the lease, claims backlogs of others, finds what is stored, and reports. */
import { Clock, Effect, Option, Semaphore } from "effect"
import { replayPublisher } from "../store/DeliveryStore.ts"
import * as Claims from "./Claims.ts"
import type { Drain } from "./Drain.ts"
import * as Growth from "./Growth.ts"
import type { Core } from "./OutboxCore.ts"

/** Sweeps between two counts of everything, where the backlog is large. */
const sweepsPerCount = 12
/** A backlog that is counted at each sweep: it costs milliseconds. */
const smallBacklog = 10_000

export const make = (core: Core, { found }: Drain) => {
  const { breaker, holder, settings, state, store, tell } = core
  const { maxSubjects } = settings
  const { counts, lanes, queue } = state
  let claims = Claims.none
  let growth = Growth.calm
  let sweeps = 0

  const monotonic = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1_000_000)

  const renew = Effect.gen(function* () {
    const held = yield* store.beat(holder)
    const name = state.publisher
    if (held.includes(name)) {
      state.hold(
        name,
        held.filter((id) => id !== name)
      )
      return
    }
    // The process that took the old name drains what is stored under it.
    const next = globalThis.crypto.randomUUID()
    yield* store.hold(next, holder)
    state.hold(next, held)
    yield* Effect.logWarning(`Another process took over the backlog of this one (${name})`)
    yield* tell({ _tag: "LeaseLost", at: yield* Clock.currentTimeMillis, publisher: name })
  })

  /** Takes over the backlogs whose processes are gone; true if there were any. */
  const claim = Effect.gen(function* () {
    const others = yield* store.others(holder)
    const [lapsed, next] = Claims.observe(claims, others, yield* monotonic, settings.lease)
    claims = next
    const before = state.owned.length
    for (const seen of lapsed) {
      if (!(yield* store.claim(seen, holder))) continue
      state.hold(state.publisher, [...state.owned.slice(1), seen.id])
      yield* tell({ _tag: "BacklogClaimed", at: yield* Clock.currentTimeMillis, publisher: seen.id })
    }
    return state.owned.length > before
  })

  const look = Effect.gen(function* () {
    let known = 0
    let isOver = false
    for (const id of state.owned) {
      const subjects = yield* store.subjects(id, maxSubjects + 1)
      known += subjects.length
      for (const subject of subjects) {
        if (lanes.size >= maxSubjects && !lanes.has(subject)) {
          isOver = true
          break
        }
        if (!lanes.has(subject) || !lanes.of(subject).state.draining) found(subject)
      }
      if (subjects.length === 0 && id !== state.publisher && id !== replayPublisher) {
        yield* store.forget(id, holder)
        state.forget(id)
      }
    }
    state.overflow = isOver || known > maxSubjects
    for (const id of state.lost) {
      if ((yield* store.subjects(id, 1)).length === 0) state.forget(id)
    }
  })

  const count = Effect.gen(function* () {
    const totals = yield* store.totals
    let queued = 0
    for (const { row } of queue) queued += row.bytes
    state.load = { events: totals.events + queue.size + state.commit, bytes: totals.bytes + queued }
    state.dead = totals.dead
  })

  const report = Effect.gen(function* () {
    const at = yield* Clock.currentTimeMillis
    const { refused, ...progress } = counts
    const isBusy = Object.values(progress).some((n) => n > 0) || state.load.events > 0
    Object.assign(counts, { published: 0, stored: 0, drained: 0, retried: 0, refused: 0 })
    if (refused > 0) yield* tell({ _tag: "OutboxRefused", at, events: refused })
    const first = state.load.events > 0 ? yield* store.oldest : Option.none<number>()
    const oldest = Option.match(first, { onNone: () => 0, onSome: (born) => Math.max(0, at - born) })
    if (isBusy || growth.backlog > 0) {
      const { events: backlog, bytes } = state.load
      yield* tell({ _tag: "OutboxProgress", at, ...progress, backlog, bytes, oldest, dead: state.dead })
    }
    const [change, next] = Growth.look(growth, state.load.events, yield* monotonic, settings.growthAfter)
    growth = next
    if (change === "raised") {
      yield* Effect.logWarning(`The outbox grows: ${state.load.events} events are waiting for the broker`)
      yield* tell({ _tag: "BacklogGrew", at, backlog: state.load.events, oldest })
    } else if (change === "cleared") {
      yield* tell({ _tag: "BacklogShrank", at, backlog: state.load.events })
    }
  })

  const once = (looks: Effect.Effect<boolean>) =>
    Effect.gen(function* () {
      yield* renew
      // New events of a subject must know of a claimed backlog, or they overtake it.
      const isClaimed = yield* claim
      if (isClaimed || (yield* looks)) yield* look
      const isDue = ++sweeps % sweepsPerCount === 0
      if (isDue || state.load.events <= smallBacklog) yield* count
      if (isDue) yield* core.trimDead
      yield* report
    })

  const { withPermit } = Semaphore.makeUnsafe(1)
  /** One at a time: a program may ask for a sweep during another one. */
  const sweep = withPermit(once(Effect.succeed(true)))
  /**
   * Looks for stored events only while they can be published: that moves them from the groups of their commits. Where
   * no known subject tests the broker, it looks for one.
   */
  const periodic = withPermit(
    once(
      Effect.flatMap(breaker.state(settings.circuitName), ({ phase }) =>
        phase === "closed"
          ? Effect.succeed(true)
          : lanes.size > 0
            ? Effect.succeed(false)
            : breaker.available(settings.circuitName)
      )
    )
  )

  /** The first step of a new outbox: takes its name, and finds its stored events. */
  const begin = Effect.gen(function* () {
    yield* store.hold(state.publisher, holder)
    yield* count
    yield* claim
    yield* look
  })

  return { begin, periodic, sweep }
}
