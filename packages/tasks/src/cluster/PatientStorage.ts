/**
 * The message storage of the engine, which waits for a store that is away.
 *
 * The engine tries five times to save how an execution has ended, within a second. After that its task stands still
 * until the process ends, or fails with an error of the engine. Here an operation is repeated instead.
 */
import { Effect, Layer, Schema } from "effect"
import type { ClusterError, Snowflake } from "effect/cluster"
import { MessageStorage } from "effect/cluster"
import { SqlError } from "effect/sql"
import { StoreError as StoreErrors } from "@outlast/resilience"
import { StoreOutage } from "../store/StoreOutage.ts"

const isSqlError = Schema.is(SqlError.SqlError)
const where = { store: "tasks" }

/** The store's part in an error of the engine, which keeps the error of the database as its cause. */
export const storeErrorOf = ({ cause }: ClusterError.PersistenceError): StoreErrors.StoreError | undefined =>
  isSqlError(cause) ? StoreErrors.fromSqlError(cause, where) : undefined

type Fails = ClusterError.PersistenceError | ClusterError.MalformedMessage

const failureOf = (error: Fails) => (error._tag === "PersistenceError" ? storeErrorOf(error) : undefined)

/** Replaces the storage. Reads of new messages stay: the engine repeats them itself. */
export const layer = <E, R>(
  storage: Layer.Layer<MessageStorage.MessageStorage, E, R>
): Layer.Layer<MessageStorage.MessageStorage, E, R | StoreOutage> =>
  Layer.effect(
    MessageStorage.MessageStorage,
    Effect.gen(function* () {
      const own = yield* MessageStorage.MessageStorage
      const outage = yield* StoreOutage
      const kept = <A, E extends Fails>(operation: Effect.Effect<A, E>) => outage.repeat(operation, failureOf)
      const isStored = (id: Snowflake.Snowflake, reply: Snowflake.Snowflake) =>
        Effect.map(own.repliesForUnfiltered([id]), (replies) =>
          replies.some((stored) => stored.id === String(reply))
        )
      return MessageStorage.MessageStorage.of({
        ...own,
        saveRequest: (message) => kept(own.saveRequest(message)),
        saveEnvelope: (message) => kept(own.saveEnvelope(message)),
        saveReply: (message) => {
          let isFirst = true
          const save = Effect.suspend(() => {
            if (isFirst) {
              isFirst = false
              return own.saveReply(message)
            }
            // A connection that broke after the commit: the reply is stored, and a second row would be refused.
            const { id, requestId } = message.reply
            return Effect.flatMap(isStored(requestId, id), (stored) =>
              stored ? Effect.void : own.saveReply(message)
            )
          })
          return kept(save)
        },
        clearReplies: (request, options) => kept(own.clearReplies(request, options)),
        repliesFor: (requests) => kept(own.repliesFor(requests)),
        repliesForUnfiltered: (requests) => kept(own.repliesForUnfiltered(requests)),
        requestIdForPrimaryKey: (options) => kept(own.requestIdForPrimaryKey(options)),
        unprocessedMessagesById: (ids) => kept(own.unprocessedMessagesById(ids)),
        resetShards: (shards) => kept(own.resetShards(shards)),
        resetAddress: (address) => kept(own.resetAddress(address)),
        resetAddresses: (addresses) => kept(own.resetAddresses(addresses)),
        resetRequests: (requests) => kept(own.resetRequests(requests)),
        clearAddress: (address) => kept(own.clearAddress(address))
      })
    })
  ).pipe(Layer.provide(storage))
