/** Spans of `outlast serve`, as a collector gets them. */
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { receiver } from "../../../test/end-to-end/OtlpReceiver.ts"
import { outlast } from "./run.ts"
import { anyPort, folder, run, serve, service } from "./served.ts"

describe("traces of outlast serve", () => {
  service(
    "go to the collector that the environment names, with its headers, and without prompts and keys",
    Effect.gen(function* () {
      const { received, url } = yield* receiver
      const { child, exit, output, page } = yield* serve(yield* folder, [], {
        OTEL_EXPORTER_OTLP_ENDPOINT: url,
        OTEL_SERVICE_NAME: "planted-service",
        OTEL_EXPORTER_OTLP_HEADERS: "x-collector-key=planted-collector-key"
      })
      yield* run(page, { prompt: "tell me a joke about planted-marmalade" })
      child.kill("SIGTERM")
      yield* exit
      const traces = received.filter(({ path }) => path === "/v1/traces")
      assert.isNotEmpty(traces)
      assert.strictEqual(traces[0]?.headers["x-collector-key"], "planted-collector-key")
      const text = traces.map(({ body }) => body.toString()).join("\n")
      for (const name of ["planted-service", "invoke_agent", "outlast.turn", "chat claude-sonnet-4-5"]) {
        assert.include(text, name)
      }
      for (const secret of ["planted-marmalade", "planted-collector-key"]) {
        assert.notInclude(text, secret)
      }
      assert.notInclude(output(), "planted-collector-key")
    })
  )

  service(
    "need an endpoint with http or https: anything else is a usage error that does not repeat it",
    Effect.gen(function* () {
      const data = yield* folder
      for (const [name, value] of [
        ["OTEL_EXPORTER_OTLP_ENDPOINT", "planted-collector-key@nowhere"],
        ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "user:planted-collector-key@nowhere"]
      ] as const) {
        const { all, exitCode, stderr } = yield* Effect.promise(() =>
          outlast(["serve", "--data", data, ...anyPort], { env: { [name]: value } })
        )
        assert.strictEqual(exitCode, 2, stderr)
        assert.include(stderr, `${name} must be an http:// or https:// address`)
        assert.notInclude(all, "planted-collector-key")
      }
    })
  )
})
