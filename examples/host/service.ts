/**
 * An agent service that survives signals, kills and second starts: `service.ts <folder> <webhook> [options as JSON]`.
 *
 * `POST /events` with `{ id, text }` accepts an event; each is answered by a run of the agent, and the answer goes to the
 * webhook. `/live`, `/ready` and `/status` are for operators. The model is scripted, so the service needs no key.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, FiberSet, Layer, Option, Queue, Schema } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import { createServer } from "node:http"
import type { IncomingMessage } from "node:http"
import { join } from "node:path"
import { Agent, Failover, Presets } from "@outlast/agent"
import { Inbound } from "@outlast/agent/guard"
import { DeliveryStore, Outbox } from "@outlast/delivery"
import { Host, SingleInstance, SqliteClient } from "@outlast/node"
import { Backoff } from "@outlast/resilience"
import { ScriptedModel } from "@outlast/testing"
import { Inbox } from "./Inbox.ts"
import * as Mcp from "./Mcp.ts"
import * as Webhook from "./Webhook.ts"

interface Options {
  /** Time between "not ready" and the first phase of a shutdown. */
  readonly wait?: number
  /** Behaviour while another instance runs. */
  readonly whenHeld?: SingleInstance.WhenHeld | "nexo"
  /** Milliseconds of one answer of the model. */
  readonly thinking?: number
}

const [folder = ".", webhook = "", json = "{}"] = process.argv.slice(2)
const options: Options = JSON.parse(json)

/** Runs at a time. Others wait in the inbox. */
const concurrency = 20

/** Accepted events that wait, at most. */
const capacity = 10_000

const Warehouse = Toolkit.make(
  Tool.make("stock", {
    description: "Tells how many pieces of an article are in stock.",
    parameters: Schema.Struct({ article: Schema.String }),
    success: Schema.String
  })
)

/** Asks for the stock twice, and then answers. */
const Model = Layer.unwrap(
  Effect.map(
    ScriptedModel.make({
      provider: "anthropic",
      model: "claude-sonnet-4-5",
      plan: {
        answers: ({ turn }) =>
          turn < 2
            ? { toolCalls: [{ name: "stock", params: { article: `article ${turn}` } }] }
            : { text: `Answered in turn ${turn + 1}.` },
        faults: [{ times: "always", fault: { type: "slow", delay: options.thinking ?? 200 } }]
      }
    }),
    (model) => Failover.layer([model])
  )
)

/** The model, with the conversation saved before each call: also a process that is killed can go on. */
const saving = (save: (transcript: Prompt.Prompt) => Effect.Effect<void>) =>
  Effect.map(LanguageModel.LanguageModel, (model) => {
    // One signature in place of the overloads, which a wrapper cannot repeat.
    const ask = model.generateText as unknown as (options: object) => Effect.Effect<never>
    const generateText = (options: { readonly prompt: Prompt.RawInput }) =>
      Effect.andThen(save(Prompt.make(options.prompt)), ask(options))
    return { ...model, generateText: generateText as typeof model.generateText }
  })

const answer = (id: string) =>
  Effect.gen(function* () {
    const inbox = yield* Inbox
    const status = yield* Host.status
    // The backlog is left on disk.
    if (status !== "running" && status !== "draining") return yield* Effect.never
    const prompt = yield* inbox.prompt(id)
    if (Option.isNone(prompt)) return
    const messages = prompt.value.content.length
    if (messages > 1) console.log(`run ${id} continues with ${messages} messages`)
    const model = yield* saving((transcript) =>
      Effect.tap(Effect.orDie(inbox.save(id, transcript)), () =>
        Effect.sync(() => console.log(`run ${id} has saved ${transcript.content.length} messages`))
      )
    )
    const { text } = yield* Agent.run({ prompt: prompt.value, toolkit: Warehouse }).pipe(
      Effect.provideService(LanguageModel.LanguageModel, model),
      Host.run("runs", { name: `run ${id}`, drain: "500 millis" })
    )
    yield* inbox.finish(id, text)
  }).pipe(
    // The event stays in the inbox, and the next start continues it.
    Effect.catchCause((cause) => Effect.logWarning(`The run of ${id} did not end.`, cause))
  )

