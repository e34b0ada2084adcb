/**
 * The names of a `ConnectionMonitor`, with their state.
 *
 * Registered names stay. Of the others, the least recently used are evicted when there are too many, or when they were
 * unused for too long. All changes are synchronous, so that no lock is needed.
 */
import { Deferred, Effect, Exit, Latch } from "effect"
import type { ConnectionState } from "./ConnectionState.ts"
import * as Connection from "./ConnectionState.ts"

/** A name with its state. Changes are synchronous, so that no lock is needed. */
export class Watched {
  readonly name: string
  spec: Connection.Spec
  state: ConnectionState = Connection.initial
  usedAt: number
  /** Identifies the current registration. `undefined` without one. */
  token: object | undefined
  ask: Effect.Effect<void> = Effect.void
  /** Opened when the background fiber may be due earlier than planned. */
  readonly wake = Latch.makeUnsafe(false)
  #changed: Deferred.Deferred<void> | undefined

  constructor(name: string, spec: Connection.Spec, now: number) {
    this.name = name
    this.spec = spec
    this.usedAt = now
  }

  /** Completes at the next change of health, at death, or when the name is removed. */
  get changed(): Effect.Effect<void> {
    return Effect.suspend(() => Deferred.await((this.#changed ??= Deferred.makeUnsafe<void>())))
  }

  wakeAll(): void {
    this.wake.openUnsafe()
    if (this.#changed === undefined) return
    Deferred.doneUnsafe(this.#changed, Exit.void)
    this.#changed = undefined
  }
}

/** All names: the registered ones, and a limited number of others in order of their last use. */
export class Connections {
  readonly #registered = new Map<string, Watched>()
  readonly #idle = new Map<string, Watched>()
  readonly #maxIdle: number
  readonly #idleFor: number

  constructor(maxIdle: number, idleFor: number) {
    this.#maxIdle = maxIdle
    this.#idleFor = idleFor
  }

  find(name: string, now: number): Watched | undefined {
    const registered = this.#registered.get(name)
    if (registered !== undefined) return registered
    const idle = this.#idle.get(name)
    return idle === undefined || this.#isForgotten(idle, now) ? undefined : idle
  }

  /** Finds or creates a name, and counts as a use. */
  use(name: string, now: number, spec: Connection.Spec): Watched {
    const found = this.find(name, now)
    if (found !== undefined && this.#registered.has(name)) return found
    const watched = found ?? new Watched(name, spec, now)
    this.#keepIdle(watched, now)
    return watched
  }

  /** Registers a name, which keeps its history unless it was dead. */
  register(name: string, now: number, spec: Connection.Spec): Watched {
    const found = this.find(name, now)
    const watched =
      found === undefined || found.state.death !== undefined ? new Watched(name, spec, now) : found
    this.#idle.delete(name)
    this.#registered.set(name, watched)
    return watched
  }

  release(watched: Watched, now: number): void {
    // A dead entry may have been replaced under its name.
    if (this.#registered.get(watched.name) !== watched) return
    this.#registered.delete(watched.name)
    this.#keepIdle(watched, now)
  }

  all(now: number): ReadonlyArray<Watched> {
    const idle = [...this.#idle.values()].filter((watched) => !this.#isForgotten(watched, now))
    return [...this.#registered.values(), ...idle]
  }

  #keepIdle(watched: Watched, now: number): void {
    const isNew = !this.#idle.delete(watched.name)
    watched.usedAt = now
    this.#idle.set(watched.name, watched)
    if (!isNew) return
    for (const oldest of this.#idle.values()) {
      if (this.#idle.size <= this.#maxIdle && !this.#isForgotten(oldest, now)) break
      this.#idle.delete(oldest.name)
      oldest.wakeAll()
    }
  }

  #isForgotten({ usedAt }: Watched, now: number): boolean {
    return now - usedAt >= this.#idleFor
  }
}
