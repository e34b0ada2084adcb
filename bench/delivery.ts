/**
 * What the outbox costs beside what it stands on: publishes with acknowledgement of JetStream, and appends with fsync
 * that are grouped the same way. Needs nats-server; the store is a SQLite file in the folder for temporary files.
 *
 * Throughput of ours as a share of the raw one, in alternating rounds of one run. 1 is as fast.
 */
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { open } from "node:fs/promises"
import { createConnection, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { jetstream, jetstreamManager } from "@nats-io/jetstream"
import { connect } from "@nats-io/transport-node"
import { DeliveryStore, EventBus, MemoryBus, Outbox } from "@outlast/delivery"
import { NatsBus } from "@outlast/delivery/nats"
import { SqliteClient } from "@outlast/node/sqlite"
import { Context, Effect, Exit, Layer, Scope, Stream } from "effect"
import type { Figure, Report } from "./measure.ts"
import { median } from "./measure.ts"

const rounds = 5
const body = new Uint8Array(200).fill(120)

const folder = () => mkdtempSync(join(tmpdir(), "outlast-bench-"))

const listening = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = createConnection({ port, host: "127.0.0.1" })
    socket.once("connect", () => {
      socket.destroy()
      resolve(true)
    })
    socket.once("error", () => resolve(false))
  })

const startServer = async () => {
  const port = await new Promise<number>((resolve) => {
    const server = createServer()
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
    })
  })
  const data = folder()
  const child = spawn("nats-server", ["-js", "-sd", data, "-a", "127.0.0.1", "-p", String(port)], {
    stdio: "ignore"
  })
  const failed = new Promise<never>((_, reject) =>
    child.once("error", () => reject(new Error("This bench needs nats-server on the PATH.")))
  )
  const up = (async () => {
    while (!(await listening(port))) await new Promise((resolve) => setTimeout(resolve, 20))
  })()
  await Promise.race([up, failed])
  return {
    url: `127.0.0.1:${port}`,
    stop: () => {
      child.kill("SIGKILL")
      rmSync(data, { recursive: true, force: true })
    }
  }
}

/** A layer that lives until it is stopped. */
const living = async <R>(layer: Layer.Layer<R, unknown>) => {
  const scope = Effect.runSync(Scope.make())
  const context: Context.Context<R> = await Effect.runPromise(Layer.buildWithScope(layer, scope))
  return {
    run: <A, E>(effect: Effect.Effect<A, E, R>) => Effect.runPromise(Effect.provide(effect, context)),
    stop: () => Effect.runPromise(Scope.close(scope, Exit.void))
  }
}

/** Microseconds of a unit. */
const timed = async (units: number, run: () => Promise<unknown>): Promise<number> => {
  globalThis.gc?.()
  const start = performance.now()
  await run()
  return ((performance.now() - start) * 1_000) / units
}

interface Contender {
  readonly name: string
  readonly run: () => Promise<unknown>
  readonly before?: () => Promise<unknown>
}

/** Figures of the contenders in order. The first has the ratio 1; others have their share of its throughput. */
const compareAll = async (
  units: number,
  contenders: ReadonlyArray<Contender>
): Promise<ReadonlyArray<Figure>> => {
  const all = contenders.map((): Array<number> => [])
  for (let round = -1; round < rounds; round++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      // Each round begins with another contender.
      const index = (turn + round + 1) % contenders.length
      const contender = contenders[index]
      if (contender === undefined) continue
      await contender.before?.()
      const took = await timed(units, contender.run)
      if (round >= 0) all[index]?.push(took)
    }
  }
  const base = all[0] ?? []
  return contenders.map(({ name }, index) => {
    const times = all[index] ?? []
    return {
      name,
      median: median(times),
      min: Math.min(...times),
      max: Math.max(...times),
      ratio: median(base.map((raw, round) => raw / (times[round] ?? NaN)))
    }
  })
}

const compare = (
  units: number,
  raw: () => Promise<unknown>,
  run: () => Promise<unknown>,
  before: () => Promise<unknown> = async () => {}
): Promise<ReadonlyArray<Figure>> =>
  compareAll(units, [
    { name: "raw", run: raw },
    { name: "outbox", run, before }
  ])

let ids = 0

interface Append {
  readonly head: string
  readonly body: Uint8Array
  readonly done: () => void
}

/**
 * Appends events to a file, with one write and one fdatasync for all that came in the meantime. An event has the
 * fields that the outbox stores, so a reader could publish it.
 */
