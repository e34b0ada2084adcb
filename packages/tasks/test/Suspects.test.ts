/** Tasks whose process has died: who runs alone, for how long, and what counts no death. */
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Layer, Option, Stream } from "effect"
import { LanguageModel, Toolkit } from "effect/ai"
import { SqlClient } from "effect/sql"
import { SqliteClient } from "@outlast/node/sqlite"
import { ResilienceEvents } from "@outlast/resilience"
import { Task, Tasks } from "@outlast/tasks"
import { Holders } from "#tasks/cluster/Holders"
import * as Agents from "../../../test/tasks/Agents.ts"
import { inTime, until } from "../../../test/tasks/Time.ts"

const database = SqliteClient.layer({ filename: ":memory:" })

/** Reads one page, for as many seconds as the task says, and ends. */
const Kit = Toolkit.make(Agents.Look)
const agent = { version: 1, params: Agents.Order, toolkit: Kit } as const
const Reads = Task.make("reads", agent)
const Asks = Task.make("reads", { ...agent, killed: "ask" })

interface Look {
  readonly seconds: number
  readonly at: number
}

const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: ({ prompt }) =>
      Effect.sync(() => {
        const seconds = Number(/for (\d+) s/.exec(JSON.stringify(prompt.content))?.[1])
        return Agents.turnOf(prompt) === 1
          ? [
              { type: "tool-call", id: "look-1", name: "look", params: { page: seconds } } as const,
              Agents.finish("tool-calls")
            ]
          : [{ type: "text", text: "read" } as const, Agents.finish()]
      }),
    streamText: () => Stream.empty
  })
)

interface Process {
  readonly looks?: Array<Look>
  readonly agent?: typeof Reads
  /** Each question is fitted into a window, as a step of its own. */
  readonly compacts?: boolean
  /** Nothing that looks comes to an end. */
  readonly isStuck?: boolean
}

/** A process, until its program ends. Its looks are noted. */
const life = <A, E>(
  { looks = [], agent = Reads, compacts = false, isStuck = false }: Process,
  program: Effect.Effect<A, E, Tasks.Tasks | SqlClient.SqlClient>
) =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const handlers = Kit.toLayer({
      look: ({ page }) =>
        Effect.gen(function* () {
          looks.push({ seconds: page, at: clock.currentTimeMillisUnsafe() })
          yield* isStuck ? Effect.never : Effect.sleep(1_000 * page)
          return "a page"
        })
    })
    const reading = agent
      .toLayer(({ item }) => ({
        prompt: `Read for ${item} s.`,
        toolTimeout: "2 hours",
        ...(compacts ? { compaction: { window: 4_000, summarise: false } } : {})
      }))
      .pipe(Layer.provide([model, handlers]))
    const worker = Layer.provideMerge(reading, Tasks.layerSqlite({ lock: Effect.void }))
    return yield* Effect.provide(program, worker)
  }).pipe(inTime)

const submit = (seconds: number) =>
  Reads.submit({ params: { item: String(seconds) }, key: String(seconds) }).pipe(
    Effect.provide(Tasks.layerClient())
  )

/** As if the process of a task had died. */
const kill = (id: string, deaths: object) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`UPDATE outlast_tasks SET boot = 'gone', deaths = ${JSON.stringify(deaths)} WHERE id = ${id}`
  )

/** Submits tasks, and stops their first process in good order while they look. */
const begun = (...seconds: ReadonlyArray<number>) =>
  Effect.gen(function* () {
    const looks: Array<Look> = []
    const ids = yield* Effect.forEach(seconds, (seconds) => submit(seconds))
    yield* life({ looks, isStuck: true }, until(Effect.sync(() => looks.length === seconds.length)))
    return ids
  })

const suspect = { boots: ["earlier"], lonely: 0, alone: false }
const step = "turn/1/tool/look-1"
const guilty = { boots: ["one", "two", "three", "four"], lonely: 2, alone: true, step }

const client = <A, E>(program: Effect.Effect<A, E, Tasks.Tasks>) =>
  Effect.provide(program, Tasks.layerClient())

const statusOf = (id: string) =>
  Effect.flatMap(Tasks.Tasks, ({ status }) => Effect.map(status(id), Option.getOrThrow))
const is = (id: string, tag: string) => Effect.map(statusOf(id), ({ state }) => state._tag === tag)

const timeOf = (looks: ReadonlyArray<Look>, seconds: number): number =>
  looks.find((look) => look.seconds === seconds)?.at ?? Number.NaN

