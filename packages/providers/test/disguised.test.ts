/** Errors with status 200 in place of a stream: only the start of a response is read, and all else passes unchanged. */
import { assert, describe, it } from "@effect/vitest"
import { revealed } from "@outlast/providers/aisdk/DisguisedError"

const asked = { method: "POST", body: JSON.stringify({ stream: true }) }
const encode = (text: string) => new TextEncoder().encode(text)

const responseOf = (chunks: ReadonlyArray<string>, type = "text/event-stream") =>
  new Response(
    new ReadableStream<Uint8Array>({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(encode(chunk))
        controller.close()
      }
    }),
    { headers: { "content-type": type, "x-request-id": "1" } }
  )

const of = (chunks: ReadonlyArray<string>, type?: string, request: RequestInit = asked) =>
  revealed(responseOf(chunks, type), "http://localhost/v1/chat/completions", request)

const error = 'data: {"error":{"code":429,"message":"slow down"}}'
const text = 'data: {"choices":[{"delta":{"content":"about an error"}}]}'

describe("the start of a response to a request for a stream", () => {
  for (const end of ["\n", "\r\n", "\r"]) {
    const name = JSON.stringify(end)
    it(`is thrown if its first event with data is an error, lines ending in ${name}`, async () => {
      const whole = [": working", "", error, "", "data: [DONE]", "", ""].join(end)
      for (const size of [1, 7, whole.length]) {
        const chunks = Array.from({ length: Math.ceil(whole.length / size) }, (_, i) =>
          whole.slice(i * size, (i + 1) * size)
        )
        const thrown: unknown = await of(chunks).then(
          () => undefined,
          (cause: unknown) => cause
        )
        assert.isTrue(thrown instanceof Error && "responseBody" in thrown)
        assert.deepInclude(thrown as object, { statusCode: 200 })
        assert.notInclude(JSON.stringify(thrown), "[DONE]")
      }
    })

    it(`passes unchanged if an error comes later, lines ending in ${name}`, async () => {
      const whole = [text, "", error, "", ""].join(end)
      const response = await of([whole.slice(0, 20), whole.slice(20, 70), whole.slice(70)])
      assert.strictEqual(await response.text(), whole)
      assert.strictEqual(response.headers.get("x-request-id"), "1")
    })
  }

  it("passes as soon as its first event is there, however long the rest takes", async () => {
    let more: ((chunk: string) => void) | undefined
    const open = new Response(
      new ReadableStream<Uint8Array>({
        start(controller) {
          controller.enqueue(encode(`${text}\n\n`))
          more = (chunk) => {
            controller.enqueue(encode(chunk))
            controller.close()
          }
        }
      }),
      { headers: { "content-type": "text/event-stream" } }
    )
    const response = await revealed(open, "http://localhost/v1/chat/completions", asked)
    more?.("data: [DONE]\n\n")
    assert.strictEqual(await response.text(), `${text}\n\ndata: [DONE]\n\n`)
  })

  it("passes at 64 KB without an event", async () => {
    const endless = [`: ${"x".repeat(70_000)}`, "tail"]
    assert.strictEqual(await (await of(endless)).text(), endless.join(""))
  })

  it("passes if it is a body that is no error, or no JSON", async () => {
    for (const body of ['{"choices":[]}', "{", ""]) {
      assert.strictEqual(await (await of([body], "application/json")).text(), body)
    }
  })

  it("is not read where no stream was asked for", async () => {
    const response = responseOf(['{"error":{"code":429}}'], "application/json")
    const request = { method: "POST", body: "{}" }
    assert.strictEqual(await revealed(response, "http://localhost/v1/chat/completions", request), response)
  })

  it("is canceled at the server when its reader has had enough", async () => {
    let reason: unknown
    const open = new Response(
      new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(encode(`${text}\n\n`)),
        cancel: (given) => {
          reason = given
        }
      }),
      { headers: { "content-type": "text/event-stream" } }
    )
    const { body } = await revealed(open, "http://localhost/v1/chat/completions", asked)
    await body?.cancel("enough")
    assert.strictEqual(reason, "enough")
  })
})
