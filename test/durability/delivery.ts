/**
 * Kills processes that publish, and the broker they publish to, at random moments, and counts what a durable consumer
 * has seen: events that are lost, repeated or out of order.
 *
 * A round is a store with one or two publishing processes and some lives of them. In two rounds of three the lives have
 * one name, and the order of each subject must hold across all of them. In the third two processes share the store, one
 * of them is also paused, and each takes over the other's backlog: then order must hold within each life. One
 * nats-server serves all rounds; it is killed and paused all the time. The seed decides what is done, the machine when.
 */
import { spawn } from "node:child_process"
import type { ChildProcess } from "node:child_process"
import { join } from "node:path"
import * as Programs from "../programs.ts"
import { jetstreamManager } from "@nats-io/jetstream"
import { connect } from "@nats-io/transport-node"
import { EventBus } from "@outlast/delivery"
import { NatsBus } from "@outlast/delivery/nats"
import { Effect, Fiber, Random, Stream } from "effect"
import * as Nats from "../services/Nats.ts"
import * as Server from "../services/Server.ts"
import type { Job } from "./publisher.ts"

export interface Options {
  readonly rounds: number
  readonly seed: string
  /** Rounds at a time. */
  readonly parallel: number
}

export interface Result {
  readonly rounds: number
  /** Killed publishing processes. */
  readonly kills: number
  /** Paused publishing processes. */
  readonly pauses: number
  /** Times that a living process found its backlog taken by another one. */
  readonly leasesLost: number
  /** Kills and pauses of the broker. */
  readonly outages: number
  /** Events whose publish had returned. */
  readonly events: number
  /** Of these, those that were stored first. */
  readonly stored: number
  /** Deliveries of an event after its first. */
  readonly duplicates: number
  readonly deadLetters: number
  /** Events that the consumer handled behind later ones because their first delivery was lost. */
  readonly handledLate: number
  readonly lost: number
  /** Events that are behind later ones in the stream. */
  readonly outOfOrder: number
}

const worker = Programs.bundled(new URL("publisher.ts", import.meta.url))

/** A publishing process that waits for its job, and what it says. */
const start = (name: string) => {
  const child = spawn(process.execPath, [worker], {
    stdio: ["pipe", "pipe", "inherit"]
  })
  const said: Array<string> = []
  let rest = ""
  const listeners = new Set<() => void>()
  child.stdout.on("data", (chunk: Buffer) => {
    const parts = (rest + chunk.toString()).split("\n")
    rest = parts.pop() ?? ""
    said.push(...parts)
    for (const listener of listeners) listener()
  })
  const ended = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)))
  return { name, child, said, ended, listeners }
}
type Publisher = ReturnType<typeof start>

const publisher = (name: string) =>
  Effect.acquireRelease(
    Effect.sync(() => start(name)),
    ({ child }) => Effect.sync(() => void child.kill("SIGKILL"))
  )

/** Ends when so many lines were said, or the process has ended. */
const lines = ({ said, ended, listeners }: Publisher, count: number): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    const look = () => {
      if (said.length < count) return
      listeners.delete(look)
      resume(Effect.void)
    }
    listeners.add(look)
    void ended.then(() => resume(Effect.void))
    look()
  })

const begin = ({ child }: Publisher, job: Job) =>
  Effect.sync(() => void child.stdin?.write(JSON.stringify(job)))

const signal = (child: ChildProcess, name: NodeJS.Signals) => Effect.sync(() => void child.kill(name))

const end = (one: Publisher) => Effect.promise(() => one.ended)

const between = (min: number, max: number) => Random.nextIntBetween(min, max, { halfOpen: false })

