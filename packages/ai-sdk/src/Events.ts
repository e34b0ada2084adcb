/**
 * What happens in the calls and runs of one {@link outlast}, for programs and for the console.
 */
import { EventLine } from "@outlast/agent"
import type { GuardEvent } from "@outlast/agent/guard"
import { ResilienceEvents, Warnings } from "@outlast/resilience"
import { Clock, Effect, Exit, Layer, Logger, Scope, Stream } from "effect"

/**
 * An event: plain data without keys and prompts. `_tag` names it, `at` is its time in Unix milliseconds. The page
 * `docs/lookup/events.md` lists all events with their fields.
 */
export type OutlastEvent = EventLine.Event

export interface Options {
  readonly onEvent: ((event: OutlastEvent) => void) | undefined
  readonly log: ((line: string) => void) | false | undefined
}

export class Events {
  readonly #scope = Scope.makeUnsafe()
  readonly #service: ResilienceEvents.Service
  readonly #log: (line: string) => void
  /** Events and log lines of the calls. */
  readonly layer: Layer.Layer<never>

  constructor({ onEvent, log = console.warn }: Options) {
    const service = Effect.runSync(Scope.provide(ResilienceEvents.make(), this.#scope))
    this.#service = service
    // There is no other place to tell that `log` failed.
    this.#log =
      log === false
        ? () => {}
        : (line) =>
            told(
              () => log(`[outlast] ${line}`),
              () => {}
            )
    if (onEvent !== undefined) {
      const failed = (error: unknown) => this.#log(`onEvent failed: ${String(error)}`)
      // Every event has a definition in `EventLine`.
      const handler = service.tap((event) =>
        Effect.sync(() => told(() => onEvent(event as OutlastEvent), failed))
      )
      Effect.runSync(Scope.provide(handler, this.#scope))
    }
    this.layer = Layer.mergeAll(
      Layer.succeed(ResilienceEvents.ResilienceEvents, service),
      log === false ? Warnings.layerOff : Layer.empty,
      Logger.layer([Logger.make(({ message }) => this.#log([message].flat().join(" ")))])
    )
  }

  /** Publishes an event of a run, with its line. */
  readonly publish = (event: ResilienceEvents.NoTime<GuardEvent.GuardEvent>): void => {
    const timed = { ...event, at: Effect.runSync(Clock.currentTimeMillis) }
    const line = EventLine.of(timed)
    if (line !== undefined && line.level !== "Info") this.#log(line.text)
    Effect.runFork(this.#service.publish(timed))
  }

  /** Events from now on. */
  async *stream(): AsyncGenerator<OutlastEvent> {
    for await (const event of Stream.toAsyncIterable(this.#service.stream)) yield event as OutlastEvent
  }

  async close(): Promise<void> {
    await Effect.runPromise(Scope.close(this.#scope, Exit.void))
  }
}

/** Calls a function of the program, which may throw, or be async and reject. */
const told = (tell: () => unknown, failed: (error: unknown) => void): void => {
  try {
    Promise.resolve(tell()).catch(failed)
  } catch (error) {
    failed(error)
  }
}