it.effect("ten stops in good order at one step make no suspect", () => {
  const looks: Array<Look> = []
  return Effect.gen(function* () {
    const id = yield* submit(1)
    for (let n = 1; n <= 10; n++) {
      // Every second time with a drain, which the limit of a host cuts off.
      const drained = n % 2 === 0 ? Effect.ignore(Effect.timeout(Tasks.drain, "5 seconds")) : Effect.void
      const began = until(Effect.sync(() => looks.length >= n))
      yield* life({ looks, isStuck: true }, Effect.andThen(began, drained))
      assert.strictEqual((yield* client(statusOf(id))).deaths, 0)
    }
    const sql = yield* SqlClient.SqlClient
    assert.deepStrictEqual(yield* sql`SELECT boot, deaths FROM outlast_tasks`, [{ boot: null, deaths: null }])
    yield* life({}, Reads.result(id))
  }).pipe(Effect.provide(database))
})

it.effect("a lease that another worker has lost, and a worker that is back, count no death", () => {
  const holders = Layer.succeed(Holders, {
    beat: () => Effect.void,
    leave: () => Effect.void,
    answer: () => Effect.void,
    hasDied: () => Effect.succeed(false),
    replyOf: () => Effect.succeedNone
  })
  return Effect.gen(function* () {
    const [id = ""] = yield* begun(5)
    yield* kill(id, { ...suspect, boots: ["earlier", "before"] })
    const looks: Array<Look> = []
    yield* life(
      { looks },
      Effect.gen(function* () {
        yield* until(Effect.sync(() => looks.length === 1))
        assert.strictEqual((yield* statusOf(id)).deaths, 0)
      })
    )
  }).pipe(Effect.provide([database, holders]))
})

it.effect("suspects run alone, one after the other, until a step of theirs is recorded", () => {
  const looks: Array<Look> = []
  const events: Array<ResilienceEvents.ResilienceEvent> = []
  const told = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => void (event._tag === "TaskKilledProcess" && events.push(event)))
  )
  return Effect.gen(function* () {
    const ids = yield* begun(5, 2, 3)
    for (const id of ids.slice(1)) yield* kill(id, suspect)
    const isSuspect = ({ seconds }: Look) => seconds === 2 || seconds === 3
    yield* life(
      { looks },
      Effect.gen(function* () {
        yield* until(Effect.sync(() => looks.some(isSuspect)))
        ids.push(yield* submit(1))
        for (const id of ids) yield* Reads.result(id)
      })
    )
    for (const own of looks.filter(isSuspect)) {
      for (const other of looks.filter((look) => look !== own)) {
        const isBefore = other.at + 1_000 * other.seconds <= own.at
        assert.isTrue(isBefore || other.at >= own.at + 1_000 * own.seconds, JSON.stringify([own, other]))
      }
    }
    for (const id of ids) assert.deepInclude(yield* client(statusOf(id)), { deaths: 0, restarts: 0 })
    assert.lengthOf(looks, 4)
    assert.lengthOf(events, 2)
    const said = { _tag: "TaskKilledProcess", task: "reads", deaths: 2, condemned: false }
    for (const event of events) assert.deepInclude<object>(event, said)
  }).pipe(Effect.provide([database, told]))
})

it.effect("a suspect with a long step is alone for ten seconds, and is not condemned after them", () => {
  const looks: Array<Look> = []
  return Effect.gen(function* () {
    const [long = ""] = yield* begun(120)
    yield* kill(long, suspect)
    const from = yield* Clock.currentTimeMillis
    yield* life(
      { looks },
      Effect.gen(function* () {
        yield* until(Effect.sync(() => looks.length === 1))
        assert.strictEqual((yield* statusOf(long)).deaths, 2)
        yield* Reads.result(yield* submit(1))
        assert.isAtLeast(timeOf(looks, 1), from + 10_000)
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<{
          readonly deaths: string
        }>`SELECT deaths FROM outlast_tasks WHERE id = ${long}`
        assert.deepInclude(JSON.parse(row?.deaths ?? ""), { alone: false })
        assert.isTrue(yield* is(long, "Running"))
        yield* Reads.result(long)
        assert.strictEqual((yield* statusOf(long)).deaths, 0)
      })
    )
  }).pipe(Effect.provide(database))
})

it.effect("a suspect beside a long step runs after a minute, and the others run before", () => {
  const looks: Array<Look> = []
  return Effect.gen(function* () {
    const clock = yield* Clock.Clock
    yield* submit(2_000)
    yield* life(
      { looks },
      Effect.gen(function* () {
        yield* until(Effect.sync(() => looks.length === 1))
        const own = yield* submit(3)
        yield* kill(own, suspect)
        const from = clock.currentTimeMillisUnsafe()
        for (const seconds of [1, 2]) {
          const since = clock.currentTimeMillisUnsafe()
          yield* Reads.result(yield* submit(seconds))
          // Each of three steps may find the worker closed for twenty seconds.
          assert.isAtMost(clock.currentTimeMillisUnsafe() - since, 60_000)
        }
        assert.lengthOf(looks, 3)
        yield* Reads.result(own)
        // The long one is under way all that time.
        assert.isAtLeast(timeOf(looks, 3), from + 70_000)
        assert.isFalse(yield* is("reads/2000", "Done"))
      })
    )
  }).pipe(Effect.provide(database))
})