const groupedAppends = async (path: string) => {
  const file = await open(path, "a")
  let waiting: Array<Append> = []
  let busy = false
  const flush = async () => {
    busy = true
    while (waiting.length > 0) {
      await new Promise((resolve) => setImmediate(resolve))
      const group = waiting
      waiting = []
      await file.write(Buffer.concat(group.flatMap(({ head, body }) => [Buffer.from(head), body])))
      await file.datasync()
      for (const { done } of group) done()
    }
    busy = false
  }
  const push = (subject: string, done: () => void) => {
    const id = `r${ids++}`
    const head = JSON.stringify([id, subject, {}, id, Date.now(), 0, body.byteLength])
    waiting.push({ head, body, done })
    if (!busy) void flush()
  }
  return {
    /** Of a fiber, as the outbox has them. */
    fiber: (subject: string) => Effect.callback<void>((resume) => push(subject, () => resume(Effect.void))),
    promise: (subject: string) => new Promise<void>((resolve) => push(subject, resolve)),
    close: () => file.close()
  }
}

const publishers = <A, E, R>(
  count: number,
  each: number,
  one: (publisher: number) => Effect.Effect<A, E, R>
) =>
  Effect.forEach(
    Array.from({ length: count }, (_, n) => n),
    (n) =>
      Effect.repeat(
        Effect.suspend(() => one(n)),
        { times: each - 1 }
      ),
    { concurrency: "unbounded", discard: true }
  )

const together = async (publishers: number, each: number, one: (publisher: number) => Promise<unknown>) =>
  Promise.all(
    Array.from({ length: publishers }, async (_, publisher) => {
      for (let i = 0; i < each; i++) await one(publisher)
    })
  )

const overNats = async ({ say, table }: Report): Promise<void> => {
  const server = await startServer()
  const nc = await connect({ servers: server.url })
  const jsm = await jetstreamManager(nc)
  await jsm.streams.add({ name: "EV", subjects: ["ev.>"], duplicate_window: 120e9 })
  const js = jetstream(nc)
  const file = join(folder(), "outbox.db")
  const outbox = await living(
    Outbox.layer().pipe(
      Layer.provideMerge(NatsBus.layer({ servers: server.url })),
      Layer.provideMerge(DeliveryStore.layerSql()),
      Layer.provide(SqliteClient.layer({ filename: file }))
    )
  )
  await outbox.run(
    Effect.flatMap(EventBus.EventBus, ({ status }) =>
      Stream.runHead(Stream.filter(status, (status) => status === "up"))
    )
  )
  const raw = (subject: string) => js.publish(subject, body, { msgID: `r${ids++}` })
  const publish = (subject: string) => Outbox.publish({ subject, body, id: `o${ids++}` })
  const ours = (subjects: number, each: number) => () =>
    outbox.run(publishers(subjects, each, (n) => publish(`ev.o${n}`)))

  const many = await compare(64 * 100, () => together(64, 100, (n) => raw(`ev.r${n}`)), ours(64, 100))
  table("64 subjects, one publisher each, µs per event (ratio: share of raw throughput)", many)
  const one = await compare(1_000, () => together(1, 1_000, () => raw("ev.r")), ours(1, 1_000))
  table("One subject, one by one, µs per event (ratio: share of raw throughput)", one)

  const backlog = 64 * 100
  const seed = Effect.flatMap(DeliveryStore.DeliveryStore, ({ insert }) =>
    insert(
      "replay",
      Array.from({ length: backlog }, (_, n) => {
        const id = `d${ids++}`
        const subject = `ev.d${n % 64}`
        return { id, subject, body, headers: {}, brokerId: id, bytes: 250, at: 0, rejections: 0, refusal: "" }
      })
    )
  )
  const drained = await compare(
    backlog,
    () => together(64, 100, (n) => raw(`ev.r${n}`)),
    () =>
      outbox.run(
        Effect.flatMap(Outbox.Outbox, ({ sweep, flush }) => Effect.andThen(sweep, flush("1 minute")))
      ),
    () => outbox.run(seed)
  )
  table("Draining a backlog of 64 subjects, µs per event (ratio: share of raw throughput)", drained)
  const targets = [
    ["64 subjects", many, 0.8],
    ["one subject", one, 0.9],
    ["drain", drained, 0.7]
  ] as const
  for (const [name, [, figure], target] of targets) say(verdict(name, figure?.ratio ?? NaN, target))
  await outbox.stop()
  await nc.close()
  server.stop()
  rmSync(join(file, ".."), { recursive: true, force: true })
}

const verdict = (name: string, ratio: number, target: number): string =>
  `  ${name.padEnd(34)}${ratio.toFixed(2)} of raw (at least ${target}: ${ratio >= target ? "met" : "missed"})`

