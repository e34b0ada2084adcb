/**
 * The defect of a program that runs without a required service.
 *
 * TypeScript reports a missing service at compile time. JavaScript, and TypeScript after a cast, gets this error at run
 * time. The message names the layer to provide.
 *
 * **Example** (What the error says)
 *
 * ```ts
 * MissingService.get(CircuitBreaker.CircuitBreaker, "CircuitBreaker", "CircuitBreaker.layer()")
 * // throws MissingService: CircuitBreaker is not provided. Provide CircuitBreaker.layer().
 * ```
 */
import { Context, Effect } from "effect"

export class MissingService extends Error {
  override readonly name = "MissingService"
  /** The name of the service, for example `CircuitBreaker`. */
  readonly service: string
  /** The layer that provides it, as source code (e.g. `CircuitBreaker.layer()`). */
  readonly layer: string

  constructor(service: string, layer: string) {
    super(`${service} is not provided. Provide ${layer}.`)
    this.service = service
    this.layer = layer
  }
}

/** Runs `f` with the service in one step, for accessors that run on every call. Dies like {@link get}. */
export const use = <I, S, A, E, R>(
  key: Context.Key<I, S>,
  name: string,
  layer: string,
  f: (service: S) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, I | R> =>
  Effect.withFiber((fiber) => {
    const found = Context.getOrUndefined(fiber.context, key)
    return found === undefined ? Effect.die(new MissingService(name, layer)) : f(found)
  })

/** Returns the service. Dies with a {@link MissingService} that names `layer` when the service is not provided. */
export const get = <I, S>(key: Context.Key<I, S>, name: string, layer: string): Effect.Effect<S, never, I> =>
  use(key, name, layer, Effect.succeed)
