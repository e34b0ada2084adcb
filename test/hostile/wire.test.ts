/** Bytes as real servers and proxies send them: false encodings, split characters, closed sockets. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import type { ServerResponse } from "node:http"
import { gzipSync } from "node:zlib"
import { UndiciFetch } from "@outlast/providers/undici"
import * as Undici from "undici"
import * as Calls from "./Calls.ts"
import * as Replies from "./Replies.ts"
import * as RawServer from "./RawServer.ts"
import { chat, claude } from "./RawServer.ts"

const text = "Grüße, 世界 😀!"
const answer = [chat.text("Grüße, "), chat.text("世界 "), chat.text("😀!"), chat.finish("stop"), chat.done]
const bytes = Buffer.from(answer.map((each) => RawServer.event(each)).join(""))

/** A stream whose n-th attempt is answered by the n-th function; the last one answers all further ones. */
const seen = (...answers: ReadonlyArray<(response: ServerResponse, hit: RawServer.Hit) => void>) =>
  Effect.gen(function* () {
    const server = yield* RawServer.start((response, hit, n) =>
      answers[Math.min(n, answers.length - 1)]?.(response, hit)
    )
    const result = yield* Calls.stream([Calls.vendors.chat(server.url)])
    return { ...result, server }
  })

const good = (response: ServerResponse): void => RawServer.events(response, answer)
const complete = { text, finish: "stop", failure: undefined, blocks: 1 }

describe("the bytes of a stream", () => {
  it.live(
    "may be split anywhere, in characters and in line ends (openai/openai-node#2309, mrpulor-gh/nuphus#41)",
    () =>
      Effect.gen(function* () {
        for (const end of ["\n", "\r\n", "\r"]) {
          const { server, ...result } = yield* seen(async (response) => {
            RawServer.head(response)
            response.socket?.setNoDelay(true)
            for (const byte of Buffer.from(bytes.toString().replaceAll("\n", end))) {
              response.write(Uint8Array.of(byte))
              await new Promise((resolve) => setImmediate(resolve))
            }
          })
          assert.deepInclude(result, complete)
          assert.strictEqual(server.hits.length, 1)
        }
      })
  )

  it.live("may begin with a byte order mark", () =>
    Effect.gen(function* () {
      const { server, ...result } = yield* seen((response) => {
        RawServer.head(response)
        response.end(Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytes]))
      })
      assert.deepInclude(result, complete)
      assert.strictEqual(server.hits.length, 1)
    })
  )

  it.live("may lack the last blank line", () =>
    Effect.gen(function* () {
      const { server, ...result } = yield* seen((response) => {
        RawServer.head(response)
        response.end(bytes.toString().replace(/\n\ndata: \[DONE\]\n\n$/, ""))
      })
      assert.deepInclude(result, complete)
      assert.strictEqual(server.hits.length, 1)
    })
  )

  it.live("may hold lone surrogates and invalid UTF-8", () =>
    Effect.gen(function* () {
      const { server, ...result } = yield* seen((response) => {
        RawServer.head(response)
        const delta = (content: string) =>
          RawServer.event(JSON.stringify(chat.text("*")).replace("*", content))
        response.write(delta(String.raw`a\ud83d`) + delta(String.raw`\ude00b`) + delta(String.raw`\ude00`))
        // A surrogate that is encoded by itself.
        const [before, after] = delta("*").split("*")
        response.write(
          Buffer.concat([Buffer.from(before ?? ""), Buffer.of(0xed, 0xa0, 0xbd), Buffer.from(after ?? "")])
        )
        response.end(RawServer.event(chat.finish("stop")) + RawServer.event(chat.done))
      })
      assert.deepInclude(result, { ...complete, text: "a😀b\ude00\ufffd\ufffd\ufffd" })
      assert.strictEqual(server.hits.length, 1)
    })
  )
})

