/** Many readers of `/events` over real sockets, and readers that do not read. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import { ResilienceEvents } from "@outlast/resilience"
import { spawn } from "node:child_process"
import { connect } from "node:net"
import { createInterface } from "node:readline"
import { join } from "node:path"

const program = (maxReaders: number) =>
  Ops.layer({ probes: false, metrics: false, page: { port: 0, maxReaders } }).pipe(
    Layer.provideMerge(Host.layer()),
    Layer.provideMerge(ResilienceEvents.layer())
  )

interface Numbered extends ResilienceEvents.ResilienceEvent {
  readonly number: number
  readonly text: string
}

const publish = (from: number, count: number, length: number) =>
  Effect.forEach(
    Array.from({ length: count }, (_, n) => from + n),
    (number) => ResilienceEvents.publishNow<Numbered>({ _tag: "Numbered", number, text: "x".repeat(length) }),
    { discard: true }
  )

const until = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(Effect.andThen(Effect.sleep("10 millis"), condition), { until: (holds) => holds })

/** Lines of a process, which ends with the scope. */
const readersOf = (...args: ReadonlyArray<number>) =>
  Effect.gen(function* () {
    const lines: Array<string> = []
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [
          join(import.meta.dirname, "..", "support", "eventReaders.ts"),
          ...args.map(String)
        ])
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    createInterface({ input: child.stdout }).on("line", (line) => lines.push(line))
    return lines
  })

describe("readers", () => {
  it.live(
    "get 2,000 events each, where half of 200 do not read",
    () =>
      Effect.gen(function* () {
        const ops = yield* Ops.Ops
        const lines = yield* readersOf(ops.page ?? 0, 200, 100, 2_000)
        yield* until(Effect.sync(() => lines.includes("connected")))
        assert.strictEqual(yield* ops.readers, 200)
        const before = process.memoryUsage()
        yield* publish(0, 2_000, 100)
        yield* until(Effect.sync(() => lines.length === 2))
        const after = process.memoryUsage()
        const result = JSON.parse(lines[1] ?? "")
        assert.deepStrictEqual(result, { at: result.at, readers: 100, bad: [] })
        // 200 copies of these events would be 70 MB.
        assert.isBelow(after.arrayBuffers - before.arrayBuffers, 20_000_000)
      }).pipe(Effect.scoped, Effect.provide(program(200))),
    60_000
  )

  it.live(
    "are cut off when they fall 1 MiB behind one that reads, and begin anew",
    () =>
      Effect.gen(function* () {
        const ops = yield* Ops.Ops
        const open = (onText: (text: string) => void, headers = "") =>
          Effect.acquireRelease(
            Effect.sync(() => {
              const socket = connect(ops.page ?? 0, "127.0.0.1")
              socket.setEncoding("utf8")
              socket.on("error", () => {})
              socket.on("data", onText)
              socket.write(`GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`)
              return socket
            }),
            (socket) => Effect.sync(() => socket.destroy())
          )
        let seen = 0
        let id = ""
        yield* open((text) => {
          for (const _ of text.matchAll(/^event: Numbered$/gm)) seen++
        })
        for (let n = 0; n < 4; n++) {
          const socket = yield* open((text) => {
            id = /^id: (\S+)$/m.exec(text)?.[1] ?? id
            socket.pause()
          })
        }
        yield* until(Effect.map(ops.readers, (readers) => readers === 5))
        yield* until(Effect.sync(() => id !== ""))
        const before = process.memoryUsage().arrayBuffers
        let sent = 0
        // The buffers of the system take the first megabytes.
        while ((yield* ops.readers) > 1) {
          assert.isBelow(sent, 100_000, "they are cut off")
          yield* publish(sent, 500, 1_000)
          sent += 500
          yield* until(Effect.sync(() => seen > sent - 400))
        }
        assert.isBelow(process.memoryUsage().arrayBuffers - before, 20_000_000)
        let text = ""
        yield* open((more) => (text += more), `Last-Event-ID: ${id}\r\n`)
        yield* until(Effect.sync(() => text.includes("event: ")))
        assert.include(text, "event: reset")
      }).pipe(Effect.scoped, Effect.provide(program(10))),
    60_000
  )
})
