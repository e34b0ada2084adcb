/**
 * Publishes over one connection and matches the acknowledgements of JetStream.
 *
 * One subscription receives all acknowledgements. The client's own request makes two errors with stack traces and a
 * timer for each message, also for one that succeeds; that was half of the time of a publish.
 *
 * **Limits.** One fiber looks for overdue messages every quarter of the time limit: a message is given up between one and
 * one and a half time limits after it was sent.
 */
import { JetStreamApiError } from "@nats-io/jetstream"
import type { ApiError } from "@nats-io/jetstream"
import { createInbox, errors } from "@nats-io/transport-node"
import type { Msg, MsgHdrs, NatsConnection } from "@nats-io/transport-node"
import { Duration, Effect, Exit, Latch } from "effect"
import type { Scope } from "effect"

/** `duplicate` is true when the stream has the message already. */
type Answer = Exit.Exit<{ readonly duplicate: boolean }, unknown>

export interface Acks {
  /** Publishes. `answered` is called once, later, unless the returned function was called before. */
  readonly publish: (
    subject: string,
    body: Uint8Array,
    headers: MsgHdrs,
    answered: (answer: Answer) => void
  ) => () => void
  /** Fails everything that is under way. */
  readonly abort: (why: unknown) => void
}

interface Pending {
  readonly subject: string
  readonly answered: (answer: Answer) => void
  /** The look at which it is overdue. */
  readonly due: number
}

/** Looks in one time limit. */
const looks = 4

const none = (): void => {}

/** Subscribes for the enclosing scope. */
export const make = (
  nc: NatsConnection,
  inboxPrefix: string | undefined,
  timeout: number
): Effect.Effect<Acks, never, Scope.Scope> =>
  Effect.gen(function* () {
    const inbox = createInbox(inboxPrefix)
    // In the order of their time limits.
    const pending = new Map<string, Pending>()
    const busy = Latch.makeUnsafe(false)
    let sent = 0
    let look = 0

    const settle = (token: string, answer: () => Answer): void => {
      const one = pending.get(token)
      if (one === undefined) return
      pending.delete(token)
      one.answered(answer())
    }

    const subscription = nc.subscribe(`${inbox}.*`, {
      callback: (error, message) => {
        // A refused subscription: what is under way ends at its time limit.
        if (error !== null) return
        settle(message.subject.slice(inbox.length + 1), () => answerOf(message))
      }
    })
    yield* Effect.addFinalizer(() => Effect.sync(() => subscription.unsubscribe()))

    yield* Effect.gen(function* () {
      yield* busy.await
      yield* Effect.sleep(Duration.millis(timeout / looks))
      look++
      for (const [token, { due, subject }] of pending) {
        if (due > look) break
        settle(token, () =>
          Exit.fail(new Error(`JetStream did not acknowledge a message of ${subject} in time`))
        )
      }
      if (pending.size === 0) busy.closeUnsafe()
    }).pipe(Effect.forever, Effect.forkScoped)

    return {
      publish: (subject, body, headers, answered) => {
        const token = (++sent).toString(36)
        try {
          nc.publish(subject, body, { headers, reply: `${inbox}.${token}` })
        } catch (error) {
          answered(Exit.fail(error))
          return none
        }
        if (pending.size === 0) busy.openUnsafe()
        // The look under way may come at once.
        pending.set(token, { subject, answered, due: look + looks + 1 })
        return () => void pending.delete(token)
      },
      abort: (why) => {
        const all = [...pending.values()]
        pending.clear()
        for (const { answered } of all) answered(Exit.fail(why))
      }
    }
  })

const answerOf = (message: Msg): Answer => {
  if (message.data.length === 0 && message.headers?.code === 503) {
    return Exit.fail(new errors.NoRespondersError(message.subject))
  }
  try {
    // The answer of JetStream to a publish.
    const answer = message.json<{
      readonly error?: ApiError
      readonly stream?: string
      readonly duplicate?: boolean
    }>()
    if (answer.error !== undefined) return Exit.fail(new JetStreamApiError(answer.error))
    if (typeof answer.stream !== "string" || answer.stream === "") {
      return Exit.fail(new Error("What answered is no stream"))
    }
    return Exit.succeed({ duplicate: answer.duplicate === true })
  } catch (error) {
    return Exit.fail(error)
  }
}
