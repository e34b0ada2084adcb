import { assert, describe, it } from "@effect/vitest"
import { Backoff, CircuitBreaker, ResilienceEvents } from "@outlast/resilience"
import type { SharedCircuits } from "#resilience/breaker/CircuitStore"
import * as RedisCircuitStore from "#resilience/breaker/RedisCircuitStore"
import type { Scope } from "effect"
import { Clock, Context, Deferred, Effect, Exit, Fiber, Layer, Queue } from "effect"
import { Redis } from "effect/persistence"
import { TestClock } from "effect/testing"
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { vi } from "vitest"
import * as Programs from "../../../../test/programs.ts"
import * as RedisServer from "../../../../test/services/Redis.ts"
import { connection, turn, until } from "./redisStore.ts"

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 60_000 })

// -----------------------------------------------------------------------------
// Processes
// -----------------------------------------------------------------------------

interface Process {
  /** Sends one command and returns the answer. */
  readonly ask: (command: string) => Effect.Effect<string>
  readonly kill: Effect.Effect<void>
}

const probeLimit = 30_000

const start = (server: RedisServer.RedisServer): Effect.Effect<Process, never, Scope.Scope> =>
  Effect.gen(function* () {
    const file = Programs.bundled(new URL("redisWorker.ts", import.meta.url))
    const child = spawn(process.execPath, [file, String(server.port), String(probeLimit)], {
      stdio: ["pipe", "pipe", "inherit"]
    })
    const answers = yield* Queue.unbounded<string>()
    // Logs go to stdout too.
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (line.startsWith("> ")) Queue.offerUnsafe(answers, line.slice(2))
    })
    const kill = Effect.callback<void>((resume) => {
      if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
      child.once("exit", () => resume(Effect.void))
      child.kill("SIGKILL")
    })
    yield* Effect.addFinalizer(() => kill)
    const ask = (command: string): Effect.Effect<string> =>
      Effect.andThen(
        Effect.sync(() => child.stdin.write(`${command}\n`)),
        Queue.take(answers)
      )
    yield* ask("sync")
    return { ask, kill }
  })

/** Runs commands "process: command" one after the other, and returns their answers. */
const script = (processes: Readonly<Record<string, Process>>, lines: ReadonlyArray<string>) =>
  Effect.forEach(lines, (line) => {
    const [name = "", command = ""] = line.split(": ")
    return processes[name]?.ask(command) ?? Effect.succeed("no such process")
  })

const fiveFailures = (name: string) => Array.from({ length: 5 }, () => `${name}: call api fail`)

