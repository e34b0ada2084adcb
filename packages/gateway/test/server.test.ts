/**
 * The server against programs that write raw bytes: what is refused, what is bounded, what an abort reaches, and that no
 * caller gets the text of another one.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { once } from "node:events"
import { request } from "node:http"
import { connect } from "node:net"
import type { Socket } from "node:net"
import { Gateway, Server } from "@outlast/gateway"
import * as Answers from "./Answers.ts"
import * as Vendor from "./Vendor.ts"

const key = "a-key-of-a-caller-0123456789"

/** A server over this vendor. */
const serve = (answer: Vendor.Answer, options: Server.Options = {}) =>
  Effect.gen(function* () {
    const vendor = yield* Vendor.start(answer)
    const gateway = yield* Gateway.make({
      routes: {
        route: {
          chain: [Vendor.target("chat", vendor, "a"), Vendor.target("chat", vendor, "b")],
          policy: Vendor.impatient
        }
      }
    })
    // Nobody moves the clock of a test: calls that hang would hold its end.
    const { url } = yield* Server.listen(gateway, { drain: 0, ...options })
    return { url, port: Number(new URL(url).port), vendor }
  })

const say = (id: string, text: ReadonlyArray<string>) => Answers.stream("chat", { id, text })

const well: Vendor.Answer = (response, { body }) => {
  if (body.stream === true) return Vendor.stream(response, say("one", ["Hello ", "world."]).join(""))
  const message = { role: "assistant", content: "Hello world." }
  return Vendor.json(response, 200, { id: "one", choices: [{ index: 0, message, finish_reason: "stop" }] })
}

interface Sent {
  readonly path?: string
  readonly headers?: Record<string, string>
  readonly body?: string
  readonly method?: string
}

interface Got {
  readonly status: number
  readonly text: string
  readonly headers: Readonly<Record<string, unknown>>
}

/** One request by Node's own client, which sends any `Host` and `Origin`. */
const ask = (
  port: number,
  { body = "{}", headers = {}, method = "POST", path = "/v1/chat/completions" }: Sent
) =>
  Effect.promise(
    () =>
      new Promise<Got>((resolve, reject) => {
        const sent = request(
          { port, path, method, headers: { "content-type": "application/json", ...headers } },
          (response) => {
            let text = ""
            response.setEncoding("utf8")
            response.on("data", (chunk: string) => (text += chunk))
            response.on("end", () =>
              resolve({ status: response.statusCode ?? 0, text, headers: response.headers })
            )
            response.on("error", reject)
          }
        )
        sent.on("error", reject)
        sent.end(body)
      })
  )

const asked = JSON.stringify(Vendor.request("chat"))
const streamed = JSON.stringify(Vendor.request("chat", { stream: true }))

