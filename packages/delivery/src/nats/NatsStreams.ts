/**
 * Checks whether the streams of a server keep messages that they acknowledge. Returns findings for people, for example
 * in `outlast doctor`. The bus itself works with any stream.
 */
import { DiscardPolicy, RetentionPolicy, StorageType } from "@nats-io/jetstream"
import type { JetStreamManager, StreamConfig } from "@nats-io/jetstream"
import { Duration } from "effect"
import * as Event from "../Event.ts"
import { isNoResponders, notMade, remedy, textOf } from "./NatsErrors.ts"

export type Problem =
  /** No stream covers the subject: its events wait in the outbox. */
  | "noStream"
  /** The dedupe window is shorter than `dedupeWindow`: retries after an outage are stored twice. */
  | "dedupeWindow"
  /** `discard: old` with limits: the stream acknowledges a message and drops the oldest one. */
  | "discardOld"
  /** Memory storage: a restart of the server loses what it has acknowledged. */
  | "memoryStorage"
  /** `no_ack`: the stream does not acknowledge, so every publish fails at its time limit. */
  | "noAck"
  /** `max_age` is shorter than `maxAge`: a consumer that is down for longer loses events. */
  | "maxAge"
  /** The server could not be asked. */
  | "unknown"

export interface Finding {
  readonly subject: string
  readonly stream: string | undefined
  readonly problem: Problem
  /** Says what the finding means and what to do. */
  readonly message: string
}

export interface CheckOptions {
  /** Subjects that are published. */
  readonly subjects: ReadonlyArray<string>
  /** Shortest dedupe window that is long enough. Default 2 minutes. */
  readonly dedupeWindow?: Duration.Input | undefined
  /** Shortest `max_age` that is long enough. Default 1 day. */
  readonly maxAge?: Duration.Input | undefined
}

const checkDefaults = { dedupeWindow: "2 minutes", maxAge: "1 day" } as const

const nanos = (input: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(input)) * 1e6
const inWords = (value: number): string => Duration.format(Duration.millis(value / 1e6))

/** A stream that the bus makes where it is missing, in the words of the NATS client. */
export type EnsureStream = Partial<Omit<StreamConfig, "name" | "subjects">> & {
  readonly name: string
  /** Subjects, or patterns of them: `orders.>`. */
  readonly subjects: ReadonlyArray<string>
}

/**
 * The stream of a subject, which is made where it is missing and the subject is one of `wanted`. A stream of that name
 * with another configuration is left as it is. Rejects when the server cannot be asked, and with a `BusError` when it
 * refuses to make the stream.
 */
export const ensured = async (
  jsm: JetStreamManager,
  subject: string,
  wanted: EnsureStream | undefined
): Promise<{ readonly stream: string | undefined; readonly isMade: boolean }> => {
  const stream = await find(jsm, subject)
  const covers = wanted?.subjects.some((pattern) => Event.matches(pattern, subject)) ?? false
  if (stream !== undefined || wanted === undefined || !covers) return { stream, isMade: false }
  // Full, it refuses new messages, which then wait in the outbox. Dropping old ones would lose what it acknowledged.
  try {
    await jsm.streams.add({ discard: DiscardPolicy.New, ...wanted, subjects: [...wanted.subjects] })
  } catch (error) {
    throw notMade(error, subject)
  }
  return { stream: wanted.name, isMade: true }
}

/** The stream of a subject; `undefined` where the server knows none. Rejects when the server cannot be asked. */
const find = async (jsm: JetStreamManager, subject: string): Promise<string | undefined> => {
  try {
    return await jsm.streams.find(subject)
  } catch (error) {
    if (isNoResponders(error)) throw error
    // The client says "no stream matches subject" for an empty answer, and knows no class for it.
    if (/no stream matches/i.test(textOf(error))) return undefined
    throw error
  }
}

export const check = async (
  jsm: JetStreamManager,
  { subjects, dedupeWindow = checkDefaults.dedupeWindow, maxAge = checkDefaults.maxAge }: CheckOptions
): Promise<ReadonlyArray<Finding>> => {
  const findings: Array<Finding> = []
  for (const subject of subjects) {
    try {
      const stream = await find(jsm, subject)
      if (stream === undefined) {
        const message = `No stream covers \`${subject}\`, so its events wait. ${remedy(subject)}`
        findings.push({ subject, stream, problem: "noStream", message })
        continue
      }
      const { config } = await jsm.streams.info(stream)
      for (const [problem, message] of problemsOf(config, nanos(dedupeWindow), nanos(maxAge))) {
        findings.push({ subject, stream, problem, message: `Stream \`${stream}\` ${message}` })
      }
    } catch (error) {
      const message = `The server could not be asked for \`${subject}\`: ${textOf(error)}.`
      findings.push({ subject, stream: undefined, problem: "unknown", message })
    }
  }
  return findings
}

const problemsOf = (
  config: StreamConfig,
  window: number,
  maxAge: number
): ReadonlyArray<readonly [Problem, string]> => {
  const found: Array<readonly [Problem, string]> = []
  const limits = [config.max_msgs, config.max_bytes, config.max_msgs_per_subject]
  if (config.duplicate_window < window) {
    found.push([
      "dedupeWindow",
      `drops repeated messages for ${inWords(config.duplicate_window)} only, and ${inWords(window)} are wanted. Raise duplicate_window.`
    ])
  }
  if (
    config.discard === DiscardPolicy.Old &&
    config.retention !== RetentionPolicy.Interest &&
    limits.some((limit) => limit > 0)
  ) {
    found.push([
      "discardOld",
      "acknowledges messages and drops its oldest ones when it is full. Set discard to new."
    ])
  }
  if (config.storage === StorageType.Memory) {
    found.push(["memoryStorage", "is kept in memory: a restart of the server loses it. Use file storage."])
  }
  if (config.no_ack === true) {
    found.push(["noAck", "does not acknowledge: every publish fails at its time limit. Set no_ack to false."])
  }
  if (config.max_age > 0 && config.max_age < maxAge) {
    found.push([
      "maxAge",
      `drops messages after ${inWords(config.max_age)}: a consumer that is down for longer loses them. Raise max_age.`
    ])
  }
  return found
}
