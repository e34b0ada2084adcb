/**
 * Exports spans by OTLP over HTTP when the environment says where: `OTEL_EXPORTER_OTLP_ENDPOINT`, with
 * `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_SERVICE_NAME`. Without an endpoint no span is exported.
 */
import { Config, ConfigProvider, Effect, Layer } from "effect"
import { FetchHttpClient } from "effect/http"
import { OtlpSerialization, OtlpTracer } from "effect/observability"

// OpenTelemetry exports by OTLP unless it is told otherwise; Effect waits to be told.
const usual = ConfigProvider.layerAdd(ConfigProvider.fromUnknown({ OTEL_TRACES_EXPORTER: "otlp" }))

export const layer = Layer.unwrap(
  Effect.map(Config.String("OTEL_SERVICE_NAME").pipe(Config.withDefault("outlast-serve")), (serviceName) =>
    OtlpTracer.layerFromConfig({ resource: { serviceName } })
  )
).pipe(Layer.provide([OtlpSerialization.layerJson, FetchHttpClient.layer, usual]))
