/**
 * The defect of a program that runs without a service that it needs.
 *
 * TypeScript reports a missing service when it compiles. JavaScript, and a program whose types were erased by a cast,
 * learns it here, with the layer to provide.
 *
 * **Example** (What the error says)
 *
 * ```ts
 * MissingService.get(CircuitBreaker, "CircuitBreaker", "CircuitBreaker.layer()")
 * // MissingService: CircuitBreaker is not provided. Provide CircuitBreaker.layer().
 * ```
 */
import { Context, Effect } from "effect"

export class MissingService extends Error {
  override readonly name = "MissingService"
  /** The name of the service, for example `CircuitBreaker`. */
  readonly service: string
  /** The layer that provides it, as one would write it. */
  readonly layer: string

  constructor(service: string, layer: string) {
    super(`${service} is not provided. Provide ${layer}.`)
    this.service = service
    this.layer = layer
  }
}

/**
 * Runs `f` with the service, in one step: for accessors on the path of each call. Dies as {@link get} does.
 */
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

/** The service. Dies with a {@link MissingService} that names `layer` where it is not provided. */
export const get = <I, S>(key: Context.Key<I, S>, name: string, layer: string): Effect.Effect<S, never, I> =>
  use(key, name, layer, Effect.succeed)