describe("an event of 100 MB", () => {
  it.live("fails the attempt with a typed failure, and memory stays bounded", () =>
    Effect.gen(function* () {
      let written = 0
      const chunk = Buffer.alloc(1024 * 1024, "x")
      const before = process.memoryUsage().rss
      let peak = 0
      const huge = (response: ServerResponse) => {
        RawServer.head(response)
        response.write(`data: {"choices":[{"index":0,"delta":{"content":"`)
        const next = () => {
          peak = Math.max(peak, process.memoryUsage().rss - before)
          if (response.destroyed) return
          if (written >= 100) return response.end(`"}}]}\n\n`)
          written++
          response.write(chunk, next)
        }
        next()
      }
      const { server, ...result } = yield* seen(huge, good)
      assert.deepInclude(result, complete)
      assert.include(result.events, "AttemptFailed")
      assert.strictEqual(server.hits.length, 2)
      // Bytes in the filter's buffer and in flight between the two ends of the socket.
      assert.isBelow(written, 100)
      assert.isBelow(peak, 400 * 1024 * 1024)
    })
  )

  it.live("is named in the failure when there is no other target", () =>
    Effect.gen(function* () {
      const huge = (response: ServerResponse) => {
        RawServer.head(response)
        const line = Buffer.alloc(40 * 1024 * 1024, "x")
        response.write("data: ")
        response.write(line)
      }
      const { server, ...result } = yield* seen(huge)
      assert.strictEqual(Calls.reasonOf(result), "Format")
      assert.include(Calls.ruleOf(result), "stream/event-size")
      assert.isAtMost(server.hits.length, 3)
    })
  )
})

describe("a false Content-Encoding", () => {
  const zipped = gzipSync(bytes)
  const lies: ReadonlyArray<readonly [string, Readonly<Record<string, string>>, Uint8Array]> = [
    ["gzip over plain text (sindresorhus/got#1964)", { "content-encoding": "gzip" }, bytes],
    ["a truncated gzip", { "content-encoding": "gzip" }, zipped.subarray(0, zipped.length >> 1)],
    ["deflate over gzip (nodejs/undici#2603)", { "content-encoding": "deflate" }, Buffer.from("no deflate")],
    ["gzip with broken bytes", { "content-encoding": "gzip" }, Buffer.from(zipped).fill(0, 20, 60)]
  ]
  for (const [name, headers, body] of lies) {
    for (const type of ["text/event-stream", "application/json"]) {
      it.live(`is a failure that is retried: ${name}, ${type}`, () =>
        Effect.gen(function* () {
          const { server, ...result } = yield* seen((response) => {
            response.writeHead(200, { "content-type": type, ...headers })
            response.end(body)
          }, good)
          assert.deepInclude(result, complete)
          assert.isAtLeast(server.hits.length, 2)
          const failed = yield* seen((response) => {
            response.writeHead(200, { "content-type": type, ...headers })
            response.end(body)
          })
          assert.include(["Network", "Format"], Calls.reasonOf(failed))
        })
      )
    }
  }

  it.live("is not confused with a correct one", () =>
    Effect.gen(function* () {
      const { server, ...result } = yield* seen((response) => {
        response.writeHead(200, { "content-type": "text/event-stream", "content-encoding": "gzip" })
        response.end(zipped)
      })
      assert.deepInclude(result, complete)
      assert.strictEqual(server.hits.length, 1)
    })
  )

  for (const status of [429, 500]) {
    it.live(`does not hide the status ${status} of an error`, () =>
      Effect.gen(function* () {
        const { server, ...result } = yield* seen((response) => {
          response.writeHead(status, { "content-type": "application/json", "content-encoding": "gzip" })
          response.end(JSON.stringify({ error: { message: "no", type: "x" } }))
        }, good)
        assert.deepInclude(result, complete)
        assert.strictEqual(server.hits.length, 2)
      })
    )
  }
})