/** Reads a request of at most 64 KiB. */
const bodyOf = async (request: IncomingMessage): Promise<string> => {
  let body = ""
  for await (const chunk of request) {
    body += String(chunk)
    if (body.length > 65_536) throw new Error("too large")
  }
  return body
}

const Event = Schema.fromJsonString(
  Schema.Struct({ id: Schema.String, text: Schema.optional(Schema.NullOr(Schema.String)) })
)

const main = Effect.gen(function* () {
  const lock = yield* SingleInstance.acquire(
    join(folder, "agent.lock"),
    options.whenHeld === "nexo" ? Presets.nexo.instance.options : { whenHeld: options.whenHeld }
  )
  yield* Host.ready("lock", lock.isHeld)
  return yield* Effect.provide(serve, App)
})

const serve = Effect.gen(function* () {
  const host = yield* Host.Host
  const inbox = yield* Inbox
  const outbox = yield* Outbox.Outbox
  yield* Host.onShutdown("outbox", { name: "answers", run: outbox.flush("2 seconds") })
  yield* Host.section(
    "outbox",
    Effect.map(outbox.status, ({ backlog, circuit }) => ({ backlog, circuit }))
  )

  const inbound = yield* Inbound.make
  const todo = yield* Queue.unbounded<string>()
  const accept = Effect.fnUntraced(function* (body: string) {
    if (Queue.sizeUnsafe(todo) >= capacity) return 503
    const { id, text } = yield* Schema.decodeUnknownEffect(Event)(body)
    if (!(yield* inbound.accept({ text }))) return 204
    if (yield* inbox.accept(id, text ?? "")) yield* Queue.offer(todo, id)
    return 202
  })

  const run = yield* FiberSet.makeRuntime()
  const server = createServer((request, response) => {
    const reply = (status: number, body: unknown = {}) => {
      response.writeHead(status, { "content-type": "application/json" })
      response.end(JSON.stringify(body))
    }
    const respond = Effect.gen(function* () {
      if (request.url === "/live") return reply(200)
      if (request.url === "/ready") {
        const readiness = yield* host.readiness
        return reply(readiness.isReady ? 200 : 503, readiness)
      }
      if (request.url === "/status") return reply(200, yield* host.sections)
      if (request.method !== "POST" || request.url !== "/events") return reply(404)
      return reply(
        yield* Effect.flatMap(
          Effect.promise(() => bodyOf(request)),
          accept
        )
      )
    })
    run(Effect.catchCause(respond, () => Effect.sync(() => reply(400))))
  })
  const close = Effect.callback<void>((resume) => {
    server.close(() => resume(Effect.void))
    server.closeIdleConnections()
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () => Effect.sync(() => server.closeAllConnections())
  )
  yield* Host.onShutdown("intake", { name: "http", run: close })

  yield* Queue.offerAll(todo, yield* inbox.open)
  const address = server.address()
  console.log(`listening ${typeof address === "object" ? address?.port : address}`)
  return yield* Effect.forEach(
    Array.from({ length: concurrency }),
    () => Effect.forever(Effect.flatMap(Queue.take(todo), answer)),
    { concurrency, discard: true }
  )
})

const Tools = Warehouse.toLayer(
  Effect.map(Mcp.make("warehouse", process.execPath, [join(import.meta.dirname, "tools.mjs")]), (mcp) => ({
    stock: (params) => Effect.orDie(mcp.call("stock", params))
  }))
).pipe(Layer.provide(NodeServices.layer))

const Delivery = Outbox.layer({
  // One process at a time has this name, so it goes on with its own backlog.
  publisher: "agent",
  sweepEvery: "250 millis",
  circuit: { open: Backoff.exponential({ initial: "200 millis", cap: "1 second" }) }
}).pipe(Layer.provide(Webhook.layer(webhook)), Layer.provide(DeliveryStore.layerSql()))

const App = Layer.mergeAll(Inbox.layer.pipe(Layer.provideMerge(Delivery)), Tools, Model).pipe(
  Layer.provide(SqliteClient.layer({ filename: join(folder, "agent.db") }))
)

Host.runMain(Effect.scoped(main), { wait: options.wait })
