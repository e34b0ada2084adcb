/**
 * Planted secrets: raw servers echo the key, a header and the prompt in every place and spelling.
 * None of them may appear in any output.
 */
import { assert, describe, it } from "@effect/vitest"
import { Agent, ChainStore, Failover, KeySource, Outlast, RecoveryPolicy, Targets } from "@outlast/agent"
import { KeyValueChainStore } from "@outlast/agent/stores"
import { Anthropic, Google, OpenAi, OpenAiCompatible } from "@outlast/providers"
import { ResilienceEvents } from "@outlast/resilience"
import { Cause, Deferred, Effect, Exit, Layer, Logger, Redacted, References, Stream, Tracer } from "effect"
import { LanguageModel } from "effect/ai"
import { KeyValueStore } from "effect/persistence"
import type { IncomingMessage, ServerResponse } from "node:http"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { inspect } from "node:util"

// Secrets without a recognisable form, which only a list of known values can find.
const secret = "Opaque~quokka.Zebra+planted/7731=="
const header = "gateway.wombat+planted/4410"
const prompt = "the planted marmalade ceremony of the lighthouse keepers"
const planted = /quokka|zebra|planted|wombat|marmalade|lighthouse/i

/** The parts of a request that a server echoes: the credentials, and the last words of the prompt. */
const heard = (request: IncomingMessage): string => {
  const { headers } = request
  const key = String(headers["x-api-key"] ?? headers["x-goog-api-key"] ?? headers["authorization"])
  return `${key} and ${String(headers["x-gateway"])} and ${prompt}`
}

type Answer = (response: ServerResponse, echo: string, url: string) => void

const json = (response: ServerResponse, status: number, body: unknown) => {
  response.writeHead(status, { "content-type": "application/json" })
  response.end(JSON.stringify(body))
}
const events = (response: ServerResponse, all: ReadonlyArray<string>) => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  for (const event of all) response.write(event)
  response.end()
}
const data = (body: unknown, name = "") =>
  `${name === "" ? "" : `event: ${name}\n`}data: ${typeof body === "string" ? body : JSON.stringify(body)}\n\n`

const begun = [
  data(
    {
      type: "message_start",
      message: {
        id: "m",
        type: "message",
        role: "assistant",
        content: [],
        model: "m",
        usage: { input_tokens: 1, output_tokens: 1 }
      }
    },
    "message_start"
  ),
  data(
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    "content_block_start"
  ),
  data(
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "So" } },
    "content_block_delta"
  ),
  data({
    id: "c",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta: { content: "So" } }]
  })
]

