/**
 * The server between callers and vendors that misbehave: what it survives, what it keeps, and what an abort reaches.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { once } from "node:events"
import { connect } from "node:net"
import type { Socket } from "node:net"
import { gzipSync } from "node:zlib"
import { Gateway, Server } from "@outlast/gateway"
import * as Answers from "./Answers.ts"
import * as Vendor from "./Vendor.ts"

/** A server over this vendor. The second target is another model of it. */
const serve = (answer: Vendor.Answer, wire: Vendor.WireName = "chat") =>
  Effect.gen(function* () {
    const vendor = yield* Vendor.start(answer)
    const chain = [Vendor.target(wire, vendor, "a"), Vendor.target(wire, vendor, "b")] as const
    const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
    const entries: Array<Server.Entry> = []
    const onAnswered = (entry: Server.Entry) => void entries.push(entry)
    const { url } = yield* Server.listen(gateway, { drain: 0, onAnswered })
    return { port: Number(new URL(url).port), vendor, entries }
  })

const said = (id: string, text: ReadonlyArray<string>) => Answers.stream("chat", { id, text })
const streamed = JSON.stringify(Vendor.request("chat", { stream: true }))
const asked = JSON.stringify(Vendor.request("chat"))
const whole = (text: string) =>
  JSON.stringify({
    id: "one",
    choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }]
  })

const post = (body: string, more = "", version = "1.1") =>
  `POST /v1/chat/completions HTTP/${version}\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${more}\r\n${body}`

/** Writes bytes, and reads until the connection closes or the text has `until`. */
const raw = (port: number, bytes: string, until?: RegExp) =>
  Effect.promise(async () => {
    const socket = connect(port, "127.0.0.1")
    socket.on("error", () => {})
    socket.write(bytes)
    let text = ""
    await new Promise<void>((resolve) => {
      socket.on("data", (chunk) => {
        text += String(chunk)
        if (until?.test(text) === true) resolve()
      })
      socket.on("close", () => resolve())
    })
    socket.destroy()
    return text
  })

const close = "Connection: close\r\n"

