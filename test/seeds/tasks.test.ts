/** Promises about durable tasks, over `Tasks.layerMemory` and SQLite in virtual time. */
import { join } from "node:path"
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Layer, Option, Schema, Stream } from "effect"
import { AiError, LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Backoff, CircuitBreaker } from "@outlast/resilience"
import { Presets } from "@outlast/agent"
import { Vocabulary } from "@outlast/agent/presets"
import { SqliteClient } from "@outlast/node/sqlite"
import { Restart, Task, Tasks } from "@outlast/tasks"
import * as Agents from "../tasks/Agents.ts"
import { inTime, until } from "../tasks/Time.ts"
import { model, recorded, reset, temporaryFolder, timesOf } from "./support.ts"

const { decision037 } = Presets
const { Buy, network } = Agents
const params = { item: "a book" }

const stateOf = (id: string) =>
  Effect.flatMap(Tasks.Tasks, ({ status }) =>
    Effect.map(status(id), (found) => Option.getOrThrow(found).state)
  )
const is = (id: string, tag: string) => Effect.map(stateOf(id), ({ _tag }) => _tag === tag)

const worker = (
  own: Agents.World,
  fails: Parameters<typeof Agents.model>[1],
  options: Tasks.WorkerOptions = {}
) =>
  Agents.buying.pipe(
    Layer.provide([Agents.model(own, fails), Agents.handlers(own)]),
    Layer.provideMerge(Tasks.layerMemory(options))
  )

/** When the model was asked, in seconds. */
const askedAt = (times: Array<number>, fails: (turn: number, asked: number) => boolean) => {
  const own = Agents.world()
  return {
    own,
    model: Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({
        generateText: ({ prompt }) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            own.asked++
            times.push(now / 1_000)
            const turn = Agents.turnOf(prompt)
            return fails(turn, own.asked)
              ? Effect.fail(AiError.make({ module: "Test", method: "generateText", reason: network }))
              : Effect.succeed([...Agents.answer(turn)])
          }),
        streamText: () => Stream.empty
      })
    )
  }
}

it.effect("001-P3-detect, 001-I-queue, 001-V-restart: only a failure of the network queues a restart", () =>
  Effect.gen(function* () {
    const logic = new AiError.InvalidRequestError({ description: "unknown field" })
    const end = (reason: AiError.AiErrorReason, tag: string) =>
      Effect.gen(function* () {
        const id = yield* Buy.submit({ params, key: "1" })
        yield* until(is(id, tag), 200)
        assert.strictEqual((yield* stateOf(id))._tag, tag)
      }).pipe(Effect.provide(worker(Agents.world(), () => reason)))
    yield* end(network, "WaitingUntil")
    yield* end(logic, "Failed")
  })
)

it.effect(
  "001-P3-queue, 001-P3-max, 001-P3-backoff, 001-P3-context, 001-D3-restart: restarts with the same parameters and history after 1, 2 and 4 minutes, three times",
  () => {
    const times: Array<number> = []
    // The second turn never succeeds.
    const { own, model } = askedAt(times, (turn) => turn === 2)
    const layer = Agents.buying.pipe(
      Layer.provide([model, Agents.handlers(own)]),
      Layer.provideMerge(Tasks.layerMemory())
    )
    return Effect.gen(function* () {
      const id = yield* Buy.submit({ params, key: "1" })
      const failed = yield* Effect.flip(inTime(Buy.result(id)))
      // The first turn once, the second four times.
      assert.lengthOf(times, 5)
      const waits = times.slice(2).map((time, i) => time - (times[i + 1] ?? 0))
      for (const [i, minutes] of [1, 2, 4].entries()) {
        assert.isAtLeast(waits[i] ?? 0, minutes * 60)
        assert.isAtMost(waits[i] ?? 0, minutes * 72 + 2)
      }
      // The tool of the first turn was not run again, and its result is in the conversation.
      assert.deepStrictEqual(own.looked, [1])
      assert.isTrue(failed._tag === "TaskFailed")
      if (failed._tag !== "TaskFailed") return
      const said = JSON.stringify(failed.transcript.prompt)
      assert.include(said, "Buy a book.")
      assert.include(said, "page 1")
    }).pipe(Effect.provide(layer))
  }
)

