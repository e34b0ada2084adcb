/**
 * Circuits shared by processes, over Redis.
 *
 * What is shared: that a circuit opened, until when, who probes, who holds it open. What is not: counts. Each
 * process trips by its own, so one bad process cannot open a circuit by flooding the store, and a call through a
 * closed circuit costs no round trip. A probe costs two: its permit and its end are one script each, by the
 * server's clock, with a holder and an expiry.
 *
 * **How current.** Changes are announced; every second (`syncEvery`) each process also asks for what it missed.
 *
 * **When Redis is down**, from the start or later, the process comes up, decides alone (`onStoreError: "allow"`) or
 * refuses calls (`"fail"`), says so once (`CircuitStoreDown`, `CircuitStoreUp`), and joins when Redis is back: what
 * others decided meanwhile holds, and no opening is lengthened by it. A guarded call's own result never suffers.
 *
 * **What it does not do.** It does not reconnect: that is the client's part. Breakers that share a `prefix` must
 * have the same policy.
 *
 * **Example**
 *
 * ```ts
 * const Breaker = CircuitBreaker.layer({
 *   store: RedisCircuitStore.make({ redis: NodeRedis.layer({ url: "redis://127.0.0.1:6379" }) })
 * })
 * ```
 */
import type { Scope } from "effect"
import {
  Cause,
  Clock,
  Context,
  Data,
  Deferred,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Queue,
  Semaphore
} from "effect"
import { Redis } from "effect/persistence"
import * as Check from "../Options.ts"
import * as Backoff from "../retry/Backoff.ts"
import * as Counts from "./CircuitCounts.ts"
import type { Cause as Opened, CircuitState, Ended } from "./CircuitState.ts"
import * as State from "./CircuitState.ts"
import type { Answer, Asked, Breaker, Change, CircuitStore, SharedCircuits } from "./CircuitStore.ts"
import type { Record, Reply, Request, Seed } from "./RedisScript.ts"
import * as Script from "./RedisScript.ts"

export interface Options<E> {
  /** The connection. It is built in the background, and built again until it stands. */
  readonly redis: Layer.Layer<Redis.Redis, E>
  /** What the store's keys begin with: one for each set of circuits. Default "outlast:circuits". */
  readonly prefix?: string | undefined
  /** What becomes of calls while Redis cannot be asked. Default "allow": this process decides alone. */
  readonly onStoreError?: "allow" | "fail" | undefined
  /** A command that takes longer has failed. Default 1 second. */
  readonly timeout?: Duration.Input | undefined
  /** How often to ask for missed changes, and to try again when Redis is down. Default 1 second. */
  readonly syncEvery?: Duration.Input | undefined
  /**
   * The time that all processes go by, in Unix milliseconds. Default: the Redis server's own clock, which is what
   * processes on several machines need. For tests in virtual time.
   */
  readonly now?: Effect.Effect<number> | undefined
}

export const defaults = {
  prefix: "outlast:circuits",
  onStoreError: "allow",
  timeout: "1 second",
  syncEvery: "1 second"
} as const

/** A process that isolates a circuit says each second that it still does; after this it has gone. Milliseconds. */
const holdLease = 10_000

/** Changes that wait for the store, and versions that are remembered. */
const capacity = 10_000

/** Records that are read at a time, each time with the whole `timeout`. */
const chunk = 500

/** After so many rounds without an answer the connection is built anew: a client may have given up on it. */
const patience = 10

/** Throws an `InvalidOption`, a `RangeError`, for an option out of its range. */
export const make = <E>(options: Options<E>): CircuitStore => {
  Check.fields(module, options, checks)
  const settings: Settings = {
    prefix: options.prefix ?? defaults.prefix,
    onStoreError: options.onStoreError ?? defaults.onStoreError,
    timeout: Duration.fromInputUnsafe(options.timeout ?? defaults.timeout),
    syncEvery: Duration.fromInputUnsafe(options.syncEvery ?? defaults.syncEvery),
    now: options.now
  }
  return { attach: (breaker) => attach(options.redis, settings, breaker) }
}

