/**
 * The client's side of a worker thread: sends requests, and passes each reply to the waiting fiber.
 *
 * A request cannot be interrupted: the thread finishes it, and its reply says what happened. When the thread ends,
 * every waiting fiber fails with {@link ThreadEnded}. An idle thread does not keep the process running.
 */
import { Data, Effect } from "effect"
import { existsSync } from "node:fs"
import { Worker } from "node:worker_threads"
import * as NodeSqlite from "../file/NodeSqlite.ts"
import type { Opening, Reply, Request } from "./SqliteProtocol.ts"

export class ThreadEnded extends Data.TaggedError("ThreadEnded")<{
  readonly message: string
  /** True for a request after `close`, which was not run. */
  readonly isClosed: boolean
}> {}

export interface SqliteThread {
  /** Sends a request and waits for the reply. Uninterruptible. */
  readonly request: (request: Request) => Effect.Effect<Reply, ThreadEnded>
  /** The reason why the thread ended; `undefined` while it runs. */
  readonly ended: () => ThreadEnded | undefined
  /** Closes the database after the running requests, and waits for the end of the thread. Later requests fail. */
  readonly close: Effect.Effect<void>
}

/**
 * The module of the thread: TypeScript in `src`, whose types Node strips, and JavaScript in `dist`. This module is in
 * `src/sqlite` or in a file of `dist/chunks`. In a bundle of the caller it is somewhere else, or has no URL at all.
 */
const moduleFile = (): URL | undefined => {
  const own: unknown = import.meta.url
  if (typeof own !== "string") return undefined
  const file = new URL(`../sqlite/SqliteWorker.${own.endsWith(".ts") ? "ts" : "js"}`, own)
  return file.protocol === "file:" && existsSync(file) ? file : undefined
}

/** Returns why this program cannot have a thread, or `undefined`. */
export const unsupported = (): NodeSqlite.Unsupported | undefined => {
  const noSqlite = NodeSqlite.unsupported()
  if (noSqlite !== undefined) return noSqlite
  return moduleFile() === undefined
    ? {
        detail: "the file of its worker thread (SqliteWorker.js) is missing, as in a bundle",
        next: "Keep @outlast/node out of the bundle: mark it as external, and install it where the program runs."
      }
    : undefined
}

export const start = (opening: Opening): Effect.Effect<SqliteThread> =>
  Effect.sync(() => {
    const file = moduleFile()
    if (file === undefined) throw new Error("SqliteThread.start needs a check with `unsupported` before it.")
    // The thread gets no flags and no environment of the process, which may hold secrets or an entry point.
    const worker = new Worker(file, { workerData: opening, name: "outlast-sqlite", execArgv: [], env: {} })
    worker.unref()
    const waiting = new Map<number, (result: Effect.Effect<Reply, ThreadEnded>) => void>()
    let lastId = 0
    let ended: ThreadEnded | undefined
    let isClosed = false
    let onEnd: (() => void) | undefined

    const settle = (id: number, result: Effect.Effect<Reply, ThreadEnded>): void => {
      const resume = waiting.get(id)
      waiting.delete(id)
      if (waiting.size === 0 && onEnd === undefined) worker.unref()
      resume?.(result)
    }
    const end = (why: string): void => {
      ended ??= new ThreadEnded({ message: `SQLite's worker thread ended: ${why}`, isClosed: false })
      for (const id of waiting.keys()) settle(id, Effect.fail(ended))
    }

    worker.on("message", (reply: Reply) => settle(reply.id, Effect.succeed(reply)))
    worker.on("error", (error) => end(error instanceof Error ? error.message : String(error)))
    worker.on("exit", (code) => {
      end(`exit code ${code}`)
      onEnd?.()
    })

    const request = (request: Request) =>
      Effect.uninterruptible(
        Effect.callback<Reply, ThreadEnded>((resume) => {
          if (isClosed) {
            return resume(Effect.fail(new ThreadEnded({ message: "the client is closed", isClosed })))
          }
          if (ended !== undefined) return resume(Effect.fail(ended))
          const id = ++lastId
          if (waiting.size === 0) worker.ref()
          waiting.set(id, resume)
          worker.postMessage({ id, request })
        })
      )

    const close = Effect.uninterruptible(
      Effect.callback<void>((resume) => {
        isClosed = true
        if (ended !== undefined) return resume(Effect.void)
        onEnd = () => resume(Effect.void)
        worker.ref()
        worker.postMessage({ id: 0, request: { op: "close" } })
      })
    )
    return { request, ended: () => ended, close }
  })
