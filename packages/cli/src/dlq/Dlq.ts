/**
 * `outlast dlq`: dead letters of an outbox, listed, shown, replayed and removed.
 *
 * It opens the store itself and is no outbox: what it replays is published by the program's outbox at its next sweep. A
 * store that is not there is an error, and is never created.
 */
import { userInfo } from "node:os"
import { DeadLetters, DeliveryStore } from "@outlast/delivery"
import type { Filter } from "@outlast/delivery"
import type { StoreError } from "@outlast/resilience"
import { Clock, Console, Effect, Layer, Option } from "effect"
import { UsageError } from "../command/UsageError.ts"
import type { Reason } from "./Reasons.ts"
import * as Report from "./Report.ts"
import { addressOf, clientOf, nameOf } from "./StoreClient.ts"
import * as When from "./When.ts"

interface StoreFlags {
  readonly store: Option.Option<string>
  readonly prefix: string
  readonly json: boolean
}

interface FilterFlags {
  readonly subject: Option.Option<string>
  readonly reason: Option.Option<Reason>
  readonly since: Option.Option<string>
  readonly olderThan: Option.Option<string>
  readonly limit: Option.Option<number>
}

interface ActFlags extends StoreFlags, FilterFlags {
  readonly ids: ReadonlyArray<string>
  readonly all: boolean
  readonly dryRun: boolean
}

/** Letters of a list when no limit is given, and in one page. */
const usualLimit = 50

/** The dead letters of the outbox at an address. */
export const layerOf = (address: string, prefix: string) =>
  Effect.map(clientOf(address), (client) =>
    DeadLetters.layer.pipe(
      Layer.provideMerge(DeliveryStore.layerSql({ prefix, create: false, file: nameOf(address) })),
      Layer.provide(client)
    )
  )

const withStore = <A, E>(
  { store, prefix }: StoreFlags,
  use: (letters: DeadLetters.Service) => Effect.Effect<A, E>
) =>
  Effect.gen(function* () {
    return yield* Effect.provide(
      Effect.flatMap(DeadLetters.DeadLetters, use),
      yield* layerOf(yield* addressOf(store, "outbox"), prefix)
    )
  })

const filterOf = (flags: FilterFlags, ids: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const moment = (name: string, text: Option.Option<string>) =>
      Option.match(text, {
        onNone: () => Effect.succeed(undefined),
        onSome: (given) => {
          const at = When.parse(given, now)
          return at === undefined
            ? new UsageError({
                message: `--${name} must be an age such as 30m, 12h or 7d, or a date such as 2026-11-23T08:00:00Z.`
              })
            : Effect.succeed(at)
        }
      })
    const limit = Option.getOrUndefined(flags.limit)
    if (limit !== undefined && (limit < 1 || limit > DeadLetters.maxPage)) {
      return yield* new UsageError({ message: `--limit must be from 1 to ${DeadLetters.maxPage}.` })
    }
    return {
      ...(ids.length === 0 ? {} : { ids }),
      subject: Option.getOrUndefined(flags.subject),
      reason: Option.getOrUndefined(flags.reason),
      since: yield* moment("since", flags.since),
      before: yield* moment("older-than", flags.olderThan)
    } satisfies Filter
  })

export const list = (flags: StoreFlags & FilterFlags & { readonly replayed: boolean }) =>
  Effect.gen(function* () {
    const filter = { ...(yield* filterOf(flags, [])), replayed: flags.replayed }
    const limit = Option.getOrElse(flags.limit, () => usualLimit)
    const { letters, total } = yield* withStore(flags, (dead) =>
      Effect.all({ letters: dead.list(filter, { limit }), total: dead.count(filter) })
    )
    if (flags.json) {
      for (const letter of letters) yield* Console.log(JSON.stringify(Report.summary(letter)))
      return true
    }
    if (letters.length === 0) {
      yield* Console.log("No dead letters.")
      return true
    }
    yield* Console.log(Report.table(letters).join("\n"))
    if (total > letters.length) yield* Console.log(`${letters.length} of ${total}. See --limit.`)
    return true
  })

export const show = (flags: StoreFlags & { readonly id: string; readonly body: boolean }) =>
  Effect.gen(function* () {
    const found = yield* withStore(flags, (dead) => dead.show(flags.id))
    if (Option.isNone(found)) return yield* unknown([flags.id])
    yield* Console.log(
      flags.json
        ? JSON.stringify(Report.full(found.value, flags.body))
        : Report.lines(found.value, flags.body).join("\n")
    )
    return true
  })

/** Says which ids are not known; nothing was changed. */
const unknown = (ids: ReadonlyArray<string>) =>
  Effect.as(
    Console.error(`outlast dlq: There is no dead letter ${ids.join(", ")}. See outlast dlq list.`),
    false
  )

const act = (
  flags: ActFlags,
  words: { readonly done: string; readonly key: string },
  change: (
    dead: DeadLetters.Service,
    filter: Filter,
    limit: number | undefined
  ) => Effect.Effect<number, StoreError.StoreError>
) =>
  Effect.gen(function* () {
    const given = yield* filterOf(flags, flags.ids)
    const isNarrowed = Object.values(given).some((value) => value !== undefined)
    if (!isNarrowed && !flags.all) {
      return yield* new UsageError({
        message: "Which dead letters? Name some, give a filter such as --subject, or say --all."
      })
    }
    if (isNarrowed && flags.all) {
      return yield* new UsageError({ message: "--all goes with no id and no filter." })
    }
    const limit = Option.getOrUndefined(flags.limit)
    const result = yield* withStore(flags, (dead) =>
      Effect.gen(function* () {
        const missing = yield* Effect.filter(flags.ids, (id) =>
          Effect.map(dead.count({ ids: [id], replayed: true }), (found) => found === 0)
        )
        if (missing.length > 0) return { missing, letters: 0 }
        if (flags.dryRun) {
          const letters = yield* dead.count(given)
          return { missing, letters: Math.min(letters, limit ?? Infinity) }
        }
        return { missing, letters: yield* change(dead, given, limit) }
      })
    )
    if (result.missing.length > 0) return yield* unknown(result.missing)
    const { letters } = result
    const noun = `${letters} dead ${letters === 1 ? "letter" : "letters"}`
    yield* Console.log(
      flags.json
        ? JSON.stringify({ [words.key]: letters, dryRun: flags.dryRun })
        : flags.dryRun
          ? `${noun} would be ${words.done}.`
          : `${noun} ${words.done}.`
    )
    return true
  })

export const replay = (flags: ActFlags) =>
  act(flags, { done: "replayed", key: "replayed" }, (dead, filter, limit) =>
    Effect.map(
      dead.replay(filter, { by: `outlast dlq (${userInfo().username})`, limit }),
      ({ length }) => length
    )
  )

export const purge = (flags: ActFlags) =>
  Effect.gen(function* () {
    if (Option.isSome(flags.limit)) {
      return yield* new UsageError({ message: "purge has no --limit. Narrow it with --older-than." })
    }
    return yield* act(flags, { done: "removed", key: "purged" }, (dead, filter) => dead.purge(filter))
  })
