/**
 * Kills workers of durable tasks at and inside their steps, on SQLite with one worker and on PostgreSQL with several, and
 * counts what became of the tasks: lost ones, second outcomes, and effects that happened twice or never.
 *
 * Tasks come all the time. Each kill waits for a step that the seed names, then for a few milliseconds. A worker takes the
 * place of the one that was killed. An effect in doubt without reconcile is decided as a person would: by looking at the
 * world.
 */
import { join } from "node:path"
import { Tasks } from "@outlast/tasks"
import { Duration, Effect, Fiber, Option, Random, Stream } from "effect"
import type { Scope } from "effect"
import * as Postgres from "../services/Postgres.ts"
import * as Server from "../services/Server.ts"
import { errand } from "./errand.ts"
import type { Worker, World } from "./taskPrograms.ts"
import * as Programs from "./taskPrograms.ts"
import type { Job } from "./taskWorker.ts"

export const engines = ["sqlite", "postgres"] as const
type Engine = (typeof engines)[number]

export interface Options {
  readonly engine: Engine
  readonly kills: number
  readonly seed: string
  /** Workers at a time; one on SQLite. */
  readonly workers: number
}

export interface Result {
  readonly engine: Engine
  readonly workers: number
  readonly kills: number
  /** Of these, inside a handler of a tool. */
  readonly inside: number
  readonly tasks: number
  /** Effects of tools that may happen once. */
  readonly effects: number
  /** Effects that a person had to decide about. */
  readonly decided: number
  /** Effects that happened again, with and without reconcile. */
  readonly duplicates: number
  /** Effects of finished tasks that never happened. */
  readonly missing: number
  /** Tasks that did not end, or not in the right way. */
  readonly lost: number
  /** What the lost ones were doing. */
  readonly states: ReadonlyArray<string>
  /** Tasks whose outcome changed after their end. */
  readonly changed: number
  /** Seconds from the last kill until the last task ended. */
  readonly settled: number
}

export const isRight = ({ duplicates, missing, lost, changed }: Result): boolean =>
  duplicates + missing + lost + changed === 0

export const lines = (result: Result): ReadonlyArray<string> => [
  `${result.engine}, ${result.workers} ${result.workers === 1 ? "worker" : "workers"}: ${result.kills} kills, ${result.inside} of them inside a handler`,
  `  ${result.tasks} tasks, ${result.effects} effects that may happen once, ${result.decided} decided by a person`,
  `  duplicates: ${result.duplicates}, missing effects: ${result.missing}, lost: ${result.lost}, outcomes that changed: ${result.changed}`,
  `  the last task ended ${result.settled.toFixed(1)} s after the last kill`,
  ...result.states
]

/** Steps that a kill waits for: the beginning of a line. */
const points = [
  "ask 1",
  "ask 2",
  "ask 3",
  "ask 4",
  "look",
  ...["note", "pay", "ring"].flatMap((tool) => [`begin ${tool}`, `did ${tool}`, `end ${tool}`])
]

/** Open tasks at a time. */
const open = 6
const lease = 2_000
/** A task that has not ended this long after the last kill is lost. */
const patience = "3 minutes"
const pace = { before: 30, after: 30, slow: ["note", "pay", "ring"] }

const between = (min: number, max: number) => Random.nextIntBetween(min, max, { halfOpen: false })
const pick = <A>(all: ReadonlyArray<A>) =>
  Effect.map(between(0, all.length - 1), (n) => Option.getOrThrow(Option.fromUndefinedOr(all[n])))

const storeOf = (engine: Engine): Effect.Effect<Job["store"], Server.ServerFailed, Scope.Scope> =>
  engine === "sqlite"
    ? Effect.map(Server.folder, (folder) => ({ file: join(folder, "tasks.db") }))
    : Effect.map(Postgres.running, ({ port }) => ({ port, takeover: lease }))

export const run = ({ engine, kills, seed, workers }: Options): Effect.Effect<Result, unknown> =>
  Effect.scoped(
    Effect.gen(function* () {
      const world = yield* Programs.world
      const store = yield* storeOf(engine)
      const count = engine === "sqlite" ? 1 : workers
      let started = 0
      const begin = () => Programs.spare({ name: `w${++started}`, world: world.url, store, versions: [1] })
      const living = yield* Effect.forEach(Array.from({ length: count }), begin)
      for (const { go } of living) yield* go
      for (const { line } of living) yield* line((said) => said === "up")
      const counted = yield* Effect.provide(killing(world, living, kills, begin), Programs.client(store))
      return { engine, workers: count, ...counted }
    })
  ).pipe(Random.withSeed(seed))

