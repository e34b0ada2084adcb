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

/** The service. Dies with a {@link MissingService} that names `layer` where it is not provided. */
export const get = <I, S>(key: Context.Key<I, S>, name: string, layer: string): Effect.Effect<S, never, I> =>
  Effect.contextWith((context: Context.Context<I>) => {
    const found = Context.getOrUndefined(context, key)
    return found === undefined ? Effect.die(new MissingService(name, layer)) : Effect.succeed(found)
  })
