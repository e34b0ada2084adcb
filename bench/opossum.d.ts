/** Of opossum, which brings no types: what the bench uses. */
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