const oneRound = (n: number, url: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const file = join(yield* Server.folder, "outbox.db")
      const isShared = n % 3 === 2
      const subjects = ["a", "b", "c"].map((name) => `ev.r${n}.${name}`)
      const all: Array<Publisher> = []
      let kills = 0
      let pauses = 0
      const life = (name: string, count: number) =>
        Effect.gen(function* () {
          const one = yield* publisher(name)
          all.push(one)
          yield* begin(one, {
            url,
            file,
            life: name,
            subjects,
            count,
            publisher: isShared ? undefined : "one"
          })
          return one
        })
      const kill = (one: Publisher) =>
        Effect.gen(function* () {
          // A process that is paused in a transaction holds the SQLite file: then no line comes.
          yield* Effect.timeoutOption(lines(one, yield* between(1, 120)), "10 seconds")
          yield* Effect.sleep(yield* between(0, 30))
          yield* signal(one.child, "SIGKILL")
          yield* end(one)
          kills++
        })
      if (isShared) {
        const first = yield* life("0", 1_000_000)
        const second = yield* life("1", 300)
        yield* Effect.timeoutOption(lines(second, yield* between(1, 120)), "10 seconds")
        yield* signal(second.child, "SIGSTOP")
        pauses++
        yield* kill(first)
        const third = yield* life("2", 30)
        yield* Effect.sleep("2 seconds")
        yield* signal(second.child, "SIGCONT")
        yield* end(second)
        yield* end(third)
      } else {
        const lives = yield* between(1, 3)
        for (let i = 0; i < lives; i++) yield* kill(yield* life(`${i}`, 1_000_000))
        yield* end(yield* life(`${lives}`, 20))
      }
      let left = "unknown"
      // The last word: whatever is left anywhere is published by a life that has nothing to add.
      for (let i = 0; i < 5; i++) {
        const last = yield* life("last", 0)
        yield* end(last)
        left = last.said.find((line) => line.startsWith("left ")) ?? "unknown"
        if (left === "left 0") break
      }
      const said = all.flatMap((one) => one.said)
      const accepted = said
        .filter((line) => / (?:broker|store)$/.test(line))
        .map((line) => line.split(" ")[0] ?? "")
      const stored = said.filter((line) => line.endsWith(" store")).length
      const dead = said.filter((line) => line.endsWith(" dead")).map((line) => line.split(" ")[0] ?? "")
      const leasesLost = said.filter((line) => line.includes("took over the backlog of this one")).length
      return { accepted, stored, dead, kills, pauses, isShared, leasesLost, left }
    })
  )

/** A delivery: the event, and its place in the stream. */
interface Seen {
  readonly id: string
  readonly sequence: number
}

/**
 * Reads what the broker has of a round, until nothing more comes, as a durable consumer of the name. The broker may be
 * down for most of that time.
 */
const consume = (n: number, durable: string, accepted: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const seen: Array<Seen> = []
    const missing = new Set(accepted)
    const reading = yield* EventBus.EventBus.pipe(
      Effect.flatMap(({ deliveries }) =>
        Stream.runForEach(deliveries({ subject: `ev.r${n}.>`, durable }), (delivery) => {
          seen.push({ id: delivery.event.id, sequence: delivery.sequence })
          missing.delete(delivery.event.id)
          return Effect.ignore(delivery.ack)
        })
      ),
      Effect.forkChild
    )
    let quiet = 0
    for (let i = 0; i < 400 && (missing.size > 0 || quiet < 5); i++) {
      const before = seen.length
      yield* Effect.sleep("100 millis")
      quiet = seen.length === before ? quiet + 1 : 0
    }
    yield* Fiber.interrupt(reading)
    return seen
  })

/** Kills and pauses the broker, until it is interrupted. Then the broker runs. */
const outages = (server: Nats.Nats, count: () => void) =>
  Effect.andThen(
    Effect.flatMap(between(500, 2_500), Effect.sleep),
    Effect.gen(function* () {
      const isKill = yield* Random.nextBoolean
      yield* isKill ? server.kill : server.signal("SIGSTOP")
      count()
      yield* Effect.sleep(yield* between(100, 800))
      yield* isKill ? server.start : server.signal("SIGCONT")
    }).pipe(Effect.uninterruptible)
  ).pipe(Effect.forever)

const judge = (
  accepted: ReadonlyArray<string>,
  seen: ReadonlyArray<Seen>,
  dead: ReadonlyArray<string>,
  isShared: boolean
) => {
  const delivered = new Set(seen.map(({ id }) => id))
  const inStream = new Set(seen.toSorted((a, b) => a.sequence - b.sequence).map(({ id }) => id))
  return {
    lost: accepted.filter((id) => !delivered.has(id) && !dead.includes(id)),
    duplicates: seen.length - delivered.size,
    outOfOrder: overtaken(inStream, isShared),
    // The broker delivers again what it lost with a connection, behind what it has delivered since.
    handledLate: overtaken(delivered, isShared).length
  }
}

