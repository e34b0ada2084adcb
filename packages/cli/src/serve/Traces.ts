/**
 * Exports spans by OTLP over HTTP when the environment says where: `OTEL_EXPORTER_OTLP_ENDPOINT`, with
 * `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_SERVICE_NAME`. Without an endpoint no span is exported.
 */
import { Config, Effect, Layer } from "effect"
import { FetchHttpClient } from "effect/http"
import { OtlpSerialization, OtlpTracer } from "effect/observability"

export const layer = Layer.unwrap(
  Effect.map(
    Config.String("OTEL_SERVICE_NAME").pipe(Config.withDefault("outlast-serve")),
    (serviceName) => OtlpTracer.layerFromConfig({ resource: { serviceName } })
  )
).pipe(Layer.provide([OtlpSerialization.layerJson, FetchHttpClient.layer]))
