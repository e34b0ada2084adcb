/**
 * The messages between a client and the worker thread that has its database: one reply for each request, in the same
 * order. Types only, so that the worker loads nothing but Node.
 */
import type { StoreError } from "@outlast/resilience"

/** How the worker opens its database. */
export interface Opening {
  /** An absolute path, or `:memory:`. */
  readonly filename: string
  readonly synchronous: "normal" | "full" | "extra"
  readonly create: boolean
  /** Milliseconds in which SQLite itself waits for a lock. */
  readonly busyTimeout: number
  readonly networkFileSystem: "refuse" | "allow"
}

/** What SQLite stores. */
export type Param = null | number | bigint | string | Uint8Array

/** `rows`: objects. `values`: arrays. `raw`: objects, or the count of changes for a statement without columns. */
export type Mode = "rows" | "values" | "raw"

interface Statement {
  readonly sql: string
  readonly params: ReadonlyArray<Param>
  /** Integers as bigint. */
  readonly bigints: boolean
}

export type Request =
  | { readonly op: "open" }
  | (Statement & { readonly op: "run"; readonly mode: Mode; readonly prepare: boolean })
  | (Statement & { readonly op: "cursor" })
  /** The next rows of a cursor. */
  | { readonly op: "fetch"; readonly cursor: number }
  | { readonly op: "drop"; readonly cursor: number }
  | { readonly op: "close" }

/** The value of the reply to `open`. */
export interface Opened {
  readonly warning?: string | undefined
}

/** The value of the reply to `fetch`. */
export interface Page {
  readonly rows: ReadonlyArray<object>
  readonly done: boolean
}

/** An error of the worker: its properties do not survive a message. */
export interface Fault {
  readonly message: string
  readonly code?: string | undefined
  /** SQLite's extended result code. */
  readonly errcode?: number | undefined
  /** What a check of the worker's own has found. */
  readonly found?: { readonly reason: StoreError.Reason; readonly detail: string } | undefined
}

export interface Reply {
  readonly id: number
  /** True when a transaction is open after the request. */
  readonly inTransaction: boolean
  readonly value?: unknown
  readonly fault?: Fault | undefined
}

export interface Envelope {
  readonly id: number
  readonly request: Request
}
