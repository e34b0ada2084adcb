import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Layer } from "effect"
import { SqliteClient } from "@outlast/node/sqlite"
import { DeadLetters, DeliveryStore } from "@outlast/delivery"
import { afterAll, assert, beforeEach, describe, it } from "vitest"
import { linesOf, outlast as start } from "./process.ts"
import { outlast } from "./run.ts"

let folder = ""
let file = ""
const folders: Array<string> = []
afterAll(() => Promise.all(folders.map((path) => rm(path, { recursive: true }))))

const layer = () =>
  DeadLetters.layer.pipe(
    Layer.provideMerge(DeliveryStore.layerSql()),
    Layer.provide(SqliteClient.layer({ filename: file }))
  )

const hour = 3_600_000
const ago = (hours: number) => Date.now() - hours * hour

const letter = (id: string, subject: string, at: number) => ({
  key: `outbox/${id}`,
  id,
  subject,
  body: new TextEncoder().encode(`body of ${id}`),
  headers: { Trace: "t" },
  source: "outbox",
  reason: "rejected" as const,
  detail: "No stream\u001b[31m covers it.",
  attempts: 3,
  at
})

const fill = async () => {
  folder = await mkdtemp(join(tmpdir(), "outlast-dlq-"))
  folders.push(folder)
  file = join(folder, "outbox.db")
  await Effect.runPromise(
    Effect.gen(function* () {
      const { write } = yield* DeadLetters.DeadLetters
      yield* write(letter("e-1", "orders.created", ago(50)))
      yield* write(letter("e-2", "orders.paid", ago(5)))
      yield* write(letter("e-3", "users.created", ago(1)))
    }).pipe(Effect.provide(layer()))
  )
}

const dlq = (...args: ReadonlyArray<string>) => outlast(["dlq", ...args, "--store", file])
const remaining = () =>
  Effect.runPromise(
    Effect.gen(function* () {
      const { list } = yield* DeadLetters.DeadLetters
      const { totals } = yield* DeliveryStore.DeliveryStore
      return { dead: (yield* list()).map(({ id }) => id), events: (yield* totals).events }
    }).pipe(Effect.provide(layer()))
  )

