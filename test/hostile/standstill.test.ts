/**
 * A program that blocks its own event loop while answers arrive. The server has a thread of its own, so everything comes
 * in time; no failure may be the provider's.
 */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect } from "effect"
import { Worker } from "node:worker_threads"
import type { Vendor } from "./Asked.ts"
import { asked, policy, vendors, ways } from "./Asked.ts"
import * as Replies from "./Replies.ts"

const paths: { readonly [V in Vendor]: RegExp } = {
  anthropic: /\/messages/,
  responses: /\/responses/,
  chat: /\/chat\/completions/,
  compatible: /\/chat\/completions/,
  google: /generateContent/i
}

const everyone = Object.keys(vendors) as ReadonlyArray<Vendor> // Object.keys forgets the names

const replies = everyone.flatMap((vendor) =>
  [true, false].map((isStream) => {
    const reply = { text: "The Nile.", end: Replies.ends[vendor].stop, tokens: 4 }
    return { path: paths[vendor], isStream, reply: Replies.written(Replies.send[vendor](reply), isStream) }
  })
)

/** Reports each request, and answers it a moment later: headers and half of the body, then the rest. */
const program = `
  const { createServer } = require("node:http")
  const { parentPort, workerData } = require("node:worker_threads")
  const server = createServer(async (request, response) => {
    let text = ""
    for await (const chunk of request) text += chunk
    const isStream = text.includes('"stream":true') || request.url.includes("alt=sse")
    const { reply } = workerData.find((it) => it.isStream === isStream && it.path.test(request.url))
    parentPort.postMessage("request")
    const half = reply.body.length >> 1
    setTimeout(() => {
      response.writeHead(200, { "content-type": reply.type })
      response.write(reply.body.slice(0, half))
      setTimeout(() => response.end(reply.body.slice(half)), 50)
    }, 50)
  })
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port))`

const limit = Duration.seconds(1)

/** Longer than the limits, and without use of the CPU. */
const block = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_300)

const calls = everyone.flatMap((vendor) => ways.map((way) => ({ vendor, way })))

/** All calls at once. The event loop stands still once, when the thread has `received` so many requests. */
const blockedAfter = (received: number) =>
  Effect.scoped(
    Effect.gen(function* () {
      const port = Deferred.makeUnsafe<number>()
      let requests = 0
      const worker = yield* Effect.acquireRelease(
        Effect.sync(() => new Worker(program, { eval: true, workerData: replies })),
        (worker) => Effect.promise(() => worker.terminate())
      )
      worker.on("message", (message) => {
        if (typeof message === "number") Deferred.doneUnsafe(port, Effect.succeed(message))
        else if (++requests === received) block()
      })
      const url = `http://127.0.0.1:${yield* Deferred.await(port)}`
      const limits = { ...policy.limits, connect: limit, firstToken: limit, idle: limit, total: limit }
      const asking = Effect.forEach(
        calls,
        ({ vendor, way }) => asked(way, [vendors[vendor](url)], { policy: { ...policy, limits } }),
        { concurrency: "unbounded" }
      )
      if (received === 0) setImmediate(block)
      const came = yield* asking
      return { came, requests }
    })
  )

describe("a blocked event loop is not the provider's silence", () => {
  for (const [when, received] of [
    ["while the requests are sent", 0],
    ["while the answers arrive", calls.length]
  ] as const) {
    it.live(`no attempt fails for a loop that is blocked ${when}`, () =>
      Effect.gen(function* () {
        const { came, requests } = yield* blockedAfter(received)
        assert.deepStrictEqual(
          came.map(({ text, failures }) => [text, failures]),
          calls.map(() => ["The Nile.", []])
        )
        assert.strictEqual(requests, calls.length)
      })
    )
  }
})
