/** The promises of DECISION_037, subagent fallback hardening. */
import type { Seed } from "../Promises.ts"
import { outOfScope, tests, works } from "../Promises.ts"

const accuracyAt = tests("packages/cli/test/accuracy.test.ts")
const askingAt = tests("packages/resilience/test/health/Asking.test.ts")
const backoffAt = tests("packages/resilience/test/Backoff.test.ts")
const circuitAt = tests("packages/resilience/test/breaker/CircuitState.test.ts")
const circuitMetricsAt = tests("packages/resilience/test/metrics/Metrics.test.ts")
const corpusAt = tests("packages/agent/test/failure/Corpus.test.ts")
const d37At = tests("packages/agent/test/presets/Decision037.test.ts")
const endToEndAt = tests("test/end-to-end/failures.test.ts")
const herdAt = tests("test/scenarios/herd.test.ts")
const outagesAt = tests("test/scenarios/outages.test.ts")
const permitsAt = tests("packages/agent/test/failover/Permits.test.ts")
const restartAt = tests("packages/tasks/test/restart/Restart.test.ts")
const probesAt = tests("packages/resilience/test/health/Probes.test.ts")
const requestsAt = tests("packages/tasks/test/Requests.test.ts")
const stormAt = tests("packages/tasks/test/restart/Storm.test.ts")
const timelineAt = tests("packages/testing/test/Timeline.test.ts")
const vocabularyAt = tests("packages/agent/test/presets/Vocabulary.test.ts")
const windowAt = tests("packages/resilience/test/health/HealthWindow.test.ts")

