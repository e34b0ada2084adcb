/** `UndiciFetch` beside the `fetch` of Node, over raw sockets: both must report the same of each server. */
import { assert, describe, it } from "@effect/vitest"
import { KeySource } from "@outlast/agent"
import { OpenAi } from "@outlast/providers"
import { UndiciFetch } from "@outlast/providers/undici"
import { Options } from "@outlast/resilience"
import { FakeProvider } from "@outlast/testing"
import { Effect, Redacted } from "effect"
import { getEventListeners, once } from "node:events"
import type { AddressInfo } from "node:net"
import * as Net from "node:net"
import { gzipSync } from "node:zlib"
import type { Dispatcher } from "undici"
import { Agent, interceptors, MockAgent } from "undici"
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

const described = (error: unknown): unknown =>
  error instanceof Error
    ? {
        name: error.name,
        message: error.message,
        code: Reflect.get(error, "code"),
        cause: described(error.cause)
      }
    : error

/** The response or the failure, as a program sees it. */
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
    seen["error"] = described(error)
  }
  return seen
}

/** A fetch whose dispatcher does nothing. The test calls its handler in place of a connection. */
const held = (throws = false) => {
  let given: Dispatcher.DispatchHandler | undefined
  const calls: Array<string> = []
  const connection = {
    calls,
    aborted: false,
    paused: false,
    reason: null,
    abort: () => void calls.push("abort"),
    pause: () => void calls.push("pause"),
    resume: () => void calls.push("resume")
  }
  const dispatcher = {
    dispatch: (_: unknown, handler: Dispatcher.DispatchHandler) => {
      if (throws) throw new Error("refused")
      given = handler
      return true
    }
  }
  return {
    connection,
    // The only method that is used.
    fetch: UndiciFetch.make({ dispatcher: dispatcher as unknown as Dispatcher }),
    handler: () => given ?? assert.fail("nothing was sent")
  }
}