it.effect("001-P3-status: the status of a task shows that a call is retried, why, and when", () =>
  Effect.gen(function* () {
    const Talk = Task.make("talk", { version: 1, params: Agents.Order })
    const target = yield* model("a", "m1", [{ times: 3, fault: reset }])
    const layer = Talk.toLayer(({ item }) => ({ prompt: item })).pipe(
      Layer.provide(decision037.layer([target])),
      Layer.provideMerge(Tasks.layerMemory())
    )
    yield* Effect.gen(function* () {
      const id = yield* Talk.submit({ params, key: "1" })
      yield* until(is(id, "Retrying"), 200)
      const state = yield* stateOf(id)
      assert.isTrue(state._tag === "Retrying" && state.reason === "Network" && state.attempt > 1)
      assert.isTrue(state._tag === "Retrying" && (state.nextIn ?? 0) > 0)
      yield* inTime(Talk.result(id))
    }).pipe(Effect.provide(layer))
  })
)

it.effect(
  "001-FB-queue-full: the task that finds the restart queue full fails at once, and those in it are restarted",
  () => {
    const own = Agents.world()
    // The network is out for the first two questions, one of each task.
    const fails = (_turn: number, asked: number) => (asked <= 2 ? network : undefined)
    return Effect.gen(function* () {
      const first = yield* Buy.submit({ params, key: "1" })
      yield* until(is(first, "WaitingUntil"), 20)
      const began = yield* Clock.currentTimeMillis
      const second = yield* Buy.submit({ params, key: "2" })
      const failed = yield* Effect.flip(inTime(Buy.result(second), 20))
      assert.isBelow((yield* Clock.currentTimeMillis) - began, 10_000)
      assert.isTrue(failed._tag === "TaskFailed" && failed.reason._tag === "ProviderFailure")
      assert.strictEqual((yield* stateOf(first))._tag, "WaitingUntil")
      assert.strictEqual((yield* inTime(Buy.result(first))).status, "completed")
      assert.strictEqual((yield* stateOf(second))._tag, "Failed")
    }).pipe(Effect.provide(worker(own, fails, { restarting: 1 })))
  }
)

it.effect(
  "001-A-order: a failure is classified and retried with backoff, then its connection and its circuit are asked, then its task is restarted",
  () => {
    const endpoint = "https://a.example"
    const { events, layer } = recorded()
    const { retry, healthCheck } = decision037.defaults
    const settings = {
      ...decision037.defaults,
      retry: { ...retry, jitterPercent: 0 },
      healthCheck: { ...healthCheck, pingIntervalMs: 250 }
    }
    /** The steps of the path, each once where it is repeated. */
    const path = () =>
      events
        .flatMap((event) => {
          // An event of tasks, which are of another package than the others.
          const tag: string = event._tag
          if (tag === "TaskRestarting") return ["restart"]
          switch (event._tag) {
            case "AttemptFailed":
              return [Vocabulary.decision037({ _tag: event.reason })]
            case "CallWaiting":
              return [event.reason === "backoff" ? `backoff of ${event.delay} ms` : event.reason]
            case "CircuitRefusal":
              return [`circuit ${event.reason}`]
            default:
              return []
          }
        })
        .filter((step, n, steps) => step !== steps[n - 1])
    const Talk = Task.make("talk", { version: 1, params: Agents.Order })
    return Effect.gen(function* () {
      const target = yield* model("a", "m1", [{ fault: reset }], { endpoint })
      const breaker = yield* CircuitBreaker.make(decision037.circuits)
      let isBack = false
      // The pings fail with the first attempt, until the network is back.
      const ping = () =>
        Effect.suspend(() => (isBack || path().length === 0 ? Effect.void : Effect.fail("down")))
      yield* Effect.gen(function* () {
        const id = yield* Talk.submit({ params, key: "1" })
        yield* until(
          Effect.sync(() => path().includes("health")),
          40
        )
        // The connection is asked before the circuit: the call waits, although its circuit is open.
        yield* breaker.trip(endpoint)
        yield* TestClock.adjust("5 seconds")
        assert.strictEqual((yield* stateOf(id))._tag, "Retrying")
        assert.strictEqual(path().at(-1), "health")
        isBack = true
        yield* until(is(id, "WaitingUntil"), 40)
      }).pipe(
        Effect.provide(
          Talk.toLayer(({ item }) => ({ prompt: item })).pipe(
            Layer.provide(decision037.layer([target], { ping, breaker, settings })),
            Layer.provideMerge(Tasks.layerMemory()),
            Layer.provideMerge(layer)
          )
        )
      )
      assert.deepStrictEqual(path(), [
        "NetworkTransient",
        "backoff of 1000 ms",
        "health",
        "circuit open",
        "restart"
      ])
      assert.lengthOf(yield* timesOf(target), 1)
    }).pipe(Effect.scoped)
  }
)

