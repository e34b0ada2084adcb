/**
 * Shares circuits between processes over Redis.
 *
 * The store shares openings and their end, probe permits, and holds by hand. Counts are not shared: each process trips
 * on its own counts. One bad process therefore cannot open a circuit by flooding the store, and a call through a closed
 * circuit costs no round trip. A probe costs two round trips, one script for its permit and one for its outcome.
 * Permits have a holder and expire by the server's clock.
 *
 * **Delay.** Changes are published at once. Every second (`syncEvery`) each process also reads the changes it missed.
 *
 * **When Redis is down**, from the start or later, the process still starts. It decides alone (`onStoreError: "allow"`)
 * or refuses calls (`"fail"`), and publishes `CircuitStoreDown` once. When Redis is back it publishes `CircuitStoreUp`
 * and adopts the decisions of other processes. An outage of Redis lengthens no opening and never changes the result of
 * a guarded call.
 *
 * **Limits.** Reconnecting is left to the Redis client. Breakers that share a `prefix` must have the same policy.
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
import * as Backoff from "../Backoff.ts"
import * as Counts from "./CircuitCounts.ts"
import type { Cause as Opened, CircuitState, Ended } from "./CircuitState.ts"
import * as State from "./CircuitState.ts"
import type { Answer, Asked, Breaker, Change, CircuitStore, SharedCircuits } from "./CircuitStore.ts"
import type { Record, Reply, Request, Seed } from "./RedisScript.ts"
import * as Script from "./RedisScript.ts"

export interface Options<E> {
  /** The Redis connection. Built in the background, and rebuilt until it succeeds. */
  readonly redis: Layer.Layer<Redis.Redis, E>
  /** Prefix of the store's keys, one for each set of circuits. Default: "outlast:circuits". */
  readonly prefix?: string | undefined
  /**
   * Decides about calls while Redis cannot be reached: "allow" lets this process decide alone, "fail" refuses them.
   * Default: "allow".
   */
  readonly onStoreError?: "allow" | "fail" | undefined
  /** Time limit of a Redis command. Default: 1 second. */
  readonly timeout?: Duration.Input | undefined
  /** Interval for reading missed changes, and for retrying when Redis is down. Default: 1 second. */
  readonly syncEvery?: Duration.Input | undefined
  /**
   * The shared time in Unix milliseconds, for tests in virtual time. Default: the clock of the Redis server, which is
   * right for processes on several machines.
   */
  readonly now?: Effect.Effect<number> | undefined
}

export const defaults = {
  prefix: "outlast:circuits",
  onStoreError: "allow",
  timeout: "1 second",
  syncEvery: "1 second"
} as const

/** Lifetime of a hold in milliseconds. A process that isolates a circuit renews its hold every second. */
const holdLease = 10_000

/** Maximum number of changes waiting for the store, and of versions remembered. */
const capacity = 10_000

/** Number of records read at a time. Each read may take the whole `timeout`. */
const chunk = 500

/** Number of rounds without an answer after which the connection is rebuilt, in case the client has given up on it. */
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

/** The store cannot be reached. Internal. */
class Down extends Data.TaggedError("Down")<{}> {}

/** The message that the script publishes. */
interface Announcement {
  readonly circuit: string
  readonly now: number
  readonly record: Record
}

