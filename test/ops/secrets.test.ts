/** Planted secrets appear in no response, event, log, metric or span of the endpoints. */
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Logger, Redacted, Schema, Tracer } from "effect"
import { LanguageModel } from "effect/ai"
import { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import { connect } from "node:net"
import { inspect } from "node:util"
import * as World from "./World.ts"

const token = "planted-operator-token-4711"
const prompt = "the planted marmalade ceremony of the lighthouse keepers"
const secrets = [
  token,
  prompt,
  "marmalade",
  "secret-of-revoked",
  "secret-of-busy",
  "secret-of-good",
  "quokka"
]

/** Providers repeat the key and the prompt in their errors, and the answer is a secret, too. */
const plan = {
  ...World.failing,
  answers: () => ({ text: "The quokka sleeps." }),
  faults: (World.failing.faults ?? []).map(({ fault, ...rest }) => ({
    ...rest,
    fault:
      fault.type === "status"
        ? {
            ...fault,
            body: { error: { message: `key secret-of-revoked, secret-of-busy, prompt: ${prompt}` } }
          }
        : fault
  }))
}

const program = World.layer(
  {
    probes: { port: 0 },
    metrics: { port: 0 },
    page: {
      port: 0,
      token: Redacted.make(token),
      actions: {
        fail: Ops.action({
          doc: "Fails.",
          params: Schema.Struct({ key: Schema.String }),
          run: () => Effect.fail(new Error("It could not be done."))
        })
      }
    }
  },
  plan
)

/** What a raw client reads of `/events` until the call has ended. */
const reading = (port: number | undefined) =>
  Effect.callback<string>((resume) => {
    const socket = connect(port ?? 0, "127.0.0.1")
    let text = ""
    socket.setEncoding("utf8")
    socket.on("data", (more: string) => {
      text += more
      if (text.includes("event: CallSucceeded")) {
        socket.destroy()
        resume(Effect.succeed(text))
      }
    })
    socket.write("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return Effect.sync(() => socket.destroy())
  })

it.live("planted secrets appear in no response, event, log, metric or span", () => {
  const seen: Array<string> = []
  const note = (what: unknown): void =>
    void seen.push(typeof what === "string" ? what : inspect(what, { depth: 12 }))
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      note({ name: span.name, attributes: span.attributes })
      const { end } = span
      span.end = (time, exit) => {
        // A value of a span that has succeeded is exported nowhere.
        note({ attributes: span.attributes, cause: Exit.isFailure(exit) ? exit.cause : undefined })
        end.call(span, time, exit)
      }
      return span
    }
  })
  return Effect.gen(function* () {
    const ops = yield* Ops.Ops
    yield* Host.section("broken", Effect.die(new Error(`${prompt} ${token}`)))
    const events = yield* Effect.forkChild(reading(ops.page), { startImmediately: true })
    yield* Effect.repeat(Effect.andThen(Effect.sleep("5 millis"), ops.readers), { until: (n) => n === 1 })
    yield* LanguageModel.generateText({ prompt })
    note(yield* Fiber.join(events))
    const ask = (port: number | undefined, path: string, init: RequestInit = {}) =>
      Effect.promise(async () => {
        const response = await fetch(`http://127.0.0.1:${port}${path}`, init)
        note(`${response.status} ${inspect(response.headers)} ${await response.text()}`)
      })
    for (const path of ["/", "/status.js", "/status.css", "/api/state", `/x?${token}`])
      yield* ask(ops.page, path)
    yield* ask(ops.probes, "/ready")
    yield* ask(ops.probes, "/live")
    yield* ask(ops.metrics, "/metrics")
    for (const [authorization, body] of [
      [`Bearer ${token}`, `{"key":"secret-of-busy"}`],
      [`Bearer ${token}`, `{"other":"secret-of-busy"}`],
      [`Bearer ${token}x`, `{"key":"secret-of-busy"}`],
      [`Bearer ${token}`, `secret-of-busy`]
    ] as const) {
      const headers = { authorization, "content-type": "application/json" }
      yield* ask(ops.page, "/api/actions/fail", { method: "POST", headers, body })
    }
    const all = seen.join("\n")
    for (const text of [
      "RateLimit",
      "outlast_attempts_total",
      "It could not be read",
      "It could not be done",
      "Operator:"
    ]) {
      assert.include(all, text)
    }
    for (const secret of secrets.flatMap((secret) => [secret, encodeURIComponent(secret)])) {
      const at = all.indexOf(secret)
      assert.strictEqual(at < 0 ? "" : all.slice(Math.max(0, at - 200), at + 100), "")
    }
  }).pipe(
    Effect.scoped,
    Effect.provide(program),
    Effect.provide([
      Logger.layer([Logger.make((entry) => note(entry.message))]),
      Layer.succeed(Tracer.Tracer, tracer)
    ])
  )
})