describe.skipIf(RedisServer.missing !== undefined)("two processes", () => {
  const two = Effect.gen(function* () {
    const server = yield* RedisServer.running
    const [a, b] = yield* Effect.all([start(server), start(server)], { concurrency: 2 })
    return { server, a, b }
  })

  it.effect("share an opening with its end, but not their counts", () =>
    Effect.gen(function* () {
      const { a, b } = yield* two
      const four = ["a", "b"].flatMap((name) => Array.from({ length: 4 }, () => `${name}: call api fail`))
      yield* script({ a, b }, four)
      assert.deepStrictEqual(
        yield* script({ a, b }, ["a: sync", "b: sync", "a: state api", "b: state api"]),
        ["synced", "synced", "closed", "closed"]
      )
      yield* script({ a, b }, ["a: call api fail", "a: sync", "b: sync"])
      const [first, second, refused] = yield* script({ a, b }, [
        "a: state api",
        "b: state api",
        "b: call api ok"
      ])
      assert.match(first ?? "", /^open \d+/)
      assert.strictEqual(second, first)
      assert.strictEqual(refused, "open")
    })
  )

  it.effect("never probe at the same time (behaviours 7, 23), and close together", () =>
    Effect.gen(function* () {
      const { a, b } = yield* two
      yield* script({ a, b }, [
        "a: trip api 10000",
        "a: sync",
        "b: sync",
        "a: adjust api 9999",
        "b: adjust api 9999"
      ])
      assert.deepStrictEqual(yield* script({ a, b }, ["a: call api ok", "b: call api ok"]), ["open", "open"])
      yield* script({ a, b }, ["a: adjust api 1", "b: adjust api 1"])
      const probes = yield* script({ a, b }, [
        "a: begin api one",
        "b: begin api two",
        "a: end api one=succeed",
        // The local state may be a second old.
        "b: sync",
        "b: begin api two",
        "a: begin api three",
        "b: end api two=succeed",
        "a: sync",
        "a: state api",
        "b: state api"
      ])
      assert.deepStrictEqual(probes, [
        "begun",
        "refused",
        "ended",
        "synced",
        "begun",
        "refused",
        "ended",
        "synced",
        "closed",
        "closed"
      ])
    })
  )

  it.effect("get the permit of a killed process when it expires (9)", () =>
    Effect.gen(function* () {
      const { a, b } = yield* two
      yield* script({ a, b }, [
        "a: trip api 1000",
        "a: sync",
        "b: sync",
        "a: adjust api 1000",
        "b: adjust api 1000"
      ])
      assert.deepStrictEqual(yield* script({ a, b }, ["a: begin api one"]), ["begun"])
      yield* a.kill
      assert.deepStrictEqual(
        yield* script({ b }, [
          "b: begin api two",
          `b: adjust api ${probeLimit - 1}`,
          "b: begin api two",
          "b: adjust api 1",
          "b: begin api two"
        ]),
        ["refused", "adjusted", "refused", "adjusted", "begun"]
      )
    })
  )

  it.effect("ignore the outcome of an expired permit (9, 10)", () =>
    Effect.gen(function* () {
      const { a, b } = yield* two
      yield* script({ a, b }, [
        "a: trip api 1000",
        "a: sync",
        "b: sync",
        "a: adjust api 1000",
        "b: adjust api 1000"
      ])
      assert.deepStrictEqual(
        yield* script({ a, b }, [
          "a: begin api one",
          `a: adjust api ${probeLimit}`,
          `b: adjust api ${probeLimit}`,
          "b: begin api two",
          "a: end api one=fail",
          "b: sync",
          "b: state api",
          "b: end api two=succeed",
          "b: begin api three",
          "b: end api three=succeed",
          "a: sync",
          "a: state api"
        ]),
        [
          "begun",
          "adjusted",
          "adjusted",
          "begun",
          "ended",
          "synced",
          "half-open",
          "ended",
          "begun",
          "ended",
          "synced",
          "closed"
        ]
      )
    })
  )

  it.effect("adopt an opening late without lengthening it (23)", () =>
    Effect.gen(function* () {
      const server = yield* RedisServer.running
      const a = yield* start(server)
      yield* script({ a }, ["a: trip api 10000", "a: sync", "a: adjust api 4000"])
      const late = yield* start(server)
      // The clock starts at zero, as in the other processes 4 seconds ago.
      assert.deepStrictEqual(
        yield* script({ a, late }, [
          "late: adjust api 4000",
          "late: sync",
          "late: state api",
          "a: state api"
        ]),
        ["adjusted", "synced", "open 6000", "open 6000"]
      )
    })
  )

  it.effect("isolate for all until released, or until the isolating process is gone (19)", () =>
    Effect.gen(function* () {
      const { a, b } = yield* two
      assert.deepStrictEqual(
        yield* script({ a, b }, [
          "a: isolate api",
          "a: sync",
          "b: sync",
          "b: call api ok",
          "b: isolate api",
          "b: sync",
          "a: release api",
          "a: sync",
          "a: call api ok",
          "b: release api",
          "b: sync",
          "a: sync",
          "a: call api ok"
        ]),
        [
          "isolated",
          "synced",
          "synced",
          "isolated",
          "isolated",
          "synced",
          "released",
          "synced",
          "isolated",
          "released",
          "synced",
          "synced",
          "fine"
        ]
      )
      yield* script({ a, b }, ["a: isolate api", "a: sync", "b: sync"])
      yield* a.kill
      assert.deepStrictEqual(
        yield* script({ b }, [
          "b: adjust api 9000",
          "b: sync",
          "b: state api",
          "b: adjust api 1000",
          "b: sync",
          "b: state api"
        ]),
        ["adjusted", "synced", "isolated", "adjusted", "synced", "closed"]
      )
    })
  )

  it.effect("adopt changes made by hand in one of them (19)", () =>
    Effect.gen(function* () {
      const { a, b } = yield* two
      yield* script({ a, b }, [
        ...fiveFailures("a"),
        "a: sync",
        "b: sync",
        "b: reset api",
        "b: sync",
        "a: sync"
      ])
      assert.deepStrictEqual(yield* script({ a, b }, ["a: state api", "b: state api", "a: call api ok"]), [
        "closed",
        "closed",
        "fine"
      ])
    })
  )
})

