import { spawn } from "node:child_process"
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Effect, Layer, Schema } from "effect"
import { SqliteClient } from "@outlast/node/sqlite"
import { Task, Tasks, TaskStore } from "@outlast/tasks"
import { SqlClient } from "effect/sql"
import { afterAll, assert, beforeEach, describe, it } from "vitest"
import { installed, installedMain, linesOf } from "./process.ts"
import { outlast } from "./run.ts"

let folder = ""
let file = ""
const folders: Array<string> = []
afterAll(() => Promise.all(folders.map((path) => rm(path, { recursive: true, maxRetries: 3 }))))

const Ticket = Schema.Struct({ text: Schema.String })
const Triage = Task.make("triage", { version: 1, params: Ticket })
const Other = Task.make("other", { version: 3, params: Ticket })

const client = () => Tasks.layerClient().pipe(Layer.provide(SqliteClient.layer({ filename: file })))
const stateOf = (id: string) =>
  Effect.runPromise(
    Effect.gen(function* () {
      const { status } = yield* Tasks.Tasks
      return (yield* status(id)).pipe((found) => (found._tag === "Some" ? found.value.state._tag : "none"))
    }).pipe(Effect.provide(client()))
  )

const fill = async () => {
  folder = await mkdtemp(join(tmpdir(), "outlast-tasks-"))
  folders.push(folder)
  file = join(folder, "tasks.db")
  await Effect.runPromise(
    Effect.gen(function* () {
      yield* Triage.submit({ params: { text: "secret-text" }, key: "t-1" })
      yield* Triage.submit({ params: { text: "secret-text" }, key: "t-2" })
      yield* Other.submit({ params: { text: "secret-text" }, key: "o-1" })
    }).pipe(Effect.provide(client()))
  )
}

const tasks = (...args: ReadonlyArray<string>) => outlast(["tasks", ...args, "--store", file])

/** Agents whose model answers at once, or never for a ticket that says so. */
const agents = `
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { Task } from "@outlast/tasks"
const Triage = Task.make("triage", { version: 1, params: Schema.Struct({ text: Schema.String }) })
const finish = { type: "finish", reason: "stop", usage: { inputTokens: {}, outputTokens: {} }, response: undefined }
const model = Layer.effect(LanguageModel.LanguageModel, LanguageModel.make({
  generateText: ({ prompt }) => Effect.succeed([{ type: "text", text: "triaged" }, finish]),
  streamText: () => Stream.empty
}))
export default Triage.toLayer(({ text }) => ({ prompt: text })).pipe(Layer.provide(model))
`

