/**
 * Exports spans by OTLP over HTTP when the environment says where: `OTEL_EXPORTER_OTLP_ENDPOINT`, with
 * `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_SERVICE_NAME`. Without an endpoint no span is exported.
 */
import { Config, ConfigProvider, Effect, Layer, Option } from "effect"
import { FetchHttpClient } from "effect/http"
import { OtlpSerialization, OtlpTracer } from "effect/observability"
import { UsageError } from "../command/UsageError.ts"

// OpenTelemetry exports by OTLP unless it is told otherwise; Effect waits to be told.
const usual = ConfigProvider.layerAdd(ConfigProvider.fromUnknown({ OTEL_TRACES_EXPORTER: "otlp" }))

const endpoints = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"] as const

const isEndpoint = (text: string): boolean => /^https?:$/.test(URL.parse(text)?.protocol ?? "")

/** Fails for an endpoint that is no URL. The message leaves its value out, which may have credentials. */
const checked = Effect.forEach(endpoints, (name) =>
  Effect.flatMap(Config.option(Config.String(name)), (value) =>
    Option.isNone(value) || value.value === "" || isEndpoint(value.value)
      ? Effect.void
      : Effect.fail(
          new UsageError({
            message: `${name} must be an http:// or https:// address, such as http://localhost:4318.`
          })
        )
  )
)

/** `usualName` is the name of the service where the environment has none. */
export const layer = (usualName: string) =>
  Layer.unwrap(
    Effect.gen(function* () {
      yield* checked
      const serviceName = yield* Config.String("OTEL_SERVICE_NAME").pipe(Config.withDefault(usualName))
      return OtlpTracer.layerFromConfig({ resource: { serviceName } })
    })
  ).pipe(Layer.provide([OtlpSerialization.layerJson, FetchHttpClient.layer, usual]))