// -----------------------------------------------------------------------------
// Within one process
// -----------------------------------------------------------------------------

interface Connected {
  readonly breaker: CircuitBreaker.Service
  readonly sync: Effect.Effect<boolean>
}

const connect = (
  options: Omit<RedisCircuitStore.Options<Redis.RedisError>, "now">,
  policy: CircuitBreaker.Options = {}
): Effect.Effect<Connected, never, Scope.Scope> =>
  Effect.gen(function* () {
    // Virtual time moves while real commands are in flight.
    const store = RedisCircuitStore.make({ ...options, timeout: "1 day", now: Clock.currentTimeMillis })
    let shared: SharedCircuits | undefined
    const attach: typeof store.attach = (breaker) =>
      Effect.tap(store.attach(breaker), (attached) => Effect.sync(() => (shared = attached)))
    const built = yield* Layer.build(Layer.fresh(CircuitBreaker.layer({ ...policy, store: { attach } })))
    return {
      breaker: Context.get(built, CircuitBreaker.CircuitBreaker),
      sync: Effect.suspend(() => shared?.sync ?? Effect.succeed(false))
    }
  })

/** A connection that counts its round trips. */
const counting = (server: RedisServer.RedisServer, counted: { trips: number }) =>
  Layer.effect(
    Redis.Redis,
    Effect.map(Redis.Redis, (redis) => ({
      ...redis,
      send: (command, ...args) => {
        counted.trips++
        return redis.send(command, ...args)
      },
      eval:
        (script) =>
        (...params) => {
          counted.trips++
          return redis.eval(script)(...params)
        }
    }))
  ).pipe(Layer.provide(connection(server)))

const fail = Effect.fail("down" as const)
const ok = Effect.succeed("fine" as const)

describe.skipIf(RedisServer.missing !== undefined)("outages of Redis", () => {
  const collect = Effect.sync(() => {
    const seen: Array<string> = []
    const layer = ResilienceEvents.layerHandler((event) => Effect.sync(() => void seen.push(event._tag)))
    return { seen, layer }
  })

  it.effect(
    "a process that starts while Redis is down comes up, decides alone, and joins when it is back",
    () =>
      Effect.gen(function* () {
        const server = yield* RedisServer.make
        const { seen, layer } = yield* collect
        yield* Effect.gen(function* () {
          const early = yield* connect({ redis: connection(server) })
          for (let i = 0; i < 5; i++) yield* Effect.exit(early.breaker.execute("api")(fail))
          assert.strictEqual((yield* early.breaker.state("api")).phase, "open")
          assert.strictEqual((yield* Effect.flip(early.breaker.execute("api")(ok)))._tag, "CircuitRefused")
          yield* until(Effect.sync(() => seen.includes("CircuitStoreDown")))
          yield* server.start
          yield* until(Effect.andThen(TestClock.adjust("1 second"), early.sync))
          yield* until(Effect.sync(() => seen.includes("CircuitStoreUp")))
          const other = yield* connect({ redis: connection(server) })
          yield* until(other.sync)
          const { phase, retryAfter } = yield* other.breaker.state("api")
          assert.strictEqual(phase, (yield* early.breaker.state("api")).phase)
          assert.deepStrictEqual(retryAfter, (yield* early.breaker.state("api")).retryAfter)
          assert.strictEqual(seen.filter((tag) => tag === "CircuitStoreDown").length, 1)
        }).pipe(Effect.provide(layer))
      })
  )

  it.effect('calls are refused with onStoreError "fail" while the store is down', () =>
    Effect.gen(function* () {
      const server = yield* RedisServer.make
      const { breaker, sync } = yield* connect({ redis: connection(server), onStoreError: "fail" })
      const refused = yield* Effect.flip(breaker.execute("api")(ok))
      assert.deepInclude(refused, { _tag: "CircuitRefused", reason: "store" })
      assert.isFalse(yield* breaker.available("api"))
      yield* server.start
      yield* until(Effect.andThen(TestClock.adjust("1 second"), sync))
      assert.strictEqual(yield* breaker.execute("api")(ok), "fine")
      yield* server.kill
      yield* until(Effect.map(sync, (reached) => !reached))
      assert.strictEqual((yield* Effect.flip(breaker.execute("api")(ok))).reason, "store")
    })
  )

  it.effect("the guarded call's own result survives a store that fails during the call (23)", () =>
    Effect.gen(function* () {
      const server = yield* RedisServer.running
      const { breaker, sync } = yield* connect({ redis: connection(server) })
      yield* until(sync)
      yield* breaker.trip("api", "1 second")
      yield* sync
      yield* TestClock.adjust("1 second")
      const result = yield* breaker.execute("api")(Effect.as(server.kill, "survived"))
      assert.strictEqual(result, "survived")
      const failed = yield* Effect.exit(breaker.execute("api")(fail))
      assert.deepStrictEqual(failed, Exit.fail("down"))
    })
  )

  it.effect("the verdict of other processes replaces a local decision", () =>
    Effect.gen(function* () {
      const server = yield* RedisServer.running
      const [a, b] = [
        yield* connect({ redis: connection(server) }),
        yield* connect({ redis: connection(server) })
      ]
      yield* until(a.sync)
      yield* until(b.sync)
      yield* a.breaker.trip("api", "1 minute")
      yield* until(a.sync)
      for (let i = 0; i < 5; i++) yield* Effect.exit(b.breaker.execute("api")(fail))
      yield* until(b.sync)
      assert.deepStrictEqual(
        (yield* b.breaker.state("api")).retryAfter,
        (yield* a.breaker.state("api")).retryAfter
      )
    })
  )
})