describe("outlast dlq", { timeout: 60_000 }, () => {
  beforeEach(fill)

  it("lists the newest first, by filter and limit, without bodies", async () => {
    const all = await dlq("list")
    assert.strictEqual(all.exitCode, 0, all.stderr)
    assert.match(all.stdout, /^number +died .*\n3 .*users\.created +e-3\n2 .*\n1 .*e-1\n$/s)
    assert.notInclude(all.stdout, "body of")
    const some = await dlq("list", "--subject", "orders.*", "--since", "1d", "--json")
    const [only] = linesOf(some)
    assert.strictEqual(linesOf(some).length, 1)
    assert.deepInclude(JSON.parse(only ?? ""), { id: "e-2", reason: "rejected", bytes: 11, state: "dead" })
    assert.notInclude(some.stdout, "body of")
    const few = await dlq("list", "--limit", "2")
    assert.include(few.stdout, "2 of 3.")
    const old = await dlq("list", "--older-than", "2d", "--json")
    assert.strictEqual(JSON.parse(old.stdout).id, "e-1")
    assert.strictEqual((await dlq("list", "--reason", "shed")).stdout, "No dead letters.\n")
  })

  it("shows one with its history, and its body only when it is asked for", async () => {
    const redacted = await dlq("show", "e-2")
    assert.strictEqual(redacted.exitCode, 0, redacted.stderr)
    assert.include(redacted.stdout, "died (rejected): No stream [31m covers it.")
    assert.notInclude(redacted.stdout, "\u001b")
    assert.notInclude(redacted.stdout, "body of")
    assert.include((await dlq("show", "2", "--body")).stdout, "\nbody of e-2\n")
    const json = JSON.parse((await dlq("show", "2", "--body", "--json")).stdout)
    assert.deepInclude(json, { body: "body of e-2", encoding: "utf-8", key: "outbox/e-2" })
  })

  it("replays some, and says what a dry run would do", async () => {
    const dry = await dlq("replay", "--subject", "orders.>", "--dry-run")
    assert.strictEqual(dry.stdout, "2 dead letters would be replayed.\n")
    assert.deepStrictEqual(await remaining(), { dead: ["e-3", "e-2", "e-1"], events: 0 })
    const one = await dlq("replay", "e-1", "--json")
    assert.deepStrictEqual(JSON.parse(one.stdout), { replayed: 1, dryRun: false })
    assert.deepStrictEqual(await remaining(), { dead: ["e-3", "e-2"], events: 1 })
    assert.match((await dlq("show", "e-1")).stdout, /replayed by outlast dlq \(.*\) as e-1#replay-1-1/)
    assert.strictEqual((await dlq("replay", "--all")).stdout, "2 dead letters replayed.\n")
    assert.deepStrictEqual(await remaining(), { dead: [], events: 3 })
  })

  it("replays as many as the limit says, the oldest first, and a dry run says so", async () => {
    const dry = await dlq("replay", "--all", "--limit", "2", "--dry-run", "--json")
    assert.deepStrictEqual(JSON.parse(dry.stdout), { replayed: 2, dryRun: true })
    const wide = await dlq("replay", "--all", "--limit", "9", "--dry-run")
    assert.strictEqual(wide.stdout, "3 dead letters would be replayed.\n")
    assert.strictEqual(
      (await dlq("purge", "--all", "--dry-run")).stdout,
      "3 dead letters would be removed.\n"
    )
    assert.deepStrictEqual(await remaining(), { dead: ["e-3", "e-2", "e-1"], events: 0 })
    const done = await dlq("replay", "--all", "--limit", "2")
    assert.strictEqual(done.stdout, "2 dead letters replayed.\n")
    assert.deepStrictEqual(await remaining(), { dead: ["e-3"], events: 2 })
  })

  it("removes by age", async () => {
    assert.strictEqual((await dlq("purge", "--older-than", "2h")).stdout, "2 dead letters removed.\n")
    assert.deepStrictEqual((await remaining()).dead, ["e-3"])
  })

  it("ends with 1 for an id that is not there, and changes nothing", async () => {
    for (const command of ["show", "replay", "purge"]) {
      const ids = command === "show" ? ["e-9"] : ["e-1", "e-9"]
      const run = await dlq(command, ...ids)
      assert.strictEqual(run.exitCode, 1)
      assert.include(run.stderr, "There is no dead letter e-9.")
      assert.strictEqual(run.stdout, "")
    }
    assert.strictEqual((await remaining()).dead.length, 3)
  })

  it("makes no store of what is none", async () => {
    const missing = await outlast(["dlq", "list", "--store", join(folder, "nothing.db")])
    assert.strictEqual(missing.exitCode, 1, missing.all)
    assert.include(missing.stderr, "nothing.db")
    await writeFile(join(folder, "text.db"), "hello ".repeat(1_000))
    const text = await outlast(["dlq", "list"], { env: { OUTLAST_STORE: join(folder, "text.db") } })
    assert.strictEqual(text.exitCode, 1, text.all)
    assert.notMatch(text.stderr, /\n\s+at /)
    const other = await outlast(["dlq", "list", "--store", file, "--prefix", "other"])
    assert.include(other.stderr, "no tables of an outbox with the prefix `other`")
    assert.notInclude(await readdir(folder), "nothing.db")
    assert.strictEqual((await outlast(["dlq", "list"])).exitCode, 2)
  })

  it("names the host of a database that does not answer, and no password", async () => {
    const run = await start(["dlq", "list", "--store", "postgres://me:secret-word@127.0.0.1:1/db"])
    assert.strictEqual(run.exitCode, 1, run.all)
    assert.include(run.stderr, "127.0.0.1:1")
    assert.notInclude(run.all, "secret-word")
  })
})

describe("outlast dlq, used wrongly", () => {
  const misuse: ReadonlyArray<readonly [ReadonlyArray<string>, RegExp]> = [
    [["replay"], /Which dead letters\? .*--all/],
    [["purge", "--all", "--subject", "a"], /--all goes with no id/],
    [["purge", "--all", "--limit", "3"], /purge has no --limit/],
    [["list", "--since", "yesterday"], /--since must be an age/],
    [["list", "--limit", "0"], /--limit must be from 1/]
  ]
  for (const [args, says] of misuse) {
    it(`ends with 2 for ${args.join(" ")}`, async () => {
      const run = await outlast(["dlq", ...args, "--store", "never-opened.db"])
      assert.strictEqual(run.exitCode, 2, run.all)
      assert.match(run.stderr, says)
      assert.notMatch(run.stderr, /\n\s+at /)
    })
  }
})