/** Every way in which a server can echo a value. */
const answers = {
  "a 401 with it in its message": (response, echo) =>
    json(response, 401, {
      type: "error",
      error: { type: "authentication_error", code: echo, message: `Incorrect API key provided: ${echo}` }
    }),
  "a 400 with it in all fields": (response, echo) =>
    json(response, 400, {
      error: { type: echo, code: echo, param: echo, status: echo, message: echo, [echo]: echo },
      request_id: echo
    }),
  "a 429 with it escaped": (response, echo) => {
    const escaped = [
      encodeURIComponent(echo),
      JSON.stringify(JSON.stringify(echo)),
      echo.replace(prompt, "").toUpperCase()
    ].join(" ")
    json(response, 429, { error: { message: `?key=${escaped} ${Buffer.from(echo).toString("utf8")}` } })
  },
  "a 500 as a page": (response, echo) => {
    response.writeHead(500, { "content-type": "text/html" })
    response.end(`<html><title>${echo}</title><pre>${echo.replaceAll(" ", "&nbsp;")}</pre></html>`)
  },
  "a 403 with it in its headers": (response, echo) => {
    for (const name of [
      "x-request-id",
      "request-id",
      "retry-after",
      "www-authenticate",
      "x-should-retry",
      "server"
    ]) {
      response.setHeader(name, echo)
    }
    response.setHeader("set-cookie", `key=${echo}`)
    response.statusMessage = "No"
    json(response, 403, { error: { message: "no" } })
  },
  "a 529 with a part of it": (response, echo) =>
    json(response, 529, {
      error: { type: "overloaded_error", message: `Key ${echo.slice(0, 24)}… is over` }
    }),
  "a redirect to another host": (response, echo) => {
    const location = `http://user:${encodeURIComponent(echo)}@127.0.0.1:1/${encodeURIComponent(echo)}?key=${encodeURIComponent(echo)}`
    response.writeHead(307, { location }).end(echo)
  },
  "a redirect to its own host": (response, echo, url) => {
    const location = `/v1/${encodeURIComponent(echo)}?key=${encodeURIComponent(echo)}`
    if (url.includes("key=")) json(response, 404, { error: { message: `No route ${url}` } })
    else response.writeHead(308, { location }).end(echo)
  },
  "a 200 that is no JSON": (response, echo) => {
    response.writeHead(200, { "content-type": "application/json" })
    response.end(`{"id": ${echo}`)
  },
  "a 200 in another format": (response, echo) =>
    json(response, 200, { id: echo, [echo]: [echo], choices: echo, content: echo, candidates: echo }),
  "a 200 with an error in it": (response, echo) =>
    json(response, 200, { error: { message: echo, type: echo, code: echo } }),
  "a 200 with it as the reason of its end": (response, echo) =>
    json(response, 200, {
      id: "m",
      type: "message",
      role: "assistant",
      model: "m",
      content: [],
      stop_reason: echo,
      choices: [{ index: 0, message: { role: "assistant", content: "" }, finish_reason: echo }],
      usage: { input_tokens: 1, output_tokens: 0, prompt_tokens: 1, completion_tokens: 0 }
    }),
  "a stream with an error in the middle": (response, echo) =>
    events(response, [
      ...begun,
      data({ type: "error", error: { type: echo, message: echo, code: echo } }, "error")
    ]),
  "a stream with what is no JSON": (response, echo) => events(response, [...begun, data(`{"type": ${echo}`)]),
  "a stream in another format": (response, echo) =>
    events(response, [data({ type: echo, [echo]: echo }, "x")]),
  "a connection that breaks": (response, echo) => {
    response.writeHead(200, { "content-type": "text/event-stream", "x-request-id": echo })
    response.write(begun[0])
    response.destroy()
  }
} satisfies Readonly<Record<string, Answer>>

