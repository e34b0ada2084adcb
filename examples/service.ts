/**
 * A HTTP service with a resilient agent behind it.
 *
 *     npm run service -w examples
 *
 * `HttpApi` describes the service, its client and its errors. The agent's Layer is built once, with the server, so that
 * cooldowns hold from request to request. A failure of the whole chain becomes a 503 with `retry-after`.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { createServer } from "node:http"
import { Console, Effect, Layer, Option, Redacted, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { FetchHttpClient, HttpRouter, HttpServer } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiClient, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Agent, Failover, KeySource, Outlast, SafetyGuard } from "@outlast/agent"
import { Anthropic } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"

// -----------------------------------------------------------------------------
// The service
// -----------------------------------------------------------------------------

class Unavailable extends Schema.TaggedError<Unavailable>()(
  "Unavailable",
  { message: Schema.String },
  { httpApiStatus: 503 }
) {}

const Answer = Schema.Struct({ text: Schema.String, turns: Schema.Finite, model: Schema.String })

class Api extends HttpApi.make("rivers").add(
  HttpApiGroup.make("agent").add(
    HttpApiEndpoint.post("ask", "/ask", {
      payload: Schema.Struct({ question: Schema.String }),
      success: Answer,
      error: Unavailable
    })
  )
) {}

const Kit = Toolkit.make(
  Tool.make("search", { parameters: Schema.Struct({ query: Schema.String }), success: Schema.String })
)
const KitLive = Kit.toLayer({ search: () => Effect.succeed("The Nile flows north.") })

const AgentLive = HttpApiBuilder.group(Api, "agent", (handlers) =>
  handlers.handle("ask", ({ payload }) =>
    Agent.run({ prompt: payload.question, toolkit: Kit }).pipe(
      SafetyGuard.run({ turns: 10, time: "1 minute" }),
      Effect.map(({ text, turns, models }) => ({ text, turns, model: models[0]?.target ?? "" })),
      Effect.mapError((error) => {
        const failure = Option.getOrUndefined(Outlast.failureOf(error))
        return new Unavailable({ message: failure?.message ?? error.message })
      })
    )
  )
)

const Server = HttpRouter.serve(HttpApiBuilder.layer(Api).pipe(Layer.provide(AgentLive)), {
  disableLogger: true,
  disableListenLog: true
})

// -----------------------------------------------------------------------------
// One question, while the provider is overloaded
// -----------------------------------------------------------------------------

const main = Effect.gen(function* () {
  const provider = yield* FakeProvider.make({
    plan: {
      answers: [{ toolCalls: [{ name: "search", params: { query: "rivers" } }] }, { text: "The Nile." }],
      faults: [{ fault: { type: "status", status: 529 } }]
    }
  })
  const Model = Failover.layer([
    Anthropic.model("claude-sonnet-4-5", {
      baseUrl: provider.baseUrl("anthropic"),
      keys: [KeySource.value("demo", Redacted.make("demo"))]
    })
  ])
  const ask = Effect.gen(function* () {
    const { address } = yield* HttpServer.HttpServer
    const client = yield* HttpApiClient.make(Api, { baseUrl: HttpServer.formatAddress(address) })
    return yield* client.agent.ask({ payload: { question: "Which river flows north?" } })
  })
  const answer = yield* ask.pipe(
    Effect.provide(
      Server.pipe(
        Layer.provide([Model, KitLive]),
        Layer.provideMerge(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" })),
        Layer.provideMerge(FetchHttpClient.layer)
      )
    )
  )
  yield* Console.log(`${answer.text} (${answer.turns} turns, ${answer.model})`)
  yield* Console.log(`The provider got ${(yield* provider.requests).length} requests.`)
})

await Effect.runPromise(Effect.scoped(main))