describe("a vendor", () => {
  /** What the first target sends, and nothing of which a caller may see. The second one is well. */
  const broken: Readonly<Record<string, (socket: Socket) => void>> = {
    "closes without a word": (socket) => socket.destroy(),
    "resets the connection": (socket) => socket.resetAndDestroy(),
    "speaks no HTTP": (socket) => socket.end("SSH-2.0-OpenSSH_9.6\r\n"),
    "ends inside its headers": (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Ty"),
    "sends headers of 100 KB": (socket) =>
      socket.end(`HTTP/1.1 200 OK\r\nX: ${"WRONG".repeat(20_000)}\r\n\r\n`),
    "answers with a page": (socket) => {
      const page = "<html>WRONG</html>"
      socket.end(
        `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${page.length}\r\n\r\n${page}`
      )
    },
    "answers with nothing": (socket) => socket.end("HTTP/1.1 204 No Content\r\n\r\n"),
    "ends before its length": (socket) =>
      socket.end('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"WRONG":'),
    "sends a chunk without a size": (socket) =>
      socket.end(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nWRONG\r\n"
      ),
    "sends two lengths": (socket) =>
      socket.end(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nWRONG"
      ),
    "compresses unasked": (socket) => {
      const body = gzipSync(whole("WRONG"))
      socket.write(
        `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`
      )
      socket.end(body)
    },
    "redirects to itself": (socket) =>
      socket.end("HTTP/1.1 307 Temporary Redirect\r\nLocation: /v1/WRONG\r\nContent-Length: 0\r\n\r\n"),
    "redirects elsewhere": (socket) =>
      socket.end("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/WRONG\r\nContent-Length: 0\r\n\r\n"),
    "switches protocols": (socket) =>
      socket.end("HTTP/1.1 101 Switching Protocols\r\nUpgrade: WRONG\r\nConnection: Upgrade\r\n\r\nWRONG")
  }
  for (const [name, send] of Object.entries(broken)) {
    for (const [form, body] of [
      ["a stream", streamed],
      ["a whole answer", asked]
    ] as const) {
      it.effect(`that ${name} is left for the next target, asked for ${form}`, () =>
        Effect.gen(function* () {
          const { port } = yield* serve((response, { body, socket }) => {
            if (body.model === "a") return send(socket)
            return body.stream === true
              ? Vendor.stream(response, said("b", ["Right."]).join(""))
              : Vendor.json(response, 200, whole("Right."))
          })
          const text = yield* raw(port, post(body, close))
          assert.include(text, "HTTP/1.1 200")
          assert.include(text, "Right.")
          assert.notInclude(text, "WRONG")
        })
      )
    }
  }

  /** Bytes of a stream that are unusual, and complete. */
  const unusual: Readonly<Record<string, (events: ReadonlyArray<string>) => string>> = {
    "with CRLF": (events) => events.join("").replaceAll("\n", "\r\n"),
    "with CR": (events) => events.join("").replaceAll("\n", "\r"),
    "with a byte order mark": (events) => `\uFEFF${events.join("")}`,
    "with comments between events": (events) => events.join(": comment\n\n"),
    "with unknown events": (events) => events.join("event: x-unknown\ndata: {}\n\n"),
    "with data that is no JSON": (events) => events.join("data: {oops\n\n"),
    "with retry and id lines": (events) => events.map((event) => `retry: 5\nid: 7\n${event}`).join(""),
    "without spaces behind the colons": (events) => events.join("").replaceAll("data: ", "data:"),
    "with five empty lines between events": (events) => events.join("\n\n\n\n\n")
  }
  for (const [name, of] of Object.entries(unusual)) {
    it.effect(`whose stream comes ${name} is read, in one piece and byte by byte`, () =>
      Effect.gen(function* () {
        const bytes = Buffer.from(of(said("one", ["Grüße, ", "Welt 🌍."])))
        for (const size of [bytes.length, 1]) {
          const { port } = yield* serve((response) => {
            response.writeHead(200, { "content-type": "text/event-stream" })
            for (let at = 0; at < bytes.length; at += size) response.write(bytes.subarray(at, at + size))
            response.end()
          })
          const text = yield* raw(port, post(streamed, close))
          assert.include(text, "Grüße, ")
          assert.include(text, "Welt 🌍.")
          assert.strictEqual(text.match(/\[DONE\]/g)?.length, 1)
        }
      })
    )
  }

  it.effect("that sends early hints before its answer is heard", () =>
    Effect.gen(function* () {
      const { port } = yield* serve((response) => {
        response.writeEarlyHints({ link: "</a.css>; rel=preload" }, () =>
          Vendor.json(response, 200, whole("Right."))
        )
      })
      assert.include(yield* raw(port, post(asked, close)), "Right.")
    })
  )

  it.effect("that never ends after its last event holds no caller", () =>
    Effect.gen(function* () {
      const { port } = yield* serve((response) =>
        Vendor.stream(response, said("one", ["Hi."]).join(""), true)
      )
      assert.include(yield* raw(port, post(streamed, close)), "[DONE]")
    })
  )
})

describe("a caller", () => {
  const well: Vendor.Answer = (response, { body }) =>
    body.stream === true
      ? Vendor.stream(response, said("one", ["Hello."]).join(""))
      : Vendor.json(response, 200, whole("Hello."))

  it.effect("that speaks HTTP/1.0 gets an answer whose end is that of the connection", () =>
    Effect.gen(function* () {
      const { port } = yield* serve(well)
      for (const body of [asked, streamed]) {
        const text = yield* raw(port, post(body, "", "1.0"))
        assert.include(text, "Hello.")
        assert.notInclude(text.toLowerCase(), "transfer-encoding")
      }
    })
  )

  it.effect("that waits for 100 Continue is told to go on", () =>
    Effect.gen(function* () {
      const { port } = yield* serve(well)
      const text = yield* raw(port, post(asked, `Expect: 100-continue\r\n${close}`))
      assert.match(text, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /)
    })
  )

  it.effect("that sends requests behind each other gets the answers in their order", () =>
    Effect.gen(function* () {
      const { port } = yield* serve((response, { body }) => {
        const { content } = body.messages[0]
        Vendor.json(response, 200, whole(`answer to ${content}`))
      })
      const numbers = [1, 2, 3, 4, 5]
      const requests = numbers.map((n) =>
        post(
          JSON.stringify({ ...Vendor.request("chat"), messages: [{ role: "user", content: `number ${n}` }] })
        )
      )
      const text = yield* raw(port, requests.join(""), /answer to number 5/)
      assert.deepStrictEqual(
        Array.from(text.matchAll(/answer to number (\d)/g), ([, n]) => Number(n)),
        numbers
      )
    })
  )

  it.effect("that only looks, by HEAD, gets no body", () =>
    Effect.gen(function* () {
      const { port } = yield* serve(well)
      const text = yield* raw(port, `HEAD /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n${close}\r\n`)
      assert.include(text, "HTTP/1.1 200")
      assert.isTrue(text.endsWith("\r\n\r\n"))
    })
  )

  it.effect("that is cut between or inside events ends the request at the vendor", () =>
    Effect.gen(function* () {
      const events = said("one", ["Hello ", "world", "!"])
      for (const upTo of [1, 40, 200, 400]) {
        const closed = Promise.withResolvers<Promise<void>>()
        const { port } = yield* serve((response, hit) => {
          Vendor.stream(response, events.slice(0, 3).join(""), true)
          closed.resolve(hit.closed)
        })
        const socket = connect(port, "127.0.0.1")
        socket.on("error", () => {})
        socket.write(post(streamed))
        let size = 0
        socket.on("data", (chunk) => {
          if ((size += chunk.length) >= upTo) socket.destroy()
        })
        yield* Effect.promise(() => once(socket, "close"))
        yield* Effect.promise(() => closed.promise.then((each) => each))
        assert.isAtLeast(size, upTo)
      }
    })
  )

  it.effect("that does not read slows the vendor down, and gets all of it in the end", () =>
    Effect.gen(function* () {
      const word = "x".repeat(1_000)
      const events = said(
        "one",
        Array.from({ length: 20_000 }, () => word)
      )
      const stuck = Promise.withResolvers<number>()
      const { port } = yield* serve((response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        let n = 0
        let hasRoom = true
        const write = (): void => {
          hasRoom = true
          while (hasRoom && n < events.length) hasRoom = response.write(events[n++])
          if (n === events.length) return void response.end()
          response.once("drain", write)
          waiting(2_000)
        }
        /** Buffers of sockets are full when so many turns of the event loop have made no room. */
        const waiting = (turns: number): void => {
          if (turns === 0) stuck.resolve(n)
          else if (!hasRoom) setImmediate(() => waiting(turns - 1))
        }
        write()
      })
      const socket = connect(port, "127.0.0.1").pause()
      socket.write(post(streamed, close))
      assert.isBelow(yield* Effect.promise(() => stuck.promise), events.length)
      let size = 0
      let end = ""
      yield* Effect.promise(
        () =>
          new Promise<void>((resolve) => {
            socket.on("data", (chunk) => {
              size += chunk.length
              end = (end + String(chunk)).slice(-100)
            })
            socket.on("close", () => resolve())
            socket.resume()
          })
      )
      assert.include(end, "[DONE]")
      assert.isAbove(size, 20_000 * word.length)
    })
  )

  it.effect("among 300, of whom a fifth is cut, gets its own text and nothing of another", () =>
    Effect.gen(function* () {
      const { entries, port, vendor } = yield* serve((response, { body }) => {
        const { content } = body.messages[0]
        const events = said(content, [`${content} begins `, `${content} ends.`])
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(events.slice(0, 2).join(""))
        setImmediate(() => response.end(events.slice(2).join("")))
      })
      const one = (n: number) => {
        const body = JSON.stringify({
          ...Vendor.request("chat", { stream: true }),
          messages: [{ role: "user", content: `caller-${n}.` }]
        })
        return raw(port, post(body, close), n % 5 === 0 ? /begins/ : undefined)
      }
      const texts = yield* Effect.forEach(
        Array.from({ length: 300 }, (_, n) => n),
        one,
        { concurrency: 60 }
      )
      for (const [n, text] of texts.entries()) {
        const others = Array.from(text.matchAll(/caller-(\d+)\./g), ([, other]) => Number(other))
        assert.deepStrictEqual(new Set(others), new Set([n]))
        if (n % 5 !== 0) assert.include(text, `caller-${n}. ends.`)
      }
      assert.lengthOf(vendor.hits, 300)
      while (entries.length < 300) yield* Effect.promise(() => new Promise(setImmediate))
      assert.lengthOf(entries, 300)
    })
  )
})