const module = "RedisCircuitStore"
const { is } = Check

const checks: Check.Checks<Options<unknown>> = {
  redis: is.required(is.layer("NodeRedis.layer({ url })")),
  prefix: is.string,
  onStoreError: is.oneOf("allow", "fail"),
  timeout: is.duration({ min: "1 milli" }),
  syncEvery: is.duration({ min: "1 milli" }),
  now: is.effect
}

interface Settings {
  readonly prefix: string
  readonly onStoreError: "allow" | "fail"
  readonly timeout: Duration.Duration
  readonly syncEvery: Duration.Duration
  readonly now: Effect.Effect<number> | undefined
}

/** The store could not be asked. Stays inside. */
class Down extends Data.TaggedError("Down")<{}> {}

/** What the script announces. */
interface Announcement {
  readonly circuit: string
  readonly now: number
  readonly record: Record
}

/** What is known of a circuit's record. */
interface Known {
  readonly version: number
  readonly generation: number
  readonly phase: CircuitState["phase"]
}

const attach = <E>(
  redisLayer: Layer.Layer<Redis.Redis, E>,
  { prefix, onStoreError, timeout, syncEvery, now: fixedNow }: Settings,
  { policy, adopt, publish }: Breaker
): Effect.Effect<SharedCircuits, never, Scope.Scope> =>
  Effect.gen(function* () {
    const known = new Map<string, Known>()
    /** The holds of this process, by circuit. */
    const holds = new Map<string, Set<string>>()
    const waiting: Array<Change> = []
    const wake = yield* Queue.sliding<void>(1)
    /** Ends the present connection. */
    let broken: Deferred.Deferred<void> | undefined
    let failures = 0
    const scope = yield* Effect.scope
    /** Answers that nobody waits for any more. */
    const left = new Set<Fiber.Fiber<unknown>>()
    const oneAtATime = yield* Semaphore.make(1)
    let redis: Redis.Redis["Service"] | undefined
    let up = false
    let told: "nothing" | "down" = "nothing"
    let seen = 0

    const monotonic = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

    /**
     * Remembers a record, and gives its circuit in local time. An announcement of what is known already is late: its
     * times would be too.
     */
    const take = (
      circuit: string,
      record: Record,
      serverNow: number,
      localNow: number,
      from: "reply" | "announcement"
    ): CircuitState | undefined => {
      const { version } = known.get(circuit) ?? { version: 0 }
      if (record.v < version || (record.v === version && from === "announcement")) return undefined
      known.delete(circuit)
      known.set(circuit, { version: record.v, generation: record.generation, phase: record.phase })
      for (const name of known.keys()) {
        if (known.size <= capacity) break
        known.delete(name)
      }
      return toState(record, localNow - serverNow)
    }

    /** An isolation of which the store has no record any more has ended: who holds it says so each second. */
    const gone = (circuit: string): CircuitState | undefined => {
      const was = known.get(circuit)
      if (was?.phase !== "isolated") return undefined
      known.delete(circuit)
      return { ...State.initial, generation: was.generation + 1 }
    }

    const ask = (circuit: string, request: Request) =>
      Effect.gen(function* () {
        const connection = redis
        if (connection === undefined) return yield* new Down()
        // Before it is sent: a time that ends too early is asked about again, one too late would be waited for.
        const localNow = yield* monotonic
        const now = fixedNow === undefined ? undefined : yield* fixedNow
        const [done, serverNow, json]: Reply = yield* connection.eval(Script.script)(
          prefix,
          circuit,
          request,
          now
        )
        if (json === "") return { done: done === 1, generation: 0, state: gone(circuit) }
        const record = JSON.parse(json) as Record // The script's own words.
        const state = take(circuit, record, Number(serverNow), localNow, "reply")
        return { done: done === 1, generation: record.generation, state }
      }).pipe(Effect.timeout(timeout))

    /** Not while there is news to tell of the circuit, beyond `telling`: what is read is older than that. */
    const adoptState = (
      circuit: string,
      state: CircuitState | undefined,
      telling?: Change
    ): Effect.Effect<void> =>
      state === undefined || waiting.some((change) => change !== telling && change.circuit === circuit)
        ? Effect.void
        : adopt(circuit, state)

    const tell = (change: Change) =>
      Effect.flatMap(monotonic, (now) => {
        const { circuit, before, after, byHand } = change
        const { gained, lost } = handover(before, after)
        const request: Request =
          gained !== undefined
            ? {
                op: "hold",
                holder: gained,
                lease: holdLease,
                generation: after.generation,
                notBefore: Math.max(0, after.notBefore - now)
              }
            : lost !== undefined
              ? { op: "release", holder: lost, generation: after.generation }
              : {
                  op: "set",
                  expected: byHand ? "any" : (known.get(circuit)?.generation ?? 0),
                  phase: after.phase === "open" ? "open" : "closed",
                  generation: after.generation,
                  cause: after.phase === "open" ? after.cause : "",
                  until: after.phase === "open" ? after.until - now : 0,
                  openings: after.openings,
                  backoff: after.backoff,
                  lasted: after.lasted,
                  notBefore: Math.max(0, after.notBefore - now)
                }
        return Effect.flatMap(ask(circuit, request), ({ state }) => adoptState(circuit, state, change))
      })

    const tellWaiting = Effect.gen(function* () {
      for (let change = waiting[0]; change !== undefined; change = waiting[0]) {
        yield* tell(change)
        // Not before it was told; and it may have been dropped meanwhile.
        if (waiting[0] === change) waiting.shift()
      }
    })

    /** Reads the records of some circuits. A circuit without one has been forgotten. */
    const readRecords = (connection: Redis.Redis["Service"], circuits: ReadonlyArray<string>) =>
      Effect.gen(function* () {
        const localNow = yield* monotonic
        const [seconds = "0", micros = "0"] = yield* connection.send<ReadonlyArray<string>>("TIME")
        const ofServer = Number(seconds) * 1_000 + Number(micros) / 1_000
        const serverNow = fixedNow === undefined ? ofServer : yield* fixedNow
        const keys = circuits.map((circuit) => Script.recordKey(prefix, circuit))
        const records = yield* connection.send<ReadonlyArray<string | null>>("MGET", ...keys)
        for (const [index, circuit] of circuits.entries()) {
          const json = records[index]
          if (typeof json !== "string") continue
          const record = JSON.parse(json) as Record // The script's own words.
          yield* adoptState(circuit, take(circuit, record, serverNow, localNow, "reply"))
        }
      }).pipe(Effect.timeout(timeout))

    const readMissed = Effect.gen(function* () {
      if (redis === undefined) return yield* new Down()
      const version = Number(
        (yield* Effect.timeout(redis.send<string | null>("GET", Script.versionKey(prefix)), timeout)) ?? 0
      )
      if (version < seen) {
        // Redis lost its memory. What is known here goes on holding here.
        known.clear()
        seen = 0
      }
      if (version > seen) {
        const missed = yield* Effect.timeout(
          redis.send<ReadonlyArray<string>>("ZRANGEBYSCORE", Script.changesKey(prefix), `(${seen}`, "+inf"),
          timeout
        )
        for (let from = 0; from < missed.length; from += chunk) {
          yield* readRecords(redis, missed.slice(from, from + chunk))
        }
        seen = version
      }
      // A hold that nobody renews ends without an announcement.
      const isolated = [...known].flatMap(([circuit, { phase }]) => (phase === "isolated" ? [circuit] : []))
      yield* Effect.forEach(isolated, refresh, { discard: true })
    })

    const refresh = (circuit: string) =>
      Effect.flatMap(ask(circuit, { op: "read" }), ({ state }) => adoptState(circuit, state))

    const renewHolds = Effect.forEach(
      [...holds].flatMap(([circuit, own]) => [...own].map((holder) => [circuit, holder] as const)),
      ([circuit, holder]) =>
        ask(circuit, { op: "hold", holder, lease: holdLease, generation: 0, notBefore: 0 }),
      { discard: true }
    )

    const report = (event: "down" | "up", error = ""): Effect.Effect<void> =>
      Effect.flatMap(Clock.currentTimeMillis, (at) => {
        up = event === "up"
        failures = up ? 0 : failures + 1
        if (failures >= patience && broken !== undefined) Deferred.doneUnsafe(broken, Exit.void)
        if (event === "down" && told === "nothing") {
          told = "down"
          return publish({ _tag: "CircuitStoreDown", at, error })
        }
        if (event === "up" && told === "down") {
          told = "nothing"
          return publish({ _tag: "CircuitStoreUp", at })
        }
        return Effect.void
      })

    const syncNow = Effect.suspend(() => Fiber.awaitAll(left)).pipe(
      Effect.andThen(tellWaiting),
      Effect.andThen(Effect.suspend(() => renewHolds)),
      Effect.andThen(readMissed),
      Effect.matchCauseEffect({
        onFailure: () => Effect.as(report("down", "Redis does not answer"), false),
        onSuccess: () => Effect.as(report("up"), true)
      })
    )
    // While there is no connection, those who try to make one report.
    const sync: Effect.Effect<boolean> = Effect.suspend(() =>
      redis === undefined ? Effect.succeed(false) : oneAtATime.withPermits(1)(syncNow)
    )

    const listen = (connection: Redis.Redis["Service"]) =>
      Effect.scoped(
        Effect.flatMap(connection.subscribe(Script.channel(prefix)), (messages) =>
          Queue.take(messages).pipe(
            Effect.flatMap(({ message }) =>
              Effect.flatMap(monotonic, (localNow) => {
                const change = JSON.parse(message) as Announcement // The script's own words.
                return adoptState(
                  change.circuit,
                  take(change.circuit, change.record, change.now, localNow, "announcement")
                )
              })
            ),
            Effect.forever
          )
        )
      )

    const pause = Effect.sleep(syncEvery)
    const connect = Effect.scoped(
      Effect.gen(function* () {
        const connection = Context.get(yield* Layer.build(redisLayer), Redis.Redis)
        const end = yield* Deferred.make<void>()
        redis = connection
        broken = end
        failures = 0
        Queue.offerUnsafe(wake, undefined)
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            redis = undefined
            broken = undefined
          })
        )
        yield* Effect.forkScoped(
          Effect.forever(Effect.andThen(Effect.ignoreCause(listen(connection)), pause))
        )
        yield* Deferred.await(end)
      })
    ).pipe(
      Effect.ignoreCause,
      Effect.andThen(report("down", "Redis cannot be reached")),
      Effect.andThen(pause)
    )

    yield* Effect.forkScoped(Effect.forever(connect))
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(sync, Effect.raceFirst(pause, Queue.take(wake)))))

    /**
     * Tells the breaker what the store knows. A store that is only slow is not down: a busy moment must not make each
     * process probe for itself.
     */
    const tryAsk = (circuit: string, request: Request): Effect.Effect<Answer | "slow" | "down"> =>
      up
        ? Effect.matchCauseEffect(ask(circuit, request), {
            onFailure: (cause) => {
              const isSlow = cause.reasons.some(
                (reason) => Cause.isFailReason(reason) && Cause.isTimeoutError(reason.error)
              )
              if (!isSlow) return Effect.as(report("down", "Redis does not answer"), "down" as const)
              // If it is more than slow, the next round will say so.
              Queue.offerUnsafe(wake, undefined)
              return Effect.succeed("slow" as const)
            },
            onSuccess: ({ done, generation, state }) =>
              Effect.as(adoptState(circuit, state), { granted: done, generation })
          })
        : Effect.succeed("down")

    /** Asks in a fiber of its own, which nobody's interruption ends. */
    const inBackground = <A>(
      question: Effect.Effect<A>,
      tooLate: (answer: A) => Effect.Effect<unknown> = () => Effect.void
    ): Effect.Effect<Asked<A>> =>
      Effect.map(Effect.forkIn(question, scope, { startImmediately: true }), (asking) => ({
        answer: Fiber.join(asking),
        leave: Effect.map(Effect.forkIn(Effect.flatMap(Fiber.join(asking), tooLate), scope), (late) => {
          left.add(late)
          late.addObserver(() => left.delete(late))
        })
      }))

    const settled = (holder: string, generation: number, ended: Ended, backoff: number): Request => ({
      op: "settle",
      holder,
      generation,
      outcome: ended.outcome,
      successes: policy.successes,
      outOf: policy.outOf,
      backoff,
      notBefore: ended.outcome === "failure" ? Math.min(ended.retryAfter ?? 0, policy.maxRetryAfter) : 0
    })

    return {
      isCurrent: () => up || onStoreError === "allow",
      share: (change) => {
        const { gained, lost } = handover(change.before, change.after)
        const own = holds.get(change.circuit) ?? new Set()
        if (gained !== undefined) holds.set(change.circuit, own.add(gained))
        if (lost !== undefined && own.delete(lost) && own.size === 0) holds.delete(change.circuit)
        waiting.push(change)
        if (waiting.length > capacity) waiting.shift()
        Queue.offerUnsafe(wake, undefined)
      },
      admit: (circuit, holder, state) =>
        Effect.flatMap(monotonic, (now) => {
          const question = tryAsk(circuit, {
            op: "probe",
            holder,
            lease: policy.probeLimit,
            permits: policy.permits,
            outOf: policy.outOf,
            seed: seedOf(state, now)
          })
          const notGranted: Answer = { granted: false, generation: state.generation }
          return inBackground(
            Effect.map(question, (told) =>
              told === "down" ? undefined : told === "slow" ? notGranted : told
            ),
            (answer) =>
              answer?.granted === true
                ? tryAsk(circuit, settled(holder, answer.generation, { outcome: "ignored" }, 0))
                : Effect.void
          )
        }),
      settle: (circuit, { holder = "", generation }, ended, state, draw) => {
        const backoff = Backoff.delay(policy.open, state.openings + 1, state.backoff, draw)
        const question = tryAsk(circuit, settled(holder, generation, ended, backoff))
        return inBackground(Effect.map(question, (told) => typeof told === "object"))
      },
      sync
    }
  })

