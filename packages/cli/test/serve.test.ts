/** `outlast serve` as a process, asked over HTTP. */
import { afterAll, assert, beforeAll, describe } from "@effect/vitest"
import { DeadLetters, DeliveryStore } from "@outlast/delivery"
import { SqliteClient } from "@outlast/node/sqlite"
import { Effect, Exit, Fiber, Layer, Scope } from "effect"
import { spawnSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { outlast } from "./process.ts"
import { outlast as inProcess } from "./run.ts"
import type { Served } from "./served.ts"
import { anyPort, ask, folder, json, run, serve, service, token } from "./served.ts"

describe("outlast serve", () => {
  /** One service for the tests that change none of its settings. No prompt has run before the first of them. */
  const scope = Effect.runSync(Scope.make())
  let started: (Served & { readonly data: string }) | undefined
  const running = () => started ?? assert.fail("The service is not running.")
  beforeAll(async () => {
    const start = Effect.flatMap(folder, (data) => Effect.map(serve(data), (own) => ({ ...own, data })))
    started = await Effect.runPromise(Scope.provide(start, scope))
  })
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

  service(
    "drops an empty prompt before the model, and refuses what is no prompt",
    Effect.gen(function* () {
      const { metrics, page } = running()
      assert.strictEqual((yield* run(page, { prompt: " " })).status, 204)
      assert.strictEqual((yield* run(page, {})).status, 204)
      assert.strictEqual((yield* run(page, { prompt: 1 })).status, 400)
      assert.strictEqual((yield* run(page, { prompt: "x".repeat(70_000) })).status, 413)
      const form = yield* ask(`${page}/api/runs`, { method: "POST", body: "prompt=x" })
      assert.strictEqual(form.status, 415)
      const counted = (yield* ask(`${metrics}/metrics`)).text
      assert.include(counted, 'outlast_inbound_messages_total{outcome="dropped"} 2')
      assert.notInclude(counted, "outlast_attempts_total{")
    })
  )

  service(
    "is not ready while the store of its tasks takes no writes, and says so",
    Effect.gen(function* () {
      const { data, probes } = running()
      const other = new DatabaseSync(join(data, "tasks.db"), { timeout: 5_000 })
      other.exec("BEGIN IMMEDIATE")
      const answer = yield* ask(`${probes}/ready`)
      assert.strictEqual(answer.status, 503)
      assert.include(answer.text, '"name":"tasks"')
      other.exec("ROLLBACK")
      other.close()
      const again = yield* Effect.repeat(ask(`${probes}/ready`), { until: ({ status }) => status === 200 })
      assert.include(again.text, '"tasks"')
    })
  )

  service(
    "answers a prompt with the events of its run, and shows the call",
    Effect.gen(function* () {
      const { metrics, output, page, probes } = running()
      assert.include(output(), "Fake providers on this machine")
      const { status, text } = yield* run(page, { prompt: "read many files" })
      assert.strictEqual(status, 200)
      const events = [...text.matchAll(/^event: (.*)$/gm)].map(([, event]) => event)
      assert.strictEqual(events[0], "run")
      assert.includeMembers(events, ["tool", "text", "transition"])
      assert.include(text, '"status":"completed"')
      const state = JSON.parse((yield* ask(`${page}/api/state`)).text)
      assert.deepInclude(state.sections.runs[0], { id: 1, state: "completed" })
      assert.isAbove(state.sections.activity.recent.length, 1)
      assert.lengthOf(state.sections.targets, 4)
      assert.strictEqual(state.sections["retry budget"].reserve, 10)
      assert.deepStrictEqual(state.actions, [])
      assert.notInclude(text, "main-key")
      assert.strictEqual((yield* ask(`${probes}/ready`)).status, 200)
      const scraped = (yield* ask(`${metrics}/metrics`)).text
      assert.match(scraped, /^outlast_calls_total\{outcome="answered"\} \d+$/m)
      // A tool of Prometheus, which few machines have. It parses strictly, and finds bad style.
      const {
        error,
        status: checked,
        stderr
      } = spawnSync("promtool", ["check", "metrics"], { input: scraped })
      if (error === undefined) assert.strictEqual(checked, 0, String(stderr))
    })
  )

  service(
    "lets operators open a circuit, lift cooldowns and turn the protection off, with the token",
    Effect.gen(function* () {
      const { output, page } = yield* serve(yield* folder, [], { OUTLAST_OPS_TOKEN: token })
      const act = (name: string, body: unknown) =>
        ask(`${page}/api/actions/${name}`, {
          method: "POST",
          headers: { ...json, authorization: `Bearer ${token}` },
          body: JSON.stringify(body)
        })
      assert.strictEqual((yield* act("trip", { circuit: "anthropic" })).status, 200)
      // The other provider answers meanwhile.
      assert.include((yield* run(page, { prompt: "tell me a joke" })).text, '"status":"completed"')
      yield* Effect.sleep("300 millis")
      const state = JSON.parse((yield* ask(`${page}/api/state`)).text)
      assert.strictEqual(state.sections.activity.recent[0].steps.at(-1).text, "openai/gpt-4.1#openai-key")
      assert.deepInclude(
        state.sections.circuits.find(({ circuit }: { circuit: string }) => circuit === "anthropic"),
        { phase: "open" }
      )
      assert.strictEqual((yield* act("reset", { circuit: "anthropic" })).status, 200)
      assert.strictEqual((yield* act("trip", { circuit: "none" })).status, 409)
      assert.strictEqual((yield* act("lift", {})).status, 200)
      assert.strictEqual((yield* act("lift", { key: "none" })).status, 409)
      assert.strictEqual((yield* act("protection", { enabled: false })).status, 200)
      yield* Effect.sleep("300 millis")
      const after = JSON.parse((yield* ask(`${page}/api/state`)).text)
      assert.deepStrictEqual(after.sections.settings, { enabled: false })
      assert.include(output(), "Operator: trip of anthropic done.")
      assert.notInclude(output(), token)
    })
  )

  service(
    "shows the dead letters of an outbox, and replays them",
    Effect.gen(function* () {
      const data = yield* folder
      const store = join(data, "outbox.db")
      const letters = DeadLetters.layer.pipe(
        Layer.provideMerge(DeliveryStore.layerSql()),
        Layer.provide(SqliteClient.layer({ filename: store }))
      )
      yield* Effect.gen(function* () {
        const dead = yield* DeadLetters.DeadLetters
        yield* dead.write({
          key: "outbox/e1",
          source: "outbox",
          id: "e1",
          subject: "answers",
          body: new TextEncoder().encode("planted-body"),
          headers: { authorization: "planted-header" },
          reason: "rejected",
          detail: "The broker refused it.",
          attempts: 3,
          at: Date.now()
        })
      }).pipe(Effect.provide(letters), Effect.orDie)
      const { page } = yield* serve(data, ["--store", store], { OUTLAST_OPS_TOKEN: token })
      const { text } = yield* ask(`${page}/api/state`)
      // What an event says is not for the page.
      assert.notInclude(text, "planted")
      const state = JSON.parse(text)
      assert.strictEqual(state.sections["dead letters"].total, 1)
      assert.deepStrictEqual(state.sections.outbox, { backlog: 0, bytes: 0, oldestAt: null })
      const replay = (id: string) =>
        ask(`${page}/api/actions/replay`, {
          method: "POST",
          headers: { ...json, authorization: `Bearer ${token}` },
          body: JSON.stringify({ ids: [id] })
        })
      assert.strictEqual((yield* replay("none")).status, 409)
      const done = yield* replay("e1")
      assert.deepStrictEqual([done.status, done.text], [200, '{"result":{"replayed":1}}'])
      // An answer of `/api/state` is shared for a quarter of a second.
      const outbox = yield* Effect.repeat(
        Effect.map(ask(`${page}/api/state`), ({ text }) => JSON.parse(text).sections.outbox),
        { until: ({ backlog }) => backlog === 1 }
      )
      assert.isNumber(outbox.oldestAt)
    })
  )

  service(
    "ends in order on SIGTERM, with the run that is under way",
    Effect.gen(function* () {
      const { child, exit, page, probes } = yield* serve(yield* folder)
      const running = yield* Effect.forkChild(run(page, { prompt: "tell me a joke" }), {
        startImmediately: true
      })
      yield* Effect.sleep("200 millis")
      child.kill("SIGTERM")
      yield* Effect.repeat(Effect.sleep("20 millis").pipe(Effect.andThen(ask(`${probes}/ready`))), {
        until: ({ status }) => status === 503
      })
      assert.strictEqual((yield* ask(`${probes}/live`)).status, 200)
      assert.include((yield* Fiber.join(running)).text, '"status":"completed"')
      assert.strictEqual(yield* exit, 0)
    })
  )

  service(
    "starts once, and says which port is taken",
    Effect.gen(function* () {
      const data = yield* folder
      const { probes } = yield* serve(data)
      const second = yield* Effect.promise(() => outlast(["serve", "--data", data, ...anyPort]))
      assert.strictEqual(second.exitCode, 75)
      assert.match(
        second.stderr,
        /^outlast serve: Another instance is running: .*\. End it first, or choose another folder with --data\.\n$/
      )
      const taken = yield* Effect.promise(() =>
        outlast(["serve", "--data", join(data, "other"), ...anyPort.slice(0, -1), new URL(probes).port])
      )
      assert.strictEqual(taken.exitCode, 1)
      assert.match(
        taken.stderr,
        /outlast serve: Cannot listen on 127\.0\.0\.1:\d+ for metrics \(EADDRINUSE\).*--metrics-port/
      )
    })
  )

  service(
    "says in one line why its folder cannot be used",
    Effect.gen(function* () {
      const data = yield* folder
      const file = join(data, "file")
      writeFileSync(file, "text")
      const broken = join(data, "broken")
      mkdirSync(broken)
      writeFileSync(join(broken, "tasks.db"), "not a database ".repeat(100))
      for (const [path, exitCode, message] of [
        [file, 2, /^outlast serve: --data \S+ is a file\. Choose a folder\.\n/],
        [join(file, "below"), 2, /^outlast serve: The folder \S+ cannot be made: ENOTDIR\. .*--data\.\n/],
        [broken, 1, /^outlast serve: .*tasks\.db.*\n$/]
      ] as const) {
        const ended = yield* Effect.promise(() => inProcess(["serve", "--fake", "--data", path, ...anyPort]))
        assert.strictEqual(ended.exitCode, exitCode, ended.all)
        assert.match(ended.stderr, message)
      }
    })
  )

  service(
    "refuses a token, a host and a name that could not work",
    Effect.gen(function* () {
      const data = yield* folder
      const start = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
        Effect.promise(() => inProcess(["serve", "--data", data, ...anyPort, ...args], { env }))
      const wrongToken = yield* start([], { OUTLAST_OPS_TOKEN: `${token}\n` })
      const wrongHost = yield* start(["--host", "127.evil.example"])
      const wrongName = yield* start(["--name", "https://status.example"])
      for (const [{ exitCode, stderr }, text] of [
        [wrongToken, "OUTLAST_OPS_TOKEN"],
        [wrongHost, "127.evil.example is not a loopback address"],
        [wrongName, "--name"]
      ] as const) {
        assert.strictEqual(exitCode, 2, stderr)
        assert.include(stderr, text)
        assert.notInclude(stderr, token)
      }
    })
  )

  service(
    "reads one file of settings, and says what is wrong with it",
    Effect.gen(function* () {
      const data = yield* folder
      const file = join(data, "outlast.yaml")
      writeFileSync(file, "policy:\n  maxAttempts: 3\nguard:\n  turns: 5\n")
      const { page } = yield* serve(data, ["--config", file])
      yield* run(page, { prompt: "read many files" })
      const { sections } = JSON.parse((yield* ask(`${page}/api/state`)).text)
      assert.deepStrictEqual(sections.settings, { policy: { maxAttempts: 3 }, guard: { turns: 5 } })
      assert.deepInclude(
        sections.activity.notices.map(({ run, text }: Record<"run" | "text", string>) => [run, text]),
        ["run 1", "✗ the guard stopped the run: turns"]
      )
      assert.deepInclude(sections.runs[0].limits, { limit: "turns", used: 5, of: 5 })
      writeFileSync(file, "policy:\n  maxAttemps: 3\n")
      const wrong = yield* Effect.promise(() => inProcess(["serve", "--data", data, "--config", file]))
      assert.strictEqual(wrong.exitCode, 1)
      assert.include(wrong.stderr, "policy.maxAttemps")
      const beyond = yield* Effect.promise(() =>
        inProcess(["serve", "--data", join(data, "b"), ...anyPort, "--host", "0.0.0.0"])
      )
      assert.strictEqual(beyond.exitCode, 2)
      assert.include(beyond.stderr, "OUTLAST_OPS_TOKEN")
    })
  )
})
