/**
 * How full the outbox is, and what that means for the next event. Pure.
 *
 * Up to half of the cap events are stored at once. Above it a publish waits for room, for a limited time. At the cap
 * the event is refused, or the oldest ones make room, by option. The counts are those of this process: what the store
 * said when it was counted last, and what was stored and removed since.
 */
export interface Cap {
  readonly events: number
  readonly bytes: number
}

export interface Load {
  readonly events: number
  readonly bytes: number
}

export const none: Load = { events: 0, bytes: 0 }

export type Verdict = "room" | "tight" | "full"

/** The verdict on one more event of a given size. */
export const judge = (cap: Cap, load: Load, bytes: number): Verdict => {
  if (exceeded(cap, load, bytes) !== undefined) return "full"
  return load.events * 2 >= cap.events || load.bytes * 2 >= cap.bytes ? "tight" : "room"
}

/** The limit that one more event of this size would exceed. */
export const exceeded = (cap: Cap, load: Load, bytes: number): "events" | "bytes" | undefined =>
  load.events + 1 > cap.events ? "events" : load.bytes + bytes > cap.bytes ? "bytes" : undefined

export const add = (load: Load, events: number, bytes: number): Load => ({
  events: Math.max(0, load.events + events),
  bytes: Math.max(0, load.bytes + bytes)
})