const overStore = async ({ say, table }: Report): Promise<void> => {
  const place = folder()
  const outbox = await living(
    Outbox.layer({ cap: { events: 10_000_000, bytes: 1e12 } }).pipe(
      Layer.provideMerge(MemoryBus.layer()),
      Layer.provideMerge(DeliveryStore.layerSql()),
      Layer.provide(SqliteClient.layer({ filename: join(place, "outbox.db") }))
    )
  )
  await outbox.run(Effect.flatMap(MemoryBus.MemoryBus, ({ set }) => set("down")))
  const raw = await groupedAppends(join(place, "raw.log"))
  const verdicts: Array<string> = []
  for (const [count, each, target] of [
    [1, 200, 0.5],
    [10, 200, 0.5],
    [100, 100, 0.5],
    [1_000, 30, 0.35]
  ] as const) {
    const delay = monitorEventLoopDelay({ resolution: 1 })
    const delays: Array<number> = []
    const stored = publishers(count, each, (n) => Outbox.publish({ subject: `s${n}`, body, id: `s${ids++}` }))
    const figures = await compareAll(count * each, [
      {
        name: "raw appends",
        run: () => Effect.runPromise(publishers(count, each, (n) => raw.fiber(`s${n}`)))
      },
      { name: "raw appends of promises", run: () => together(count, each, (n) => raw.promise(`s${n}`)) },
      {
        name: "outbox",
        run: async () => {
          delay.reset()
          delay.enable()
          await outbox.run(stored)
          delay.disable()
          delays.push(delay.percentile(99) / 1e6)
        }
      }
    ])
    table(`Broker down, ${count} publishers, µs per event (ratio: share of raw throughput)`, figures)
    verdicts.push(verdict(`broker down, ${count} publishers`, figures[2]?.ratio ?? NaN, target))
    const p99 = median(delays)
    verdicts.push(
      `  ${"  event-loop delay, p99".padEnd(34)}${p99.toFixed(1)} ms (at most 20: ${p99 <= 20 ? "met" : "missed"})`
    )
  }
  for (const line of verdicts) say(line)
  await raw.close()
  await outbox.stop()
  rmSync(place, { recursive: true, force: true })
}

/** Heap and resident memory of a program whose outbox has a backlog of so many events. */
const memory = async ({ say }: Report): Promise<void> => {
  const place = folder()
  const client = SqliteClient.layer({ filename: join(place, "outbox.db") })
  const heaps: Array<number> = []
  const resident: Array<number> = []
  let stored = 0
  for (const events of [1_000, 1_000_000]) {
    const filling = await living(Layer.provide(DeliveryStore.layerSql(), client))
    for (; stored < events; stored += 1_000) {
      const rows = Array.from({ length: 1_000 }, (_, n) => {
        const id = `m${stored + n}`
        return {
          id,
          subject: `s${n % 100}`,
          body,
          headers: {},
          brokerId: id,
          bytes: 250,
          at: 0,
          rejections: 0,
          refusal: ""
        }
      })
      await filling.run(Effect.flatMap(DeliveryStore.DeliveryStore, ({ insert }) => insert("replay", rows)))
    }
    await filling.stop()
    const outbox = await living(
      Outbox.layer({ cap: { events: 10_000_000, bytes: 1e12 } }).pipe(
        Layer.provideMerge(
          Layer.tap(MemoryBus.layer(), (context) => Context.get(context, MemoryBus.MemoryBus).set("down"))
        ),
        Layer.provide(DeliveryStore.layerSql()),
        Layer.provide(client)
      )
    )
    await outbox.run(Effect.flatMap(Outbox.Outbox, ({ sweep }) => sweep))
    globalThis.gc?.()
    const { heapUsed, rss } = process.memoryUsage()
    heaps.push(heapUsed / 1_048_576)
    resident.push(rss / 1_048_576)
    await outbox.stop()
  }
  for (const [index, events] of ["1,000", "1,000,000"].entries()) {
    const figures = `${heaps[index]?.toFixed(1)} MiB, resident ${resident[index]?.toFixed(0)} MiB`
    say(`  heap with a backlog of ${events.padEnd(9)} events  ${figures}`)
  }
  rmSync(place, { recursive: true, force: true })
}

export const delivery = async (report: Report): Promise<void> => {
  report.say(`Outbox beside raw JetStream and raw appends, ${rounds} rounds, Node ${process.version}`)
  await overNats(report)
  await overStore(report)
  await memory(report)
}
