/**
 * The wire formats of OpenAI and Anthropic over chains of targets: a `fetch` handler, and a server around it.
 */
export * as Gateway from "./Gateway.ts"
export * as GatewayMetrics from "./telemetry/GatewayMetrics.ts"
export * as RoutesConfig from "./config/RoutesConfig.ts"
export * as Server from "./server/Server.ts"
