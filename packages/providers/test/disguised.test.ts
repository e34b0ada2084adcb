/** Errors with status 200 in place of a stream, as a JSON body or as its first event. Other responses pass. */
import { assert, describe, it } from "@effect/vitest"
import * as Fetch from "#providers/aisdk/Fetch"

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

const through = (response: Response, request: RequestInit = asked) =>
  Fetch.make(() => Promise.resolve(response))("http://localhost/v1/chat/completions", request)

/** The error with which the response or its body fails. */
const thrownOf = (response: Promise<Response>): Promise<unknown> =>
  response
    .then((given) => given.text())
    .then(
      () => undefined,
      (cause: unknown) => cause
    )

const of = (chunks: ReadonlyArray<string>, type?: string, request: RequestInit = asked) =>
  through(responseOf(chunks, type), request)

const error = 'data: {"error":{"code":429,"message":"slow down"}}'
const text = 'data: {"choices":[{"delta":{"content":"about an error"}}]}'

describe("the start of a response to a request for a stream", () => {
  for (const end of ["\n", "\r\n", "\r"]) {
    const name = JSON.stringify(end)
    it(`throws if its first event with data is an error, lines ending in ${name}`, async () => {
      const whole = [": working", "", error, "", "data: [DONE]", "", ""].join(end)
      for (const size of [1, 7, whole.length]) {
        const chunks = Array.from({ length: Math.ceil(whole.length / size) }, (_, i) =>
          whole.slice(i * size, (i + 1) * size)
        )
        const thrown = await thrownOf(of(chunks))
        assert.isTrue(thrown instanceof Error && "responseBody" in thrown)
        assert.deepInclude(thrown as object, { statusCode: 200 })
        assert.notInclude(JSON.stringify(thrown), "[DONE]")
      }
    })

    it(`passes up to an error that comes later, in one chunk or in many, lines ending in ${name}`, async () => {
      const whole = [text, "", error, "", ""].join(end)
      for (const size of [20, 70, whole.length]) {
        const response = await of([whole.slice(0, size), whole.slice(size)])
        assert.strictEqual(response.headers.get("x-request-id"), "1")
        const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
        let read = ""
        let thrown: unknown
        try {
          for (let one = await reader?.read(); one?.done === false; one = await reader?.read())
            read += one.value
        } catch (cause) {
          thrown = cause
        }
        assert.strictEqual(read.replaceAll(/\r\n?/g, "\n"), `${text}\n\n`)
        assert.propertyVal(thrown, "responseBody", `${error}\n`)
      }
    })
  }

  it("passes as soon as its first event arrives, however long the rest takes", async () => {
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
    const response = await through(open)
    more?.(`${text}\n\n`)
    assert.strictEqual(await response.text(), `${text}\n\n${text}\n\n`)
  })

  for (const [form, data] of Object.entries({
    "an error object": '{"error":{"code":429,"message":"slow down"}}',
    "a code and a message": '{"code":"Throttling","message":"Requests rate limit exceeded"}',
    "MiniMax's status": '{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}',
    "an exception of AWS": '{"throttlingException":{"message":"Too many requests"}}'
  })) {
    it(`throws if it is ${form}, as an event or as the body`, async () => {
      for (const response of [
        of([`data: ${data}\n\n`]),
        of([`data: ${data}`]),
        of([data], "application/json")
      ]) {
        const thrown = await thrownOf(response)
        assert.isTrue(thrown instanceof Error && "responseBody" in thrown)
        assert.propertyVal(thrown, "statusCode", 200)
      }
    })
  }

  it("keeps the non-ASCII characters of an error", async () => {
    const thrown = await thrownOf(of(['data: {"error":{"message":"请求过多 ü"}}\n\n']))
    assert.include(JSON.stringify(thrown), "请求过多 ü")
  })

  it("passes if its first event is longer than an error", async () => {
    const long = `data: {"error":{"message":"${"x".repeat(70_000)}"}}\n\n`
    assert.strictEqual(await (await of([long])).text(), long)
  })

  it("passes if its body is not an error, or not JSON", async () => {
    for (const body of ['{"choices":[]}', "{", ""]) {
      assert.strictEqual(await (await of([body], "application/json")).text(), body)
    }
  })

  it("is not read if the request does not ask for a stream", async () => {
    const response = responseOf(['{"error":{"code":429}}'], "application/json")
    const given = await through(response, { method: "POST", body: "{}" })
    assert.strictEqual(await given.text(), '{"error":{"code":429}}')
  })

  it("is cancelled at the server when its reader cancels", async () => {
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
    const { body } = await through(open)
    await body?.cancel("enough")
    assert.strictEqual(reason, "enough")
  })
})
