/**
 * Server-sent events for many readers over one {@link EventRing}.
 *
 * Each reader has a position in the ring and gets a write at most every `writeEvery`. A reader whose connection does not
 * take what was written is left alone until it does, and cut off when the ring has moved past it. It comes back with
 * `Last-Event-ID`, and gets a `reset` where its position is gone. An id names the process (`boot-position`), so that an
 * id of an earlier process is not mistaken for one of this process.
 *
 * A reader costs its position, and what its socket has not sent: at most two chunks, which readers share. Without
 * readers no timer runs and nothing is encoded.
 */
import { Effect, Latch } from "effect"
import type { Scope } from "effect"
import { ResilienceEvents } from "@outlast/resilience"
import { randomBytes } from "node:crypto"
import { Readable } from "node:stream"
import { EventRing } from "./EventRing.ts"

export interface Options {
  readonly maxReaders: number
  readonly maxEvents: number
  readonly maxBytes: number
  /** Milliseconds. */
  readonly writeEvery: number
  /** Milliseconds without an event after which a reader gets a comment, which shows that the connection works. */
  readonly pingEvery: number
}

export const defaults: Options = {
  maxReaders: 100,
  maxEvents: 8_192,
  maxBytes: 1_048_576,
  writeEvery: 100,
  pingEvery: 5_000
}

export interface EventFeed {
  /** The body of a response; `undefined` when there are too many readers. */
  readonly open: (lastEventId: string | undefined) => Effect.Effect<Readable | undefined>
  readonly readers: Effect.Effect<number>
  /** Sends each reader the next events and `event: shutdown`, ends it, and takes no more readers. */
  readonly end: Effect.Effect<void>
}

/** Bytes of one write to one reader. */
const maxWrite = 262_144

/** Characters of one event. A longer one is sent with its tag and time only. */
const maxEvent = 16_384

interface Reader {
  readonly body: Readable
  position: number
  /** True when the connection takes more. */
  isOpen: boolean
}

/** One event on the wire. */
const encode = (boot: string, event: ResilienceEvents.ResilienceEvent, position: number): Uint8Array =>
  Buffer.from(`id: ${boot}-${position}\nevent: ${wordOf(event._tag)}\ndata: ${dataOf(event)}\n\n`)

/** Line breaks would end the field. */
const wordOf = (tag: string): string => tag.replaceAll(/[^\w./-]/g, "_").slice(0, 100)

const dataOf = (event: ResilienceEvents.ResilienceEvent): string => {
  const { at, _tag } = event
  const short = (omitted: string) => JSON.stringify({ _tag: wordOf(_tag), at, omitted })
  try {
    const text = JSON.stringify(event)
    return text.length <= maxEvent ? text : short("too long")
  } catch {
    // A circle or a bigint in an event of the program.
    return short("not JSON")
  }
}

/** The position after an id of this process; `undefined` for any other id. */
const positionAfter = (boot: string, id: string): number | undefined => {
  const found = /^([0-9a-f]{1,32})-(\d{1,15})$/.exec(id)
  return found?.[1] === boot ? Number(found[2]) + 1 : undefined
}

/** Collects the events of the surrounding `ResilienceEvents` until the scope ends. Then all readers end. */
export const make = (options: Options): Effect.Effect<EventFeed, never, Scope.Scope> =>
  Effect.gen(function* () {
    const boot = randomBytes(6).toString("hex")
    const ring = new EventRing<ResilienceEvents.ResilienceEvent>({
      ...options,
      encode: (event, position) => encode(boot, event, position)
    })
    const readers = new Set<Reader>()
    const wake = Latch.makeUnsafe(false)
    let hasEnded = false

    yield* ResilienceEvents.tap((event) =>
      Effect.sync(() => {
        ring.push(event)
        if (readers.size > 0) wake.openUnsafe()
      })
    )

    const send = (reader: Reader, bytes: Uint8Array | string): void => {
      reader.isOpen = reader.body.push(bytes)
    }

    /** Sends each reader the next events. The rest follows when the reader asks for more. */
    const write = (): void => {
      for (const reader of readers) {
        if (!reader.isOpen) continue
        const chunk = ring.read(reader.position, maxWrite)
        if (chunk === undefined || chunk.bytes.length === 0) continue
        reader.position = chunk.next
        send(reader, chunk.bytes)
      }
      ring.trim()
      // Cut off: the body is destroyed, and with it the connection.
      for (const { body, position } of readers) if (!ring.holds(position)) body.destroy()
    }

    const ping = (): void => {
      for (const reader of readers) if (reader.isOpen) send(reader, ": ping\n\n")
    }

    const round = Effect.gen(function* () {
      // A reader that joins wakes this fiber, so it waits without a timer while there is none.
      if (readers.size === 0) yield* wake.await
      const isQuiet = yield* Effect.raceFirst(
        Effect.as(wake.await, false),
        Effect.as(Effect.sleep(options.pingEvery), true)
      )
      wake.closeUnsafe()
      if (isQuiet) ping()
      else write()
      yield* Effect.sleep(options.writeEvery)
    })
    yield* Effect.forkScoped(Effect.forever(round))
    const end = Effect.sync(() => {
      if (hasEnded) return
      hasEnded = true
      write()
      for (const { body } of readers) {
        body.push("event: shutdown\ndata: {}\n\n")
        body.push(null)
      }
      // An event from now on finds no reader whose body has ended.
      readers.clear()
    })
    yield* Effect.addFinalizer(() => end)

    const open: EventFeed["open"] = (lastEventId) =>
      Effect.sync(() => {
        if (hasEnded || readers.size >= options.maxReaders) return undefined
        const wanted = lastEventId === undefined ? ring.next : positionAfter(boot, lastEventId)
        const canGoOn = wanted !== undefined && ring.holds(wanted)
        const position = canGoOn ? wanted : ring.next
        const body = new Readable({
          highWaterMark: maxWrite,
          read: () => {
            reader.isOpen = true
            if (reader.position < ring.next) wake.openUnsafe()
          },
          destroy: (error, done) => {
            readers.delete(reader)
            done(error)
          }
        })
        const reader: Reader = { body, position, isOpen: true }
        readers.add(reader)
        // The id lets a reader that gets no event before it is cut off come back to the same place.
        const kind = canGoOn ? "hello" : "reset"
        send(reader, `retry: 1000\nid: ${boot}-${position - 1}\nevent: ${kind}\ndata: {}\n\n`)
        wake.openUnsafe()
        return body
      })

    return { open, readers: Effect.sync(() => readers.size), end }
  })
