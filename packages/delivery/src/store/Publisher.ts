/** A process that publishes from the store, with its beat. `outbox/Claims.ts` explains beats. */
export interface Publisher {
  readonly id: string
  readonly holder: string
  readonly beat: number
}

/** The beat of a publisher that no process holds. */
export const released = -1