it.effect("a condemned step does not run again, and a resume goes on from its conversation", () => {
  const looks: Array<Look> = []
  return Effect.gen(function* () {
    const { resume } = yield* Tasks.Tasks
    const [id = ""] = yield* begun(5)
    yield* kill(id, guilty)
    const failed = yield* life({ looks }, Effect.flip(Reads.result(id)))
    assert.isTrue(failed._tag === "TaskFailed")
    if (failed._tag !== "TaskFailed") return
    assert.deepInclude(failed.reason, { _tag: "KilledItsProcess", step, deaths: 5 })
    assert.include(failed.message, `The tool look ended its process 5 times in a row, in step \`${step}\``)
    assert.include(failed.message, "`Tasks.resume` continues it")
    assert.include(JSON.stringify(failed.transcript.prompt), "look-1")
    assert.lengthOf(looks, 0)
    yield* resume(id)
    yield* life({ looks }, Reads.result(id))
    assert.deepInclude(yield* statusOf(id), { deaths: 0, generation: 2 })
  }).pipe(Effect.provide(Layer.provideMerge(Tasks.layerClient(), database)))
})

it.effect("a step that is neither a tool nor a question is condemned, too, and asks no person", () =>
  Effect.gen(function* () {
    const id = yield* submit(5)
    yield* kill(id, { ...guilty, step: "turn/1/fit" })
    const failed = yield* life({ agent: Asks, compacts: true }, Effect.flip(Reads.result(id)))
    assert.include(String(failed), "The step fit ended its process 5 times")
  }).pipe(Effect.provide(database))
)

it.effect("a task whose process dies alone before its next step begins fails, and is not resumed", () =>
  Effect.gen(function* () {
    const { resume } = yield* Tasks.Tasks
    const [id = ""] = yield* begun(5)
    yield* kill(id, { boots: ["one", "two"], lonely: 2, alone: true })
    const failed = yield* life({}, Effect.flip(Reads.result(id)))
    assert.include(String(failed), "before its next step began")
    assert.notInclude(String(failed), "Tasks.resume")
    assert.deepInclude(yield* Effect.flip(resume(id)), { _tag: "NotNow" })
  }).pipe(Effect.provide(Layer.provideMerge(Tasks.layerClient(), database)))
)

for (const happened of [true, false]) {
  it.effect(
    `a condemned step can wait for a person, who ${happened ? "gives its result" : "runs it again"}`,
    () => {
      const looks: Array<Look> = []
      return Effect.gen(function* () {
        const { decide } = yield* Tasks.Tasks
        const [id = ""] = yield* begun(5)
        yield* kill(id, guilty)
        yield* life(
          { looks, agent: Asks },
          Effect.gen(function* () {
            yield* until(is(id, "InDoubt"))
            const { deaths, state } = yield* statusOf(id)
            assert.strictEqual(deaths, 0)
            assert.deepInclude(state._tag === "InDoubt" ? state.effect : {}, { tool: "look", deaths: 5 })
            const verdict = happened
              ? { _tag: "Happened" as const, result: "by hand" }
              : { _tag: "DidNot" as const }
            yield* decide(id, verdict, Tasks.decisionKey(state))
            const { transcript } = yield* Reads.result(id)
            assert.include(JSON.stringify(transcript.prompt), happened ? "by hand" : "a page")
            assert.lengthOf(looks, happened ? 0 : 1)
          })
        )
      }).pipe(Effect.provide(Layer.provideMerge(Tasks.layerClient(), database)))
    }
  )
}

it.effect("a condemned payment that had begun is named as not known", () => {
  const own = Agents.world()
  let isPaying = false
  const paying = Effect.suspend(() => {
    if (own.looked.length === 0) return Effect.void
    isPaying = true
    return Effect.sleep("1 hour")
  })
  const process = Agents.patient.pipe(
    Layer.provide([Agents.model(own), Agents.handlers(own, paying)]),
    Layer.provideMerge(Tasks.layerSqlite({ lock: Effect.void }))
  )
  return Effect.gen(function* () {
    const id = yield* client(Agents.Buy.submit({ params: { item: "a book" }, key: "1" }))
    yield* until(Effect.sync(() => isPaying)).pipe(Effect.provide(process), inTime)
    yield* kill(id, { ...guilty, step: "turn/2/tool/pay-1" })
    yield* Effect.flip(inTime(Agents.Buy.result(id))).pipe(Effect.provide(process))
    const { state } = yield* client(statusOf(id))
    assert.deepInclude(state, { _tag: "Failed", reason: "KilledItsProcess" })
    const unknown = state._tag === "Failed" ? state.unknown : undefined
    assert.deepStrictEqual(
      unknown?.map(({ tool }) => tool),
      ["pay"]
    )
  }).pipe(Effect.provide(database))
})
