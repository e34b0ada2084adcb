/** Requests that no honest client sends, over raw sockets. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Schema } from "effect"
import { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import { ResilienceEvents } from "@outlast/resilience"
import { connect } from "node:net"

const token = "operator-token-0123456789"
const acted: Array<string> = []

const program = Ops.layer({
  probes: { port: 0 },
  metrics: { port: 0 },
  requestLimit: "400 millis",
  page: {
    port: 0,
    token: Redacted.make(token),
    actions: {
      trip: Ops.action({
        doc: "Opens a circuit.",
        params: Schema.Struct({ circuit: Schema.String }),
        run: ({ circuit }) => Effect.sync(() => (acted.push(circuit), null))
      })
    }
  }
}).pipe(Layer.provideMerge(Host.layer()), Layer.provideMerge(ResilienceEvents.layer()))

/** Sends bytes and returns all that comes until the server closes, or until `isEnough`. */
const send = (
  port: number | undefined,
  bytes: string | ReadonlyArray<string>,
  isEnough: (text: string) => boolean = () => false
) =>
  Effect.callback<string>((resume) => {
    const socket = connect(port ?? 0, "127.0.0.1")
    let text = ""
    const end = (): void => {
      socket.destroy()
      resume(Effect.succeed(text))
    }
    socket.setEncoding("latin1")
    socket.on("error", end)
    socket.on("close", end)
    socket.on("data", (more: string) => {
      text += more
      if (isEnough(text)) end()
    })
    for (const part of [bytes].flat()) socket.write(part)
    return Effect.sync(() => socket.destroy())
  })

const statusOf = (text: string): number => Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1])
const hasStatus = (text: string): boolean => text.includes("\r\n\r\n")
const local = "Host: 127.0.0.1\r\n"
const bearer = `Authorization: Bearer ${token}\r\n`
const body = '{"circuit":"a"}'
const post = (headers: string, text = body) =>
  `POST /api/actions/trip HTTP/1.1\r\n${headers}Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`

const ports = Effect.gen(function* () {
  const { metrics, page, probes } = yield* Ops.Ops
  return { metrics, page, probes }
})

const hostile = (name: string, test: Effect.Effect<void, never, Ops.Ops>) =>
  it.live(name, () => Effect.provide(test, program), 30_000)

