/** `outlast doctor` on settings, stores, the clock, the lock and ports: the real command, files, locks and sockets. */
import { chmod, mkdtemp, rm, utimes, writeFile } from "node:fs/promises"
import { createServer as createHttpServer } from "node:http"
import { createServer } from "node:net"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { StoreLock } from "@outlast/node/lock"
import type { Report } from "#cli/doctor/Report"
import * as Ports from "#cli/doctor/Ports"
import * as SystemClock from "#cli/doctor/SystemClock"
import { outlast } from "./run.ts"

const secret = "planted-Zx9Qw8Er7Ty6Ui5Op4"
const env = { ANTHROPIC_API_KEY: `sk-ant-api03-${secret}` }

const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "outlast-doctor-"))),
  (path) => Effect.promise(() => rm(path, { recursive: true }))
)

const written = (path: string, text: string) =>
  Effect.as(
    Effect.promise(() => writeFile(path, text)),
    path
  )

const doctor = (...args: ReadonlyArray<string>) =>
  Effect.map(
    Effect.promise(() => outlast(["doctor", "--json", ...args], { env })),
    (run) => {
      assert.notInclude(run.all, secret)
      const report: Report = JSON.parse(run.stdout)
      return {
        ...run,
        report,
        of: (area: string) =>
          report.checks
            .filter((check) => check.area === area)
            .map(({ level, message }) => `${level}: ${message}`)
      }
    }
  )