it("001-F-restart: is a module, and takes the settings of the document", () => {
  const restarts = decision037.restartsOf(decision037.defaults)
  const { restarts: policy } = Task.make("any", { version: 1, params: Schema.String, restarts })
  assert.strictEqual(policy.max, Restart.defaults.max)
  assert.deepStrictEqual(
    [1, 2, 3].map((n) => Backoff.delay(policy.backoff, n, undefined, 0)),
    [60_000, 120_000, 240_000]
  )
})

it.effect(
  "001-M-restart: of 100 tasks whose network is out for two minutes on average, 90 % or more end well after restarts",
  () => {
    // Outages of exponential length, with a mean of two minutes. The model fails until the outage of its task is over.
    const mean = 120
    const outage = (i: number) => -mean * Math.log(1 - (i + 0.5) / 100)
    const outages = Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({
        generateText: ({ prompt }) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            const i = Number(/outage (\d+)/.exec(JSON.stringify(prompt))?.[1])
            return now / 1_000 < outage(i)
              ? Effect.fail(AiError.make({ module: "Test", method: "generateText", reason: network }))
              : Effect.succeed([{ type: "text" as const, text: "done" }, Agents.finish()])
          }),
        streamText: () => Stream.empty
      })
    )
    const Talk = Task.make("talk", { version: 1, params: Schema.Finite })
    const layer = Talk.toLayer((i) => ({ prompt: `outage ${i}` })).pipe(
      Layer.provide(outages),
      Layer.provideMerge(Tasks.layerMemory())
    )
    return Effect.gen(function* () {
      const { list } = yield* Tasks.Tasks
      for (let i = 0; i < 100; i++) yield* Talk.submit({ params: i, key: `${i}` })
      const all = Effect.map(Stream.runCollect(list()), (found) => found)
      yield* until(
        Effect.map(all, (found) =>
          found.every(({ state }) => state._tag === "Done" || state._tag === "Failed")
        )
      )
      const restarted = (yield* all).filter(({ restarts }) => restarts > 0)
      const well = restarted.filter(({ state }) => state._tag === "Done")
      assert.isAbove(restarted.length, 60)
      assert.isAtLeast(well.length / restarted.length, 0.9)
    }).pipe(Effect.provide(layer))
  },
  60_000
)

it.effect(
  "002-next-tasks: tasks on disk go on in another session; a program submits the next task when one has ended",
  () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const own = Agents.world()
      /** A worker with a connection of its own. */
      const session = <A, E>(
        fails: Parameters<typeof Agents.model>[1],
        program: Effect.Effect<A, E, Tasks.Tasks>
      ) =>
        program.pipe(
          Effect.provide(
            Agents.buying.pipe(
              Layer.provide([Agents.model(own, fails), Agents.handlers(own)]),
              Layer.provideMerge(Tasks.layerSqlite({ lock: Effect.void })),
              Layer.provide(SqliteClient.layer({ filename: join(folder, "tasks.db") }))
            )
          )
        )
      // The first session ends behind the first turn of the task.
      yield* session(
        (turn) => (turn === 2 ? network : undefined),
        Effect.gen(function* () {
          const first = yield* Buy.submit({ params, key: "first" })
          yield* until(is(first, "WaitingUntil"))
        })
      )
      assert.deepStrictEqual([own.looked, own.paid], [[1], []])
      const ids = yield* session(
        undefined,
        Effect.gen(function* () {
          const before = yield* inTime(Buy.result("buy/first"))
          const second = yield* Buy.submit({ params, key: "second", history: before.transcript.prompt })
          yield* inTime(Buy.result(second))
          const { list } = yield* Tasks.Tasks
          return yield* inTime(Stream.runCollect(list({ state: ["Done"] })))
        })
      )
      assert.deepStrictEqual(
        ids.map(({ id }) => id),
        ["buy/second", "buy/first"]
      )
      assert.lengthOf(own.paid, 1)
      assert.deepStrictEqual(own.looked, [1])
    }).pipe(Effect.scoped)
)
