/** Requests on a reused connection that the server closes, over raw sockets. */
import { assert, describe, it } from "@effect/vitest"
import { KeySource } from "@outlast/agent"
import { OpenAi } from "@outlast/providers"
import { UndiciFetch } from "@outlast/providers/undici"
import { Effect, Exit, Redacted } from "effect"
import * as Net from "node:net"
import { Agent } from "undici"
import * as Support from "./support.ts"

const body = JSON.stringify({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
})
const whole = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`

/** Answers the first request of each connection. The first that follows on one ends by `end`. */
const serve = (end: (socket: Net.Socket) => void, fetch?: typeof globalThis.fetch) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<{ readonly server: Net.Server; readonly seen: Array<"answered" | "ended"> }>(
        (resume) => {
          const seen: Array<"answered" | "ended"> = []
          const server = Net.createServer((socket) => {
            let isReused = false
            let text = ""
            socket.on("error", () => {})
            socket.on("data", (chunk) => {
              text += chunk.toString()
              // The end of a JSON body.
              if (!text.includes("\r\n\r\n") || !text.endsWith("}")) return
              text = ""
              const isEnded = isReused && !seen.includes("ended")
              isReused = true
              seen.push(isEnded ? "ended" : "answered")
              if (isEnded) end(socket)
              else socket.write(whole)
            })
          })
          server.listen(0, "127.0.0.1", () => resume(Effect.succeed({ server, seen })))
        }
      ),
      ({ server }) => Effect.sync(() => server.close())
    ),
    ({ server, seen }) => {
      // A server that listens on a port has an address of this kind.
      const { port } = server.address() as Net.AddressInfo
      const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789"))]
      return {
        seen,
        target: OpenAi.chatModel("gpt-4o", { keys, fetch, baseUrl: `http://127.0.0.1:${port}/v1` })
      }
    }
  )

describe("a request on a reused connection that the server closes", () => {
  /** Calls until a connection is reused. Returns the end of that call, and the requests from there on. */
  const reusing = (end: (socket: Net.Socket) => void) =>
    Effect.gen(function* () {
      const { seen, target } = yield* serve(end)
      for (let n = 0; n < 20; n++) {
        const exit = yield* Effect.exit(Support.generate(target))
        const at = seen.indexOf("ended")
        if (at >= 0) return { isAnswered: Exit.isSuccess(exit), requests: seen.slice(at) }
        // The connection is idle once its answer has been read.
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      }
      return assert.fail("No connection was reused.")
    })

  it.live("is sent again when no byte of its answer was read", () =>
    Effect.gen(function* () {
      const { isAnswered, requests } = yield* reusing((socket) => socket.resetAndDestroy())
      assert.isTrue(isAnswered)
      assert.deepStrictEqual(requests, ["ended", "answered"])
    })
  )

  it.live("is not sent again once a byte of its answer was read", () =>
    Effect.gen(function* () {
      const { isAnswered, requests } = yield* reusing((socket) => socket.end("H"))
      assert.isFalse(isAnswered)
      assert.deepStrictEqual(requests, ["ended"])
    })
  )

  it.live("is not sent again when the server had it for more than a second", () =>
    Effect.gen(function* () {
      // Sockets live in real time.
      const { isAnswered, requests } = yield* reusing((socket) =>
        Effect.runFork(
          Effect.delay(
            Effect.sync(() => socket.resetAndDestroy()),
            "1100 millis"
          )
        )
      )
      assert.isFalse(isAnswered)
      assert.deepStrictEqual(requests, ["ended"])
    })
  )

  it.live("is not sent again when it had waited for the answer to another request there", () =>
    Effect.gen(function* () {
      const dispatcher = new Agent({ allowH2: false, connections: 1 })
      const { seen, target } = yield* serve(
        (socket) => socket.resetAndDestroy(),
        UndiciFetch.make({ dispatcher })
      )
      const call = Effect.exit(Support.generate(target))
      const exits = yield* Effect.all([call, call], { concurrency: 2 })
      assert.lengthOf(exits.filter(Exit.isSuccess), 1)
      assert.deepStrictEqual(seen, ["answered", "ended"])
    })
  )
})