describe("who may ask", () => {
  const page = "https://evil.example"

  it.effect("on loopback: any program, and no web page", () =>
    Effect.gen(function* () {
      const { port, vendor } = yield* serve(well)
      const status = (headers: Record<string, string>, sent: Sent = {}) =>
        Effect.map(ask(port, { body: asked, ...sent, headers }), ({ status }) => status)
      assert.strictEqual(yield* status({}), 200)
      assert.strictEqual(yield* status({ host: "localhost:1" }), 200)
      const before = vendor.hits.length
      assert.strictEqual(yield* status({ origin: page }), 403)
      assert.strictEqual(yield* status({ origin: "null" }), 403)
      assert.strictEqual(yield* status({ origin: `http://127.0.0.1:${port}` }), 403)
      assert.strictEqual(yield* status({ host: "evil.example" }), 421)
      assert.strictEqual(yield* status({ host: "127.0.0.1.evil.example" }), 421)
      assert.strictEqual(yield* status({ "content-type": "text/plain" }), 415)
      assert.strictEqual(yield* status({ "content-type": "application/x-www-form-urlencoded" }), 415)
      assert.strictEqual(yield* status({ origin: page }, { method: "OPTIONS", body: "" }), 403)
      assert.strictEqual(
        yield* status({ origin: page }, { method: "GET", path: "/v1/models", body: "" }),
        403
      )
      assert.lengthOf(vendor.hits, before)
    })
  )

  it.effect("a page and a name that are listed", () =>
    Effect.gen(function* () {
      const { port } = yield* serve(well, { origins: ["https://app.example"], names: ["gateway.local"] })
      const origin = "https://app.example"
      const got = yield* ask(port, { body: asked, headers: { origin, host: "gateway.local:80" } })
      assert.strictEqual(got.status, 200)
      assert.strictEqual(got.headers["access-control-allow-origin"], origin)
      const preflight = yield* ask(port, { method: "OPTIONS", body: "", headers: { origin } })
      assert.strictEqual(preflight.status, 204)
      assert.strictEqual((yield* ask(port, { body: asked, headers: { origin: page } })).status, 403)
    })
  )

  it.effect("with keys: only callers that have one", () =>
    Effect.gen(function* () {
      const keys = ["another-key-of-a-caller-01", key].map((each) => Redacted.make(each))
      const { port, vendor } = yield* serve(well, { keys })
      const status = (headers: Record<string, string>) =>
        Effect.map(ask(port, { body: asked, headers }), ({ status }) => status)
      assert.strictEqual(yield* status({ authorization: `Bearer ${key}` }), 200)
      assert.strictEqual(yield* status({ "x-api-key": key }), 200)
      const before = vendor.hits.length
      for (const headers of [
        {},
        { "x-api-key": `${key}x` },
        { authorization: `Basic ${key}` },
        { authorization: "Bearer " }
      ]) {
        assert.strictEqual(yield* status(headers as Record<string, string>), 401)
      }
      const refused = yield* ask(port, { body: asked, headers: { "x-api-key": "wrong-key-0123456789abc" } })
      assert.notInclude(refused.text, "wrong-key")
      assert.lengthOf(vendor.hits, before)
      assert.notInclude(JSON.stringify(vendor.hits.map(({ headers }) => headers)), key)
    })
  )

  it.effect("beyond loopback it does not start without a key, nor with a short one", () =>
    Effect.gen(function* () {
      const gateway = yield* Gateway.make({
        routes: { a: { chain: [Vendor.target("chat", { url: "http://127.0.0.1:1" })] } }
      })
      const started = (options: Server.Options) =>
        Effect.map(Effect.flip(Server.listen(gateway, options)), String)
      assert.include(yield* started({ host: "0.0.0.0" }), "set a key")
      const short = Redacted.make("short-secret")
      const refused = yield* started({ host: "0.0.0.0", keys: [short] })
      assert.include(refused, "fewer than 16")
      assert.notInclude(refused, "short-secret")
    })
  )
})

/** Opens a connection, writes these bytes, and reads until it closes or the text has `until`. */
const raw = (port: number, pieces: ReadonlyArray<string>, until?: RegExp, end = false) =>
  Effect.promise(async () => {
    const socket: Socket = connect(port, "127.0.0.1")
    let text = ""
    socket.on("error", () => {})
    await once(socket, "connect")
    const done = new Promise<void>((resolve) => {
      socket.on("data", (chunk) => {
        text += String(chunk)
        if (until?.test(text) === true) resolve()
      })
      socket.on("close", () => resolve())
    })
    for (const piece of pieces) {
      if (socket.destroyed) break
      socket.write(piece, "latin1")
      await new Promise(setImmediate)
    }
    if (end) socket.end()
    await done
    socket.destroy()
    return text
  })

const head = (length: number | string, more = "") =>
  `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n${typeof length === "number" ? `Content-Length: ${length}` : length}\r\n${more}\r\n`

const post = (body: string) => head(body.length) + body

