/** Resilience for any Effect program. Each namespace is one module of the folder that its path names. */
export * as Backoff from "./retry/Backoff.ts"
export * as ResilienceEvents from "./telemetry/ResilienceEvents.ts"
