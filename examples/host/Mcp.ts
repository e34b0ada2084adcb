/** A supervised MCP server: the handshake of the protocol, its health check, and a tool call. */
import { Effect, Schema } from "effect"
import { Presets } from "@outlast/agent"
import { Host, StdioRpc, Supervised } from "@outlast/node"

const handshake = (io: Supervised.ProcessIo) =>
  Effect.gen(function* () {
    const rpc = yield* StdioRpc.make(io, Presets.nexo.processes.call)
    yield* rpc.request("initialize", {
      protocolVersion: "2025-06-18",
      capabilities: {},
      clientInfo: { name: "outlast-example", version: "1.0.0" }
    })
    yield* rpc.notify("notifications/initialized")
    return rpc
  })

const CallResult = Schema.Struct({ content: Schema.Array(Schema.Struct({ text: Schema.String })) })

/** Starts the server, and registers it with the host. */
export const make = (name: string, command: string, args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const server = yield* Supervised.make({
      name,
      command,
      args,
      handshake,
      health: { check: (rpc) => rpc.request("ping") },
      ...Presets.nexo.processes.options
    })
    yield* Host.onShutdown("processes", { name, run: server.stop })
    yield* Host.section(
      name,
      Effect.map(server.status, ({ deaths, state }) => ({ deaths, state }))
    )
    return {
      /** The text of a tool's result. Only for tools that may run twice: a call whose process died is repeated. */
      call: (tool: string, args: object) =>
        server
          .use((rpc) => rpc.request("tools/call", { name: tool, arguments: args }))
          .pipe(
            Effect.retry({ times: 3, while: (error) => error.reason === "gone" }),
            Effect.flatMap(Schema.decodeUnknownEffect(CallResult)),
            Effect.map(({ content }) => content.map(({ text }) => text).join("\n"))
          )
    }
  })