/** Events whose first occurrence is behind a later event of the same subject and publisher. */
const overtaken = (first: ReadonlySet<string>, isShared: boolean): ReadonlyArray<string> => {
  // Lives of one name continue each other's order; others have one each.
  const orders = Map.groupBy(first, (id) => {
    const [life, subject] = id.split("/")
    return isShared ? `${life} ${subject}` : (subject ?? "")
  })
  const rank = (id: string): number => {
    const [life, , number] = id.split("/")
    return Number(life) * 10_000_000 + Number(number)
  }
  const late: Array<string> = []
  for (const ids of orders.values()) {
    let last = ""
    for (const id of ids) {
      if (last !== "" && rank(id) < rank(last)) late.push(`${id} after ${last}`)
      else last = id
    }
  }
  return late
}

/** Runs all rounds. */
export const run = (options: Options): Effect.Effect<Result, unknown> =>
  Effect.scoped(
    Effect.flatMap(Nats.running(), (server) =>
      Effect.provide(runWith(server, options), NatsBus.layer({ servers: server.url }))
    )
  )

const runWith = (server: Nats.Nats, { rounds, seed, parallel }: Options) =>
  Effect.gen(function* () {
    const setUp = yield* Effect.promise(() => connect({ servers: server.url }))
    yield* Effect.promise(async () => {
      const jsm = await jetstreamManager(setUp)
      await jsm.streams.add({ name: "EV", subjects: ["ev.>"] })
      await setUp.close()
    })
    let broken = 0
    const breaking = yield* Effect.forkChild(outages(server, () => broken++))
    const results = yield* Effect.forEach(
      Array.from({ length: rounds }, (_, n) => n),
      (n) =>
        Effect.gen(function* () {
          const { accepted, dead, isShared, ...counts } = yield* oneRound(n, server.url)
          const seen = yield* consume(n, `round-${n}`, accepted)
          const { lost: missing, outOfOrder, ...doubled } = judge(accepted, seen, dead, isShared)
          for (const what of outOfOrder) console.error(`round ${n}: ${what}`)
          if ((n + 1) % 20 === 0) console.error(`round ${n + 1} of ${rounds}`)
          const faults = { missing, outOfOrder: outOfOrder.length, ...doubled }
          return { ...faults, ...counts, n, events: accepted.length, deadLetters: dead.length }
        }).pipe(Random.withSeed(`${seed}-${n}`)),
      { concurrency: parallel }
    )
    // A consumer whose broker is down again and again may have missed the end of its round. The stream decides.
    yield* Fiber.interrupt(breaking)
    const lost = yield* Effect.forEach(
      results.filter(({ missing }) => missing.length > 0),
      ({ n, missing, left }) =>
        Effect.gen(function* () {
          const found = new Set((yield* consume(n, `again-${n}`, missing)).map(({ id }) => id))
          const gone = missing.filter((id) => !found.has(id))
          console.error(`round ${n}: ${missing.length} read late, ${gone.length} lost; the store: ${left}`)
          for (const id of gone) console.error(`round ${n}: ${id} is lost`)
          return gone.length
        })
    )
    const sum = (of: (one: (typeof results)[number]) => number) =>
      results.reduce((all, one) => all + of(one), 0)
    return {
      rounds,
      kills: sum(({ kills }) => kills),
      pauses: sum(({ pauses }) => pauses),
      leasesLost: sum(({ leasesLost }) => leasesLost),
      outages: broken,
      events: sum(({ events }) => events),
      stored: sum(({ stored }) => stored),
      duplicates: sum(({ duplicates }) => duplicates),
      deadLetters: sum(({ deadLetters }) => deadLetters),
      lost: lost.reduce((all, one) => all + one, 0),
      handledLate: sum(({ handledLate }) => handledLate),
      outOfOrder: sum(({ outOfOrder }) => outOfOrder)
    }
  })
