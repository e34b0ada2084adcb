/** The promises of The request. */
import type { Seed } from "../Promises.ts"
import { outOfScope, tests, works } from "../Promises.ts"

const agentAt = tests("packages/agent/test/loop/Agent.test.ts")
const backoffAt = tests("packages/resilience/test/Backoff.test.ts")
const breakerAt = tests("packages/resilience/test/breaker/CircuitBreaker.test.ts")
const compactionAt = tests("packages/agent/test/compaction/Compaction.test.ts")
const failoverAt = tests("packages/agent/test/failover/Failover.test.ts")
const guideAt = tests("test/comparison/Guide.test.ts")
const timelineAt = tests("packages/testing/test/Timeline.test.ts")

export const request: Seed = {
  seed: "user",
  name: "The request",
  promises: [
    // Kind
    works("user-kind", "an Effect-based, functional resilience framework"),
    // Packages
    works("user-pkg-effect", "package effect"),
    outOfScope(
      "user-pkg-platform",
      "@effect/platform",
      "its modules are part of effect since version 4; the package is for Effect 3"
    ),
    outOfScope(
      "user-pkg-schema",
      "@effect/schema",
      "it is part of effect since version 3.10; the package is for earlier versions"
    ),
    works("user-pkg-vitest", "@effect/vitest"),
    // Top-level
    works("user-top-package", "package.json"),
    works("user-top-tsconfig", "tsconfig.json"),
    works("user-top-packages", "packages"),
    works("user-top-examples", "examples"),
    works("user-top-test", "test"),
    works("user-top-readme", "README.md"),
    // Shape
    works("user-shape-services", "a monorepo that models each layer as Effect services and Schedules"),
    works(
      "user-shape-tagged",
      "typed tagged errors for FailoverReason",
      failoverAt("the failure survives serialisation")
    ),
    works(
      "user-shape-schedule",
      "Schedule-based exponential jittered retry",
      backoffAt("retries an effect at the formula's times, and each run counts from the first")
    ),
    works(
      "user-shape-ref",
      "a Ref-backed circuit breaker",
      breakerAt("the state of a circuit can be read from one Ref for all calls"),
      guideAt("keeps the pure machine in a Ref")
    ),
    works(
      "user-shape-layer",
      "Layer-provided provider chains",
      failoverAt("a second key that is ready is used at once after a 429")
    ),
    works(
      "user-shape-compaction",
      "a compaction Effect",
      compactionAt("compacts above 90 % of the window, down to 60 %")
    ),
    works(
      "user-shape-loop",
      "the agent loop as a composable Effect program",
      agentAt("asks, runs tools, asks again, and reports its usage")
    ),
    works(
      "user-shape-testclock",
      "deterministic TestClock tests",
      failoverAt("a single target with retry-after: 7 waits exactly 7 s")
    ),
    // Used-by
    works("user-used-compose", "composes into Effect apps"),
    works("user-used-swap", "layers are swapped per environment"),
    works(
      "user-used-property",
      "timing is property-tested with TestClock",
      timelineAt("says what does not hold, with the timeline")
    )
  ]
}