const chunked = "Transfer-Encoding: chunked"
const inChunks = (body: string, size: number) =>
  `${Array.from({ length: Math.ceil(body.length / size) }, (_, i) => body.slice(i * size, (i + 1) * size))
    .map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`)
    .join("")}0\r\n\r\n`

const whole = /\r\n\r\n[\s\S]*\}/

/** Programs, with the status line that they must get; `undefined`: a closed connection. */
const programs: Readonly<
  Record<string, readonly [pieces: ReadonlyArray<string>, status: number | undefined]>
> = {
  "a request in one piece": [[head(asked.length) + asked], 200],
  "a request byte by byte": [[...(head(asked.length) + asked)], 200],
  "a body in chunks": [[head(chunked) + inChunks(asked, 20)], 200],
  "a body in chunks of a byte": [[head(chunked) + inChunks(asked, 1)], 200],
  "chunks, each in pieces": [[head(chunked), ...inChunks(asked, 5)], 200],
  "no bytes of a body": [[head(0)], 400],
  "white space": [[`${head(3)}   `], 400],
  "half of a JSON": [[head(10) + asked.slice(0, 10)], 400],
  "an array": [[`${head(2)}[]`], 400],
  "a number": [[`${head(1)}1`], 400],
  null: [[`${head(4)}null`], 400],
  "bytes that are no UTF-8": [[`${head(4)}\u00ff\u00fe\u00ff\u00fe`], 400],
  "a model that is a number": [[`${head(11)}{"model":1}`], 400],
  "a model that is empty": [[`${head(12)}{"model":""}`], 400],
  "a model of 100,000 characters": [[head(100_012) + `{"model":"${"m".repeat(100_000)}"}`], 404],
  "a model with a line break": [[post('{"model":"a\\r\\nb:c"}')], 404],
  "nesting of 100,000 arrays": [
    [
      head(200_026) + `{"model":"route","input":${"[".repeat(100_000)}${"]".repeat(100_000)}}`.padEnd(200_026)
    ],
    200
  ],
  "a length that is too large to read": [[head(40_000_000) + asked], 413],
  "a length that is no number": [[head("Content-Length: x") + asked], 400],
  "two lengths": [[head(`Content-Length: 1\r\nContent-Length: ${asked.length}`) + asked], 400],
  "a length and chunks": [[head(`Content-Length: 3\r\n${chunked}`) + inChunks(asked, 9)], 400],
  "a chunk without a size": [[`${head(chunked)}zz\r\n`], 400],
  "headers of 40 KB": [[head(asked.length, `X-Big: ${"x".repeat(40_000)}\r\n`) + asked], 431],
  "3,000 headers": [[head(asked.length, "X: y\r\n".repeat(3_000)) + asked], undefined],
  "a header with a zero byte": [[head(asked.length, "X: a\u0000b\r\n") + asked], 400],
  "no host": [[`POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}`], 400],
  "another protocol": [["SSH-2.0-OpenSSH_9.6\r\n"], 400],
  "a TLS hello": [["\u0016\u0003\u0001\u0002\u0000\u0001\u0000"], 400],
  "a method that nobody has": [["BREW / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"], 400],
  "an absolute URL of another host": [
    [`GET http://evil.example/v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`],
    404
  ],
  "a path upwards": [["GET /v1/../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"], 404],
  "a path of 20,000 characters": [[`GET /${"a".repeat(20_000)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`], 404],
  "an upgrade to a socket": [
    ["GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"],
    200
  ],
  "a request after a request": [[head(asked.length) + asked + head(asked.length) + asked], 200]
}

describe("raw bytes", () => {
  for (const [name, [pieces, status]] of Object.entries(programs)) {
    it.effect(`${name}: ${status ?? "any answer"}`, () =>
      Effect.gen(function* () {
        const { port } = yield* serve(well)
        const text = yield* raw(port, pieces, whole)
        if (status !== undefined) assert.strictEqual(text.slice(9, 12), String(status), text.slice(0, 300))
        // It still serves.
        assert.strictEqual((yield* ask(port, { body: asked })).status, 200)
      })
    )
  }
})