describe("an idle connection that the server has closed", () => {
  const idle = (end: (hit: RawServer.Hit) => void) =>
    Effect.gen(function* () {
      const used = new Set<number>()
      let closed = 0
      const server = yield* RawServer.start((response, hit) => {
        // The server closes the connection while the client writes on it again.
        if (used.has(hit.connection) && closed++ < 1) return end(hit)
        used.add(hit.connection)
        good(response)
      })
      const chain = [Calls.vendors.chat(server.url)] as const
      yield* Calls.stream(chain)
      yield* Effect.sleep(100)
      const result = yield* Calls.stream(chain)
      return { ...result, server, closed }
    })

  for (const [name, end] of [
    ["reset", (hit) => hit.socket.resetAndDestroy()],
    ["ended", (hit) => hit.socket.end()]
  ] as ReadonlyArray<readonly [string, (hit: RawServer.Hit) => void]>) {
    it.live(
      `costs one repeat and no failure: ${name} (nodejs/undici#3492, nodejs/undici#5450, openclaw/openclaw#97608)`,
      () =>
        Effect.gen(function* () {
          const { closed, server, ...result } = yield* idle(end)
          assert.deepInclude(result, complete)
          assert.strictEqual(closed, 1)
          assert.notInclude(result.events, "AttemptFailed")
          assert.include(result.events, "StaleConnection")
          assert.strictEqual(server.hits.length, 3)
          assert.deepStrictEqual(server.hits[1]?.body, server.hits[2]?.body)
        })
    )
  }

  for (const vendor of Object.keys(Calls.vendors) as ReadonlyArray<keyof typeof Calls.vendors>) {
    it.live(`may be one of many: each costs a repeat that is an event, ${vendor}`, () =>
      Effect.gen(function* () {
        const idle = 6
        const used = new Set<number>()
        const held: Array<() => void> = []
        const server = yield* RawServer.start((response, hit) => {
          if (used.has(hit.connection)) return hit.socket.resetAndDestroy()
          used.add(hit.connection)
          const reply = { text: "done", end: Replies.ends[vendor].stop, tokens: 1 }
          held.push(() => Replies.send[vendor](reply)(response, hit))
          // All first answers at once, so that there are as many connections.
          if (used.size >= idle) for (const answer of held.splice(0)) answer()
        })
        // Takes its connections in turn, so that a repeat meets the next dead one.
        const dispatcher = new Undici.RoundRobinPool(server.url, { connections: idle, allowH2: false })
        const call = Calls.stream([Calls.through[vendor](server.url, UndiciFetch.make({ dispatcher }))])
        yield* Effect.all(
          Array.from({ length: idle }, () => call),
          { concurrency: "unbounded" }
        )
        yield* Effect.sleep(20)
        const { events, text } = yield* call
        assert.strictEqual(text, "done")
        assert.notInclude(events, "AttemptFailed")
        const repeats = events.filter((event) => event === "StaleConnection").length
        assert.isAtLeast(repeats, 2)
        assert.isAtMost(repeats, idle)
        assert.strictEqual(server.hits.length, idle + repeats + 1)
      })
    )
  }

  it.live("is repeated no more often than connections were idle, although all later ones die, too", () =>
    Effect.gen(function* () {
      const used = new Set<number>()
      const server = yield* RawServer.start((response, hit) => {
        if (used.size > 0) return hit.socket.resetAndDestroy()
        used.add(hit.connection)
        good(response)
      })
      const chain = [Calls.vendors.chat(server.url)] as const
      yield* Calls.stream(chain)
      yield* Effect.sleep(20)
      const { events } = yield* Calls.stream(chain, { policy: { ...Calls.quick, maxAttempts: 1 } })
      assert.strictEqual(events.filter((event) => event === "StaleConnection").length, 1)
      assert.include(events, "AttemptFailed")
      assert.strictEqual(server.hits.length, 3)
    })
  )

  it.live("is not retried after a byte of the response", () =>
    Effect.gen(function* () {
      const { closed, server, ...result } = yield* idle((hit) => {
        hit.socket.write("HTTP/1.1 200")
        setTimeout(() => hit.socket.destroy(), 20)
      })
      assert.deepInclude(result, complete)
      assert.strictEqual(closed, 1)
      assert.include(result.events, "AttemptFailed")
      assert.strictEqual(server.hits.length, 3)
    })
  )

  it.live("is not the same as a new connection that is reset", () =>
    Effect.gen(function* () {
      const { server, ...result } = yield* seen((_, hit) => hit.socket.resetAndDestroy(), good)
      assert.deepInclude(result, complete)
      assert.include(result.events, "AttemptFailed")
      assert.strictEqual(server.hits.length, 2)
    })
  )
})