const holders = (state: CircuitState): ReadonlyArray<string> =>
  state.phase === "isolated" ? state.holders : []

/** Which holder came and which went; by hand it is one at a time. */
const handover = (before: CircuitState, after: CircuitState) => ({
  gained: holders(after).find((holder) => !holders(before).includes(holder)),
  lost: holders(before).find((holder) => !holders(after).includes(holder))
})

/** What a process knows of an opening; of a half-open circuit, that its time is up. */
const seedOf = (state: CircuitState, now: number): Seed => ({
  generation: state.generation,
  until: state.phase === "open" ? state.until - now : 0,
  openings: state.openings,
  backoff: state.backoff,
  lasted: state.lasted,
  notBefore: Math.max(0, state.notBefore - now)
})

/** A record as a circuit, with its times moved to another clock. Its counts are each process's own. */
const toState = (record: Record, shift: number): CircuitState => {
  const { generation, openings, backoff, lasted, successes, failures } = record
  const base = {
    generation,
    openings,
    backoff,
    lasted,
    since: record.since + shift,
    notBefore: record.notBefore + shift
  }
  switch (record.phase) {
    case "closed":
      return { ...base, phase: record.phase, counts: Counts.empty }
    case "open":
      // Written by a process of ours.
      return { ...base, phase: record.phase, until: record.until + shift, cause: record.cause as Opened }
    case "half-open": {
      const leases = Object.entries(record.leases).map(([holder, until]) => ({
        holder,
        until: until + shift
      }))
      return { ...base, phase: record.phase, cause: record.cause as Opened, leases, successes, failures }
    }
    case "isolated":
      return { ...base, phase: record.phase, holders: Object.keys(record.holds) }
  }
}
