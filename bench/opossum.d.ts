/** Types for the parts of opossum that the bench uses; the package has none. */
declare module "opossum" {
  export default class CircuitBreaker {
    constructor(
      action: () => Promise<unknown>,
      options: { readonly timeout: false; readonly resetTimeout?: number }
    )
    fire(): Promise<unknown>
    open(): void
    shutdown(): void
  }
}