/** The last known version of a circuit's record. */
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
    /** Ends the current connection. */
    let broken: Deferred.Deferred<void> | undefined
    let failures = 0
    const scope = yield* Effect.scope
    /** Fibers that handle answers whose callers were interrupted. */
    const left = new Set<Fiber.Fiber<unknown>>()
    const oneAtATime = yield* Semaphore.make(1)
    let redis: Redis.Redis["Service"] | undefined
    let up = false
    let told: "nothing" | "down" = "nothing"
    let seen = 0

    const monotonic = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

    /**
     * Remembers a record and returns its circuit in local time. An announcement of a known version is ignored, because
     * it is late and its times would be off.
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

    /**
     * Ends an isolation without a record in the store. Holders renew their record every second, so a missing one has
     * expired.
     */
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
        // Read before sending. A time that ends too early causes another question; one that ends too late would delay
        // calls.
        const localNow = yield* monotonic
        const now = fixedNow === undefined ? undefined : yield* fixedNow
        const [done, serverNow, json]: Reply = yield* connection.eval(Script.script)(
          prefix,
          circuit,
          request,
          now
        )
        if (json === "") return { done: done === 1, generation: 0, state: gone(circuit) }
        const record = JSON.parse(json) as Record // Written by the script.
        const state = take(circuit, record, Number(serverNow), localNow, "reply")
        return { done: done === 1, generation: record.generation, state }
      }).pipe(Effect.timeout(timeout))

    /**
     * Adopts a state, unless a change of the circuit other than `telling` still waits for the store. The state read is
     * older than that change.
     */
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
        // Removed only after the store has it. The change may have been dropped from the queue meanwhile.
        if (waiting[0] === change) waiting.shift()
      }
    })

    /** Reads the records of some circuits. A circuit without a record has expired. */
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
          const record = JSON.parse(json) as Record // Written by the script.
          yield* adoptState(circuit, take(circuit, record, serverNow, localNow, "reply"))
        }
      }).pipe(Effect.timeout(timeout))

    const readMissed = Effect.gen(function* () {
      if (redis === undefined) return yield* new Down()
      const version = Number(
        (yield* Effect.timeout(redis.send<string | null>("GET", Script.versionKey(prefix)), timeout)) ?? 0
      )
      if (version < seen) {
        // Redis lost its data. The local state of circuits still applies.
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
      // A hold that is no longer renewed expires without an announcement.
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
    // While there is no connection, `connect` reports the outage.
    const sync: Effect.Effect<boolean> = Effect.suspend(() =>
      redis === undefined ? Effect.succeed(false) : oneAtATime.withPermits(1)(syncNow)
    )

    const listen = (connection: Redis.Redis["Service"]) =>
      Effect.scoped(
        Effect.flatMap(connection.subscribe(Script.channel(prefix)), (messages) =>
          Queue.take(messages).pipe(
            Effect.flatMap(({ message }) =>
              Effect.flatMap(monotonic, (localNow) => {
                const change = JSON.parse(message) as Announcement // Written by the script.
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
     * Asks the store and passes its state to the breaker. A timeout does not count as an outage: during a busy moment
     * each process would otherwise send its own probes.
     */
    const tryAsk = (circuit: string, request: Request): Effect.Effect<Answer | "slow" | "down"> =>
      up
        ? Effect.matchCauseEffect(ask(circuit, request), {
            onFailure: (cause) => {
              const isSlow = cause.reasons.some(
                (reason) => Cause.isFailReason(reason) && Cause.isTimeoutError(reason.error)
              )
              if (!isSlow) return Effect.as(report("down", "Redis does not answer"), "down" as const)
              // If the store is down and not just slow, the next round reports it.
              Queue.offerUnsafe(wake, undefined)
              return Effect.succeed("slow" as const)
            },
            onSuccess: ({ done, generation, state }) =>
              Effect.as(adoptState(circuit, state), { granted: done, generation })
          })
        : Effect.succeed("down")

    /** Runs the request in a separate fiber, so that an interruption of the caller does not end it. */
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

/** Returns the holder that was added and the one that was removed. A change by hand concerns one at a time. */
const handover = (before: CircuitState, after: CircuitState) => ({
  gained: holders(after).find((holder) => !holders(before).includes(holder)),
  lost: holders(before).find((holder) => !holders(after).includes(holder))
})

/** The local state of an opening, with times relative to now. For a half-open circuit the open time is over (0). */
const seedOf = (state: CircuitState, now: number): Seed => ({
  generation: state.generation,
  until: state.phase === "open" ? state.until - now : 0,
  openings: state.openings,
  backoff: state.backoff,
  lasted: state.lasted,
  notBefore: Math.max(0, state.notBefore - now)
})

/** Converts a record to a circuit, with times shifted to the local clock. Counts stay local to each process. */
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
      // The cause was written by another breaker.
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
