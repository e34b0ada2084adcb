/** Durable tasks of `outlast serve`, over HTTP and over kills of its process. */
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { ask, folder, json, serve, service, token } from "./served.ts"

const submit = (page: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
  ask(`${page}/api/tasks`, {
    method: "POST",
    headers: { ...json, ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body)
  })

const at = (page: string, id: string) => `${page}/api/tasks/${encodeURIComponent(id)}`

const status = (page: string, id: string) => Effect.map(ask(at(page, id)), ({ text }) => JSON.parse(text))

const until = (page: string, id: string, tag: string) =>
  Effect.repeat(Effect.andThen(Effect.sleep("50 millis"), status(page, id)), {
    until: ({ state }) => state._tag === tag
  })

/** Reads the events of a task until one of them is enough. */
const reading = (page: string, id: string, isEnough: (text: string) => boolean) =>
  Effect.promise(async () => {
    const cut = new AbortController()
    const response = await fetch(`${at(page, id)}/events`, { signal: cut.signal })
    let text = ""
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk
      if (isEnough(text)) break
    }
    cut.abort()
    return text
  })

const countOf = (text: string, event: string): number => text.split(`event: ${event}\n`).length - 1

describe("tasks of outlast serve", () => {
  service(
    "run to their end, once for each key, with their events",
    Effect.gen(function* () {
      const { page } = yield* serve(yield* folder)
      const accepted = yield* Effect.promise(() =>
        fetch(`${page}/api/tasks`, {
          method: "POST",
          headers: json,
          body: JSON.stringify({ prompt: "read many files", key: "ticket-4711" })
        })
      )
      assert.strictEqual(accepted.status, 202)
      assert.strictEqual(accepted.headers.get("location"), "/api/tasks/prompt%2Fticket-4711")
      assert.deepStrictEqual(yield* Effect.promise(() => accepted.json()), { id: "prompt/ticket-4711" })
      const events = yield* reading(page, "prompt/ticket-4711", () => false)
      assert.include(events, "event: state\n")
      assert.isAbove(countOf(events, "tool"), 1)
      assert.match(events, /event: outcome\ndata: \{"status":"completed","text":"I have read all files/)
      const done = yield* status(page, "prompt/ticket-4711")
      assert.deepInclude(done, { id: "prompt/ticket-4711", turns: 14 })
      assert.include(done.answer, "I have read all files")
      // The end of a task that has ended.
      assert.include(yield* reading(page, "prompt/ticket-4711", () => false), "event: outcome\n")
      assert.strictEqual((yield* submit(page, { prompt: "read many files", key: "ticket-4711" })).status, 202)
      const other = yield* submit(page, { prompt: "tell me a joke", key: "ticket-4711" })
      assert.strictEqual(other.status, 409)
      const unnamed = yield* submit(page, { prompt: "tell me a joke" })
      assert.match(JSON.parse(unnamed.text).id, /^prompt\/[0-9a-f-]{36}$/)
    })
  )

  service(
    "go on after their process was killed, and repeat no finished turn",
    Effect.gen(function* () {
      const data = yield* folder
      const first = yield* serve(data)
      yield* submit(first.page, { prompt: "read many files", key: "1" })
      yield* reading(first.page, "prompt/1", (text) => countOf(text, "transition") >= 5)
      first.child.kill("SIGKILL")
      yield* first.exit
      const second = yield* serve(data)
      const done = yield* until(second.page, "prompt/1", "Done")
      assert.deepInclude(done, { turns: 14 })
      assert.include(done.answer, "I have read all files")
      const metrics = (yield* ask(`${second.metrics}/metrics`)).text
      const calls = Number(/^outlast_calls_total\{outcome="answered"\} (\d+)$/m.exec(metrics)?.[1])
      assert.isAtMost(calls, 14 - 4)
    })
  )

  service(
    "are cancelled, and wait over a shutdown in good order",
    Effect.gen(function* () {
      const data = yield* folder
      const first = yield* serve(data)
      yield* submit(first.page, { prompt: "count to 10000", key: "long" })
      yield* submit(first.page, { prompt: "read many files", key: "files" })
      yield* until(first.page, "prompt/long", "Running")
      const cancelled = yield* ask(at(first.page, "prompt/long"), { method: "DELETE" })
      assert.strictEqual(cancelled.status, 202)
      assert.deepInclude((yield* until(first.page, "prompt/long", "Cancelled")).state, {
        by: "a client of outlast serve"
      })
      assert.include(yield* reading(first.page, "prompt/long", () => false), '"status":"cancelled"')
      const watched = reading(first.page, "prompt/files", () => false)
      const reader = yield* Effect.forkChild(watched, { startImmediately: true })
      yield* Effect.sleep("300 millis")
      first.child.kill("SIGTERM")
      assert.strictEqual(yield* first.exit, 0)
      assert.match(reader.pollUnsafe()?._tag ?? "", /Success/)
      const second = yield* serve(data)
      assert.deepInclude(yield* until(second.page, "prompt/files", "Done"), { turns: 14 })
    })
  )

  service(
    "are behind the same checks and limits as prompts",
    Effect.gen(function* () {
      const { page } = yield* serve(yield* folder, ["--host", "0.0.0.0"], { OUTLAST_OPS_TOKEN: token })
      const bearer = { authorization: `Bearer ${token}` }
      const local = page.replace("0.0.0.0", "127.0.0.1")
      assert.strictEqual((yield* submit(local, { prompt: "hi" })).status, 401)
      for (const method of ["GET", "DELETE"]) {
        assert.strictEqual((yield* ask(at(local, "prompt/1"), { method })).status, 401)
        const unknown = yield* ask(at(local, "prompt/1"), { method, headers: bearer })
        assert.strictEqual(unknown.status, 404)
        const foreign = { ...bearer, origin: "http://evil.example" }
        assert.strictEqual((yield* ask(at(local, "prompt/1"), { method, headers: foreign })).status, 403)
      }
      const events = yield* ask(`${at(local, "prompt/1")}/events`, { headers: bearer })
      assert.strictEqual(events.status, 404)
      for (const [expected, body] of [
        [204, { prompt: " " }],
        [400, { prompt: 1 }],
        [400, { prompt: "hi", key: "" }],
        [400, { prompt: "hi", key: "x".repeat(81) }],
        [400, { prompt: "hi", other: 1 }],
        [400, "{"]
      ] as const) {
        assert.strictEqual((yield* submit(local, body, bearer)).status, expected, JSON.stringify(body))
      }
    })
  )
})