const serve = (answer: Answer) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly close: () => void }>((resume) => {
      const server = createServer((request, response) => {
        request.resume().on("end", () => answer(response, heard(request), request.url ?? ""))
      })
      const close = () => {
        server.close()
        server.closeAllConnections()
      }
      server.listen(0, "127.0.0.1", () => {
        // A server that listens on a port has an address of this kind.
        const { port } = server.address() as AddressInfo
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}/v1`, close }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

const common = { keys: [KeySource.value("PLANT", Redacted.make(secret))], headers: { "x-gateway": header } }
const targets = {
  anthropic: (baseUrl: string) => Anthropic.model("claude-sonnet-4-5", { baseUrl, ...common }),
  responses: (baseUrl: string) => OpenAi.model("gpt-5", { baseUrl, ...common }),
  openai: (baseUrl: string) => OpenAi.chatModel("gpt-4.1", { baseUrl, ...common }),
  google: (baseUrl: string) => Google.model("gemini-2.5-pro", { baseUrl, ...common }),
  compatible: (baseUrl: string) => OpenAiCompatible.model({ name: "local", model: "m", baseUrl, ...common })
}

const programs: Readonly<Record<string, Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>>> = {
  call: LanguageModel.generateText({ prompt }),
  stream: Stream.runDrain(LanguageModel.streamText({ prompt })),
  "stream of ours": Stream.runDrain(Outlast.streamText({ prompt })),
  agent: Agent.run({ prompt })
}

/** A policy without waits: a failure that would wait ends the call at once. */
const policy: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive),
  deadline: RecoveryPolicy.interactive.shortWait,
  maxAttempts: 1
}

/** All outputs of a program. */
const watched = () => {
  const seen: Array<unknown> = []
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  const logger = Logger.make(({ message, cause, fiber }) => {
    seen.push("log", message, Cause.pretty(cause), fiber.getRef(References.CurrentLogAnnotations))
  })
  const layer = Layer.mergeAll(
    ResilienceEvents.layerHandler((event) => Effect.sync(() => void seen.push(event, JSON.stringify(event)))),
    Logger.layer([logger, Logger.tracerLogger]),
    Layer.succeed(References.MinimumLogLevel, "Trace"),
    Layer.succeed(Tracer.Tracer, tracer)
  )
  /** A store that records what is written to it. */
  const remembering = (
    store: ChainStore.ChainStore,
    written: Deferred.Deferred<void>
  ): ChainStore.ChainStore => ({
    open: Effect.map(store.open, (connection) => ({
      ...connection,
      swap: (...args) => {
        seen.push("store", args)
        return Effect.tap(connection.swap(...args), () => Deferred.succeed(written, undefined))
      }
    }))
  })
  const exited = (exit: Exit.Exit<unknown, unknown>) => {
    const cause = Exit.isFailure(exit) ? exit.cause : Cause.empty
    const error = Cause.squash(cause)
    seen.push(
      "exit",
      Cause.pretty(cause),
      String(cause),
      JSON.stringify(cause),
      String(error),
      JSON.stringify(error),
      cause,
      error
    )
    if (error instanceof Error) seen.push(error.stack, { ...error }, error.cause)
  }
  const printed = () => {
    // The fields of a span that exporters send. An exit is sent only if it is a failure.
    const exported = spans.map(({ name, attributes, events, status }) => ({
      name,
      attributes,
      events,
      cause:
        status._tag === "Ended" && Exit.isFailure(status.exit) ? Cause.pretty(status.exit.cause) : undefined
    }))
    return inspect([seen, exported], {
      depth: 20,
      showHidden: true,
      maxArrayLength: null,
      maxStringLength: null
    })
  }
  return { seen, spans, layer, remembering, exited, printed }
}

/** The transcript of a failed run has the prompt on purpose, and shows it only on request. */
const assertClean = (printed: string) => {
  const found = planted.exec(printed)
  if (found !== null)
    assert.fail(
      `Found "${found[0]}" in: …${printed.slice(Math.max(0, found.index - 400), found.index + 100)}…`
    )
}

describe.each(Object.entries<Answer>(answers))("a server that answers with %s", (_, answer) => {
  for (const [vendor, target] of Object.entries(targets)) {
    it.effect(`shows no secret of a target of ${vendor}`, () =>
      Effect.gen(function* () {
        const server = yield* serve(answer)
        for (const program of Object.values(programs)) {
          const { layer, exited, printed, seen, spans } = watched()
          const exit = yield* Effect.exit(
            Effect.ensuring(
              program,
              Effect.flatMap(Targets.Targets, ({ list, providers }) =>
                Effect.map(Effect.all([list, providers]), (all) => void seen.push("targets", all))
              )
            )
          ).pipe(
            Effect.provide(Failover.layer([target(server.url)], { policy }).pipe(Layer.provideMerge(layer)))
          )
          exited(exit)
          assert.isAbove(spans.length, 0)
          assert.include(inspect(seen), "targets")
          assertClean(printed())
        }
      })
    )
  }
})

it.live("a store of cooldowns gets names, and no secret", () =>
  Effect.gen(function* () {
    const server = yield* serve(answers["a 401 with it in its message"])
    for (const plain of [
      ChainStore.memory(),
      KeyValueChainStore.make({ keyValueStore: KeyValueStore.layerMemory })
    ]) {
      const { layer, remembering, exited, printed, seen } = watched()
      const written = yield* Deferred.make<void>()
      const store = remembering(plain, written)
      // The first key cools down when the call moves to the second target.
      const chain = Failover.layer([targets.anthropic(server.url), targets.google(server.url)], { store })
      const program = Effect.exit(LanguageModel.generateText({ prompt })).pipe(
        Effect.tap(Deferred.await(written))
      )
      exited(yield* Effect.provide(program, Layer.provideMerge(chain, layer)))
      assert.include(inspect(seen), "PLANT", "the name of the key is there")
      assertClean(printed())
    }
  })
)

it.effect("a key in place of its name reaches no error, event, log or span", () =>
  Effect.gen(function* () {
    const key = ["sk-ant-", "api03-planted0123456789"].join("")
    const { layer, exited, printed } = watched()
    const program = Effect.suspend(() =>
      Effect.provide(
        LanguageModel.generateText({ prompt }),
        Failover.layer([Anthropic.model("claude-sonnet-4-5", { keys: [key] })])
      )
    )
    exited(yield* Effect.exit(Effect.provide(program, layer)))
    assertClean(printed())
    assert.include(printed(), "must be the name of an environment variable")
  })
)