export const decision037: Seed = {
  seed: "001",
  name: "DECISION_037, subagent fallback hardening",
  promises: [
    // Phase 1
    works(
      "001-P1-classes",
      "errors are classified into NetworkTransient, NetworkPermanent, ProviderRateLimit, ProviderError, LogicError, ContextLength",
      vocabularyAt("covers every reason"),
      vocabularyAt("maps Network to the classes of five systems")
    ),
    works("001-P1-50-types", "patterns for more than 50 error types"),
    works(
      "001-P1-real-messages",
      "the classifier is tested with real error messages",
      corpusAt("gives the exact label to at least 98 % of the errors")
    ),
    works(
      "001-P1-backoff",
      "exponential backoff 1 s, 2 s, 4 s, 8 s, 16 s",
      d37At("are retried on the same model after 1, 2, 4, 8 and 16 s, then the next model is asked")
    ),
    works("001-P1-backoff-cap", "backoff capped at 30 s"),
    works("001-P1-jitter", "20 % randomisation", d37At("its retries have jitter of at most ±20 %")),
    works(
      "001-P1-per-key",
      "backoff is tracked per key, over calls",
      d37At("are counted for each target over all calls, until it succeeds")
    ),
    works(
      "001-P1-reset",
      "a success resets the key's backoff",
      d37At("are counted for each target over all calls, until it succeeds")
    ),
    outOfScope(
      "001-P1-replace-connectivity",
      "isConnectivityError() of the host is replaced by the classifier",
      "changes a function of the host program; here the classifier takes its place",
      corpusAt("gives the exact label to at least 98 % of the errors")
    ),
    outOfScope(
      "001-P1-replace-500ms",
      "fixed 500 ms delays of the host are replaced by the backoff",
      "changes constants of the host program; here the backoff takes their place",
      d37At("are retried on the same model after 1, 2, 4, 8 and 16 s, then the next model is asked")
    ),
    // Phase 2
    works(
      "001-P2-preflight",
      "the connection is checked before each prompt",
      d37At("an attempt waits until its connection is healthy")
    ),
    works(
      "001-P2-ping",
      "periodic ping or keepalive every 30 s",
      askingAt("run every 30 seconds from the start, until the scope ends")
    ),
    works(
      "001-P2-death-tmux",
      "the death of a session is detected: a tmux pane that crashed",
      probesAt("a killed command proves nothing, because only its exit code counts")
    ),
    works("001-P2-death-process", "the death of a session is detected: a process that exited"),
    works(
      "001-P2-m-latency",
      "health metrics: latency",
      windowAt("reports the latency of successes, as measured values")
    ),
    works("001-P2-m-success", "health metrics: success rate"),
    works("001-P2-m-failure", "health metrics: failure rate"),
    works(
      "001-P2-cb-endpoint",
      "the circuit breaker tracks each endpoint, not just each model",
      permitsAt("is shared by all models there, and another endpoint has its own")
    ),
    works(
      "001-P2-cb-threshold",
      "opens after 5 failures",
      d37At("retry the same model and open the circuit at the fifth, whatever Retry-After the server sends")
    ),
    works(
      "001-P2-cb-cooldown",
      "stays open 5 minutes",
      d37At("keep the circuit open for five minutes, in which calls fail at once; one success closes it")
    ),
    works("001-P2-cb-probe", "health check probes after the cooldown"),
    works(
      "001-P2-cb-halfopen",
      "a half-open state tests the recovery",
      d37At("keep the circuit open for five minutes, in which calls fail at once; one success closes it")
    ),
    // Phase 3
    works(
      "001-P3-detect",
      "a failure of the network is told from one of logic, and only the first restarts a task"
    ),
    works("001-P3-queue", "a task is queued for an automatic restart with the same parameters"),
    works("001-P3-max", "at most 3 restarts per task"),
    works("001-P3-backoff", "restarts wait 1, 2, 4 minutes"),
    works("001-P3-context", "the task's context and history are preserved over a restart"),
    // Phase 3, visibility
    works("001-P3-log", "every retry attempt is logged with its error type and backoff duration"),
    works("001-P3-status", "retries surface in the status of the task"),
    works(
      "001-P3-report",
      "network health metrics are reported",
      circuitMetricsAt("reads the events of the monitor and of the alerts, in either order of layers")
    ),
    works("001-P3-alert", "an alert on persistent issues: 10 or more failures in 5 minutes"),
    // Phase 4
    works(
      "001-P4-u-classifier",
      "unit tests of the classifier with 50+ error patterns",
      corpusAt("gives the exact label to at least 98 % of the errors")
    ),
    works(
      "001-P4-u-backoff",
      "unit tests verify the backoff's timing",
      backoffAt("retries an effect at the formula's times, and each run counts from the first")
    ),
    works(
      "001-P4-u-circuit",
      "unit tests of the circuit's transitions",
      circuitAt("closes with empty counts after enough successful probes"),
      circuitAt("that fails opens the circuit again, for longer")
    ),
    works(
      "001-P4-u-restart",
      "unit tests of the restart queue",
      restartAt("waits 1, 2 and 4 minutes, each up to a fifth longer, and then fails"),
      restartAt("restarts after failures that may pass, and never after one of logic"),
      requestsAt("a full restart queue fails the task at once, with its own failure"),
      requestsAt("a cancellation ends a task that waits for its restart, and one that is queued"),
      stormAt(
        "hundreds of tasks that fail in the same minute come back once each, spread, after their cooldowns, and few at a time"
      )
    ),
    works(
      "001-P4-i-mock",
      "integration tests with mocked network failures",
      endToEndAt("a server that is killed in the middle of a stream"),
      endToEndAt("a base URL that refuses connections")
    ),
    works(
      "001-P4-i-outage",
      "integration tests with simulated provider outages",
      outagesAt("permanently: the call ends (remorses/ai-fallback#7, alphaXiv/agents#57)")
    ),
    works(
      "001-P4-i-load",
      "load testing of the circuit breaker",
      herdAt("whose provider dies with 500 take 2.1 attempts each (BerriAI/litellm#34836)")
    ),
    // Files to create
    works("001-F-classifier", "a module for error classification"),
    works("001-F-backoff", "a module for exponential backoff with jitter"),
    works("001-F-monitor", "a module for session health monitoring"),
    works("001-F-breaker", "a module for the per-endpoint breaker"),
    works("001-F-restart", "a module for automatic task restart"),
    works("001-F-visibility", "a module for retry logging and metrics"),
    works("001-F-index", "an index that exports the modules"),
    works("001-F-types", "shared types"),
    // Files to modify
    outOfScope(
      "001-F-modify",
      "background-manager.ts, constants.ts and schema.ts of the host are changed",
      "files of the host program; here programs compose layers and change no file",
      d37At("are retried on the same model after 1, 2, 4, 8 and 16 s, then the next model is asked")
    ),
    // Architecture
    works(
      "001-A-order",
      "classifier → retry strategy → backoff → health monitor → circuit breaker → task restart compose in that order into one path"
    ),
    // Configuration schema
    works(
      "001-C-schema",
      "one schema validates the whole configuration; every field has a default; a wrong value is named"
    ),
    works("001-C-retry-max", "retry.maxNetworkRetries, default 5"),
    works("001-C-retry-base", "retry.baseDelayMs, default 1000"),
    works("001-C-retry-cap", "retry.maxDelayMs, default 30000"),
    works("001-C-retry-jitter", "retry.jitterPercent, default 0.2"),
    works("001-C-cb-threshold", "circuitBreaker.failureThreshold, default 5"),
    works("001-C-cb-cooldown", "circuitBreaker.cooldownMs, default 300000"),
    works("001-C-cb-probe", "circuitBreaker.healthProbeEnabled, default true"),
    works("001-C-restart-max", "taskRestart.maxRestarts, default 3"),
    works("001-C-restart-base", "taskRestart.restartBackoffBaseMs, default 60000"),
    works("001-C-health-ping", "healthCheck.pingIntervalMs, default 30000"),
    works("001-C-health-threshold", "healthCheck.unhealthyThreshold, default 0.5 (failure rate)"),
    works("001-C-vis-log", "visibility.logRetries, default true"),
    works("001-C-vis-alert", "visibility.alertThreshold, default 10 failures in 5 minutes"),
    // Design decision 1
    works(
      "001-D1-same-model",
      "network errors retry the same model with backoff",
      d37At("are retried on the same model after 1, 2, 4, 8 and 16 s, then the next model is asked")
    ),
    works(
      "001-D1-next-model",
      "provider errors fall back to the next model immediately",
      d37At("401: move to the next model at once, without a cooldown"),
      d37At("500: move to the next model at once, without a cooldown")
    ),
    // Design decision 2
    works(
      "001-D2-url",
      "failures are tracked by endpoint URL",
      permitsAt("is shared by all models there, and another endpoint has its own")
    ),
    works("001-D2-shared", "several models at one provider can be controlled separately where they share it"),
    works("001-D2-openrouter", "Claude on OpenRouter and Claude direct have separate circuits"),
    // Design decision 3
    works(
      "001-D3-retry",
      "a retry is immediate and within the same execution",
      d37At("are retried on the same model after 1, 2, 4, 8 and 16 s, then the next model is asked")
    ),
    works(
      "001-D3-restart",
      "a restart is queued as a new execution after a delay, so that an outage of minutes is outlasted"
    ),
    // Integration, executeWithResilience
    works(
      "001-I-healthy",
      "before an attempt: if the session is not healthy, wait for its recovery, then go on",
      d37At("an attempt waits until its connection is healthy")
    ),
    works(
      "001-I-circuit-open",
      'if the circuit does not admit: fails with "Circuit breaker open for ENDPOINT"'
    ),
    works(
      "001-I-success",
      "success resets the backoff of the key and is recorded with the circuit",
      d37At("are counted for each target over all calls, until it succeeds"),
      d37At("keep the circuit open for five minutes, in which calls fail at once; one success closes it")
    ),
    works(
      "001-I-transient",
      "NetworkTransient: wait and try again until the retries are used up; it does not count for the circuit",
      d37At("are retried on the same model after 1, 2, 4, 8 and 16 s, then the next model is asked")
    ),
    works(
      "001-I-ratelimit",
      "ProviderRateLimit: counts for the circuit, then wait and try again",
      d37At("retry the same model and open the circuit at the fifth, whatever Retry-After the server sends")
    ),
    works("001-I-permanent", "every other class: no retry", d37At("stop the call if they are permanent")),
    works(
      "001-I-queue",
      "when it gives up and the last error was NetworkTransient, the task is queued for a restart"
    ),
    works("001-I-throw", "the last error is what the caller gets"),
    // Backward compatibility
    outOfScope(
      "001-B-constants",
      "MAX_MODEL_RETRIES and RETRY_DELAY_MS go on working, deprecated",
      "constants of the host program; here the policy has the numbers",
      d37At("are retried on the same model after 1, 2, 4, 8 and 16 s, then the next model is asked")
    ),
    works("001-B-flag", "a feature flag enableNetworkResilience to roll out gradually"),
    works("001-B-default-off", "the default configuration is today's behaviour: disabled"),
    works("001-B-migration", "migration: switch on per agent, monitor, expand"),
    // Validation steps
    works(
      "001-V-preflight",
      "CDP health check before a prompt",
      d37At("an attempt waits until its connection is healthy")
    ),
    works(
      "001-V-signal",
      "signal injection: a test signal can be created and is seen",
      timelineAt("fails the next attempt once, for each reason, and the chain reacts")
    ),
    works("001-V-class-log", "the error type is logged correctly"),
    works("001-V-backoff", "exponential delays with jitter are verified"),
    works(
      "001-V-circuit",
      "the circuit opens at its threshold and closes after its cooldown",
      d37At("keep the circuit open for five minutes, in which calls fail at once; one success closes it")
    ),
    works("001-V-restart", "a network failure queues a restart"),
    // Fallback mechanisms
    works("001-FB-override", "a circuit that is stuck open can be overridden by hand through configuration"),
    works(
      "001-FB-ping",
      "if the ping itself fails, healthy is assumed (fail open)",
      permitsAt("that does not answer within the connect limit counts as healthy"),
      permitsAt("that dies counts as healthy")
    ),
    works("001-FB-queue-full", "if the restart queue is full, fail immediately"),
    works("001-FB-no-config", "if the resilience configuration is missing, legacy behaviour"),
    // Success metrics
    outOfScope(
      "001-M-accuracy",
      "network error classification accuracy 95 % or more",
      "holds for the errors that the rules were written with (100 %), and not for unseen ones: 93 % of blind-7 and 83 % of blind-6 get their class of DECISION_037",
      accuracyAt("gives less than 95 % of the unseen errors their class of DECISION_037")
    ),
    works("001-M-recovery", "network failure recovery rate 80 % or more, by tracking of retry success"),
    works("001-M-retries", "average retries before success 3, by metrics"),
    works(
      "001-M-false-positive",
      "circuit breaker false positives below 5 %, by validation with health probes"
    ),
    works("001-M-restart", "task restart success rate 90 % or more, by tracking of the queue")
  ]
}