describe("outlast tasks", { timeout: 240_000 }, () => {
  beforeEach(fill)

  it("lists the newest first, by state, agent and limit, without parameters", async () => {
    const all = await tasks("list")
    assert.strictEqual(all.exitCode, 0, all.stderr)
    assert.match(
      all.stdout,
      /^task +agent .*\nother\/o-1 .*\ntriage\/t-2 .*\ntriage\/t-1 .*queued, number 1\n$/s
    )
    assert.notInclude(all.stdout, "secret-text")
    const some = await tasks("list", "--task", "triage", "--state", "Queued", "--limit", "1", "--json")
    assert.strictEqual(linesOf(some).length, 1)
    assert.deepInclude(JSON.parse(some.stdout), { id: "triage/t-2", version: 1, restarts: 0 })
    assert.strictEqual((await tasks("list", "--state", "InDoubt")).stdout, "No tasks.\n")
    assert.include((await tasks("list", "--limit", "2")).stdout, "The newest 2. There are more")
  })

  it("cancels, resumes and removes tasks, and says which cannot be", async () => {
    const cancelled = await tasks("cancel", "triage/t-1", "triage/nothing")
    assert.strictEqual(cancelled.exitCode, 1)
    assert.strictEqual(cancelled.stdout, "triage/t-1: cancelled\n")
    assert.include(cancelled.stderr, "There is no task `triage/nothing`")
    assert.strictEqual(await stateOf("triage/t-1"), "Cancelled")
    const shown = await tasks("show", "triage/t-1")
    assert.match(shown.stdout, /^Task triage\/t-1: cancelled by outlast tasks \(.*\)\n/)
    const watched = await tasks("watch", "triage/t-1")
    assert.strictEqual(watched.exitCode, 1)
    const resumed = await tasks("resume", "triage/t-1", "--json")
    assert.deepStrictEqual(JSON.parse(resumed.stdout), { id: "triage/t-1", resumed: true })
    assert.strictEqual(await stateOf("triage/t-1"), "Queued")
    const again = await tasks("resume", "triage/t-1")
    assert.strictEqual(again.exitCode, 1)
    assert.include(again.stderr, "it is Queued, and resume needs a task that is Failed or Cancelled")
  })

  it("says of a task that runs that its worker was asked, and of one that ended that it had", async () => {
    const begun = Effect.flatMap(TaskStore, ({ started }) => started("triage/t-1", 1))
    const store = Tasks.layerStore().pipe(Layer.provide(SqliteClient.layer({ filename: file })))
    await Effect.runPromise(Effect.provide(begun, store))
    const asked = await tasks("cancel", "triage/t-1", "--json")
    assert.deepStrictEqual(JSON.parse(asked.stdout), { id: "triage/t-1", cancelled: false })
    const again = await tasks("cancel", "triage/t-1")
    assert.match(again.stdout, /^triage\/t-1: asked to cancel; its worker ends it \(now: queued/)
    assert.strictEqual(again.exitCode, 0)
    assert.strictEqual(await stateOf("triage/t-1"), "Queued")
  })

  it("removes tasks that ended, by age", async () => {
    await tasks("cancel", "other/o-1")
    assert.strictEqual((await tasks("prune", "--older-than", "1h")).stdout, "0 tasks removed.\n")
    assert.strictEqual((await tasks("prune", "--older-than", "0s")).stdout, "1 task removed.\n")
    assert.strictEqual(await stateOf("other/o-1"), "none")
  })

  it("runs them by a worker that ends in good order, and shows the answer only when asked", async () => {
    const module = fileURLToPath(new URL("./agents.tmp.mjs", import.meta.url))
    await writeFile(module, agents)
    const args = [installedMain, "worker", module, "--store", file, "--name", "w"]
    const worker = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] })
    try {
      const ended = new Promise<number | null>((resolve) => worker.once("close", resolve))
      let said = ""
      worker.stdout.on("data", (chunk) => (said += chunk))
      const watched = await tasks("watch", "triage/t-2")
      assert.strictEqual(watched.exitCode, 0, watched.all)
      assert.match(watched.stdout, /done \(completed\)\n$/)
      assert.include(said, "Worker w runs the tasks of")
      const second = await installed(["worker", module, "--store", file])
      assert.strictEqual(second.exitCode, 1, second.all)
      assert.include(second.stderr, "is locked")
      // It is queued until the worker has looked for tasks the next time.
      const stateNow = async () => JSON.parse((await tasks("show", "other/o-1", "--json")).stdout).state
      let state = await stateNow()
      while (state._tag === "Queued") state = await stateNow()
      assert.deepStrictEqual(state, { _tag: "WaitingForWorker", needs: "other@3" })
      worker.kill("SIGTERM")
      assert.strictEqual(await ended, 130)
      const short = await tasks("show", "triage/t-2")
      assert.strictEqual(short.exitCode, 0, short.all)
      assert.notInclude(short.stdout, "triaged")
      const long = await tasks("show", "triage/t-2", "--answer")
      assert.match(long.stdout, /\n\ntriaged\n$/, long.all)
    } finally {
      worker.kill("SIGKILL")
      await rm(module, { force: true })
    }
  })

  it("decides nothing for a task that waits for nothing", async () => {
    const run = await tasks("decide", "triage/t-1", "--did-not")
    assert.strictEqual(run.exitCode, 1)
    assert.include(run.stderr, "it is Queued, and decide needs a task that is InDoubt")
  })

  const update = (state: unknown) =>
    Effect.runPromise(
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const tag = state !== null && typeof state === "object" && "_tag" in state ? String(state._tag) : ""
        yield* sql`UPDATE outlast_tasks SET tag = ${tag}, state = ${JSON.stringify(state)}, started = 1, wait = 'x'
          WHERE id = 'triage/t-1'`
      }).pipe(Effect.provide(SqliteClient.layer({ filename: file })))
    )

  it("decides about the effect that is named, and refuses a decision about another one", async () => {
    const key = "triage/t-1#0.1/turn/1/tool/pay-1"
    const effect = { key, task: "triage/t-1", generation: 1, tool: "pay", turn: 1, callId: "pay-1" }
    const rest = { params: { cents: 100 }, attempt: 2, holder: "w", boot: "b", at: 0 }
    await update({ _tag: "InDoubt", effect: { ...effect, ...rest } })
    const shown = await tasks("show", "triage/t-1")
    assert.include(
      shown.stdout,
      `next        outlast tasks decide "triage/t-1" --key "${key}#2" --happened or --did-not`
    )
    const stale = await tasks("decide", "triage/t-1", "--key", key, "--did-not")
    assert.strictEqual(stale.exitCode, 1, stale.all)
    assert.include(stale.stderr, `it waits for a decision about \`${key}#2\``)
    const decided = await tasks("decide", "triage/t-1", "--key", `${key}#2`, "--did-not")
    assert.strictEqual(decided.stdout, "triage/t-1: decided\n", decided.all)
  })

  it("lists a task that this version cannot read, with what to do, and the others", async () => {
    await update({ _tag: "Dreaming" })
    const all = await tasks("list")
    assert.match(
      all.stdout,
      /\ntriage\/t-1 +triage@1 .* unreadable \(Dreaming\): a newer version may have written it, so use that version\n/
    )
    assert.strictEqual(linesOf(await tasks("list", "--json")).length, 3)
    assert.include((await tasks("show", "triage/t-1")).stdout, "Task triage/t-1: unreadable (Dreaming)")
  })

  it("makes no store of what is none, and names no password", async () => {
    const missing = await outlast(["tasks", "list", "--store", join(folder, "nothing.db")])
    assert.strictEqual(missing.exitCode, 1, missing.all)
    assert.notInclude(await readdir(folder), "nothing.db")
    assert.strictEqual((await outlast(["tasks", "list"])).exitCode, 2)
    const none = await outlast(["tasks", "list", "--store", "postgres://me:secret-word@127.0.0.1:1/db"])
    assert.notStrictEqual(none.exitCode, 0, none.all)
    assert.include(none.stderr, "127.0.0.1:1")
    assert.notInclude(none.all, "secret-word")
  })

  it("starts no worker for a module without agents", async () => {
    const module = join(folder, "empty.mjs")
    await writeFile(module, "export default 1")
    const run = await installed(["worker", module, "--store", file])
    assert.strictEqual(run.exitCode, 2, run.all)
    assert.include(run.stderr, "is no Layer")
  })
})

describe("outlast tasks, used wrongly", () => {
  const misuse: ReadonlyArray<readonly [ReadonlyArray<string>, RegExp]> = [
    [["decide", "a"], /Say what is so: --happened/],
    [["decide", "a", "--happened", "--did-not"], /Say what is so/],
    [["decide", "a", "--did-not", "--result", "1"], /--result goes with --happened/],
    [["decide", "a", "--happened", "--result", "{"], /--result must be JSON/],
    [["decide", "a", "--approve", "maybe"], /--approve must be yes or no/],
    [["prune", "--older-than", "yesterday"], /--older-than must be an age/],
    [["prune", "--older-than", "2999-01-01T00:00:00Z"], /--older-than must be an age/],
    [["list", "--limit", "0"], /--limit must be at least 1/]
  ]
  for (const [args, says] of misuse) {
    it(`ends with 2 for ${args.join(" ")}`, async () => {
      const run = await outlast(["tasks", ...args, "--store", "never-opened.db"])
      assert.strictEqual(run.exitCode, 2, run.all)
      assert.match(run.stderr, says)
      assert.notMatch(run.stderr, /\n\s+at /)
    })
  }
})
