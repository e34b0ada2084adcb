/** The processes of a durability run of tasks: workers, and the world that their tools change. */
import { spawn } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import * as Programs from "../programs.ts"
import { PgClient } from "@effect/sql-pg"
import { SqliteClient } from "@outlast/node/sqlite"
import { Tasks } from "@outlast/tasks"
import { Effect, Layer } from "effect"
import type { Scope } from "effect"
import type { Job } from "./taskWorker.ts"

const started = (file: string) => {
  const child = spawn(process.execPath, [Programs.bundled(new URL(file, import.meta.url))], {
    stdio: ["pipe", "pipe", "pipe"]
  })
  const said: Array<string> = []
  const listeners = new Set<() => void>()
  let rest = ""
  const read = (chunk: Buffer) => {
    const parts = (rest + chunk.toString()).split("\n")
    rest = parts.pop() ?? ""
    said.push(...parts)
    for (const listener of listeners) listener()
  }
  child.stdout.on("data", read)
  let errors = ""
  child.stderr.on("data", (chunk: Buffer) => (errors = (errors + chunk.toString()).slice(-5_000)))
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()))
  return { child, said, listeners, ended, errors: () => errors }
}

type Started = ReturnType<typeof started>

const program = (file: string): Effect.Effect<Started, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => started(file)),
    ({ child }) => Effect.sync(() => void child.kill("SIGKILL"))
  )

export interface Worker {
  readonly name: string
  readonly go: Effect.Effect<void>
  /** The lines that it has said. */
  readonly said: ReadonlyArray<string>
  /** Waits for a line, from the beginning or after so many; dies if the process ends first. */
  readonly line: (matches: (line: string) => boolean, after?: number) => Effect.Effect<void>
  readonly signal: (name: NodeJS.Signals) => Effect.Effect<void>
  /** SIGKILL, until the process is gone. */
  readonly kill: Effect.Effect<void>
}

/** True when all threads of a process are stopped. */
const isStopped = (pid: number | undefined): boolean => {
  const tasks = `/proc/${pid}/task`
  if (!existsSync(tasks)) return true
  return readdirSync(tasks).every((task) => /\) [TtZX] /.test(readFileSync(`${tasks}/${task}/stat`, "utf8")))
}

const until = ({ said, listeners, ended, errors }: Started, isSo: () => boolean): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    const look = () => {
      if (!isSo()) return
      listeners.delete(look)
      resume(Effect.void)
    }
    listeners.add(look)
    void ended.then(() =>
      resume(Effect.die(new Error(`The process has ended: ${said.slice(-5).join(", ")} ${errors()}`)))
    )
    look()
    return Effect.sync(() => void listeners.delete(look))
  })

/** A worker that begins its job when it is told. */
export const spare = (job: Job): Effect.Effect<Worker, never, Scope.Scope> =>
  Effect.map(program("taskWorker.ts"), (own) => {
    const { child, said, ended } = own
    return {
      name: job.name,
      said,
      go: Effect.sync(() => void child.stdin?.write(`${JSON.stringify(job)}\n`)),
      line: (matches, after = 0) => until(own, () => said.slice(after).some(matches)),
      signal: (name) =>
        Effect.promise(async () => {
          child.kill(name)
          if (name !== "SIGSTOP") return
          while (!isStopped(child.pid)) await new Promise((go) => setImmediate(go))
        }),
      kill: Effect.promise(() => {
        child.kill("SIGKILL")
        return ended
      })
    }
  })

/** A worker that begins its job. */
export const worker = (job: Job): Effect.Effect<Worker, never, Scope.Scope> =>
  Effect.tap(spare(job), ({ go }) => go)

export interface World {
  readonly url: string
  /** How often each effect has reached it. */
  readonly effects: Effect.Effect<ReadonlyMap<string, number>>
}

export const world: Effect.Effect<World, never, Scope.Scope> = Effect.gen(function* () {
  const own = yield* program("world.ts")
  yield* until(own, () => own.said.length > 0)
  const url = `http://127.0.0.1:${own.said[0]}`
  return {
    url,
    effects: Effect.promise(async () => {
      const found: Readonly<Record<string, number>> = JSON.parse(await (await fetch(`${url}/`)).text())
      return new Map(Object.entries(found))
    })
  }
})

/** Asks and waits over the store of workers, and runs nothing. */
export const client = (store: Job["store"]) =>
  Tasks.layerClient({ queue: 100_000 }).pipe(
    Layer.provide(
      "file" in store
        ? SqliteClient.layer({ filename: store.file, lockWait: "30 seconds" })
        : Tasks.waitFor(
            PgClient.layer({
              host: "127.0.0.1",
              port: store.port,
              username: "outlast",
              database: "postgres",
              maxConnections: 3
            })
          )
    )
  )