const post = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" }
const close = "connection: close\r\n"
const ok = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${close}`
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
    socket.setNoDelay()
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
  "an empty body that is called compressed": (socket) =>
    socket.end(`${ok}content-encoding: gzip\r\ncontent-length: 0\r\n\r\n`),
  "a status that takes no body, with one": (socket) =>
    socket.end(`HTTP/1.1 205 Reset Content\r\n${close}content-length: 2\r\n\r\nok`),
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
      const bytes = new TextEncoder().encode('{"é":1}')
      for (const headers of [
        { "x-a": "1" },
        [["x-a", "1"] as [string, string]],
        new Headers({ "x-a": "1" })
      ]) {
        for (const body of ['{"é":1}', bytes, bytes.buffer]) {
          yield* Effect.promise(() => UndiciFetch.make()(url, { method: "put", headers, body }))
        }
      }
      yield* Effect.promise(() => UndiciFetch.make()(url))
      const sent = server.hits.map(({ body, headers, method, url }) => [method, url, headers["x-a"], body])
      const path = new URL(url).pathname + new URL(url).search
      assert.deepStrictEqual(sent, [
        ...Array.from({ length: 9 }, () => ["PUT", path, "1", { é: 1 }]),
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

  it("pauses the connection while 64 KB wait for a reader", async () => {
    const { connection, fetch, handler } = held()
    const pending = fetch("http://a.test/", post)
    handler().onRequestStart?.(connection, {})
    handler().onResponseStart?.(connection, 200, {})
    const reader = (await pending).body?.getReader()
    const before = connection.calls.length
    handler().onResponseData?.(connection, Buffer.alloc(65_535))
    assert.deepStrictEqual(connection.calls.slice(before), [])
    handler().onResponseData?.(connection, Buffer.alloc(1))
    assert.deepStrictEqual(connection.calls.slice(before), ["pause"])
    await reader?.read()
    assert.deepStrictEqual(connection.calls.slice(before), ["pause", "resume"])
  })

  it("ignores what comes after an abort, and closes a connection that opens then", async () => {
    const { connection, fetch, handler } = held()
    const controller = new AbortController()
    const pending = fetch("http://a.test/", { ...post, signal: controller.signal })
    controller.abort(new Error("no longer wanted"))
    assert.propertyVal(await pending.catch((error: unknown) => error), "message", "no longer wanted")
    handler().onRequestStart?.(connection, {})
    assert.deepStrictEqual(connection.calls, ["abort"])
    handler().onResponseStart?.(connection, 200, {})
    handler().onResponseData?.(connection, Buffer.from("late"))
    handler().onResponseEnd?.(connection, {})
    handler().onResponseError?.(connection, new Error("late"))
    assert.deepStrictEqual(connection.calls, ["abort"])
  })

  for (const end of ["answer", "failure", "refusal"] as const) {
    it(`leaves no listener on the signal after its end: ${end}`, async () => {
      const { connection, fetch, handler } = held(end === "refusal")
      const { signal } = new AbortController()
      const pending = fetch("http://a.test/", { ...post, signal })
      if (end === "answer") {
        handler().onResponseStart?.(connection, 200, {})
        handler().onResponseEnd?.(connection, {})
      } else if (end === "failure") handler().onResponseError?.(connection, new Error("gone"))
      await pending.catch(() => {})
      assert.lengthOf(getEventListeners(signal, "abort"), 0)
    })
  }

  const zipped = gzipSync("zipped")
  const zips = (socket: Net.Socket) => {
    socket.write(`${ok}content-encoding: gzip\r\ncontent-length: ${zipped.length}\r\n\r\n`)
    socket.end(zipped)
  }

  it.effect("rejects a compressed response, and says what to do", () =>
    served(zips, async (url) => {
      const error: unknown = await UndiciFetch.make()(url, post).catch((error: unknown) => error)
      assert.instanceOf(error, TypeError)
      assert.match(String((error as Error).cause), /compressed its response.*decompress interceptor/)
    })
  )

  it.effect("reads a compressed response that its dispatcher decompresses", () =>
    served(zips, async (url) => {
      const dispatcher = new Agent({ allowH2: false }).compose(interceptors.decompress())
      const response = await UndiciFetch.make({ dispatcher })(url, post)
      assert.strictEqual(await response.text(), "zipped")
    })
  )

  it.effect("sends the bytes that it was given, also when the program uses them again", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.json(response, {}))
      const bytes = new TextEncoder().encode('{"a":1}')
      const pending = UndiciFetch.make()(server.url, { method: "POST", body: bytes })
      bytes.fill(88)
      yield* Effect.promise(() => pending)
      assert.deepStrictEqual(server.hits[0]?.body, { a: 1 })
    })
  )

  it.effect("rejects a status that a Response cannot have", () =>
    served(
      (socket) => socket.end(`HTTP/1.1 999 Denied\r\n${close}content-length: 2\r\n\r\nno`),
      async (url) => {
        const error: unknown = await UndiciFetch.make()(url, post).catch((error: unknown) => error)
        assert.instanceOf(error, TypeError)
        assert.propertyVal(error, "message", "fetch failed")
      }
    )
  )

  it.effect("leaves out a reason phrase that a Response cannot have", () =>
    served(
      (socket) => socket.end(`HTTP/1.1 503 Сервис\r\n${close}content-length: 2\r\n\r\nno`),
      async (url) => {
        const { status, statusText } = await UndiciFetch.make()(url, post)
        assert.deepStrictEqual([status, statusText], [503, ""])
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
          const begun = fetch(url, { ...post, signal: controller.signal })
          if (moment === "before the headers") {
            while (connections.filter(({ bytesRead }) => bytesRead > 0).length <= seen.length)
              await new Promise(setImmediate)
          } else await begun
          const closed = Promise.all(connections.slice(seen.length).map((socket) => once(socket, "close")))
          controller.abort(new Error("no longer wanted"))
          seen.push(
            described(await begun.then((response) => response.text()).catch((error: unknown) => error))
          )
          await closed
        }
        assert.deepStrictEqual(seen[0], seen[1])
        assert.deepInclude(seen[0], { name: "Error", message: "no longer wanted" })
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
        assert.lengthOf(await closed, 1)
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

  it("rejects what it cannot send through its dispatcher", async () => {
    const fetch = UndiciFetch.make()
    const stream = new Blob(["{}"]).stream()
    const refused = [
      fetch(new Request("http://a.test/", post)),
      fetch("http://a.test/", { method: "POST", body: stream, duplex: "half" } as RequestInit),
      fetch("http://a.test/", { method: "POST", body: new FormData() }),
      fetch("http://user:secret@a.test/", post),
      fetch("not a URL", post)
    ]
    for (const pending of refused) {
      const error: unknown = await pending.catch((error: unknown) => error)
      assert.instanceOf(error, TypeError)
      assert.notInclude(String(error), "secret")
    }
  })

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

  it("rejects a dispatcher without a dispatch method", () => {
    assert.throws(
      // @ts-expect-error A URL is no dispatcher.
      () => UndiciFetch.make({ dispatcher: "http://proxy" }),
      Options.InvalidOption,
      "UndiciFetch: dispatcher must be a dispatcher of undici"
    )
  })
})