const listening = (port = 0) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
      const server = createServer()
      server.listen(port, "127.0.0.1", () => {
        // A server that listens on TCP has an address with a port.
        const { port } = server.address() as AddressInfo
        resume(Effect.succeed({ port, close: () => void server.close() }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

describe("outlast doctor", { timeout: 60_000 }, () => {
  it.live("says that everything is fine, with exit code 0", () =>
    Effect.gen(function* () {
      const at = yield* folder
      const store = join(at, "store.db")
      const database = new DatabaseSync(store)
      database.exec("CREATE TABLE t (x)")
      database.close()
      yield* Effect.promise(() => chmod(store, 0o600))
      const config = yield* written(join(at, "settings.json"), "{}")
      const { port } = yield* Effect.scoped(listening())
      const run = yield* doctor(
        "--config",
        config,
        "--store",
        store,
        "--lock",
        join(at, "a.lock"),
        "--port",
        `127.0.0.1:${port}`
      )
      assert.strictEqual(run.exitCode, 0, run.all)
      assert.deepStrictEqual(run.report.problems, [])
      assert.deepStrictEqual(
        run.report.checks.map(({ area, level }) => [area, level]),
        ["node", "clock", "keys", "configuration", "stores", "lock", "ports"].map((area) => [area, "ok"])
      )
      const words = yield* Effect.promise(() => outlast(["doctor", "--store", store], { env }))
      assert.match(words.stdout, /^Fine$/m)
      assert.match(words.stdout, /^ {2}stores +.*store\.db: A SQLite database/m)
    }).pipe(Effect.scoped)
  )

  it.live("names each wrong setting with its path", () =>
    Effect.gen(function* () {
      const at = yield* folder
      const config = yield* written(join(at, "settings.json"), `{ "nonsense": "${secret}" }`)
      const run = yield* doctor("--config", config)
      assert.strictEqual(run.exitCode, 1)
      assert.match(run.of("configuration").join(), /^error: nonsense/)
      const none = yield* doctor("--config", join(at, "none.yaml"))
      assert.strictEqual(none.exitCode, 1)
      assert.match(none.of("configuration").join(), /^error: .*none\.yaml/)
    }).pipe(Effect.scoped)
  )

  it.live("examines SQLite files: missing, damaged, open to others, and from the future", () =>
    Effect.gen(function* () {
      const at = yield* folder
      const missing = yield* doctor("--store", join(at, "none.db"))
      assert.strictEqual(missing.exitCode, 1)
      assert.match(missing.of("stores").join(), /^error: There is no such file/)

      const text = yield* written(join(at, "text.db"), `not a database ${secret}`.repeat(100))
      yield* Effect.promise(() => chmod(text, 0o600))
      const damaged = yield* doctor("--store", text)
      assert.strictEqual(damaged.exitCode, 1)
      assert.strictEqual(damaged.of("stores").length, 1)
      assert.match(damaged.of("stores").join(), /^error: /)

      const open = join(at, "open.db")
      new DatabaseSync(open).exec("CREATE TABLE t (x)")
      yield* Effect.promise(() => chmod(open, 0o644))
      // An hour ahead of the clock of this machine.
      const future = yield* Effect.clockWith(({ currentTimeMillis }) => currentTimeMillis)
      yield* Effect.promise(() => utimes(open, future / 1_000 + 3_600, future / 1_000 + 3_600))
      const weak = yield* doctor("--store", open)
      assert.strictEqual(weak.exitCode, 0)
      assert.match(weak.of("stores").join(), /^warning: Other users .* \(mode 644\)\. Run chmod 600\.$/)
      assert.match(weak.of("clock").join(), /warning: It was written 3\d\d\d s in the future/)
    }).pipe(Effect.scoped)
  )

  it.live("shows the host of a database, and never its password", () =>
    Effect.gen(function* () {
      const { port } = yield* Effect.scoped(listening())
      const run = yield* doctor("--store", `postgres://me:${secret}@127.0.0.1:${port}/agents`)
      assert.strictEqual(run.exitCode, 1)
      assert.deepStrictEqual(run.of("stores"), [
        `error: PostgreSQL at 127.0.0.1:${port} does not answer. Check its address and user.`
      ])
    }).pipe(Effect.scoped)
  )

  it.live("says who holds the lock, and gives it back when it is free", () =>
    Effect.gen(function* () {
      const at = yield* folder
      const lock = join(at, "agent.lock")
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* StoreLock.acquire(lock)
          const held = yield* doctor("--lock", lock)
          assert.strictEqual(held.exitCode, 0)
          assert.match(held.of("lock").join(), new RegExp(`^warning: .* process ${process.pid} `))
        })
      )
      assert.deepStrictEqual((yield* doctor("--lock", lock)).of("lock"), ["ok: The lock is free."])
      yield* Effect.scoped(StoreLock.acquire(lock))
      const nowhere = yield* doctor("--lock", join(at, "none", "agent.lock"))
      assert.strictEqual(nowhere.exitCode, 1)
      assert.match(nowhere.of("lock").join(), /^error: The folder .*none is missing/)
    }).pipe(Effect.scoped)
  )

  it.live("finds ports that are in use, and addresses that this machine does not have", () =>
    Effect.gen(function* () {
      const { port } = yield* listening()
      const run = yield* doctor("--port", String(port), "--port", "192.0.2.1:8080")
      assert.strictEqual(run.exitCode, 1)
      assert.deepStrictEqual(run.of("ports"), [
        `error: Port ${port} is in use. End the program that has it, or choose another port.`,
        "error: This machine has no address 192.0.2.1. Name one of its own."
      ])
      const wrong = yield* Effect.promise(() => outlast(["doctor", "--port", "70000"], { env }))
      assert.strictEqual(wrong.exitCode, 2)
      assert.include(wrong.stderr, "--port 70000 is no port")
    }).pipe(Effect.scoped)
  )
})

describe("outlast doctor --url", () => {
  /** A status page that answers with this state. */
  const answering = (status: number, body: string) =>
    Effect.acquireRelease(
      Effect.callback<{
        readonly url: string
        readonly tokens: Array<string | undefined>
        readonly end: () => void
      }>((resume) => {
        const tokens: Array<string | undefined> = []
        const server = createHttpServer(({ headers, url }, response) => {
          tokens.push(headers.authorization)
          response.writeHead(url === "/status/api/state" ? status : 404).end(body)
        })
        server.listen(0, "127.0.0.1", () => {
          const { port } = server.address() as AddressInfo
          const url = `http://127.0.0.1:${port}/status`
          resume(Effect.succeed({ url, tokens, end: () => server.close() }))
        })
      }),
      ({ end }) => Effect.sync(end)
    )
  const state = (level: string) =>
    JSON.stringify({ name: "triage", headline: { level, text: `It is ${level}.` } })

  it.live("says what the first line of the page says, with its level", () =>
    Effect.gen(function* () {
      for (const [level, exitCode, said] of [
        ["good", 0, "ok"],
        ["warn", 0, "warning"],
        ["bad", 1, "error"]
      ] as const) {
        const { url } = yield* answering(200, state(level))
        const run = yield* doctor("--url", url)
        assert.strictEqual(run.exitCode, exitCode)
        assert.deepStrictEqual(run.of("program"), [`${said}: triage: It is ${level}.`])
      }
    }).pipe(Effect.scoped)
  )

  it.live("sends the token of operators, and says when it is missing or wrong", () =>
    Effect.gen(function* () {
      const { tokens, url } = yield* answering(401, "{}")
      const run = yield* Effect.promise(() =>
        outlast(["doctor", "--url", url], { env: { ...env, OUTLAST_OPS_TOKEN: secret } })
      )
      assert.strictEqual(run.exitCode, 1)
      assert.include(run.all, "needs the token of operators: set OUTLAST_OPS_TOKEN")
      assert.deepStrictEqual(tokens, [`Bearer ${secret}`])
      assert.notInclude(run.all, secret)
    }).pipe(Effect.scoped)
  )

  it.live("finds a program that does not answer, and a page of another program", () =>
    Effect.gen(function* () {
      const { end, url } = yield* answering(200, "<html>")
      assert.match(
        (yield* doctor("--url", url)).of("program").join(),
        /^error: .* is no status page of Outlast/
      )
      end()
      assert.match((yield* doctor("--url", url)).of("program").join(), /^error: .* does not answer/)
      for (const wrong of ["status", "ftp://a", `http://user:${secret}@a`]) {
        const run = yield* Effect.promise(() => outlast(["doctor", "--url", wrong], { env }))
        assert.strictEqual(run.exitCode, 2)
        assert.notInclude(run.all, secret)
      }
    }).pipe(Effect.scoped)
  )
})

describe("Ports.parse", () => {
  it.each([
    ["8080", { host: undefined, port: 8_080 }],
    ["127.0.0.1:1", { host: "127.0.0.1", port: 1 }],
    ["localhost:65535", { host: "localhost", port: 65_535 }],
    ["[::1]:80", { host: "::1", port: 80 }],
    ["::1:80", undefined],
    ["0", undefined],
    ["65536", undefined],
    ["http://a:80", undefined],
    ["", undefined]
  ])("reads %s", (text, port) => {
    assert.deepStrictEqual(Ports.parse(text), port)
  })
})

describe("SystemClock", () => {
  const now = Date.UTC(2026, 11, 1)

  it("is an error before the release of the program", () => {
    assert.deepStrictEqual(SystemClock.problems(now), [])
    assert.match(
      SystemClock.problems(0)[0]?.message ?? "",
      /^The clock says 1970-01-01T00:00:00\.000Z, which is before/
    )
  })

  it("is a warning when a database has another time", () => {
    assert.deepStrictEqual(SystemClock.ofServer("db", now + 5_000, now), [])
    for (const theirs of [now - 60_000, now + 60_000]) {
      assert.match(
        SystemClock.ofServer("db", theirs, now)[0]?.message ?? "",
        /differs by 60 s from that of db/
      )
    }
  })
})
