/**
 * All names that a `ConnectionMonitor` knows, with their state.
 *
 * Registered ones stay; of the others the least recently used are forgotten, when there are too many or when they
 * were unused for too long. Nothing here is an effect: it changes between two awaits, so that no lock is needed.
 */
import { Deferred, Effect, Exit, Latch } from "effect"
import type { ConnectionState } from "./ConnectionState.ts"
import * as Connection from "./ConnectionState.ts"

/** A name with its state. It changes only between two awaits, so that no lock is needed. */
export class Watched {
  readonly name: string
  spec: Connection.Spec
  state: ConnectionState = Connection.initial
  usedAt: number
  /** Of the registration, where there is one. */
  token: object | undefined
  ask: Effect.Effect<void> = Effect.void
  /** Opened when the asker may have something else to do than it thought. */
  readonly wake = Latch.makeUnsafe(false)
  #changed: Deferred.Deferred<void> | undefined

  constructor(name: string, spec: Connection.Spec, now: number) {
    this.name = name
    this.spec = spec
    this.usedAt = now
  }

  /** Ends at the next change of health, death, or oblivion. */
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

/** All names: those that are registered, and a bounded number of others, least recently used first. */
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

  /** Finds or makes one, and counts as a use. */
  use(name: string, now: number, spec: Connection.Spec): Watched {
    const found = this.find(name, now)
    if (found !== undefined && this.#registered.has(name)) return found
    const watched = found ?? new Watched(name, spec, now)
    this.#keepIdle(watched, now)
    return watched
  }

  /** What is known of a name goes on, unless it was dead. */
  register(name: string, now: number, spec: Connection.Spec): Watched {
    const found = this.find(name, now)
    const watched =
      found === undefined || found.state.death !== undefined ? new Watched(name, spec, now) : found
    this.#idle.delete(name)
    this.#registered.set(name, watched)
    return watched
  }

  release(watched: Watched, now: number): void {
    // A dead one may have been replaced under its name.
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
