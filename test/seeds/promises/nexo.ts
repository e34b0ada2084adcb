/** The promises of nexo-rs, fault tolerance. */
import type { Seed } from "../Promises.ts"
import { tests, works } from "../Promises.ts"

const dlqAt = tests("packages/cli/test/dlq.test.ts")
const durabilityAt = tests("test/durability/delivery.test.ts")
const endToEndAt = tests("test/end-to-end/failures.test.ts")
const instanceAt = tests("packages/node/test/lock/SingleInstance.test.ts")
const nexoAt = tests("packages/agent/test/presets/Nexo.test.ts")
const opsAt = tests("packages/node/test/ops/Ops.test.ts")
const outboxAt = tests("packages/delivery/test/outbox/OutboxContract.test.ts")
const ownAt = tests("test/seeds/nexo.test.ts")
const permissionAt = tests("packages/agent/test/guard/Permission.test.ts")
const supervisedAt = tests("packages/node/test/process/Supervised.test.ts")

export const nexo: Seed = {
  seed: "003",
  name: "nexo-rs, fault tolerance",
  promises: [
    // Introduction
    works("003-every-call", "every external call goes through a circuit breaker"),
    works(
      "003-every-retry",
      "every retryable error has a bounded retry policy with jittered exponential backoff",
      nexoAt("wait up to 60 s for rate limits and 30 s for server errors, jittered"),
      nexoAt("500: three attempts")
    ),
    works(
      "003-every-event",
      "every event survives an outage of NATS",
      outboxAt("stores events in an outage, drains them in order, and goes straight again")
    ),
    works(
      "003-one-process",
      "a second process cannot race the first onto the same bus",
      instanceAt("leaves one of several that start at once")
    ),
    // CircuitBreaker
    works(
      "003-cb-failfast",
      "while a dependency fails, the breaker fails fast instead of piling up calls",
      nexoAt("opens at the fifth consecutive failure for 10 s, then 20 s, and closes at the second success")
    ),
    works(
      "003-cb-recovers",
      "periodic probes let it recover without a person",
      nexoAt("opens at the fifth consecutive failure for 10 s, then 20 s, and closes at the second success")
    ),
    works(
      "003-cb-closed-open",
      "Closed → Open after 5 consecutive failures (failure_threshold 5)",
      nexoAt("opens at the fifth consecutive failure for 10 s, then 20 s, and closes at the second success")
    ),
    works(
      "003-cb-open-half",
      "Open → HalfOpen when the backoff has elapsed",
      nexoAt("opens at the fifth consecutive failure for 10 s, then 20 s, and closes at the second success")
    ),
    works(
      "003-cb-half-closed",
      "HalfOpen → Closed after 2 consecutive successes (success_threshold 2)",
      nexoAt("opens at the fifth consecutive failure for 10 s, then 20 s, and closes at the second success")
    ),
    works(
      "003-cb-half-open",
      "HalfOpen → Open at any failure, backoff × 2, capped",
      nexoAt("opens at the fifth consecutive failure for 10 s, then 20 s, and closes at the second success")
    ),
    works("003-cb-initial", "initial_backoff 10 s"),
    works("003-cb-max", "max_backoff 120 s", nexoAt("is never open for more than 120 s")),
    // Where it wraps
    works(
      "003-wrap-llm",
      "one circuit per LLM provider; an outage of one does not cascade to others",
      nexoAt("is shared by a provider; tripped, its targets are skipped; reset, they are asked")
    ),
    works("003-wrap-llm-four", "MiniMax, Anthropic, OpenAI-compatible and Gemini providers"),
    works("003-wrap-nats", "one circuit over the broker; when it opens the disk queue absorbs writes"),
    works(
      "003-wrap-cdp",
      "one circuit per browser session (CDP commands); a dead Chrome does not freeze the agent loop"
    ),
    works(
      "003-wrap-stdio",
      "extensions over stdio: a crashed child is respawned, bounded",
      supervisedAt("is started again after 1, 2, 4, 8 and 16 s, and then the circuit opens for 5 minutes")
    ),
    // Signals
    works("003-sig-allow", "allow(): may a call be made"),
    works("003-sig-success", "on_success(): a call succeeded"),
    works("003-sig-failure", "on_failure(): a call failed"),
    works(
      "003-sig-trip",
      "trip(): force open from outside",
      nexoAt("is shared by a provider; tripped, its targets are skipped; reset, they are asked")
    ),
    works(
      "003-sig-reset",
      "reset(): force closed",
      nexoAt("is shared by a provider; tripped, its targets are skipped; reset, they are asked")
    ),
    // Retry policies
    works(
      "003-retry-above",
      "retries live above the breaker",
      nexoAt("opens at the fifth consecutive failure for 10 s, then 20 s, and closes at the second success")
    ),
    works(
      "003-retry-no-flip",
      "transient failures (429, 5xx, network blips) are retried and do not by themselves warrant flipping the breaker",
      nexoAt("ignores rate limits"),
      nexoAt("500: three attempts")
    ),
    works("003-retry-jitter", "every retry policy uses jittered exponential backoff against herds"),
    works(
      "003-retry-429",
      "LLM 429: at most 5 attempts, 1 s → 60 s",
      nexoAt("429: five attempts"),
      ownAt("003-retry-jitter, 003-retry-429, 003-retry-5xx: wait from 1 s to 60 s, or to 30 s")
    ),
    works(
      "003-retry-5xx",
      "LLM 5xx: at most 3 attempts, 1 s → 30 s",
      nexoAt("500: three attempts"),
      ownAt("003-retry-jitter, 003-retry-429, 003-retry-5xx: wait from 1 s to 60 s, or to 30 s")
    ),
    works(
      "003-retry-nats",
      "NATS publish drain: 3 attempts per event, by drain cycle",
      outboxAt("make an event a dead letter after three, and hold up only its own subject")
    ),
    works("003-retry-cdp", "CDP: no retry of its own, the backoff is the circuit's open window"),
    // Error classification
    works(
      "003-class-retryable",
      "only retryable errors are retried",
      nexoAt("401 fails fast"),
      nexoAt("500: three attempts")
    ),
    works(
      "003-class-4xx",
      "a 4xx other than 429 fails fast: missing key, invalid model, malformed request",
      nexoAt("400 fails fast"),
      nexoAt("401 fails fast"),
      nexoAt("404 fails fast")
    ),
    works(
      "003-class-loud",
      "such a failure is loud: it says what configuration to fix",
      endToEndAt("a key that is not set"),
      endToEndAt("an unknown model")
    ),
    // No message drop
    works(
      "003-drop-atleastonce",
      "at-least-once delivery of publishes that reach the runtime",
      durabilityAt("lose no event and no order")
    ),
    works(
      "003-drop-healthy",
      "NATS healthy → published to NATS",
      outboxAt("goes straight to the broker while it answers")
    ),
    works(
      "003-drop-queue",
      "NATS not healthy → disk queue",
      outboxAt("stores events in an outage, drains them in order, and goes straight again")
    ),
    works(
      "003-drop-drain",
      "on reconnect the queue is drained first in, first out",
      outboxAt("ten thousand events drain within one reconnect"),
      outboxAt("stores events in an outage, drains them in order, and goes straight again")
    ),
    works(
      "003-drop-dlq",
      "3 failed attempts → dead letters",
      outboxAt("make an event a dead letter after three, and hold up only its own subject")
    ),
    works(
      "003-drop-replay",
      "dead letters are replayed by a command: agent dlq replay",
      dlqAt("replays some, and says what a dry run would do")
    ),
    works(
      "003-drop-shed",
      "worst case (NATS down for ever, disk full): the oldest events are shed at a hard cap",
      outboxAt("makes the oldest events dead letters if the option says so, and counts and reports them")
    ),
    works("003-drop-nocrash", "the producer never crashes"),
    works(
      "003-drop-notsilent",
      "nothing is dropped silently",
      outboxAt("makes the oldest events dead letters if the option says so, and counts and reports them"),
      outboxAt("refuses the event at the cap")
    ),
    // Single-instance lockfile
    works(
      "003-lock-boot",
      "boot takes a lockfile (data/agent.lock) and kicks out a stale or racing instance",
      instanceAt("ends the old process by SIGTERM"),
      instanceAt("leaves one of several that start at once")
    ),
    works(
      "003-lock-none",
      "no file: our PID is written",
      instanceAt("names the process on the first line of the pid file, and removes only its own")
    ),
    works(
      "003-lock-dead",
      "the PID's process does not exist (/proc/PID): our PID is written",
      instanceAt("starts over a pid file that a killed process left, also when its id was reused")
    ),
    works("003-lock-term", "it is alive: SIGTERM", instanceAt("ends the old process by SIGTERM")),
    works(
      "003-lock-wait",
      "up to 5 s are waited, 50 polls of 100 ms",
      instanceAt("waits 5 s between SIGTERM and SIGKILL, and asks for the lock every 100 ms"),
      ownAt("003-drop-shed, 003-lock-wait: names the ports, the lock and the outbox of the document")
    ),
    works(
      "003-lock-kill",
      "still alive: SIGKILL, then our PID is written",
      instanceAt("kills a process that ignores SIGTERM")
    ),
    works(
      "003-lock-handle",
      "the lock is held by a scoped handle",
      instanceAt("is a layer, held while the layer is")
    ),
    works(
      "003-lock-release",
      "on release the file is removed only if it still holds our own PID, so that after a takeover the first owner does not wipe it",
      instanceAt("names the process on the first line of the pid file, and removes only its own")
    ),
    // Graceful shutdown
    works("003-shut-order", "teardown happens in an order"),
    works(
      "003-shut-grace",
      'background loops ("dream sweeps") and MCP sessions get grace windows, so that no partial state is left'
    ),
    works("003-shut-intake", "plugin intake is stopped before the agent runtimes"),
    works("003-shut-drain", "runtimes drain what is in their mailboxes before they end"),
    works(
      "003-shut-queue",
      "unflushed events of the disk queue survive SIGTERM until the next boot",
      outboxAt("a stopped outbox leaves its backlog, and the next start delivers it first")
    ),
    // Operator guardrails
    works(
      "003-op-skill",
      'an extension that declares requires.env = ["FOO"] is skipped at discovery while FOO is not set',
      permissionAt("apply to extensions in the same way"),
      permissionAt("skip a tool with unmet needs and report the reason")
    ),
    works("003-op-inbound", "inbound events with neither text nor media are dropped before the LLM"),
    works(
      "003-op-ready",
      ":8080/ready for readiness",
      opsAt("answers /live and /ready, with what is missing"),
      ownAt("the endpoints of a host listen on the ports of the document")
    ),
    works(
      "003-op-live",
      ":8080/live for liveness",
      opsAt("answers /live and /ready, with what is missing"),
      opsAt("stays alive, and is not ready, after a shutdown has begun"),
      ownAt("the endpoints of a host listen on the ports of the document")
    ),
    works(
      "003-op-metrics",
      ":9090/metrics in Prometheus form",
      opsAt("gives valid text with the build, the heap and the event loop"),
      ownAt("the endpoints of a host listen on the ports of the document")
    ),
    works("003-op-metrics-inbound", "metrics count inbound events"),
    works("003-op-metrics-circuit", "metrics show the state of circuits")
  ]
}