describe("a caller that leaves", () => {
  const points: Readonly<
    Record<string, { readonly body: string; readonly events: number; readonly until?: RegExp }>
  > = {
    "before the vendor answers": { body: streamed, events: 0 },
    "after the first words": { body: streamed, events: 3, until: /world/ },
    "while a whole answer is made": { body: asked, events: 0 }
  }
  for (const [name, { body, events, until }] of Object.entries(points)) {
    it.effect(`${name} ends the request at the vendor`, () =>
      Effect.gen(function* () {
        const hit = Promise.withResolvers<Vendor.Hit>()
        const { port } = yield* serve((response, got) => {
          if (events > 0)
            Vendor.stream(response, say("one", ["Hello ", "world."]).slice(0, events).join(""), true)
          hit.resolve(got)
        })
        const socket = connect(port, "127.0.0.1")
        socket.on("error", () => {})
        socket.write(head(body.length) + body)
        const { closed } = yield* Effect.promise(() => hit.promise)
        if (until !== undefined) {
          yield* Effect.promise(async () => {
            let text = ""
            for await (const chunk of socket) if (until.test((text += String(chunk)))) break
          })
        }
        socket.destroy()
        yield* Effect.promise(() => closed)
        assert.isTrue(socket.destroyed)
      })
    )
  }

  it.effect("in the middle of its request is not asked for", () =>
    Effect.gen(function* () {
      const { port, vendor } = yield* serve(well)
      for (const at of [10, 80, head(asked.length).length + 5]) {
        yield* raw(port, [(head(asked.length) + asked).slice(0, at)], undefined, true)
      }
      assert.lengthOf(vendor.hits, 0)
    })
  )
})

describe("the access log", () => {
  it.effect("has a line for each answer, without content", () =>
    Effect.gen(function* () {
      const entries: Array<Server.Entry> = []
      const { port } = yield* serve(well, { onAnswered: (entry) => void entries.push(entry) })
      yield* ask(port, { body: asked })
      yield* ask(port, { path: "/v1/my-secret?key=secret", body: "{}" })
      const [first, second] = entries
      assert.deepStrictEqual(first, {
        method: "POST",
        path: "/v1/chat/completions",
        status: 200,
        duration: 0,
        target: "openai/a#KEY_a",
        attempts: 1,
        hasLeft: false
      })
      assert.strictEqual(second?.status, 404)
      assert.notInclude(JSON.stringify(entries), "secret")
    })
  )
})