describe("Retry-After", () => {
  const past = "Wed, 21 Oct 2015 07:28:00 GMT"
  for (const [name, headers] of [
    ["0", { "retry-after": "0" }],
    ["a date in the past", { "retry-after": past }],
    [
      "a date in the past, by the server's own clock",
      { "retry-after": past, date: "Wed, 21 Oct 2015 07:29:00 GMT" }
    ],
    ["a negative number", { "retry-after": "-1" }]
  ] as const) {
    it.live(`of ${name} means now`, () =>
      Effect.gen(function* () {
        const { server, ...result } = yield* seen((response) => {
          response.writeHead(429, { "content-type": "application/json", ...headers })
          response.end(JSON.stringify({ error: { message: "slow down", type: "requests" } }))
        }, good)
        assert.deepInclude(result, complete)
        assert.strictEqual(server.hits.length, 2)
        assert.isBelow(result.millis, Calls.prompt)
      })
    )
  }
})

describe("misleading headers and pages", () => {
  it.live("limits that are invalid, or report nothing left, stop no later call", () =>
    Effect.gen(function* () {
      const { server, ...result } = yield* seen((response) => {
        RawServer.head(response, {
          "x-ratelimit-limit-requests": "0",
          "x-ratelimit-remaining-requests": "-5",
          "x-ratelimit-reset-requests": "NaN",
          "x-ratelimit-limit-tokens": "1e999",
          "x-ratelimit-remaining-tokens": "lots",
          "x-ratelimit-reset-tokens": "9999999999h"
        })
        response.end(bytes)
      })
      assert.deepInclude(result, complete)
      assert.strictEqual(server.hits.length, 1)
    })
  )

  it.live("an error page of 20 MB is a failure as any other", () =>
    Effect.gen(function* () {
      const { server, ...result } = yield* seen((response) => {
        response.writeHead(502, { "content-type": "text/html" })
        response.end(`<html><title>502 Bad Gateway</title>${"<p>sk-ant-".repeat(2_000_000)}</html>`)
      }, good)
      assert.deepInclude(result, complete)
      assert.strictEqual(server.hits.length, 2)
      assert.isBelow(result.millis, 2 * Calls.prompt)
    })
  )
})

describe("parallel tool calls that are cut in the second", () => {
  for (const [name, cut] of [
    ["in good order", (response: ServerResponse) => void response.end()],
    [
      "by a reset",
      (response: ServerResponse) => void setTimeout(() => response.socket?.resetAndDestroy(), 30)
    ]
  ] as const) {
    it.live(`are never seen: ${name} (earendil-works/pi#6284, NousResearch/hermes-agent#6847)`, () =>
      Effect.gen(function* () {
        const { server, ...result } = yield* seen((response) => {
          const calls = [
            chat.call(0, "c1", "pay", `{"euros":1}`),
            chat.call(1, "c2", "pay", `{"euros":1`),
            chat.args(1, `4`)
          ]
          RawServer.events(response, calls, true)
          cut(response)
        }, good)
        assert.deepInclude(result, complete)
        assert.notInclude(result.types.join(), "tool")
        assert.strictEqual(server.hits.length, 2)
      })
    )
  }
})

