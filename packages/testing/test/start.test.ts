/** `FakeProvider.start`: the server for programs without Effect. */
import { createAnthropic } from "@ai-sdk/anthropic"
import { generateText } from "ai"
import { createServer } from "node:net"
import type { AddressInfo } from "node:net"
import { assert, describe, it } from "vitest"
import { FakeProvider } from "@outlast/testing"

const freePort = () =>
  new Promise<number>((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })

const plan = {
  answers: [{ text: "Hello." }],
  faults: [{ fault: { type: "status", status: 529 } }]
} as const

describe("FakeProvider.start", () => {
  it("serves at a fixed port until it is stopped", async () => {
    const port = await freePort()
    const server = await FakeProvider.start({ plan, port })
    assert.strictEqual(server.url, `http://127.0.0.1:${port}`)
    const model = createAnthropic({ baseURL: server.baseUrl("anthropic"), apiKey: "any" })(
      "claude-sonnet-4-5"
    )
    const { text } = await generateText({ model, prompt: "?", maxRetries: 0 }).catch(() =>
      generateText({ model, prompt: "?", maxRetries: 0 })
    )
    assert.strictEqual(text, "Hello.")
    assert.deepStrictEqual(
      server.requests().map(({ outcome }) => outcome.type),
      ["fault", "answer"]
    )
    await server.stop()
    const after = await fetch(server.url).then(
      () => "answered",
      () => "refused"
    )
    assert.strictEqual(after, "refused")
  })

  it("rejects for a port in use and for an invalid plan, and leaves no server", async () => {
    await using server = await FakeProvider.start({ plan })
    const port = Number(new URL(server.url).port)
    const failed = await FakeProvider.start({ plan, port }).then(
      () => "started",
      (error: unknown) => String(error)
    )
    assert.include(failed, "EADDRINUSE")
    const wrong = await FakeProvider.start({ plan: { answers: [], faults: "none" as never } }).then(
      () => "started",
      (error: unknown) => String(error)
    )
    assert.include(wrong, "This is not a fault plan.")
  })
})
