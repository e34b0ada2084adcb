/** Requests of people and programs: keys, queues, cancellations, decisions, resuming, pruning. */
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Option, Schema, Stream } from "effect"
import { AiError, Tool, Toolkit } from "effect/ai"
import { Journal, Task, Tasks } from "@outlast/tasks"
import * as Agents from "../../../test/tasks/Agents.ts"
import { onEach } from "./support/Engines.ts"
import { halfSecond, inTime, until } from "../../../test/tasks/Time.ts"

const { Buy } = Agents
const book = { item: "a book" }

const stateOf = (id: string) =>
  Effect.flatMap(Tasks.Tasks, ({ status }) =>
    Effect.map(status(id), (found) => Option.getOrThrow(found).state)
  )

const is = (id: string, tag: string) => Effect.map(stateOf(id), ({ _tag }) => _tag === tag)

const failureOf = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.flip(inTime(effect))

onEach(({ layer }) => {
  interface Given {
    readonly own?: Agents.World
    readonly agent?: typeof Agents.buying
    readonly before?: Effect.Effect<void>
    readonly fails?: Parameters<typeof Agents.model>[1]
    readonly options?: Tasks.WorkerOptions
  }
  const worker = ({ own = Agents.world(), agent = Agents.buying, before, fails, options }: Given) =>
    agent.pipe(
      Layer.provide([Agents.model(own, fails), Agents.handlers(own, before)]),
      Layer.provideMerge(layer(options))
    )

  it.effect("a key that is submitted again is the same task, and other parameters are refused", () => {
    const own = Agents.world()
    return Effect.gen(function* () {
      const id = yield* Buy.submit({ params: book, key: "1" })
      assert.strictEqual(yield* Buy.submit({ params: book, key: "1" }), id)
      const reused = yield* Effect.flip(Buy.submit({ params: { item: "a car" }, key: "1" }))
      assert.strictEqual(reused._tag, "KeyReused")
      yield* inTime(Buy.result(id))
      assert.strictEqual(own.asked, 3)
    }).pipe(Effect.provide(worker({ own })))
  })

  it.effect("a full queue refuses a submission at once", () =>
    Effect.gen(function* () {
      yield* Buy.submit({ params: book, key: "1" })
      yield* until(is("buy/1", "Running"))
      // Until its row says so, too.
      for (let i = 0; i < 4; i++) yield* halfSecond
      for (const key of ["2", "3"]) yield* Buy.submit({ params: book, key })
      const full = yield* Effect.flip(Buy.submit({ params: book, key: "4" }))
      assert.deepInclude(full, { _tag: "QueueFull", queued: 2, bound: 2 })
      assert.deepStrictEqual(yield* stateOf("buy/3"), { _tag: "Queued", position: 2 })
      const { cancel } = yield* Tasks.Tasks
      for (const key of ["1", "2", "3"]) yield* cancel(`buy/${key}`, "ada")
      for (const key of ["1", "2", "3"]) yield* until(is(`buy/${key}`, "Cancelled"))
    }).pipe(
      Effect.provide(
        worker({
          agent: Agents.patient,
          before: Effect.sleep("10 minutes"),
          options: { queue: 2, concurrency: 1 }
        })
      )
    )
  )

  it.effect("a failure of logic never restarts", () => {
    const own = Agents.world()
    const fails = () => new AiError.InvalidRequestError({ description: "unknown field" })
    return Effect.gen(function* () {
      const id = yield* Buy.submit({ params: book, key: "1" })
      const failed = yield* failureOf(Buy.result(id))
      assert.strictEqual(failed._tag, "TaskFailed")
      assert.strictEqual(own.asked, 1)
    }).pipe(Effect.provide(worker({ own, fails })))
  })

  it.effect("a full restart queue fails the task at once, with its own failure", () => {
    const own = Agents.world()
    return Effect.gen(function* () {
      yield* Buy.submit({ params: book, key: "1" })
      yield* until(is("buy/1", "WaitingUntil"))
      const id = yield* Buy.submit({ params: book, key: "2" })
      yield* until(is(id, "Failed"), 100)
      const failed = yield* failureOf(Buy.result(id))
      assert.isTrue(failed._tag === "TaskFailed" && failed.reason._tag === "ProviderFailure")
      assert.strictEqual(own.asked, 2)
    }).pipe(Effect.provide(worker({ own, fails: () => Agents.network, options: { restarting: 1 } })))
  })

  it.effect("a cancellation ends a tool of ten minutes within two seconds", () =>
    Effect.gen(function* () {
      const { cancel } = yield* Tasks.Tasks
      const id = yield* Buy.submit({ params: book, key: "1" })
      yield* until(is(id, "Running"))
      yield* halfSecond
      yield* cancel(id, "ada")
      yield* until(is(id, "Cancelled"), 40)
      assert.deepStrictEqual(yield* stateOf(id), { _tag: "Cancelled", by: "ada" })
      const outcome = yield* inTime(Buy.result(id))
      assert.strictEqual(outcome.status, "cancelled")
    }).pipe(Effect.provide(worker({ agent: Agents.patient, before: Effect.sleep("10 minutes") })))
  )

  it.effect("a cancellation ends a task that waits for its restart, and one that is queued", () =>
    Effect.gen(function* () {
      const { cancel } = yield* Tasks.Tasks
      const id = yield* Buy.submit({ params: book, key: "1" })
      yield* until(is(id, "WaitingUntil"))
      yield* cancel(id, "ada")
      yield* until(is(id, "Cancelled"), 40)
      const Other = Task.make("other", { version: 1, params: Agents.Order })
      const other = yield* Other.submit({ params: book, key: "1" })
      yield* cancel(other, "ada")
      assert.deepStrictEqual(yield* stateOf(other), { _tag: "Cancelled", by: "ada" })
      const failed = yield* failureOf(Other.result(other))
      assert.isTrue(failed._tag === "TaskFailed" && failed.reason._tag === "Cancelled")
    }).pipe(Effect.provide(worker({ fails: () => Agents.network })))
  )

  it.effect(
    "a task whose agent no worker has waits, says for what, and is taken by the next that has it",
    () => {
      const own = Agents.world()
      const Next = Task.make("buy", { version: 2, params: Agents.Order, toolkit: Agents.Shop })
      return Effect.gen(function* () {
        const id = yield* Next.submit({ params: book, key: "1" })
        yield* until(is(id, "WaitingForWorker"), 100)
        assert.deepStrictEqual(yield* stateOf(id), { _tag: "WaitingForWorker", needs: "buy@2" })
        const outcome = yield* inTime(
          Effect.scoped(
            Effect.andThen(
              Layer.build(
                Next.toLayer(({ item }) => ({ prompt: item })).pipe(
                  Layer.provide([Agents.model(own), Agents.handlers(own)])
                )
              ),
              Next.result(id)
            )
          )
        )
        assert.strictEqual(outcome.text, "bought")
      }).pipe(Effect.provide(worker({})))
    }
  )

  it.effect("a time limit leaves a payment in doubt, and a decision continues the task", () => {
    const own = Agents.world()
    const before = Effect.suspend(() =>
      own.looked.length > 0 && own.paid.length === 0 ? Effect.sleep("1 hour") : Effect.void
    )
    return Effect.gen(function* () {
      const { decide } = yield* Tasks.Tasks
      const id = yield* Buy.submit({ params: book, key: "1" })
      yield* until(is(id, "InDoubt"))
      assert.deepInclude(yield* Effect.flip(decide(id, { _tag: "Approved", decisions: [] })), {
        _tag: "NotNow"
      })
      yield* decide(id, { _tag: "Happened", result: "paid by hand" })
      const outcome = yield* inTime(Buy.result(id))
      assert.strictEqual(outcome.text, "bought")
      assert.deepStrictEqual(own.paid, [])
      assert.include(JSON.stringify(outcome.transcript.prompt), "paid by hand")
    }).pipe(Effect.provide(worker({ own, before })))
  })

  it.effect("a call that needs approval waits for a person", () => {
    const own = Agents.world()
    const Careful = Toolkit.make(
      Tool.make("pay", {
        parameters: Schema.Struct({ cents: Schema.Finite }),
        success: Schema.String,
        needsApproval: true
      })
    )
    const Agent = Task.make("careful", { version: 1, params: Agents.Order, toolkit: Careful })
    const answers = (turn: number) => Agents.answer(turn + 1)
    const paid: Array<string> = []
    const careful = Agent.toLayer(({ item }) => ({ prompt: item })).pipe(
      Layer.provide([
        Agents.model(own, undefined, answers),
        Careful.toLayer({
          pay: () =>
            Effect.gen(function* () {
              paid.push(Option.getOrThrow(yield* Journal.current).key)
              return "paid"
            })
        })
      ]),
      Layer.provideMerge(layer())
    )
    return Effect.gen(function* () {
      const { decide } = yield* Tasks.Tasks
      for (const [key, isApproved] of [
        ["1", true],
        ["2", false]
      ] as const) {
        const id = yield* Agent.submit({ params: book, key })
        yield* until(is(id, "WaitingForApproval"))
        assert.deepInclude(yield* stateOf(id), {
          calls: [{ id: "pay-1", tool: "pay", params: { cents: 100 } }]
        })
        yield* decide(id, { _tag: "Approved", decisions: [isApproved] })
        yield* inTime(Agent.result(id))
      }
      assert.deepStrictEqual(paid, ["careful/1#0.1/turn/1/tool/pay-1"])
    }).pipe(Effect.provide(careful))
  })

  it.effect("a failed task is resumed from its conversation, as a new generation", () => {
    const own = Agents.world()
    let isBroken = true
    const fails = (turn: number) =>
      turn === 3 && isBroken ? new AiError.InvalidRequestError({ description: "no" }) : undefined
    return Effect.gen(function* () {
      const { resume, status } = yield* Tasks.Tasks
      const id = yield* Buy.submit({ params: book, key: "1" })
      const failed = yield* failureOf(Buy.result(id))
      assert.strictEqual(failed._tag, "TaskFailed")
      isBroken = false
      yield* resume(id)
      const outcome = yield* inTime(Buy.result(id))
      assert.strictEqual(outcome.text, "bought")
      assert.strictEqual(Option.getOrThrow(yield* status(id)).generation, 2)
      // Neither the look nor the payment again.
      assert.lengthOf(own.paid, 1)
      assert.deepInclude(yield* Effect.flip(resume(id)), { _tag: "NotNow" })
    }).pipe(Effect.provide(worker({ own, fails })))
  })

  it.effect("a tool's own failure ends the task, with the conversation", () => {
    const Breaking = Toolkit.make(
      Tool.make("look", {
        parameters: Schema.Struct({ page: Schema.Finite }),
        success: Schema.String,
        failure: Schema.String
      })
    )
    const Agent = Task.make("breaks", { version: 1, params: Agents.Order, toolkit: Breaking })
    const breaks = Agent.toLayer(({ item }) => ({ prompt: item })).pipe(
      Layer.provide([
        Agents.model(Agents.world()),
        Breaking.toLayer({ look: () => Effect.fail("the page is gone") })
      ]),
      Layer.provideMerge(layer())
    )
    return Effect.gen(function* () {
      const id = yield* Agent.submit({ params: book, key: "1" })
      const failed = yield* failureOf(Agent.result(id))
      assert.isTrue(failed._tag === "TaskFailed" && failed.reason._tag === "ToolFailed")
      if (failed._tag !== "TaskFailed") return
      assert.include(failed.message, "the page is gone")
      assert.isAbove(failed.transcript.prompt.content.length, 1)
    }).pipe(Effect.provide(breaks))
  })

  it.effect("tools may answer nothing, or what JSON does not have", () => {
    const parameters = Schema.Struct({ cents: Schema.Finite })
    const answers = (turn: number) => Agents.answer(turn + 1)
    const Kit = Toolkit.make(Tool.make("pay", { parameters, success: Schema.Unknown }))
    const Agent = Task.make("odd", { version: 1, params: Agents.Order, toolkit: Kit })
    const results: Array<unknown> = [undefined, new Date(0), { big: 1n }, Number.NaN]
    const odd = Agent.toLayer(({ item }) => ({ prompt: item })).pipe(
      Layer.provide([
        Agents.model(Agents.world(), undefined, answers),
        Kit.toLayer({ pay: () => Effect.sync(() => results.shift()) })
      ]),
      Layer.provideMerge(layer())
    )
    return Effect.gen(function* () {
      for (const [at, text] of ["null", '"1970-01-01T00:00:00.000Z"', '{"big":"1"}', "null"].entries()) {
        const id = yield* Agent.submit({ params: book, key: `${at}` })
        const { transcript } = yield* inTime(Agent.result(id))
        assert.include(JSON.stringify(transcript.prompt), `"result":${text}`)
      }
    }).pipe(Effect.provide(odd))
  })

  it.effect("refuses an agent that is registered already, and keeps the first", () => {
    const own = Agents.world()
    const second = Buy.toLayer(({ item }) => ({ prompt: item })).pipe(
      Layer.provide([Agents.model(own), Agents.handlers(own)])
    )
    return Effect.gen(function* () {
      const exit = yield* Effect.exit(Effect.scoped(Layer.build(second)))
      assert.isTrue(Exit.isFailure(exit) && String(exit.cause).includes("buy@1 is registered already"))
      const id = yield* Buy.submit({ params: book, key: "1" })
      yield* inTime(Buy.result(id), 100)
    }).pipe(Effect.provide(worker({ own })))
  })

  it.effect("watch shows each state once, and ends with the task", () =>
    Effect.gen(function* () {
      const { watch } = yield* Tasks.Tasks
      const id = yield* Buy.submit({ params: book, key: "1" })
      const seen = yield* inTime(Stream.runCollect(watch(id)))
      const tags = seen.map(({ state }) => state._tag)
      assert.strictEqual(tags.at(-1), "Done")
      assert.include(tags, "Running")
    }).pipe(Effect.provide(worker({ agent: Agents.patient, before: Effect.sleep("3 seconds") })))
  )

  it.effect("lists tasks newest first, by state and agent, and prunes those that ended", () =>
    Effect.gen(function* () {
      const { list, prune, status } = yield* Tasks.Tasks
      for (let i = 1; i <= 3; i++)
        yield* inTime(Effect.flatMap(Buy.submit({ params: book, key: `${i}` }), Buy.result))
      const Other = Task.make("other", { version: 1, params: Agents.Order })
      yield* Other.submit({ params: book, key: "1" })
      const ids = (filter?: Tasks.Filter) =>
        Effect.map(Stream.runCollect(list(filter)), (all) => all.map(({ id }) => id))
      assert.deepStrictEqual(yield* ids(), ["other/1", "buy/3", "buy/2", "buy/1"])
      assert.deepStrictEqual(yield* ids({ state: ["Done"], task: "buy" }), ["buy/3", "buy/2", "buy/1"])
      assert.deepStrictEqual(yield* prune("1 day"), { tasks: 0 })
      yield* halfSecond
      assert.deepStrictEqual(yield* prune(0), { tasks: 3 })
      assert.deepStrictEqual(yield* ids(), ["other/1"])
      assert.isTrue(Option.isNone(yield* status("buy/1")))
      // The key is free again.
      yield* inTime(Effect.flatMap(Buy.submit({ params: { item: "a car" }, key: "1" }), Buy.result))
    }).pipe(Effect.provide(worker({})))
  )

  it.effect("a drained worker begins no further step", () => {
    const own = Agents.world()
    let isLooking = false
    const before = Effect.andThen(
      Effect.sync(() => {
        isLooking = true
      }),
      Effect.sleep("5 seconds")
    )
    return Effect.gen(function* () {
      yield* Buy.submit({ params: book, key: "1" })
      yield* until(Effect.sync(() => isLooking))
      const draining = yield* Effect.forkChild(Tasks.drain)
      yield* until(Effect.sync(() => draining.pollUnsafe() !== undefined))
      assert.isTrue(Exit.isSuccess(yield* Fiber.await(draining)))
      // The tool that ran has ended; the model is not asked again.
      assert.deepStrictEqual([own.asked, own.looked], [1, [1]])
    }).pipe(Effect.provide(worker({ own, before })))
  })
})