describe("the consumer", () => {
  it.live("may be slow: the server waits, and no limit runs", () =>
    Effect.gen(function* () {
      const many = Array.from({ length: 40 }, (_, i) => chat.text(`${i} `))
      const server = yield* RawServer.start((response) =>
        RawServer.events(response, [...many, chat.finish("stop"), chat.done])
      )
      const policy = {
        ...Calls.quick,
        limits: { ...Calls.quick.limits, idle: Calls.millis(1_000), firstToken: Calls.millis(3_000) }
      }
      let shown = 0
      const result = yield* Calls.stream([Calls.vendors.chat(server.url)], {
        policy,
        onPart: () => (shown++ === 1 ? Effect.sleep(1_500) : Effect.void)
      })
      assert.strictEqual(result.text, many.map((_, i) => `${i} `).join(""))
      assert.strictEqual(server.hits.length, 1)
    })
  )

  it.live(
    "that goes away is known to the server within 300 ms (anomalyco/opencode#34467, FWU-DE/ais-chat#1324)",
    () =>
      Effect.gen(function* () {
        for (const before of [[], [chat.text("Hello ")]]) {
          let asked = () => {}
          const arrived = new Promise<void>((resolve) => (asked = resolve))
          const server = yield* RawServer.start((response) => {
            if (before.length > 0) RawServer.events(response, before, true)
            asked()
          })
          const fiber = yield* Effect.forkChild(Calls.stream([Calls.vendors.chat(server.url)]))
          yield* Effect.promise(() => arrived)
          yield* Effect.sleep(100)
          const left = performance.now()
          yield* Fiber.interrupt(fiber)
          const closed = yield* Effect.promise(
            () => server.hits[0]?.closed ?? Promise.reject(new Error("not asked"))
          )
          assert.isBelow(closed - left, 300)
        }
      })
  )
})

describe("thinking", () => {
  it.live(
    "has ended for the consumer when the text begins, not when the answer ends (vibest-dev/vibest#289)",
    () =>
      Effect.gen(function* () {
        const thinking = { type: "thinking", thinking: "", signature: "" }
        const delta = (type: string, fields: object) => ({
          type: "content_block_delta",
          index: 0,
          delta: { type, ...fields }
        })
        let finish = () => {}
        const server = yield* RawServer.start((response) => {
          RawServer.events(
            response,
            [
              claude.start,
              claude.block(0, thinking),
              delta("thinking_delta", { thinking: "Hm." }),
              delta("signature_delta", { signature: "sig" }),
              claude.stop(0),
              claude.block(1),
              claude.text(1, "Hello.")
            ],
            true
          )
          finish = () =>
            void response.end(
              [claude.stop(1), claude.delta("end_turn"), claude.end].map((e) => RawServer.event(e)).join("")
            )
        })
        const types: Array<string> = []
        yield* Calls.stream([Calls.vendors.anthropic(server.url)], {
          onPart: ({ type }) =>
            Effect.sync(() => {
              types.push(type)
              // The server sends no more until the consumer has seen the text.
              if (type === "text-delta") finish()
            })
        })
        assert.deepStrictEqual(
          types.filter((type) => type !== "response-metadata"),
          [
            "reasoning-start",
            "reasoning-delta",
            "reasoning-delta",
            "reasoning-end",
            "text-start",
            "text-delta",
            "text-end",
            "finish"
          ]
        )
      })
  )
})

describe("a response that is not HTTP", () => {
  for (const [name, sent] of Object.entries({
    "a status line of another protocol": "SSH-2.0-OpenSSH_9.9\r\n",
    "a page without a head": "<html>Bad gateway</html>",
    "a header without a colon": "HTTP/1.1 200 OK\r\nnot a header\r\n\r\n",
    "two lengths": "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    "a length and chunks":
      "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
  })) {
    it.live(`is a broken connection and not a malformed request: ${name}`, () =>
      Effect.gen(function* () {
        const { server, ...result } = yield* seen((_, { socket }) => void socket.end(sent), good)
        assert.deepInclude(result, complete)
        assert.strictEqual(server.hits.length, 2)
      })
    )
  }

  it.live("names the endpoint when it persists", () =>
    Effect.gen(function* () {
      const { server, ...result } = yield* seen((_, { socket }) => void socket.end("hello"))
      assert.strictEqual(Calls.reasonOf(result), "Network")
      assert.include(result.failure?.message ?? "", server.url)
    })
  )
})