describe("the end of a server", () => {
  const wires = ["chat", "messages", "responses"] as const
  const ends = {
    chat: /data: \{"error":\{"message":"The gateway is shutting down\. Ask again\."[^\n]*\}\n\n$/,
    messages: /event: error\ndata: \{"type":"error","error":\{[^\n]*shutting down[^\n]*\n\n$/,
    responses: /event: response\.failed\ndata: \{[^\n]*"code":"shutting_down"[^\n]*\n\n$/
  }
  const paths = { chat: "chat/completions", messages: "messages", responses: "responses" }

  it.effect.each(wires)(
    "%s: refuses new requests, and ends a stream that takes too long with its error",
    (wire) =>
      Effect.gen(function* () {
        const held: Array<() => void> = []
        const vendor = yield* Vendor.start((response, { body }) => {
          if (body.stream !== true) return
          const events = Answers.stream(wire, { id: "one", text: ["Hello ", "world."] })
          Vendor.stream(response, events.slice(0, wire === "chat" ? 2 : 5).join(""), true)
          held.push(() => response.end(events.slice(wire === "chat" ? 2 : 5).join("")))
        })
        const gateway = yield* Gateway.make({
          routes: { route: { chain: [Vendor.target(wire, vendor)], policy: Vendor.impatient } }
        })
        const { drained, interrupted, refuse, url } = yield* Server.listen(gateway, { drain: "1 minute" })
        const post = (more: object) =>
          Effect.promise(() =>
            fetch(`${url}/v1/${paths[wire]}`, {
              method: "POST",
              headers: { "content-type": "application/json" },
              body: JSON.stringify(Vendor.request(wire, more))
            })
          )
        const [first, second] = [yield* post({ stream: true }), yield* post({ stream: true })]
        const whole = yield* Effect.forkChild(post({}))
        yield* Effect.repeat(
          Effect.promise(() => new Promise((resolve) => setImmediate(resolve))),
          {
            until: () => vendor.hits.length === 3
          }
        )
        yield* refuse
        const refused = yield* post({})
        assert.strictEqual(refused.status, 503)
        assert.strictEqual(refused.headers.get("retry-after"), "1")
        assert.strictEqual(refused.headers.get("x-should-retry"), "true")
        assert.include(yield* Effect.promise(() => refused.text()), "shutting down")
        // A stream that ends in time is whole.
        held[0]?.()
        const text = yield* Effect.promise(() => first.text())
        assert.include(text, "world.")
        assert.notInclude(text, "shutting down")
        const end = yield* Effect.forkChild(drained)
        yield* interrupted
        assert.match(yield* Effect.promise(() => second.text()), ends[wire])
        const cut = yield* Fiber.join(whole)
        assert.strictEqual(cut.status, 503)
        assert.strictEqual(cut.headers.get("retry-after"), "1")
        yield* Effect.promise(() => cut.text())
        yield* Fiber.join(end)
      })
  )

  it.effect("ends what still runs when its time is over", () =>
    Effect.gen(function* () {
      const begun = yield* Effect.scoped(
        Effect.gen(function* () {
          const { url } = yield* serve((response) =>
            Vendor.stream(response, say("one", ["Hello "]).slice(0, 2).join(""), true)
          )
          return yield* Effect.promise(() =>
            fetch(`${url}/v1/chat/completions`, {
              method: "POST",
              headers: { "content-type": "application/json" },
              body: streamed
            })
          )
        })
      )
      assert.match(yield* Effect.promise(() => begun.text()), ends.chat)
    })
  )
})

describe("300 streams at a time", () => {
  it.effect("of which every fifth is cut: each caller gets its own text, whole", () =>
    Effect.gen(function* () {
      const { port } = yield* serve((response, hit) => {
        const name = String(hit.body.messages[0].content)
        const partial = Answers.partialOf(hit)
        const words = Array.from({ length: 20 }, (_, i) => `${name} says ${i}. `)
        const text = words.join("").slice(partial.length)
        const events = say(name, text.match(/.{1,9}/gs) ?? [])
        if (Number(name.slice(1)) % 5 !== 0 || partial !== "") return Vendor.stream(response, events.join(""))
        Vendor.stream(response, events.slice(0, 12).join(""), true)
        setImmediate(() => hit.socket.destroy())
      })
      const answers = yield* Effect.forEach(
        Array.from({ length: 300 }, (_, i) => `c${i}`),
        (content) =>
          Effect.map(
            ask(port, {
              body: JSON.stringify({ model: "route", stream: true, messages: [{ role: "user", content }] })
            }),
            ({ text }) => ({ content, text })
          ),
        { concurrency: "unbounded" }
      )
      for (const { content, text } of answers) {
        const said = Array.from(text.matchAll(/^data: (\{.*)$/gm), ([, data = ""]) => JSON.parse(data))
        assert.strictEqual(
          said.map(({ choices }) => choices[0]?.delta?.content ?? "").join(""),
          Array.from({ length: 20 }, (_, i) => `${content} says ${i}. `).join("")
        )
        assert.strictEqual(text.match(/\[DONE\]/g)?.length, 1)
        assert.strictEqual(new Set(said.map(({ id }) => id)).size, 1)
      }
    })
  )
})