/** A connection whose scripts answer only after `wait`. */
const answering = (server: RedisServer.RedisServer, wait: () => Effect.Effect<void>) =>
  Layer.effect(
    Redis.Redis,
    Effect.map(Redis.Redis, (redis) => ({
      ...redis,
      eval:
        (script) =>
        (...params) =>
          Effect.tap(redis.eval(script)(...params), () => wait())
    }))
  ).pipe(Layer.provide(connection(server)))

/** Opens on the first failure for ten seconds, and closes on the first success. */
const quick: CircuitBreaker.Options = {
  trip: { consecutive: { failures: 1 } },
  open: Backoff.constant("10 seconds"),
  halfOpen: { successes: 1 }
}

describe.skipIf(RedisServer.missing !== undefined)(
  "Redis that loses data, is slow, or has many changes",
  () => {
    const send = (server: RedisServer.RedisServer, command: string) =>
      Effect.scoped(
        Effect.flatMap(Layer.build(connection(server)), (built) =>
          Context.get(built, Redis.Redis).send(command)
        )
      )

    it.effect("a record lost while the circuit is open leads to one probe, not to a closed circuit", () =>
      Effect.gen(function* () {
        const server = yield* RedisServer.running
        const { breaker, sync } = yield* connect({ redis: connection(server) }, quick)
        yield* until(sync)
        yield* Effect.exit(breaker.execute("api")(fail))
        yield* until(sync)
        yield* send(server, "FLUSHALL")
        yield* TestClock.adjust("10 seconds")
        yield* until(sync)
        let ran = 0
        const call = breaker.execute("api")(
          Effect.suspend(() => {
            ran++
            return Effect.andThen(turn, fail)
          })
        )
        yield* Effect.all(
          Array.from({ length: 200 }, () => Effect.exit(call)),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(ran, 1)
        assert.strictEqual((yield* breaker.state("api")).phase, "open")
        assert.strictEqual((yield* breaker.state("api")).openings, 2)
      })
    )

    it.effect("an isolation outlives the loss of its record", () =>
      Effect.gen(function* () {
        const server = yield* RedisServer.running
        const [a, b] = [
          yield* connect({ redis: connection(server) }),
          yield* connect({ redis: connection(server) })
        ]
        yield* until(a.sync)
        yield* until(b.sync)
        yield* a.breaker.isolate("api")
        yield* until(a.sync)
        yield* until(b.sync)
        yield* send(server, "FLUSHALL")
        yield* until(a.sync)
        yield* until(b.sync)
        assert.strictEqual((yield* a.breaker.state("api")).phase, "isolated")
        assert.strictEqual((yield* b.breaker.state("api")).phase, "isolated")
      })
    )

    it.effect("a reply that arrives after newer changes closes nothing", () =>
      Effect.gen(function* () {
        const server = yield* RedisServer.running
        const gate = yield* Deferred.make<void>()
        let held = false
        const late = answering(server, () => (held ? Deferred.await(gate) : Effect.void))
        const [a, b] = [
          yield* connect({ redis: connection(server) }, quick),
          yield* connect({ redis: late }, quick)
        ]
        yield* until(a.sync)
        yield* until(b.sync)
        yield* Effect.exit(a.breaker.execute("api")(fail))
        yield* until(a.sync)
        yield* until(b.sync)
        yield* TestClock.adjust("10 seconds")
        const probing = yield* Deferred.make<void>()
        const end = yield* Deferred.make<void>()
        const probe = yield* Effect.forkChild(
          a.breaker.execute("api")(
            Effect.andThen(Deferred.succeed(probing, undefined), Effect.andThen(Deferred.await(end), fail))
          )
        )
        yield* Deferred.await(probing)
        held = true
        const refused = yield* Effect.forkChild(Effect.exit(b.breaker.execute("api")(Effect.die("ran"))))
        yield* Effect.repeat(turn, { times: 20 })
        yield* Deferred.succeed(end, undefined)
        yield* Fiber.await(probe)
        yield* until(Effect.map(b.breaker.state("api"), ({ phase }) => phase === "open"))
        yield* Deferred.succeed(gate, undefined)
        assert.isTrue(Exit.isFailure(yield* Fiber.join(refused)))
        assert.strictEqual((yield* b.breaker.state("api")).phase, "open")
      })
    )

    it.effect(
      "who is interrupted while the store is asked does not wait, and a permit that comes is given back",
      () =>
        Effect.gen(function* () {
          const server = yield* RedisServer.running
          const gate = yield* Deferred.make<void>()
          let held = false
          const slow = answering(server, () => (held ? Deferred.await(gate) : Effect.void))
          const { breaker, sync } = yield* connect({ redis: slow }, quick)
          yield* until(sync)
          yield* Effect.exit(breaker.execute("api")(fail))
          yield* until(sync)
          yield* TestClock.adjust("10 seconds")
          held = true
          const call = yield* Effect.forkChild(breaker.execute("api")(Effect.die("ran")))
          yield* Effect.repeat(turn, { times: 20 })
          yield* Fiber.interrupt(call)
          held = false
          yield* Deferred.succeed(gate, undefined)
          yield* until(sync)
          assert.strictEqual(yield* breaker.execute("api")(ok), "fine")
        })
    )

    it.effect("a process that joins late gets the state of thousands of circuits", () =>
      Effect.gen(function* () {
        const server = yield* RedisServer.running
        const early = yield* connect({ redis: connection(server) }, quick)
        yield* until(early.sync)
        const names = Array.from({ length: 3_000 }, (_, index) => `circuit ${index}`)
        yield* Effect.forEach(names, (name) => early.breaker.trip(name), { discard: true })
        yield* until(early.sync)
        const late = yield* connect({ redis: connection(server), onStoreError: "fail" }, quick)
        yield* until(late.sync)
        const known = yield* late.breaker.list
        assert.strictEqual(known.filter(({ phase }) => phase === "open").length, 3_000)
      })
    )

    it.effect("a healthy start waits only for the connection", () =>
      Effect.gen(function* () {
        const server = yield* RedisServer.running
        const { breaker } = yield* connect({ redis: connection(server), onStoreError: "fail" })
        // No time passes.
        yield* until(breaker.available("api"))
        assert.strictEqual(yield* breaker.execute("api")(ok), "fine")
      })
    )
  }
)

describe.skipIf(RedisServer.missing !== undefined)("round trips", () => {
  it.effect("1,000 concurrent outcomes: none in the closed phase, few in the open one", () =>
    Effect.gen(function* () {
      const server = yield* RedisServer.running
      const counted = { trips: 0 }
      const { breaker, sync } = yield* connect({ redis: counting(server, counted) })
      yield* until(sync)
      // Commands for the new connection are done by then.
      yield* Effect.andThen(turn, sync)
      counted.trips = 0
      const thousand = <A, E>(call: Effect.Effect<A, E>) =>
        Effect.all(
          Array.from({ length: 1_000 }, () =>
            Effect.exit(breaker.execute("api")(Effect.andThen(Effect.yieldNow, call)))
          ),
          { concurrency: "unbounded" }
        )
      yield* thousand(ok)
      assert.strictEqual(counted.trips, 0)
      yield* thousand(fail)
      yield* sync
      assert.isAtMost(counted.trips, 10)
      yield* TestClock.adjust("2 minutes")
      yield* until(sync)
      counted.trips = 0
      const probes = yield* thousand(ok)
      assert.isAtMost(counted.trips, 2_000)
      assert.isAtLeast(probes.filter(Exit.isSuccess).length, 1)
    })
  )
})
