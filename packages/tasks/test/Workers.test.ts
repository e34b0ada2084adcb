/** Tasks whose worker stops, is gone, or has other tools. */
import { assert, it } from "@effect/vitest"
import { Clock, Deferred, Effect, Layer, Option, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { WorkflowEngine } from "effect/workflow"
import { SqliteClient } from "@outlast/node/sqlite"
import { Backoff, ResilienceEvents } from "@outlast/resilience"
import { Journal, Task, Tasks, TaskStore } from "@outlast/tasks"
import * as MemoryStore from "#tasks/store/MemoryStore"
import * as StoreOutage from "#tasks/store/StoreOutage"
import * as EngineRows from "#tasks/cluster/EngineRows"
import * as Agents from "../../../test/tasks/Agents.ts"
import { halfSecond, inTime, until } from "../../../test/tasks/Time.ts"

const { Buy } = Agents
const params = { item: "a book" }
const database = SqliteClient.layer({ filename: ":memory:" })

const stateOf = (id: string) =>
  Effect.flatMap(Tasks.Tasks, ({ status }) =>
    Effect.map(status(id), (found) => Option.getOrThrow(found).state)
  )
const is = (id: string, tag: string) => Effect.map(stateOf(id), ({ _tag }) => _tag === tag)

const worker = Tasks.layerSqlite({ lock: Effect.void })
const client = <A, E>(program: Effect.Effect<A, E, Tasks.Tasks>) =>
  Effect.provide(program, Tasks.layerClient())

const waiting = { _tag: "WaitingForWorker", needs: "buy@1" } as const

const patient = (own: Agents.World, before?: Effect.Effect<void>) =>
  Agents.patient.pipe(Layer.provide([Agents.model(own), Agents.handlers(own, before)]))

// -----------------------------------------------------------------------------
// Tasks without a worker
// -----------------------------------------------------------------------------

it.effect("a task that is parked says that it waits for a worker, and goes on with the next one", () => {
  const own = Agents.world()
  return Effect.gen(function* () {
    const id = yield* Effect.gen(function* () {
      const id = yield* Buy.submit({ params, key: "1" })
      yield* until(is(id, "Running"))
      for (let i = 0; i < 2; i++) yield* halfSecond
      yield* inTime(Tasks.drain)
      return id
    }).pipe(Effect.provide(patient(own, Effect.sleep("3 seconds")).pipe(Layer.provideMerge(worker))))
    assert.deepStrictEqual(yield* client(stateOf(id)), waiting)
    yield* inTime(Buy.result(id)).pipe(Effect.provide(patient(own).pipe(Layer.provideMerge(worker))))
  }).pipe(Effect.provide(database))
})

it.effect(
  "a started task whose worker died says that it waits, where the next worker has no such agent",
  () => {
    const own = Agents.world()
    return Effect.gen(function* () {
      const id = yield* Effect.gen(function* () {
        const id = yield* Buy.submit({ params, key: "1" })
        yield* until(is(id, "Running"))
        for (let i = 0; i < 2; i++) yield* halfSecond
        return id
      }).pipe(Effect.provide(patient(own, Effect.sleep("1 hour")).pipe(Layer.provideMerge(worker))), inTime)
      // A worker whose scope closes may still have the time to say so.
      assert.include(["Running", "Queued", "WaitingForWorker"], (yield* client(stateOf(id)))._tag)
      yield* Effect.gen(function* () {
        yield* until(is(id, "WaitingForWorker"), 100)
        assert.deepStrictEqual(yield* stateOf(id), waiting)
        // Other processes see it, too.
        yield* until(
          Effect.map(client(stateOf(id)), ({ _tag }) => _tag === "WaitingForWorker"),
          10
        )
      }).pipe(Effect.provide(worker))
    }).pipe(Effect.provide(database))
  }
)

it.effect("a step that ends with the layer of its agent hands its task back to the next one", () => {
  const own = Agents.world()
  const gate = Deferred.makeUnsafe<void>()
  const before = Effect.andThen(Deferred.await(gate), Effect.interrupt)
  return Effect.gen(function* () {
    const id = yield* Effect.scoped(
      Effect.gen(function* () {
        yield* Layer.build(patient(own, before))
        const id = yield* Buy.submit({ params, key: "1" })
        yield* until(Effect.sync(() => own.asked === 1))
        yield* halfSecond
        return id
      })
    )
    yield* Deferred.succeed(gate, undefined)
    yield* until(is(id, "WaitingForWorker"), 20)
    yield* Layer.build(patient(own))
    const outcome = yield* inTime(Buy.result(id))
    assert.strictEqual(outcome.turns, 3)
  }).pipe(Effect.scoped, Effect.provide(Tasks.layerMemory()))
})

it.effect("a task that another worker begins meanwhile does not say that it waits for one", () => {
  // Another worker begins the task after this one has looked.
  const raced = Layer.effect(
    TaskStore,
    Effect.map(TaskStore, (store) => ({
      ...store,
      unknown: (known: ReadonlyArray<string>, before: number, limit: number) =>
        Effect.tap(store.unknown(known, before, limit), (rows) =>
          Effect.forEach(rows, ({ id, generation }) => store.started(id, generation))
        )
    }))
  )
  return Effect.gen(function* () {
    for (const store of [
      Layer.mergeAll(MemoryStore.layer, EngineRows.layerMemory, StoreOutage.layer),
      Tasks.layerStore().pipe(Layer.provide(database))
    ]) {
      const engine = Tasks.layerEngine().pipe(
        Layer.provide([raced.pipe(Layer.provideMerge(store)), WorkflowEngine.layerMemory])
      )
      yield* Effect.gen(function* () {
        const id = yield* Buy.submit({ params, key: "1" })
        for (let i = 0; i < 20; i++) yield* halfSecond
        assert.strictEqual((yield* stateOf(id))._tag, "Queued")
      }).pipe(Effect.provide(engine))
    }
  })
})

// -----------------------------------------------------------------------------
// Drains during the wait for a restart
// -----------------------------------------------------------------------------

for (const seconds of [40, 90]) {
  it.effect(
    `a drain parks a task that restarts in ${seconds} s, and the next worker restarts it then`,
    () => {
      const own = Agents.world()
      const restarts = { max: 2, backoff: Backoff.sequence([`${seconds} seconds`, "1 hour"]) }
      const Agent = Task.make("buy", { version: 1, params: Agents.Order, toolkit: Agents.Shop, restarts })
      const asked: Array<number> = []
      const life = <A, E>(program: Effect.Effect<A, E, Tasks.Tasks>) =>
        Effect.gen(function* () {
          const clock = yield* Clock.Clock
          const fails = (turn: number) => {
            asked.push(clock.currentTimeMillisUnsafe())
            return turn === 2 ? Agents.network : undefined
          }
          const agent = Agent.toLayer(({ item }) => ({ prompt: item })).pipe(
            Layer.provide([Agents.model(own, fails), Agents.handlers(own)])
          )
          return yield* Effect.provide(program, agent.pipe(Layer.provideMerge(worker)))
        })
      return Effect.gen(function* () {
        const id = yield* life(
          Effect.gen(function* () {
            const id = yield* Agent.submit({ params, key: "1" })
            yield* until(is(id, "WaitingUntil"))
            // Far from the 40 s of the restart, and far above what the thread of the store may need on a busy machine.
            yield* inTime(Tasks.drain, 40)
            return id
          })
        )
        const parked = yield* client(stateOf(id))
        assert.deepInclude(parked, { _tag: "WaitingUntil", restart: 1, of: 2 })
        const due = parked._tag === "WaitingUntil" ? parked.until : 0
        assert.lengthOf(asked, 2)
        yield* life(
          until(Effect.map(stateOf(id), (state) => state._tag === "WaitingUntil" && state.restart === 2))
        )
        assert.lengthOf(asked, 3)
        assert.isAtLeast(asked[2] ?? 0, due)
        assert.isAtMost(asked[2] ?? 0, due + 60_000)
        assert.lengthOf(own.looked, 1)
      }).pipe(Effect.provide(database))
    }
  )
}

// -----------------------------------------------------------------------------
// Steps that the end of a worker cut off, and tools that have changed under the same version
// -----------------------------------------------------------------------------

const paying = (own: Agents.World, tools: ReadonlyArray<"look" | "pay">, kind: Journal.Effects) => {
  const pay = Journal.effects(kind)(
    Tool.make("pay", { parameters: Schema.Struct({ cents: Schema.Finite }), success: Schema.String })
  )
  const started = Effect.sync(() => void own.paid.push("again"))
  if (!tools.includes("pay")) {
    const Kit = Toolkit.make(Agents.Look)
    return Task.make("buy", { version: 1, params: Agents.Order, toolkit: Kit })
      .toLayer(({ item }) => ({ prompt: item }))
      .pipe(Layer.provide([Agents.model(own), Kit.toLayer({ look: () => Effect.succeed("page 1") })]))
  }
  const Kit = Toolkit.make(Agents.Look, pay)
  return Task.make("buy", { version: 1, params: Agents.Order, toolkit: Kit })
    .toLayer(({ item }) => ({ prompt: item }))
    .pipe(
      Layer.provide([
        Agents.model(own),
        Kit.toLayer({ look: () => Effect.succeed("page 1"), pay: () => Effect.as(started, "paid") })
      ])
    )
}

for (const [title, tools, kind] of [
  ["has the same one", ["look", "pay"], "once"],
  ["does not have it any more", ["look"], "once"],
  ["declares that it changes nothing", ["look", "pay"], "none"],
  ["declares it idempotent", ["look", "pay"], "idempotent"]
] as const) {
  it.effect(
    `a payment that the end of its worker cut off is in doubt, where the next worker ${title}`,
    () => {
      const own = Agents.world()
      let hasBegun = false
      const before = Effect.suspend(() => {
        if (own.looked.length === 0) return Effect.void
        hasBegun = true
        return Effect.sleep("1 hour")
      })
      return Effect.gen(function* () {
        const id = yield* Effect.gen(function* () {
          const id = yield* Buy.submit({ params, key: "1" })
          yield* until(Effect.sync(() => hasBegun))
          return id
        }).pipe(Effect.provide(patient(own, before).pipe(Layer.provideMerge(worker))), inTime)
        yield* Effect.gen(function* () {
          const { decide } = yield* Tasks.Tasks
          yield* until(is(id, "InDoubt"), 100)
          assert.deepStrictEqual(own.paid, [])
          const key = Tasks.decisionKey(yield* stateOf(id))
          yield* decide(id, { _tag: "Happened", result: "paid by hand" }, key)
          const { text, transcript } = yield* inTime(Buy.result(id))
          assert.strictEqual(text, "bought")
          assert.include(JSON.stringify(transcript.prompt), "paid by hand")
          assert.deepStrictEqual(own.paid, [])
        }).pipe(Effect.provide(paying(own, tools, kind).pipe(Layer.provideMerge(worker))))
      }).pipe(Effect.provide(database))
    }
  )
}

it.effect("a tool without effects that the end of its worker cut off runs again", () => {
  const own = Agents.world()
  let begun = 0
  const before = Effect.suspend(() => (++begun === 1 ? Effect.sleep("1 hour") : Effect.void))
  return Effect.gen(function* () {
    const id = yield* Effect.gen(function* () {
      const id = yield* Buy.submit({ params, key: "1" })
      yield* until(Effect.sync(() => begun > 0))
      return id
    }).pipe(Effect.provide(patient(own, before).pipe(Layer.provideMerge(worker))), inTime)
    yield* inTime(Buy.result(id)).pipe(Effect.provide(patient(own, before).pipe(Layer.provideMerge(worker))))
    assert.deepStrictEqual([own.asked, own.looked, own.paid.length], [3, [1], 1])
  }).pipe(Effect.provide(database))
})

// -----------------------------------------------------------------------------
// Questions
// -----------------------------------------------------------------------------

for (const happened of [true, false]) {
  const title = happened ? "ends the task" : "asks again"
  it.effect(
    `a question with tools of the provider is in doubt after a crash, and a decision ${title}`,
    () => {
      const own = Agents.world()
      const Search = Tool.providerDefined({
        id: "openai.web_search",
        customName: "Search",
        providerName: "web_search",
        args: Schema.Struct({}),
        parameters: Schema.Struct({ query: Schema.String }),
        success: Schema.String
      })({})
      const Kit = Toolkit.make(Search)
      const Agent = Task.make("searches", { version: 1, params: Agents.Order, toolkit: Kit })
      let asked = 0
      const alive = Effect.suspend(() => (++asked === 1 ? Effect.sleep("10 minutes") : Effect.void))
      const answers = () => Agents.answer(3)
      const life = Agent.toLayer(({ item }) => ({ prompt: item })).pipe(
        Layer.provide(Agents.model(own, undefined, answers, alive)),
        Layer.provideMerge(worker)
      )
      return Effect.gen(function* () {
        const id = yield* Effect.gen(function* () {
          const id = yield* Agent.submit({ params, key: "1" })
          yield* until(Effect.sync(() => asked > 0))
          return id
        }).pipe(Effect.provide(life), inTime)
        yield* Effect.gen(function* () {
          const { decide } = yield* Tasks.Tasks
          yield* until(is(id, "InDoubt"), 100)
          assert.strictEqual(asked, 1)
          const key = Tasks.decisionKey(yield* stateOf(id))
          assert.match(key ?? "", /turn\/1\/ask$/)
          yield* decide(id, { _tag: happened ? "Happened" : "DidNot" }, key)
          if (happened) {
            const failed = yield* Effect.flip(inTime(Agent.result(id)))
            assert.isTrue(failed._tag === "TaskFailed" && failed.reason._tag === "AnswerLost")
          } else {
            assert.strictEqual((yield* inTime(Agent.result(id))).text, "bought")
          }
          assert.strictEqual(asked, happened ? 1 : 2)
        }).pipe(Effect.provide(life))
      }).pipe(Effect.provide(database))
    }
  )
}

it.effect("a run with compaction fits each question once, though its worker changes", () => {
  const own = Agents.world()
  const long = "The page says much, and little of it matters. ".repeat(60)
  const Kit = Toolkit.make(Agents.Look)
  const Agent = Task.make("reads", { version: 1, params: Agents.Order, toolkit: Kit })
  const seen: Array<string> = []
  const events = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => void (event._tag === "ContextCompacted" && seen.push(event._tag)))
  )
  const pages = 12
  const sizes: Array<number> = []
  let looks = 0
  const model = Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: ({ prompt }) =>
        Effect.sync(() => {
          own.asked++
          sizes.push(JSON.stringify(prompt.content).length)
          return looks >= pages
            ? [{ type: "text", text: "read" } as const, Agents.finish()]
            : [
                { type: "tool-call", id: `look-${looks}`, name: "look", params: { page: looks } } as const,
                Agents.finish("tool-calls")
              ]
        }),
      streamText: () => Stream.empty
    })
  )
  const life = Agent.toLayer(({ item }) => ({
    prompt: item,
    compaction: { window: 4_000, summarise: false }
  })).pipe(
    Layer.provide([
      model,
      Kit.toLayer({
        look: () =>
          Effect.as(
            Effect.sync(() => looks++),
            long
          )
      })
    ]),
    Layer.provideMerge(worker)
  )
  return Effect.gen(function* () {
    const id = yield* Effect.gen(function* () {
      const id = yield* Agent.submit({ params, key: "1" })
      yield* until(Effect.sync(() => looks >= 8))
      yield* inTime(Tasks.drain)
      return id
    }).pipe(Effect.provide(life), inTime)
    const before = seen.length
    assert.isAbove(before, 0)
    const outcome = yield* inTime(Agent.result(id)).pipe(Effect.provide(life))
    assert.deepStrictEqual([outcome.text, outcome.turns], ["read", pages + 1])
    // No question and no look is repeated, and every question fits.
    assert.deepStrictEqual([own.asked, looks], [pages + 1, pages])
    assert.isBelow(Math.max(...sizes), 4_000 * 5)
    assert.isAtMost(seen.length, pages + 1)
  }).pipe(Effect.provide([database, events]))
})
