/** `UndiciFetch` beside the `fetch` of Node, over raw sockets: both must report the same of each server. */
import { assert, describe, it } from "@effect/vitest"
import { KeySource } from "@outlast/agent"
import { OpenAi } from "@outlast/providers"
import { UndiciFetch } from "@outlast/providers/undici"
import { Options } from "@outlast/resilience"
import { FakeProvider } from "@outlast/testing"
import { Effect, Redacted } from "effect"
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import * as Net from "node:net"
import { gzipSync } from "node:zlib"
import { Agent, MockAgent } from "undici"
import * as Support from "./support.ts"

type Fetch = typeof globalThis.fetch

/** Runs `use` with a server that hands each connection to `serve` once a request has arrived on it. */
const served = <A>(
  serve: (socket: Net.Socket) => void,
  use: (url: string, connections: ReadonlyArray<Net.Socket>) => Promise<A>
): Effect.Effect<A> =>
  Effect.acquireUseRelease(
    Effect.promise(async () => {
      const connections: Array<Net.Socket> = []
      const server = Net.createServer((socket) => {
        connections.push(socket)
        socket.on("error", () => {})
        socket.once("data", () => serve(socket))
      }).listen(0, "127.0.0.1")
      await once(server, "listening")
      return { server, connections }
    }),
    ({ server, connections }) => {
      // A server that listens on a port has an address of this kind.
      const { port } = server.address() as AddressInfo
      return Effect.promise(() => use(`http://127.0.0.1:${port}/v1`, connections))
    },
    ({ server, connections }) =>
      Effect.sync(() => {
        for (const socket of connections) socket.destroy()
        server.close()
      })
  )

const told = (error: unknown): unknown =>
  error instanceof Error
    ? { name: error.name, message: error.message, code: Reflect.get(error, "code"), cause: told(error.cause) }
    : error

/** What a program sees of a response, or of its failure. */
const outcome = async (fetch: Fetch, url: string, init: RequestInit): Promise<unknown> => {
  const seen: Record<string, unknown> = {}
  try {
    const response = await fetch(url, init)
    Object.assign(seen, {
      status: response.status,
      statusText: response.statusText,
      ok: response.ok,
      redirected: response.redirected,
      headers: [...response.headers]
    })
    seen["body"] = await response.text()
  } catch (error) {
    seen["error"] = told(error)
  }
  return seen
}

const post = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" }
const close = "connection: close\r\n"
const ok = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${close}`
const zipped = gzipSync("zipped")

const answers: Readonly<Record<string, (socket: Net.Socket) => void>> = {
  "a body with a length": (socket) => socket.end(`${ok}content-length: 7\r\n\r\n{"a":1}`),
  "a body in chunks": (socket) =>
    socket.end(`${ok}transfer-encoding: chunked\r\n\r\n4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n`),
  "a body that ends with its connection": (socket) => socket.end(`${ok}\r\n{"a":1}`),
  "no body": (socket) => socket.end(`HTTP/1.1 204 No Content\r\n${close}\r\n`),
  "a body of many packets": (socket) =>
    socket.end(`${ok}content-length: 3000000\r\n\r\n${"x".repeat(3_000_000)}`),
  "characters that packets cut": (socket) => {
    const bytes = Buffer.from("日本語")
    socket.write(`${ok}content-length: ${bytes.length}\r\n\r\n`)
    socket.write(bytes.subarray(0, 4))
    setImmediate(() => socket.end(bytes.subarray(4)))
  },
  "interim responses": (socket) =>
    socket.end(
      `HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n${close}content-length: 2\r\n\r\nok`
    ),
  "repeated headers": (socket) =>
    socket.end(`${ok}set-cookie: a=1\r\nset-cookie: b=2\r\nx-a: 1\r\nX-A: 2\r\ncontent-length: 0\r\n\r\n`),
  "an error with a time to wait": (socket) =>
    socket.end(`HTTP/1.1 529 Overloaded\r\nretry-after: 3\r\n${close}content-length: 2\r\n\r\n{}`),
  "a redirect": (socket) =>
    socket.end(
      `HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\n${close}content-length: 0\r\n\r\n`
    ),
  "a compressed body": (socket) => {
    socket.write(`${ok}content-encoding: gzip\r\ncontent-length: ${zipped.length}\r\n\r\n`)
    socket.end(zipped)
  },
  "a connection that is reset": (socket) => socket.resetAndDestroy(),
  "a connection that is closed": (socket) => socket.end(),
  "a body that is cut": (socket) => socket.end(`${ok}content-length: 100\r\n\r\n{"a`),
  "a body in chunks that is cut": (socket) =>
    socket.end(`${ok}transfer-encoding: chunked\r\n\r\n4\r\n{"a"\r\n`),
  "a chunk without a size": (socket) => socket.end(`${ok}transfer-encoding: chunked\r\n\r\nhello\r\n`),
  "another protocol": (socket) => socket.end("SSH-2.0-OpenSSH_9.6\r\n"),
  "headers without an end": (socket) => socket.end(`${ok}x-a: ${"a".repeat(100_000)}`)
}

