/** Options of an outbox: their meaning, defaults and checks. */
import type { Duration } from "effect"
import { CircuitPolicy } from "@outlast/resilience"
import * as Backoff from "@outlast/resilience/Backoff"
import * as Options from "@outlast/resilience/Options"

export interface OutboxOptions {
  /**
   * `brokerFirst`: straight to the broker while it can be reached and nothing of the subject is stored.
   * `alwaysStore`: every event is stored first, which costs a commit and survives a broker that loses what it has
   * acknowledged. Default `brokerFirst`.
   */
  readonly mode?: "brokerFirst" | "alwaysStore" | undefined
  /**
   * Fixed name of this publisher, such as `orders-1`. A restarted process takes over its backlog at once, and order holds
   * across restarts. Only one process at a time may use a name. Default: a new name in each process; a backlog is then
   * taken over after `lease`.
   */
  readonly publisher?: string | undefined
  /** Limits of the stored events. */
  readonly cap?:
    | {
        /** Default 1,000,000. */
        readonly events?: number | undefined
        /** Default 1 GiB. */
        readonly bytes?: number | undefined
      }
    | undefined
  /** At the cap: refuse the event (`OutboxFull`), or make the oldest ones dead letters. Default `fail`. */
  readonly whenFull?: "fail" | "shedOldest" | undefined
  /** Above half of the cap a publish that has to be stored waits so long for room. Default 1 second. */
  readonly waitForRoom?: Duration.Input | undefined
  /** Largest event in bytes, as long as the broker does not say less. Default 1 MiB. */
  readonly maxBytes?: number | undefined
  /** Maximum number of publishes in flight; the next one fails with `OutboxFull`. Default 10,000. */
  readonly maxInFlight?: number | undefined
  /** Rejections after which an event is a dead letter. Default 3. */
  readonly rejections?: number | undefined
  /** Wait after a rejection. Default 1 s ×2, cap 30 s. */
  readonly rejected?: Backoff.Backoff | undefined
  /** Wait while the broker is unavailable. A broker that reports its return ends it. Default 250 ms ×2, cap 30 s. */
  readonly retry?: Backoff.Backoff | undefined
  /** Circuit over the broker. Default that of `CircuitBreaker`: 5 failures in a row, 10 s to 120 s. */
  readonly circuit?: CircuitPolicy.Options | undefined
  /** Name of the circuit. Default `broker`. */
  readonly circuitName?: string | undefined
  /** Subjects that are drained at a time. Default 64. */
  readonly drainConcurrency?: number | undefined
  /** Events that are read at a time for one subject: as many can be published twice after a crash. Default 128. */
  readonly drainBatch?: number | undefined
  /** Events in one commit, at most. Default 1,000. */
  readonly commitBatch?: number | undefined
  /** How often the lease is renewed and the store is searched for backlogs. Default 5 seconds. */
  readonly sweepEvery?: Duration.Input | undefined
  /** A process that does not renew for so long loses its backlog to another one. Default 20 seconds. */
  readonly lease?: Duration.Input | undefined
  /** Subjects with a backlog that are known in memory; with more, every event is stored first. Default 10,000. */
  readonly maxSubjects?: number | undefined
  /** A backlog that has not shrunk for so long, and has grown, is reported. Default 1 minute. */
  readonly growthAfter?: Duration.Input | undefined
}

export const defaults = {
  mode: "brokerFirst",
  cap: { events: 1_000_000, bytes: 1_073_741_824 },
  whenFull: "fail",
  waitForRoom: "1 second",
  maxBytes: 1_048_576,
  maxInFlight: 10_000,
  rejections: 3,
  rejected: Backoff.exponential({ initial: "1 second", factor: 2, cap: "30 seconds" }),
  retry: Backoff.exponential({ initial: "250 millis", factor: 2, cap: "30 seconds" }),
  circuitName: "broker",
  drainConcurrency: 64,
  drainBatch: 128,
  commitBatch: 1_000,
  sweepEvery: "5 seconds",
  lease: "20 seconds",
  maxSubjects: 10_000,
  growthAfter: "1 minute"
} as const satisfies OutboxOptions

const { is } = Options
const positive = is.integer({ min: 1 })

export const checks: Options.Checks<OutboxOptions> = {
  mode: is.oneOf("brokerFirst", "alwaysStore"),
  publisher: ((module, field, value) =>
    Options.check(
      typeof value === "string" && /^[\w.-]{1,100}$/.test(value) && value !== "replay",
      module,
      field,
      value,
      'letters, digits, ".", "-" and "_", and not "replay"'
    )) as Options.Check,
  cap: is.object<NonNullable<OutboxOptions["cap"]>>({ events: positive, bytes: positive }),
  whenFull: is.oneOf("fail", "shedOldest"),
  waitForRoom: is.duration(),
  maxBytes: positive,
  maxInFlight: positive,
  rejections: positive,
  rejected: Backoff.isBackoff,
  retry: Backoff.isBackoff,
  circuit: is.object<CircuitPolicy.Options>(CircuitPolicy.checks),
  circuitName: is.text,
  drainConcurrency: positive,
  drainBatch: is.integer({ min: 1, max: 10_000 }),
  commitBatch: is.integer({ min: 1, max: 3_000 }),
  sweepEvery: is.duration({ min: "10 millis" }),
  lease: is.duration({ min: "100 millis" }),
  maxSubjects: positive,
  growthAfter: is.duration({ min: "1 second" })
}
