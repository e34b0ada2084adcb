/**
 * A process that publishes numbered events until it is killed, or until it has published `count` of each subject. Each
 * line of its output is an event whose publish has returned. It begins when it reads a line, so that it can be started
 * before it is needed.
 */
import { writeSync } from "node:fs"
import { once } from "node:events"
import { DeadLetters, DeliveryStore, Outbox } from "@outlast/delivery"
import { NatsBus } from "@outlast/delivery/nats"
import { SqliteClient } from "@outlast/node/sqlite"
import { Backoff } from "@outlast/resilience"
import { Effect, Layer } from "effect"

export interface Job {
  readonly url: string
  readonly file: string
  /** First part of the ids of this life. */
  readonly life: string
  readonly subjects: ReadonlyArray<string>
  readonly count: number
  /** A fixed name; absent where processes share the store. */
  readonly publisher: string | undefined
}

const [line] = await once(process.stdin, "data")
const job: Job = JSON.parse(String(line))
// Whoever started it is gone.
process.stdin.on("end", () => process.exit(1))

const encoder = new TextEncoder()

/** A full pipe refuses a line for a moment. */
const say = (line: string): void => {
  for (;;) {
    try {
      writeSync(1, line)
      return
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error
    }
  }
}

const publishAll = (subject: string) =>
  Effect.forEach(
    Array.from({ length: job.count }, (_, n) => n),
    (n) => {
      const id = `${job.life}/${subject}/${n}`
      return Effect.retry(Outbox.publish({ subject, id, body: encoder.encode(id) }), { times: 100 }).pipe(
        Effect.tap(({ safe }) => Effect.sync(() => say(`${id} ${safe}\n`)))
      )
    },
    { discard: true }
  )

const program = Effect.gen(function* () {
  const { flush } = yield* Outbox.Outbox
  yield* Effect.forEach(job.subjects, publishAll, { concurrency: "unbounded", discard: true })
  yield* flush("60 seconds")
  const { totals } = yield* DeliveryStore.DeliveryStore
  // The last life also waits for what it takes over from others.
  for (let i = 0; job.count === 0 && i < 300 && (yield* totals).events > 0; i++)
    yield* Effect.sleep("100 millis")
  const { events: left } = yield* totals
  const { list } = yield* DeadLetters.DeadLetters
  const dead = yield* list({}, { limit: 10_000 })
  for (const { id } of dead) say(`${id} dead\n`)
  say(`left ${left}\n`)
})

const layer = Outbox.layer({
  ...(job.publisher === undefined ? {} : { publisher: job.publisher }),
  sweepEvery: "250 millis",
  lease: "1 second",
  circuit: { open: Backoff.exponential({ initial: "200 millis", cap: "1 second" }) }
}).pipe(
  Layer.provideMerge(DeadLetters.layer),
  Layer.provide(NatsBus.layer({ servers: job.url, timeout: "2 seconds" })),
  Layer.provideMerge(DeliveryStore.layerSql()),
  // A process that is paused in a transaction holds the file for as long.
  Layer.provide(SqliteClient.layer({ filename: job.file, lockWait: "30 seconds" }))
)

await Effect.runPromise(Effect.provide(program, layer))
process.exit(0)