describe("UndiciFetch", () => {
  for (const [name, serve] of Object.entries(answers)) {
    it.effect(`reports the same as the fetch of Node: ${name}`, () =>
      served(serve, async (url) => {
        const init: RequestInit = { ...post, redirect: "manual" }
        const [ours, nodes] = [await outcome(UndiciFetch.make(), url, init), await outcome(fetch, url, init)]
        assert.deepStrictEqual(ours, nodes)
      })
    )
  }

  it.effect("reports the same as the fetch of Node: a port that refuses", () =>
    Effect.promise(async () => {
      const server = Net.createServer().listen(0, "127.0.0.1")
      await once(server, "listening")
      // A server that listens on a port has an address of this kind.
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
      server.close()
      await once(server, "close")
      assert.deepStrictEqual(await outcome(UndiciFetch.make(), url, post), await outcome(fetch, url, post))
    })
  )

  it.effect("sends method, path, headers and body", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.json(response, {}))
      const url = `${server.url}/v1/a?b=c`
      for (const headers of [
        { "x-a": "1" },
        [["x-a", "1"] as [string, string]],
        new Headers({ "x-a": "1" })
      ]) {
        for (const body of ['{"é":1}', new TextEncoder().encode('{"é":1}')]) {
          yield* Effect.promise(() => UndiciFetch.make()(url, { method: "PUT", headers, body }))
        }
      }
      yield* Effect.promise(() => UndiciFetch.make()(url))
      const sent = server.hits.map(({ body, headers, method, url }) => [method, url, headers["x-a"], body])
      const path = new URL(url).pathname + new URL(url).search
      assert.deepStrictEqual(sent, [
        ...Array.from({ length: 6 }, () => ["PUT", path, "1", { é: 1 }]),
        ["GET", path, undefined, undefined]
      ])
    })
  )

  it.effect("passes parts of a body on as they arrive", () =>
    served(
      (socket) => socket.write(`${ok}transfer-encoding: chunked\r\n\r\n3\r\none\r\n`),
      async (url) => {
        const response = await UndiciFetch.make()(url, post)
        const reader = response.body?.getReader()
        assert.strictEqual(Buffer.from((await reader?.read())?.value ?? []).toString(), "one")
        await reader?.cancel()
      }
    )
  )

  it.effect("stops reading from a server whose bytes nobody takes", () =>
    served(
      (socket) => {
        socket.write(`${ok}content-length: 1000000000\r\n\r\n`)
        const part = Buffer.alloc(1_000_000)
        const more = () => {
          while (socket.write(part));
        }
        socket.on("drain", more)
        more()
      },
      async (url, connections) => {
        const response = await UndiciFetch.make()(url, post)
        const reader = response.body?.getReader()
        await reader?.read()
        // The server's socket takes no more only when every buffer on the way is full.
        const onTheWay = () =>
          connections.reduce(
            (sum, { bytesWritten, writableLength }) => sum + bytesWritten - writableLength,
            0
          )
        let before = -1
        let now = 0
        while (now !== before) {
          before = now
          for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
          now = onTheWay()
        }
        assert.isBelow(before, 50_000_000)
        await reader?.cancel()
      }
    )
  )

  for (const [moment, serve] of [
    ["before the headers", () => {}],
    ["in the body", (socket: Net.Socket) => socket.write(`${ok}content-length: 100\r\n\r\n{"a`)]
  ] as const) {
    it.effect(`closes the connection of an aborted request, with the reason of the signal: ${moment}`, () =>
      served(serve, async (url, connections) => {
        const seen: Array<unknown> = []
        for (const fetch of [UndiciFetch.make(), globalThis.fetch]) {
          const controller = new AbortController()
          const pending = outcome(fetch, url, { ...post, signal: controller.signal })
          while (
            connections[seen.length]?.bytesRead === undefined ||
            connections[seen.length]?.bytesRead === 0
          )
            await new Promise(setImmediate)
          const socket = connections[seen.length]
          const closed = socket === undefined ? undefined : once(socket, "close")
          // The body has begun when its first bytes were written and read.
          for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
          controller.abort(new Error("no longer wanted"))
          seen.push(await pending)
          await closed
        }
        assert.deepStrictEqual(seen[0], seen[1])
        assert.deepInclude(seen[0], {
          error: { name: "Error", message: "no longer wanted", code: undefined, cause: undefined }
        })
      })
    )
  }

  it.effect("sends nothing when the signal is already aborted", () =>
    served(
      () => {},
      async (url, connections) => {
        const reason = new Error("before")
        const seen = await UndiciFetch.make()(url, { ...post, signal: AbortSignal.abort(reason) }).catch(
          (error: unknown) => error
        )
        assert.strictEqual(seen, reason)
        assert.lengthOf(connections, 0)
      }
    )
  )

  it.effect("closes the connection of a body that is cancelled", () =>
    served(
      (socket) => socket.write(`${ok}content-length: 100\r\n\r\n{"a`),
      async (url, connections) => {
        const response = await UndiciFetch.make()(url, post)
        const closed = Promise.all(connections.map((socket) => once(socket, "close")))
        await response.body?.cancel()
        await closed
      }
    )
  )

  it.effect("uses connections again after whole bodies", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.json(response, { a: 1 }))
      let connections = 0
      const dispatcher = new Agent({ allowH2: false })
      dispatcher.on("connect", () => connections++)
      const fetch = UndiciFetch.make({ dispatcher })
      for (let n = 0; n < 10; n++) {
        const read = yield* Effect.promise(async () => (await fetch(`${server.url}/v1`, post)).json())
        assert.deepStrictEqual(read, { a: 1 })
      }
      // The second call comes while the first connection is still being put back.
      assert.isAtMost(connections, 2)
      yield* Effect.promise(() => dispatcher.close())
    })
  )

  for (const [name, fetch] of [
    ["UndiciFetch", UndiciFetch.make()],
    ["the fetch of Node", undefined]
  ] as const) {
    it.effect(`sends a request again whose idle connection the server closes: ${name}`, () =>
      Effect.suspend(() => {
        let ended = 0
        return served(
          (socket) => {
            const body = JSON.stringify({
              choices: [{ index: 0, message: { role: "assistant", content: "done" }, finish_reason: "stop" }]
            })
            const answer = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
            socket.write(answer)
            // The second request on the first connection ends it without an answer.
            socket.on("data", () => (ended++ === 0 ? socket.end() : socket.write(answer)))
          },
          async (baseUrl) => {
            const spec = OpenAi.chatModel("gpt-4o", { keys: ["UNDICI_TEST_KEY"], baseUrl, fetch })
            for (let n = 0; n < 5; n++) await Effect.runPromise(Support.generate(spec))
            assert.isAbove(ended, 0)
          }
        )
      })
    )
  }

  it.effect("sends through any dispatcher of undici", () =>
    Effect.promise(async () => {
      const dispatcher = new MockAgent()
      dispatcher.disableNetConnect()
      dispatcher
        .get("https://api.example.com")
        .intercept({ path: "/v1", method: "POST" })
        .reply(200, { a: 1 })
      const response = await UndiciFetch.make({ dispatcher })("https://api.example.com/v1", post)
      assert.deepStrictEqual(await response.json(), { a: 1 })
    })
  )

  it.effect("leaves a Request and other bodies to the global fetch", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response, hit) => Support.json(response, { got: hit.body }))
      const fetch = UndiciFetch.make()
      const stream = new Blob(['{"a":1}']).stream()
      const bodies = yield* Effect.promise(() =>
        Promise.all([
          fetch(new Request(server.url, { method: "POST", body: '{"a":1}' })),
          fetch(server.url, { method: "POST", body: stream, duplex: "half" } as RequestInit)
        ])
      )
      for (const response of bodies) {
        assert.deepStrictEqual(yield* Effect.promise(() => response.json()), { got: { a: 1 } })
      }
    })
  )

  it.effect("carries whole and streamed answers of a model", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: { answers: [{ text: "Hello, world." }, { text: "Hello, world." }] }
      })
      const spec = OpenAi.chatModel("gpt-4o", {
        keys: [KeySource.value("KEY", Redacted.make("sk-test-0123456789"))],
        baseUrl: server.baseUrl("openai"),
        fetch: UndiciFetch.make()
      })
      const whole = yield* Support.generate(spec)
      assert.isTrue(whole.some((part) => part.type === "text" && part.text === "Hello, world."))
      const { failure, parts } = yield* Support.collect(spec)
      assert.isUndefined(failure)
      assert.strictEqual(Support.text(parts), "Hello, world.")
    })
  )

  it("throws for a dispatcher that is none", () => {
    assert.throws(
      // @ts-expect-error A URL is no dispatcher.
      () => UndiciFetch.make({ dispatcher: "http://proxy" }),
      Options.InvalidOption,
      "UndiciFetch: dispatcher must be a dispatcher of undici"
    )
  })
})