const killing = (
  world: World,
  living: Array<Worker>,
  kills: number,
  begin: () => Effect.Effect<Worker, never, Scope.Scope>
) =>
  Effect.gen(function* () {
    const { submit, result } = errand(world.url)
    const ids: Array<string> = []
    const outcomes = new Map<string, string>()
    const decided = new Set<string>()
    let killed = 0
    let inside = 0
    let submitted = 0

    const isOver = () => killed >= kills

    const outcomeOf = (id: string) =>
      Effect.map(result(id), ({ status, text, turns, transcript }) =>
        JSON.stringify([status, text, turns, transcript.prompt.content])
      )
    const one = Effect.gen(function* () {
      const id = yield* submit({ params: pace, key: String(++submitted) })
      ids.push(id)
      outcomes.set(id, yield* outcomeOf(id))
    })
    const coming = Effect.gen(function* () {
      while (!isOver()) yield* Effect.ignore(one)
    })
    const tasks = yield* Effect.forkChild(
      Effect.all(
        Array.from({ length: open }, () => coming),
        { concurrency: "unbounded", discard: true }
      )
    )
    const deciding = yield* decide(world, decided).pipe(
      Effect.ignore,
      Effect.andThen(Effect.sleep("500 millis")),
      Effect.forever,
      Effect.forkChild
    )
    while (!isOver()) {
      const spare = yield* begin()
      const point = yield* pick(points)
      const delay = yield* between(0, 20)
      const reached = yield* Effect.raceAll(
        living.map((one) =>
          Effect.as(
            one.line((said) => said.startsWith(point), one.said.length),
            one
          )
        )
      ).pipe(Effect.timeoutOption("10 seconds"))
      const victim = Option.getOrElse(reached, () => living[0])
      if (victim === undefined) break
      yield* Effect.sleep(delay)
      yield* victim.kill
      killed++
      if (isInside(victim.said)) inside++
      yield* spare.go
      living.splice(living.indexOf(victim), 1, spare)
    }
    const [settled] = yield* Effect.timed(Effect.timeoutOption(Fiber.join(tasks), patience))
    yield* Fiber.interruptAll([tasks, deciding])
    const { status } = yield* Tasks.Tasks
    const lost = ids.filter((id) => !isDone(outcomes.get(id)))
    const states = yield* Effect.forEach(lost, (id) => Effect.map(status(id), Option.getOrUndefined))

    const effects = yield* world.effects
    const after = yield* Effect.forEach(
      [...outcomes.keys()],
      (id) => Effect.map(outcomeOf(id), (outcome) => [id, outcome] as const),
      { concurrency: 4 }
    )
    const once = [...effects].filter(([key]) => /(?:pay|ring)-1$/.test(key))
    const wanted = [...outcomes.keys()].flatMap((id) => ["pay", "ring"].map((tool) => ({ id, tool })))
    return {
      kills: killed,
      inside,
      tasks: ids.length,
      effects: wanted.length,
      decided: decided.size,
      duplicates: once.filter(([, times]) => times > 1).length,
      missing: wanted.filter(
        ({ id, tool }) => !once.some(([key]) => key.startsWith(`${id}#`) && key.endsWith(`/${tool}-1`))
      ).length,
      lost: lost.length,
      states: states.map((found) => `${found?.id} ${JSON.stringify(found?.state)}`),
      changed: after.filter(([id, outcome]) => outcomes.get(id) !== outcome).length,
      settled: Duration.toSeconds(settled)
    }
  })

/** Three tools and an answer. */
const isDone = (outcome: string | undefined): boolean =>
  outcome?.startsWith('["completed","done",4,') ?? false

/** True if a handler had begun and not ended. */
const isInside = (said: ReadonlyArray<string>): boolean => {
  const ends = new Set(said.filter((line) => line.startsWith("end ")).map((line) => line.slice(4)))
  return said.some((line) => line.startsWith("begin ") && !ends.has(line.slice(6)))
}

/** Decides about effects in doubt. What a killed process has sent has arrived a second later. */
const decide = (world: World, decided: Set<string>) =>
  Effect.gen(function* () {
    const { list, decide } = yield* Tasks.Tasks
    yield* Stream.runForEach(list({ state: ["InDoubt"] }), ({ id, state }) =>
      Effect.gen(function* () {
        if (state._tag !== "InDoubt") return
        const { key } = state.effect
        const about = Tasks.decisionKey(state)
        yield* Effect.sleep("1 second")
        const happened = (yield* world.effects).has(key)
        yield* decide(id, happened ? { _tag: "Happened", result: key } : { _tag: "DidNot" }, about)
        decided.add(key)
      })
    )
  })
