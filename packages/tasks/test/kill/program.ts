/**
 * A worker on SQLite for the tests of real kills: `node program.ts FOLDER POINT [ask]`.
 *
 * It submits one task, and runs it. At POINT it kills itself with SIGKILL. Its effects are lines of a file, written with
 * fsync. At the end it prints the result. Without `ask` nobody can be asked about a payment: then it prints the effect.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer, Option, References } from "effect"
import { spawnSync } from "node:child_process"
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { Toolkit } from "effect/ai"
import { StoreLock } from "@outlast/node/lock"
import { SqliteClient } from "@outlast/node/sqlite"
import { Journal, Task, Tasks } from "@outlast/tasks"
import { Look, model, Order, Pay, world } from "../../../../test/tasks/Agents.ts"

const [folder = ".", point = "never", mode = ""] = process.argv.slice(2)
const file = join(folder, "effects.log")

const effectsOf = (): ReadonlyArray<string> => {
  try {
    return readFileSync(file, "utf8").split("\n").filter(Boolean)
  } catch {
    return []
  }
}

const write = (line: string): void => {
  const fd = openSync(file, "a")
  writeSync(fd, `${line}\n`)
  fsyncSync(fd)
  closeSync(fd)
}

const reached = (name: string): void => {
  if (name === point) process.kill(process.pid, "SIGKILL")
}

const Paying = Journal.reconcile(Pay, ({ key }) =>
  Effect.sync(() =>
    mode !== "ask"
      ? { _tag: "Unknown" }
      : effectsOf().includes(`pay ${key}`)
        ? { _tag: "Happened", result: "paid" }
        : { _tag: "DidNot" }
  )
)
const Shop = Toolkit.make(Look, Paying)
const Buy = Task.make("buy", { version: 1, params: Order, toolkit: Shop })

const handlers = Shop.toLayer({
  look: () =>
    Effect.sync(() => {
      reached("look:before")
      write("look")
      reached("look:after")
      return "page 1"
    }),
  pay: () =>
    Effect.gen(function* () {
      const { key } = Option.getOrThrow(yield* Journal.current)
      reached("pay:before")
      write(`pay ${key}`)
      reached("pay:after")
      return "paid"
    })
})

const asked = model(world(), (turn) => {
  write(`ask ${turn}`)
  reached(`ask:${turn}`)
  return undefined
})

const layer = Buy.toLayer(({ item }) => ({ prompt: `Buy ${item}.` })).pipe(
  Layer.provide([handlers, asked]),
  Layer.provideMerge(Tasks.layerSqlite({ lock: StoreLock.acquire(join(folder, "tasks.lock")) })),
  Layer.provide(SqliteClient.layer({ filename: join(folder, "tasks.db") }))
)

const program = Effect.gen(function* () {
  const { status } = yield* Tasks.Tasks
  const id = yield* Buy.submit({ params: { item: "a book" }, key: "1" })
  reached("submitted")
  if (point === "second") {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [...process.execArgv, import.meta.filename, folder, "never"],
      { encoding: "utf8" }
    )
    console.log(JSON.stringify({ status, said: stdout + stderr }))
    return
  }
  while (true) {
    const { state } = Option.getOrThrow(yield* status(id))
    if (state._tag === "Done" || state._tag === "InDoubt") {
      reached("done")
      console.log(JSON.stringify(state))
      return
    }
    yield* Effect.sleep("50 millis")
  }
})

NodeRuntime.runMain(
  // A layer that cannot be built fails the program: the main function prints why.
  Effect.provide(program, layer as Layer.Layer<Tasks.Tasks, unknown>).pipe(
    Effect.provideService(References.MinimumLogLevel, "Error")
  )
)
