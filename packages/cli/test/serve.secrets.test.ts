/** Secrets of the environment and of addresses, looked for in all that `outlast serve` shows, logs and stores. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { outlast } from "./process.ts"
import { anyPort, ask, folder, json, run, serve, service } from "./served.ts"

const planted = "planted-quokka-7731"
const operator = `operator-${planted}`
const authorization = `Bearer ${operator}`

/** The first part of a stream that stays open. */
const begin = (url: string) =>
  Effect.promise(async () => {
    const response = await fetch(url, { headers: { authorization } })
    const reader = response.body?.getReader()
    const { value } = (await reader?.read()) ?? {}
    await reader?.cancel()
    return { status: response.status, text: new TextDecoder().decode(value) }
  })

describe("secrets of outlast serve", () => {
  service(
    "are in no response, log and file of the service",
    Effect.gen(function* () {
      const data = yield* folder
      const { child, exit, metrics, output, page, probes } = yield* serve(data, ["--fake"], {
        OUTLAST_OPS_TOKEN: operator,
        ANTHROPIC_API_KEY: `sk-ant-${planted}`,
        OPENAI_API_KEY: planted,
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://me:${planted}@127.0.0.1:1`,
        OTEL_EXPORTER_OTLP_HEADERS: `authorization=${planted}`
      })
      const headers = { ...json, authorization }
      const body = JSON.stringify({ prompt: "tell me a joke" })
      const seen = [
        yield* ask(`${page}/api/runs`, { method: "POST", headers, body }),
        yield* ask(`${page}/api/tasks`, { method: "POST", headers, body }),
        yield* ask(`${page}/api/state`, { headers }),
        yield* begin(`${page}/events`),
        ...(yield* Effect.forEach(["/", "/status.js", "/status.css"], (path) => ask(`${page}${path}`))),
        yield* ask(`${probes}/ready`),
        yield* ask(`${metrics}/metrics`)
      ]
      const refused = [
        yield* run(page, { [planted]: planted }),
        yield* ask(`${page}/api/actions/${planted}`, { method: "POST", headers, body: `{"${planted}` }),
        yield* ask(`${page}/api/tasks/${planted}`, { headers })
      ]
      for (const { status, text } of seen) {
        assert.oneOf(status, [200, 202], text)
        assert.isNotEmpty(text)
      }
      for (const { status, text } of [...refused, ...seen]) {
        assert.notInclude(text, planted, String(status))
      }
      child.kill("SIGTERM")
      yield* exit
      assert.notInclude(output(), planted)
      const files = readdirSync(data)
      assert.include(files, "tasks.db")
      for (const file of files) assert.notInclude(readFileSync(join(data, file), "latin1"), planted, file)
    })
  )

  service(
    "are in no message about an address that cannot be reached",
    Effect.gen(function* () {
      const data = yield* folder
      const store = `postgres://me:${planted}@127.0.0.1:1/agents`
      const nats = `nats://me:${planted}@127.0.0.1:1`
      for (const args of [
        ["serve", "--fake", "--data", data, ...anyPort, "--store", store],
        ["doctor", "--store", store, "--nats", nats, "--subject", "orders.>"]
      ]) {
        const { all, exitCode } = yield* Effect.promise(() => outlast(args))
        assert.notStrictEqual(exitCode, 0, all)
        assert.notInclude(all, planted)
      }
    })
  )
})