describe("hostile requests", () => {
  hostile(
    "with two Host headers are refused, whichever is the right one",
    Effect.gen(function* () {
      const { page } = yield* ports
      for (const both of [
        `${local}Host: evil.example\r\n`,
        `Host: evil.example\r\n${local}`,
        local + local
      ]) {
        const answer = yield* send(page, `GET /api/state HTTP/1.1\r\n${both}\r\n`, hasStatus)
        assert.include([400, 403], statusOf(answer))
      }
      assert.strictEqual(
        statusOf(yield* send(page, `GET /api/state HTTP/1.1\r\n${local}\r\n`, hasStatus)),
        200
      )
    })
  )

  hostile(
    "with wrong tokens are slowed down, and then a right one is not compared either",
    Effect.gen(function* () {
      const { page } = yield* ports
      const seen: Array<number> = []
      for (let n = 0; n < 30; n++) {
        const wrong = `Authorization: Bearer ${token}${n}\r\n`
        seen.push(statusOf(yield* send(page, post(local + wrong), hasStatus)))
      }
      assert.deepStrictEqual(
        seen.slice(0, 20),
        Array.from({ length: 20 }, () => 401)
      )
      assert.include(seen, 429)
      acted.length = 0
      const right = yield* Effect.repeat(send(page, post(local + bearer), hasStatus), { times: 3 })
      assert.include([200, 429], statusOf(right))
      // What needs no token goes on.
      const open = yield* send(page, `GET /api/state HTTP/1.1\r\n${local}\r\n`, hasStatus)
      assert.strictEqual(statusOf(open), 200)
    })
  )

  hostile(
    "cannot act without the token, from another page, or under another name",
    Effect.gen(function* () {
      const { page } = yield* ports
      acted.length = 0
      const refused: ReadonlyArray<readonly [number, string]> = [
        [401, post(local)],
        [401, post(`${local}Authorization: Bearer ${token}x\r\n`)],
        [401, post(`${local}Authorization: Bearer ${token.slice(0, -1)}\r\n`)],
        [401, post(`${local}Cookie: token=${token}\r\n`)],
        [401, post(local).replace("/trip ", `/trip?token=${token} `)],
        [403, post(`${local}${bearer}Origin: http://evil.example\r\n`)],
        [403, post(`${local}${bearer}Origin: null\r\n`)],
        [403, post(`${local}${bearer}Sec-Fetch-Site: cross-site\r\n`)],
        [403, post(`Host: evil.example\r\n${bearer}`)],
        [403, post(`${local}${bearer}`).replace("/api", "http://evil.example/api")],
        [415, post(`${local}${bearer}`).replace("application/json", "text/plain")]
      ]
      for (const [status, request] of refused) {
        const text = yield* send(page, request, hasStatus)
        assert.strictEqual(statusOf(text), status, request)
        assert.notInclude(text, token)
      }
      assert.deepStrictEqual(acted, [])
      assert.strictEqual(statusOf(yield* send(page, post(`${local}${bearer}`), hasStatus)), 200)
      assert.deepStrictEqual(acted, ["a"])
      // Another spelling of the path is another path.
      for (const path of [
        "/api/actions/../actions/trip",
        "//api/actions/trip",
        "/API/actions/trip",
        "/api/actions%2ftrip"
      ]) {
        const text = yield* send(page, post(local).replace("/api/actions/trip", path), hasStatus)
        assert.include([401, 404], statusOf(text), path)
      }
      const got = yield* send(page, `GET /api/actions/trip HTTP/1.1\r\n${local}\r\n`, hasStatus)
      assert.strictEqual(statusOf(got), 405)
      assert.deepStrictEqual(acted, ["a"])
    })
  )

  hostile(
    "with a wrong method get 405, with the methods that are allowed",
    Effect.gen(function* () {
      const { metrics, page, probes } = yield* ports
      const paths: ReadonlyArray<readonly [number | undefined, string, string, string]> = [
        [page, "/", "POST", "GET, HEAD"],
        [page, "/api/state", "DELETE", "GET, HEAD"],
        [page, "/events", "PUT", "GET, HEAD"],
        [page, "/api/actions/trip", "GET", "POST"],
        [page, "/api/actions/trip", "HEAD", "POST"],
        [probes, "/ready", "POST", "GET, HEAD"],
        [metrics, "/metrics", "PATCH", "GET, HEAD"]
      ]
      for (const [port, path, method, allow] of paths) {
        const text = yield* send(port, `${method} ${path} HTTP/1.1\r\n${local}\r\n`, hasStatus)
        assert.strictEqual(statusOf(text), 405, `${method} ${path}`)
        assert.include(text.toLowerCase(), `\r\nallow: ${allow.toLowerCase()}\r\n`)
      }
    })
  )

  hostile(
    "with a body beyond the limit get 413, announced or in chunks",
    Effect.gen(function* () {
      const { page } = yield* ports
      const large = "x".repeat(70_000)
      const announced = yield* send(page, post(`${local}${bearer}`, large), hasStatus)
      assert.strictEqual(statusOf(announced), 413)
      const elsewhere = yield* send(page, post(local, large).replace("/api/actions/trip", "/none"), hasStatus)
      assert.strictEqual(statusOf(elsewhere), 413)
      const head = `POST /api/actions/trip HTTP/1.1\r\n${local}${bearer}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`
      const chunk = `${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`
      assert.strictEqual(statusOf(yield* send(page, [head, chunk], hasStatus)), 413)
    })
  )

  hostile(
    "that are too large are refused before they are read",
    Effect.gen(function* () {
      const { metrics, page, probes } = yield* ports
      for (const port of [page, probes, metrics]) {
        const header = yield* send(port, `GET / HTTP/1.1\r\n${local}X: ${"x".repeat(20_000)}\r\n\r\n`)
        assert.strictEqual(statusOf(header), 431)
        const path = yield* send(port, `GET /${"x".repeat(20_000)} HTTP/1.1\r\n${local}\r\n`)
        assert.strictEqual(statusOf(path), 431)
      }
      const long = `{"circuit":"${"x".repeat(100_000)}"}`
      assert.strictEqual(statusOf(yield* send(page, post(`${local}${bearer}`, long), hasStatus)), 413)
      const promised = post(`${local}${bearer}`).replace(
        /Content-Length: \d+/,
        "Content-Length: 999999999999"
      )
      assert.strictEqual(statusOf(yield* send(page, promised, hasStatus)), 413)
      // A body without an end: the server stops reading.
      const chunk = `10000\r\n${"x".repeat(65_536)}\r\n`
      const endless = post(`${local}${bearer}`, "").replace("Content-Length: 0", "Transfer-Encoding: chunked")
      const text = yield* send(page, [endless, ...Array.from({ length: 64 }, () => chunk)])
      assert.strictEqual(statusOf(text), 413)
      assert.strictEqual(statusOf(yield* send(probes, `GET /live HTTP/1.1\r\n${local}\r\n`, hasStatus)), 200)
    })
  )

  hostile(
    "that are malformed are refused",
    Effect.gen(function* () {
      const { metrics, page, probes } = yield* ports
      const malformed = [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        `GET / HTTP/1.1\r\n${local}: no name\r\n\r\n`,
        `GET / HTTP/1.1\r\n${local}X: a\0b\r\n\r\n`,
        `POST / HTTP/1.1\r\n${local}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
        `POST / HTTP/1.1\r\n${local}Content-Length: -1\r\n\r\n`,
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
      ]
      for (const port of [page, probes, metrics]) {
        for (const bytes of malformed) {
          const text = yield* send(port, bytes)
          assert.strictEqual(statusOf(text), 400, JSON.stringify(bytes))
        }
      }
    })
  )

  hostile(
    "that are slow are cut off, while others are answered",
    Effect.gen(function* () {
      const { page, probes } = yield* ports
      const slow = ["GET / HT", `GET / HTTP/1.1\r\n${local}X: `, post(`${local}${bearer}`).slice(0, -3)]
      const cut = yield* Effect.all(
        [page, probes].flatMap((port) => slow.map((bytes) => send(port, bytes))),
        { concurrency: "unbounded" }
      )
      // 408, or 404 where the path needs no body.
      for (const text of cut) assert.include([408, 404], statusOf(text), text)
      acted.length = 0
      assert.strictEqual(statusOf(yield* send(probes, `GET /ready HTTP/1.1\r\n${local}\r\n`, hasStatus)), 200)
      assert.deepStrictEqual(acted, [])
    })
  )

  hostile(
    "that ask for another protocol are ordinary requests, with the same limits",
    Effect.gen(function* () {
      const { metrics, page, probes } = yield* ports
      acted.length = 0
      // Java's client asks for h2c in each first request.
      const upgrade = `${local}${bearer}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n`
      assert.strictEqual(statusOf(yield* send(page, post(upgrade), hasStatus)), 200)
      assert.deepStrictEqual(acted, ["a"])
      // The limits of time hold: the connection ends by itself.
      const cut = yield* send(page, post(upgrade).slice(0, -3))
      assert.strictEqual(statusOf(cut), 408)
      // So do connections to the probes and the metrics.
      const ended = yield* Effect.all(
        [
          send(probes, `GET /live HTTP/1.1\r\n${upgrade}\r\n`),
          send(metrics, `GET /metrics HTTP/1.1\r\n${upgrade}\r\n`)
        ],
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(ended.map(statusOf), [200, 200])
    })
  )

  hostile(
    "that are pipelined are answered up to a limit",
    Effect.gen(function* () {
      const { probes } = yield* ports
      const one = `GET /live HTTP/1.1\r\n${local}\r\n`
      const text = yield* send(probes, one.repeat(150))
      assert.strictEqual(text.match(/HTTP\/1\.1 200/g)?.length, 100)
    })
  )

  hostile(
    "for other methods and paths get no data",
    Effect.gen(function* () {
      const { metrics, page, probes } = yield* ports
      for (const method of ["PUT", "DELETE", "TRACE", "OPTIONS", "PATCH", "POST"]) {
        for (const [port, path] of [
          [page, "/api/state"],
          [probes, "/ready"],
          [metrics, "/metrics"]
        ] as const) {
          const request = `${method} ${path} HTTP/1.1\r\n${local}Content-Length: 0\r\n\r\n`
          assert.include([404, 405, 415], statusOf(yield* send(port, request, hasStatus)), method)
        }
      }
      for (const path of ["/status.js/../../Ops.ts", "/..%2fOps.ts", "/index.html", "/.env", "/api"]) {
        const text = yield* send(page, `GET ${path} HTTP/1.1\r\n${local}\r\n`, hasStatus)
        assert.strictEqual(statusOf(text), 404, path)
      }
    })
  )
})
