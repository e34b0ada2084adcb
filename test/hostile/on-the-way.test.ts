/** Servers and proxies on the way to a provider that refuse a request, or stall in the body of an error. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { ServerResponse } from "node:http"
import { asked, vendors, ways } from "./Asked.ts"
import * as RawServer from "./RawServer.ts"

const { chat } = RawServer

const answering = RawServer.start((response, { body }) => {
  if (body.stream === true) {
    RawServer.events(response, [chat.text("hello"), chat.finish("stop"), chat.usage(5, 7), chat.done])
  } else {
    RawServer.json(response, 200, {
      ...chat.delta({}),
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }]
    })
  }
})

/** Asks a chain of two endpoints with the same wire format. The first one answers so. */
const behind = (refuse: (response: ServerResponse) => void) =>
  Effect.gen(function* () {
    const first = yield* RawServer.start((response) => refuse(response))
    const second = yield* answering
    const all: Array<readonly [string, ReadonlyArray<string>]> = []
    for (const way of ways) {
      const { text, failures } = yield* asked(way, [
        vendors.chat(first.url),
        vendors.chat(second.url, "gpt-y")
      ])
      all.push([text, failures])
    }
    return all
  })

const page = (title: string): string => `<html><head><title>${title}</title></head><body>nginx</body></html>`

describe("a server on the way that", () => {
  for (const [status, body] of [
    [405, page("405 Not Allowed")],
    [421, "Misdirected Request"],
    [426, ""],
    [451, "Unavailable For Legal Reasons"]
  ] as const) {
    it.live(`refuses with ${status} makes the call go to another endpoint`, () =>
      Effect.gen(function* () {
        const all = yield* behind((response) => response.writeHead(status).end(body))
        assert.deepStrictEqual(
          all,
          ways.map(() => ["hello", ["PermanentNetwork"]])
        )
      })
    )
  }

  it.live("accepts fewer bytes makes the call go to another endpoint, whatever the windows are", () =>
    Effect.gen(function* () {
      const all = yield* behind((response) =>
        response.writeHead(413).end(page("413 Request Entity Too Large"))
      )
      assert.deepStrictEqual(
        all,
        ways.map(() => ["hello", ["ContextOverflow"]])
      )
    })
  )

  it.live("stalls in the body of an error has told its status", () =>
    Effect.gen(function* () {
      const all = yield* behind((response) => {
        response.writeHead(401, { "content-type": "application/json" })
        response.write('{"error":')
      })
      assert.deepStrictEqual(
        all,
        ways.map(() => ["hello", ["Auth"]])
      )
    })
  )

  it.live("breaks in the body of an error has told its status", () =>
    Effect.gen(function* () {
      const all = yield* behind((response) => {
        response.writeHead(402, { "content-type": "application/json", "content-length": "500" })
        response.write('{"error":', () => response.destroy())
      })
      assert.deepStrictEqual(
        all,
        ways.map(() => ["hello", ["Billing"]])
      )
    })
  )
})
