/**
 * The messages between a client and its worker thread: one reply for each request, in the same order. The module
 * has only types, so that the worker loads nothing but Node.
 */
import type { StoreError } from "@outlast/resilience"

/** Options with which the worker opens its database. */
export interface Opening {
  /** An absolute path, or `:memory:`. */
  readonly filename: string
  readonly synchronous: "normal" | "full" | "extra"
  readonly create: boolean
  /** Time that SQLite itself waits for a lock, in milliseconds. */
  readonly busyTimeout: number
  readonly networkFileSystem: "refuse" | "allow"
}

/** A value that SQLite stores. */
export type Param = null | number | bigint | string | Uint8Array

/** `rows`: objects. `values`: arrays. `raw`: objects, or the number of changes for a statement without columns. */
export type Mode = "rows" | "values" | "raw"

interface Statement {
  readonly sql: string
  readonly params: ReadonlyArray<Param>
  /** True to return integers as bigint. */
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

/** An error of the worker as plain data, because a message loses the properties of an Error. */
export interface Fault {
  readonly message: string
  readonly code?: string | undefined
  /** SQLite's extended result code. */
  readonly errcode?: number | undefined
  /** Result of a failed check of the worker. */
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
