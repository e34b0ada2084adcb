/** `outlast gateway`: what it refuses, what it prints, routes of a file, and Python's own HTTP client as a caller. */
import { execFile, spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Answer } from "./gateways.ts"
import { event, folder, routes, started, vendor } from "./gateways.ts"
import { outlast } from "./run.ts"

const key = { OPENAI_API_KEY: "sk-test-0123456789abcdef" }

describe("wrong use", () => {
  const rows: ReadonlyArray<
    readonly [args: ReadonlyArray<string>, env: Record<string, string>, exitCode: number, message: string]
  > = [
    [
      [],
      {},
      1,
      "No key of a vendor is set. Set OPENAI_API_KEY, ANTHROPIC_API_KEY or GOOGLE_GENERATIVE_AI_API_KEY."
    ],
    [["--host", "0.0.0.0"], key, 1, "can be reached from other machines: set OUTLAST_GATEWAY_KEY."],
    [
      ["--host", "0.0.0.0"],
      { ...key, OUTLAST_GATEWAY_KEY: "a-long-enough-key-01,short" },
      1,
      "A key in OUTLAST_GATEWAY_KEY has fewer than 16 characters"
    ],
    [["--origin", "app.example"], key, 2, "--origin app.example must be a scheme and a host"],
    [["--config", "routes.ini"], key, 2, "The file routes.ini has an unknown format."],
    [["--config", "none.toml"], key, 2, "cannot be read: the file does not exist"],
    [["--port", "70000"], key, 2, "Expected a port from 0 to 65535"]
  ]
  for (const [args, env, exitCode, message] of rows) {
    it(`outlast gateway ${args.join(" ")}: ${message}`, async () => {
      const run = await outlast(["gateway", ...args], { env })
      assert.include(run.stderr, message)
      assert.strictEqual(run.exitCode, exitCode)
      assert.notInclude(run.all, "a-long-enough-key")
    })
  }
})

const saying =
  (text: string): Answer =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    response.end(`${event({ role: "assistant", content: text })}${event({}, "stop")}data: [DONE]\n\n`)
  }

const ask = (url: string, model: string) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "Hello" }] })
    })
    return { status: response.status, text: await response.text() }
  })

describe("the process", () => {
  it.live("prints one line for each client, and ends at a second signal", () =>
    Effect.gen(function* () {
      const { child, exit, output, url } = yield* started([], key)
      assert.include(output(), "keys           OPENAI_API_KEY\n")
      for (const line of [
        `OPENAI_BASE_URL=${url}/v1`,
        `ANTHROPIC_BASE_URL=${url}`,
        `base_url="${url}/v1",wire_api="responses"`,
        `ChatOpenAI(base_url="${url}/v1")`
      ]) {
        assert.include(output(), line)
      }
      assert.notInclude(output(), key.OPENAI_API_KEY)
      child.kill("SIGTERM")
      child.kill("SIGTERM")
      assert.isNotNull(yield* exit)
    })
  )

  it.live("takes a changed file, and keeps its routes where that has a mistake", () =>
    Effect.gen(function* () {
      const file = join(yield* folder, "routes.toml")
      const url = yield* vendor(saying("Hello."))
      writeFileSync(file, routes("smart", url))
      const gateway = yield* started(["--config", file], {})
      assert.include(gateway.output(), "routes         smart\n")
      assert.include((yield* ask(gateway.url, "smart")).text, "Hello.")
      writeFileSync(file, routes("other", url))
      yield* gateway.until("the file has changed")
      assert.strictEqual((yield* ask(gateway.url, "smart")).status, 404)
      assert.strictEqual((yield* ask(gateway.url, "other")).status, 200)
      writeFileSync(file, `${routes("third", url)}\nfield = 1\n`)
      yield* gateway.until("still served")
      assert.include(gateway.output(), "field")
      assert.strictEqual((yield* ask(gateway.url, "other")).status, 200)
      // The same mistake is reported again once it was gone.
      const times = (text: string, n: number) =>
        Effect.repeat(Effect.sleep("20 millis"), { until: () => gateway.output().split(text).length > n })
      writeFileSync(file, routes("other", url))
      yield* times("the file has changed", 2)
      writeFileSync(file, `${routes("third", url)}\nfield = 1\n`)
      yield* times("still served", 2)
      writeFileSync(file, `${routes("fourth", url)}keys = ["KEY_THAT_IS_NOT_SET"]\n`)
      yield* times("still served", 3)
      assert.include(gateway.output(), "routes.fourth: no target can be used")
      assert.strictEqual((yield* ask(gateway.url, "other")).status, 200)
    })
  )
})

const python = spawnSync("python3", ["--version"]).status === 0

const program = `
import json, sys, urllib.request, urllib.error
body = json.dumps({"model": "smart", "stream": True, "messages": [{"role": "user", "content": "Why?"}]}).encode()
request = urllib.request.Request(sys.argv[1] + "/v1/chat/completions", body, {"Content-Type": "application/json"})
text = ""
try:
    with urllib.request.urlopen(request, timeout=60) as response:
        for line in response:
            line = line.decode().strip()
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            value = json.loads(line[6:])
            if "error" in value:
                sys.exit("error: " + value["error"]["message"])
            for choice in value["choices"]:
                text += choice["delta"].get("content") or ""
except urllib.error.HTTPError as error:
    sys.exit("HTTP %d" % error.code)
print(text)
`

describe.skipIf(!python)("Python's urllib", () => {
  const words = ["Rivers ", "bend ", "because ", "water ", "erodes ", "their ", "outer ", "banks."]
  /** Says what the request does not have yet, and breaks off after `cut` words. */
  const speaking =
    (cut = Infinity): Answer =>
    (response, request, { messages }) => {
      const last = messages.findLast(({ role }: { role: string }) => role === "assistant")?.content ?? ""
      const rest = words.join("").slice(last.length).match(/\S+ ?/g) ?? []
      response.writeHead(200, { "content-type": "text/event-stream" })
      for (const content of rest.slice(0, cut)) response.write(event({ content }))
      if (cut !== Infinity) return void setImmediate(() => request.socket.destroy())
      return void response.end(`${event({}, "stop")}data: [DONE]\n\n`)
    }

  it.live("reads one whole answer from a stream that is cut, and an error where nothing is left", () =>
    Effect.gen(function* () {
      const file = join(yield* folder, "routes.toml")
      const first = yield* vendor(speaking(4))
      const second = yield* vendor(speaking())
      writeFileSync(file, `[policy]\npreset = "interactive"\n\n${routes("smart", first, second)}`)
      const { url } = yield* started(["--config", file], {})
      const run = yield* Effect.promise(() => promisify(execFile)("python3", ["-c", program, url]))
      assert.strictEqual(run.stdout.trim(), words.join(""))
      const refused = yield* vendor((response) => {
        response.writeHead(400, { "content-type": "application/json" })
        response.end(JSON.stringify({ error: { message: "no", type: "invalid_request_error" } }))
      })
      const other = join(yield* folder, "routes.toml")
      writeFileSync(other, routes("smart", refused))
      const failing = yield* started(["--config", other], {})
      const failed = yield* Effect.promise(() =>
        promisify(execFile)("python3", ["-c", program, failing.url]).catch((error: unknown) => String(error))
      )
      assert.include(String(failed), "HTTP 400")
    })
  )
})
