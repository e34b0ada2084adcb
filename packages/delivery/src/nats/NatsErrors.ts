/**
 * Maps errors of the NATS client to verdicts on the event: rejected, or unavailable.
 *
 * | error                                            | verdict                                                        |
 * | ------------------------------------------------ | -------------------------------------------------------------- |
 * | time limit, no connection, closed, draining      | unavailable; the event may be stored                           |
 * | `JetStreamApiError` with status 5xx              | unavailable for this subject: a full stream, a leader change   |
 * | `JetStreamApiError` 10054                        | rejected for good: larger than the stream takes                |
 * | another `JetStreamApiError`                      | rejected                                                       |
 * | no responders ("jetstream is not enabled")       | unavailable for this subject without a stream, else for all    |
 * | `InvalidArgumentError`, `InvalidSubjectError`    | rejected for good: no broker takes it                          |
 *
 * Messages of the client name no credentials; texts of the server are cut to a length.
 */
import { JetStreamApiError } from "@nats-io/jetstream"
import { errors } from "@nats-io/transport-node"
import { BusError } from "../bus/BusError.ts"

/** No answer arrived. The server must be asked for the reason. */
export type Verdict = BusError | "ask"

/** The message is larger than its stream takes. */
const tooLargeForStream = 10_054

export const verdict = (error: unknown, subject: string): Verdict => {
  if (error instanceof JetStreamApiError) {
    const told = { subject, code: String(error.code), cause: error }
    if (error.status >= 500) {
      return new BusError({
        ...told,
        reason: "unavailable",
        scope: "subject",
        detail: `Its stream does not take messages now: ${textOf(error)}.`
      })
    }
    return new BusError({
      ...told,
      reason: "rejected",
      permanent: error.code === tooLargeForStream,
      detail: `The server refused it: ${textOf(error)}.`
    })
  }
  if (isNoResponders(error)) return "ask"
  if (error instanceof errors.InvalidArgumentError || error instanceof errors.InvalidSubjectError) {
    return new BusError({
      reason: "rejected",
      permanent: true,
      subject,
      detail: `No broker takes it: ${textOf(error)}.`,
      cause: error
    })
  }
  return unavailable(error, subject)
}

/** How to make the stream of a subject. */
export const remedy = (subject: string): string =>
  `Make one: \`nats stream add EVENTS --subjects '${subject}' --storage file --discard new\`, or give \`ensureStream\` to NatsBus.layer.`

/** No stream has the subject: it was not made yet, or it was deleted, or the server has lost its data. */
export const noStream = (subject: string): BusError =>
  new BusError({
    reason: "unavailable",
    scope: "subject",
    subject,
    detail: `No stream covers \`${subject}\`, so its events wait. ${remedy(subject)}`
  })

/** The stream of the subject is missing, and was not made. */
export const notMade = (error: unknown, subject: string): BusError =>
  new BusError({
    reason: "unavailable",
    scope: "subject",
    subject,
    ...(error instanceof JetStreamApiError ? { code: String(error.code) } : {}),
    detail: `Its stream is missing, and could not be made: ${textOf(error)}.`,
    cause: error
  })

export const unavailable = (error: unknown, subject?: string, detail?: string): BusError =>
  new BusError({
    reason: "unavailable",
    ...(subject === undefined ? {} : { subject }),
    detail: detail ?? `${textOf(error)}.`,
    ...(error === undefined ? {} : { cause: error })
  })

/** No responders. The client also wraps this as "jetstream is not enabled", in a class that it does not export. */
export const isNoResponders = (error: unknown): boolean =>
  error instanceof errors.NoRespondersError ||
  (error instanceof errors.RequestError && error.isNoResponders()) ||
  (error instanceof Error &&
    error.cause !== error &&
    error.cause !== undefined &&
    isNoResponders(error.cause))

/** The message of an error, as one short line. */
export const textOf = (error: unknown): string =>
  (error instanceof Error ? error.message || error.name : String(error))
    .replace(/\s+/g, " ")
    .replace(/\.$/, "")
    .slice(0, 300)
