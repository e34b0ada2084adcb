/** Toolkits that have their handlers: those of an MCP server, over HTTP, and one's own. */
import { createServer } from "node:http"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { McpClient, McpProtocol, McpServer, Tool, Toolkit } from "effect/ai"
import { FetchHttpClient, HttpRouter, HttpServer } from "effect/http"
import { Agent, Failover, Presets, Requirements } from "@outlast/agent"
import { Delegate } from "@outlast/agent/loop"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"

const Order = Tool.make("order", {
  parameters: Schema.Struct({ id: Schema.String }),
  success: Schema.String
})
const Kit = Toolkit.make(Order)
const KitLive = Kit.toLayer({ order: ({ id }) => Effect.succeed(`order ${id} is on its way`) })

const asks: ReadonlyArray<FaultPlan.Answer> = [
  { toolCalls: [{ name: "order", params: { id: "7" } }] },
  { text: "It comes." }
]
const modelOf = (answers: ReadonlyArray<FaultPlan.Answer>) =>
  ScriptedModel.make({ provider: "p", model: "m", plan: { answers, faults: [] } })

const protocol = McpProtocol.v2025_11_25
const shop = McpServer.toolkit(Kit).pipe(
  Layer.provide(KitLive),
  Layer.provide(McpServer.layerHttp({ name: "shop", version: "1.0.0", path: "/mcp", protocols: [protocol] }))
)
const served = HttpRouter.serve(shop, { disableLogger: true, disableListenLog: true }).pipe(
  Layer.provideMerge(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" }))
)

describe("a toolkit with its handlers", () => {
  it.live("of an MCP server goes to Agent.run as it is", () =>
    Effect.gen(function* () {
      const { address } = yield* HttpServer.HttpServer
      const url = `${HttpServer.formatAddress(address)}/mcp`
      const transport = yield* McpClient.http({ url, protocol })
      const client = yield* Effect.provideService(
        McpClient.make({ name: "agent", version: "1.0.0" }),
        McpClient.Transport,
        transport
      )
      const toolkit = yield* McpClient.toolkit(client)
      const outcome = yield* Agent.run({ prompt: "Where is order 7?", toolkit }).pipe(
        Effect.provide(Failover.layer([yield* modelOf(asks)]))
      )
      assert.deepStrictEqual([outcome.status, outcome.text, outcome.toolCalls], ["completed", "It comes.", 1])
      assert.include(JSON.stringify(outcome.transcript.prompt), "order 7 is on its way")
    }).pipe(Effect.scoped, Effect.provide([served, FetchHttpClient.layer]))
  )

  it.effect("goes to a preset and to a sub-agent, too", () =>
    Effect.gen(function* () {
      const toolkit = yield* Effect.provide(Kit, KitLive)
      const { text } = yield* Presets.interactive
        .agent({ prompt: "x", toolkit })
        .pipe(Effect.provide(Failover.layer([yield* modelOf(asks)])))
      assert.strictEqual(text, "It comes.")
      const told = yield* Delegate.handler({ toolkit })({ task: "x" }).pipe(
        Effect.provide(Failover.layer([yield* modelOf(asks)]))
      )
      assert.strictEqual(told, "It comes.")
    })
  )

  it.effect("offers no tool whose requirement is unmet", () =>
    Effect.gen(function* () {
      const Both = Toolkit.make(
        Order,
        Requirements.requires(Tool.make("mail"), { check: Effect.succeed(false) })
      )
      const toolkit = yield* Effect.provide(
        Both,
        Both.toLayer({ order: () => Effect.succeed("sent"), mail: () => Effect.void })
      )
      const model = yield* modelOf([{ toolCalls: [{ name: "mail", params: {} }] }, { text: "I cannot." }])
      const outcome = yield* Agent.run({ prompt: "x", toolkit }).pipe(Effect.provide(Failover.layer([model])))
      assert.match(JSON.stringify(outcome.transcript.prompt), /"isFailure":true/)
    })
  )
})
