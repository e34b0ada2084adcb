/**
 * Resilience for any Effect program. Each namespace is one module of the folder that its path names.
 *
 * Not among them is what needs more than `effect`'s stable modules:
 * `@outlast/resilience/breaker/RedisCircuitStore`.
 */
export { InvalidOption } from "./Options.ts"
export { MissingService } from "./MissingService.ts"
export * as ErrorText from "./ErrorText.ts"
export * as Refusal from "./Refusal.ts"
export * as AttemptLimits from "./retry/AttemptLimits.ts"
export * as Backoff from "./retry/Backoff.ts"
export * as Deadline from "./retry/Deadline.ts"
export * as FailureStreaks from "./retry/FailureStreaks.ts"
export * as Retry from "./retry/Retry.ts"
export * as RetryBudget from "./retry/RetryBudget.ts"
export * as RetryBudgetState from "./retry/RetryBudgetState.ts"
export * as RetryEvent from "./retry/RetryEvent.ts"
export * as CircuitBreaker from "./breaker/CircuitBreaker.ts"
export * as CircuitEvent from "./breaker/CircuitEvent.ts"
export * as CircuitPolicy from "./breaker/CircuitPolicy.ts"
export * as CircuitRefused from "./breaker/CircuitRefused.ts"
export * as CircuitState from "./breaker/CircuitState.ts"
export * as CircuitStore from "./breaker/CircuitStore.ts"
export * as ConnectionEvent from "./health/ConnectionEvent.ts"
export * as ConnectionMonitor from "./health/ConnectionMonitor.ts"
export * as ConnectionState from "./health/ConnectionState.ts"
export * as HealthWindow from "./health/HealthWindow.ts"
export * as StoreError from "./store/StoreError.ts"
export * as Alerts from "./telemetry/Alerts.ts"
export * as AlertWindow from "./telemetry/AlertWindow.ts"
export * as Metrics from "./telemetry/Metrics.ts"
export * as ResilienceEvents from "./telemetry/ResilienceEvents.ts"
export * as Warnings from "./telemetry/Warnings.ts"
